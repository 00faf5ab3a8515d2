//! QEMU on this machine, without any daemon: corral owns the processes.

pub mod definition;
mod merge;
pub mod op;
pub mod store;
