//! One suite that every backend passes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr
)]

mod bench;
mod demo;
#[path = "../backends/guest.rs"]
mod guest;
mod identity;
mod live;
mod moods;
mod qemu;
mod suite;
