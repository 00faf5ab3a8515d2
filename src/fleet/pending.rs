//! Own actions under way, by instance: shown until the backend agrees.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::model::InstanceId;

struct Entry {
    verb: String,
    /// It ended; an answer to this question, or a later one, settles it.
    settled_by: Option<u64>,
}

/// Own actions under way.
#[derive(Default)]
pub(super) struct Pending {
    entries: Mutex<HashMap<InstanceId, Entry>>,
    /// What fronts draw: never locked.
    shown: ArcSwap<HashMap<InstanceId, String>>,
}

impl Pending {
    pub(super) fn shown(&self) -> Arc<HashMap<InstanceId, String>> {
        self.shown.load_full()
    }

    pub(super) fn set(&self, id: &InstanceId, verb: &str) {
        self.change(|entries| {
            let entry = Entry {
                verb: verb.to_owned(),
                settled_by: None,
            };
            entries.insert(id.clone(), entry);
            true
        });
    }

    /// The task ended: it stays until question number `question` is answered.
    pub(super) fn ended(&self, id: &InstanceId, question: u64) {
        self.change(|entries| {
            if let Some(entry) = entries.get_mut(id) {
                entry.settled_by = Some(question);
            }
            false
        });
    }

    pub(super) fn remove(&self, id: &InstanceId) -> bool {
        self.change(|entries| entries.remove(id).is_some())
    }

    /// A context answered (or failed to answer) question number `question`.
    pub(super) fn answered(&self, context: &str, question: u64) {
        self.change(|entries| {
            let before = entries.len();
            entries.retain(|id, entry| {
                id.context() != context || entry.settled_by.is_none_or(|by| by > question)
            });
            entries.len() != before
        });
    }

    /// The backend reported this instance: an ended action is settled by that.
    pub(super) fn reported(&self, id: &InstanceId) {
        self.change(|entries| {
            let ended = entries
                .get(id)
                .is_some_and(|entry| entry.settled_by.is_some());
            ended && entries.remove(id).is_some()
        });
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<InstanceId, Entry>) -> bool) -> bool {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut entries);
        if changed {
            let shown = entries
                .iter()
                .map(|(id, entry)| (id.clone(), entry.verb.clone()))
                .collect();
            self.shown.store(Arc::new(shown));
        }
        changed
    }
}
