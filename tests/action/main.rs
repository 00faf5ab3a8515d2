//! The engine over the simulated fleet: plans, gates, guards, tasks, journal.

mod bench;
mod bulk;
mod guards;
mod lists;
mod live;
mod plans;
mod printing;
#[path = "../shared/running.rs"]
mod running;
mod tasks;
