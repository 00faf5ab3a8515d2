//! One suite that every backend passes.

#![allow(clippy::unwrap_used, clippy::panic)]

mod bench;
mod demo;
mod suite;
