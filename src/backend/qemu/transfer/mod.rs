//! Instances out into files, in from files, and dated copies of them.

mod convert;
pub mod export;
mod form;
mod leave;
mod live;
mod pack;
mod pieces;
mod target;

pub use leave::undo;
