//! QEMU on this machine, without any daemon: corral owns the processes.

pub mod definition;
pub mod firmware;
pub mod image;
mod merge;
pub mod op;
pub mod seed;
pub mod store;
pub mod tpm;
