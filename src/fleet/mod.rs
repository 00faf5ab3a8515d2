//! Every context with its own worker; nothing waits for another.

mod addresses;
mod arrange;
mod backoff;
mod cache;
pub mod filter;
pub mod glob;
mod hub;
mod learnt;
mod load;
mod pending;
mod recorder;
pub mod selector;
mod slot;
pub mod sort;
mod state;
mod worker;

#[cfg(test)]
mod tests;

pub use hub::{Fleet, FleetOptions, Member};
pub use learnt::is_last_known;
pub use slot::EVERYTHING;
