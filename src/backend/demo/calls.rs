//! What the simulated servers were asked, for tests that count and compare.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Calls since the context was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// How often each method of the contract was called.
    pub methods: BTreeMap<&'static str, u64>,
    /// Every native call that changed something, in order, as a dry run prints it.
    pub native: Vec<String>,
}

impl Calls {
    /// How often `method` was called.
    pub fn of(&self, method: &str) -> u64 {
        self.methods.get(method).copied().unwrap_or(0)
    }
}

/// Writes them down.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<Calls>);

impl Recorder {
    pub(crate) fn method(&self, name: &'static str) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *calls.methods.entry(name).or_default() += 1;
    }

    pub(crate) fn change(&self, native: &str) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.native.push(native.to_owned());
    }

    pub(crate) fn get(&self) -> Calls {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
