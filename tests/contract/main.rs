//! One suite that every backend passes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout
)]

mod around;
mod bench;
mod beside;
mod demo;
mod devices;
mod edit;
mod identity;
mod incus;
#[path = "../backends/incus_lab.rs"]
mod incus_lab;
#[path = "../backends/lab.rs"]
mod lab;
mod libvirt;
#[path = "../shared/libvirt.rs"]
mod libvirt_lab;
mod life;
mod live;
mod marks;
mod moods;
mod qemu;
mod running;
mod suite;
#[allow(dead_code, reason = "the terminal tests need more of it")]
#[path = "../terminal/tmux.rs"]
mod tmux;
mod transfer;
#[path = "../shared/undo.rs"]
mod undo;
