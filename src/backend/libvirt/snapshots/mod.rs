//! Snapshots: inside of the disks and outside of them, in one tree.

mod list;
mod plan;

pub use list::{Known, Marks, known, list};
