//! One suite that every backend passes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout
)]

mod bench;
mod beside;
mod demo;
mod identity;
#[path = "../backends/lab.rs"]
mod lab;
mod live;
mod moods;
mod qemu;
mod suite;
#[allow(dead_code, reason = "the terminal tests need more of it")]
#[path = "../terminal/tmux.rs"]
mod tmux;
