//! QEMU on this machine, without any daemon: corral owns the processes.

pub mod accel;
mod argv;
pub mod create;
pub mod ctx;
pub mod definition;
pub mod families;
pub mod firmware;
pub mod image;
pub mod locks;
mod merge;
pub mod op;
pub mod ports;
pub mod process;
pub mod recover;
pub mod remove;
pub mod seed;
pub mod snapshots;
pub mod store;
pub mod tpm;
