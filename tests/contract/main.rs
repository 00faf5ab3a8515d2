//! One suite that every backend passes.

mod bench;
mod demo;
mod suite;
