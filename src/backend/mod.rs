//! What drives each kind of system, behind one contract.
//!
//! Adding a kind: one folder here and one line in [`registry`].

pub mod catalogue;
pub mod contract;
pub mod demo;
pub mod incus;
pub mod libvirt;
pub mod portable;
pub mod qemu;
pub mod registry;
pub mod seed;
