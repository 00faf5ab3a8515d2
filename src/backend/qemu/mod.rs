//! QEMU on this machine, without any daemon: corral owns the processes.

pub mod accel;
mod argv;
mod backend;
mod change;
pub mod create;
pub mod ctx;
pub mod definition;
mod doctor;
mod drive;
pub mod events;
pub mod families;
pub mod firmware;
pub mod image;
pub mod inventory;
pub mod live;
pub mod locks;
mod machine;
mod merge;
mod metrics;
pub mod op;
pub mod pause;
pub mod ports;
pub mod power;
mod proc;
pub mod process;
pub mod recover;
pub mod remove;
mod routes;
pub mod seed;
pub mod slots;
pub mod snapshots;
pub mod store;
mod support;
pub mod tpm;
mod watch;

pub use backend::{INFO, Qemu};
