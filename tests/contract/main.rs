//! One suite that every backend passes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bench;
mod demo;
mod identity;
mod live;
mod moods;
mod suite;
