//! The full-screen view: keys in, frames out.

#![allow(clippy::unwrap_used, clippy::panic)]

mod bulk;
mod dialogs;
mod filters;
mod fixture;
mod fleet_snapshots;
mod forms;
mod frames;
mod harness;
mod hints;
mod history;
mod invariants;
mod kept;
mod keys;
mod lines;
mod live;
mod marks;
mod meanwhile;
mod metrics;
mod mouse;
mod notices;
mod nouns;
mod others;
mod parity;
mod popups;
mod presence;
mod problems;
mod questions;
mod replies;
#[path = "../shared/running.rs"]
mod running;
mod texts;
mod themes;
mod tree;
#[path = "../shared/undo.rs"]
mod undo;
mod views;
mod walks;
