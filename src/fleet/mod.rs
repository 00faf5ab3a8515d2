//! Every context with its own worker; nothing waits for another.

mod addresses;
mod cache;
pub mod filter;
mod hub;
mod recorder;
pub mod selector;
pub mod sort;
mod state;
mod worker;

pub use hub::{Fleet, FleetOptions, Member};
