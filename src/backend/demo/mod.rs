//! The simulated fleet behind `--demo`: every kind is impersonated, in memory alone.
//!
//! Opened in place of [`KindInfo::open`](super::contract::KindInfo::open). It reports the kind it
//! impersonates, implements the families that exist, and is no column of the matrix.

mod absent;
mod act;
mod backend;
mod calls;
mod changes;
mod create;
mod detail;
mod devices;
mod dialect;
mod edit;
mod effect;
mod families;
mod fleet;
mod guest;
mod knobs;
mod life;
mod logs;
mod marks;
mod native;
mod png;
mod power;
mod random;
mod remove;
mod routes;
mod screen;
mod snapshots;
mod stores;
mod support;
mod transfer;
mod watch;
mod work;
mod world;

use std::sync::Arc;

pub use backend::Demo;
pub use calls::Calls;
pub use fleet::{context_names, members};
pub use knobs::{Clock, DemoOptions, DemoSize, KEYS, Knobs, parse};

use super::contract::Backend;
use crate::model::ContextSpec;

/// The simulated fleet, one backend per context. Does no I/O and needs no runtime.
pub fn fleet(size: DemoSize, knobs: &Knobs) -> Vec<(ContextSpec, Arc<dyn Backend>)> {
    members(size, knobs)
        .into_iter()
        .map(|(spec, demo)| (spec, demo as Arc<dyn Backend>))
        .collect()
}
