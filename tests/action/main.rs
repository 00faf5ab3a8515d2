//! The engine over the simulated fleet: plans, gates, guards, tasks, journal.

mod bench;
mod bulk;
mod guards;
mod lists;
mod plans;
mod printing;
mod tasks;
