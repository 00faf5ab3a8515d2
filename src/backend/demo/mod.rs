//! A simulated fleet: every kind of backend impersonated in memory. It touches nothing.
//!
//! Opened in place of `KindInfo::open` by `--demo`. It reports the impersonated kind, implements
//! the families that exist so far and no others, and is no column of the matrix.

mod backend;
mod changes;
mod knobs;
mod reach;
mod seed;
mod support;
mod words;
mod world;

use std::sync::Arc;

pub use backend::Demo;
pub use knobs::{DemoSize, Knobs, parse};
pub use world::Calls;

use super::contract::Backend;
use crate::model::ContextSpec;

/// Builds the fleet; the same `size` and `knobs` build the same one.
pub fn fleet(size: DemoSize, knobs: &Knobs) -> Vec<(ContextSpec, Arc<dyn Backend>)> {
    members(size, knobs)
        .into_iter()
        .map(|(spec, demo)| (spec, demo as Arc<dyn Backend>))
        .collect()
}

/// As [`fleet`], with access to what was called.
pub fn members(size: DemoSize, knobs: &Knobs) -> Vec<(ContextSpec, Arc<Demo>)> {
    seed::contexts(size, knobs.seed)
        .into_iter()
        .map(|(spec, guests)| {
            let demo = Arc::new(Demo::new(&spec, guests, knobs));
            (spec, demo)
        })
        .collect()
}
