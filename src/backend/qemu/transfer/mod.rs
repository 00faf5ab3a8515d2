//! Instances out into files, in from files, and dated copies of them.

pub mod backup;
mod convert;
pub mod export;
mod form;
pub mod import;
mod leave;
pub mod live;
mod pack;
mod parts;
mod pieces;
pub mod restore;
mod shelf;
pub mod source;
mod target;

pub use leave::{end, half_written, undo};
