//! One action layer for every front: rows, grammar, plans, the engine, tasks and the journal.

pub(crate) mod around;
pub mod by_hand;
pub mod complete;
pub mod contexts;
pub mod engine;
pub mod envelope;
pub mod grammar;
pub mod guard;
mod health;
mod in_parts;
pub mod journal;
mod keyboard;
mod late;
mod leftovers;
pub mod lines;
pub mod paths;
pub mod planner;
pub mod protect;
pub mod questions;
pub mod reload;
pub mod render;
pub mod row;
pub mod rows;
mod runner;
mod same;
pub mod secrets;
pub mod session;
pub mod task;
pub mod task_files;
pub mod ui_state;
pub mod waiting;

pub use crate::backend::demo::KEYS as DEMO_KEYS;
/// Keeps what can be had again, for fronts: whole or not at all.
pub use crate::link::files::write_unsynced as write_cache;
pub use engine::{Engine, EngineParts};
pub use grammar::{Globals, Invocation, Output, ParseFailure, RunOptions};
pub use in_parts::{SoFar, in_parts};
pub use planner::Planned;
pub use row::{Group, Risk, Row, Run, Targets, Words};
pub use rows::rows;
pub use session::OpenSession;
pub use task::TaskHandle;

/// The fleet's types that fronts draw from.
pub mod fleet_api {
    pub use crate::fleet::{Fleet, FleetOptions, Member, filter, selector, sort};
}
