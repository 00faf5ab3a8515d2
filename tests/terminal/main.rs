//! The real program in a real terminal: tmux on a socket of its own.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod asked;
mod completion;
mod days;
mod guest;
#[path = "../backends/guest.rs"]
mod installed;
mod life;
mod live;
mod restored;
mod ssh;
mod sshd;
mod tmux;
