//! The engine over the simulated fleet: plans, gates, guards, tasks, journal.

#![allow(clippy::unwrap_used, clippy::panic)]

mod bench;
mod bulk;
mod by_hand;
mod guards;
mod lists;
mod live;
mod plans;
mod printing;
#[path = "../shared/running.rs"]
mod running;
mod tasks;
