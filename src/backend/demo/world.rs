//! One context's guests, in memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use jiff::Timestamp;
use tokio::sync::broadcast;

use crate::backend::contract::Change;
use crate::model::{Disk, Event, EventLevel, Instance, InstanceId, Nic, Snapshot, State};

/// One guest.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The row.
    pub row: Instance,
    /// Disks.
    pub disks: Vec<Disk>,
    /// NICs.
    pub nics: Vec<Nic>,
    /// Snapshots.
    pub snapshots: Vec<Snapshot>,
    /// Grows with every change: the token's other half.
    pub revision: u64,
}

/// What was asked of a context, for tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Inventories.
    pub inventory: u64,
    /// Probes.
    pub probe: u64,
    /// Details.
    pub detail: u64,
    /// Metric reads.
    pub metrics: u64,
    /// Native calls of changes, in order.
    pub native: Vec<String>,
}

/// The guests of one context and what happens to them.
pub struct World {
    guests: Mutex<IndexMap<InstanceId, Guest>>,
    calls: Mutex<Calls>,
    changes: broadcast::Sender<Change>,
    random: Mutex<u64>,
}

impl World {
    pub(super) fn new(guests: Vec<Guest>, seed: u64) -> Self {
        Self {
            guests: Mutex::new(guests.into_iter().map(|g| (g.row.id.clone(), g)).collect()),
            calls: Mutex::new(Calls::default()),
            // A reader that lags behind this many starts with a full list again.
            changes: broadcast::channel(4096).0,
            random: Mutex::new(seed | 1),
        }
    }

    pub(super) fn guests(&self) -> MutexGuard<'_, IndexMap<InstanceId, Guest>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// The next pseudo-random number below `n` (xorshift: the same seed gives the same fleet).
    pub(super) fn random(&self, n: u64) -> u64 {
        let mut x = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        *x ^= *x << 13;
        *x ^= *x >> 7;
        *x ^= *x << 17;
        *x % n.max(1)
    }

    /// Changes a guest and tells the watchers. False when it is gone.
    pub(super) fn change(&self, id: &InstanceId, change: impl FnOnce(&mut Guest)) -> bool {
        let mut guests = self.guests();
        let Some(guest) = guests.get_mut(id) else {
            return false;
        };
        change(guest);
        guest.row.observed_at = Timestamp::now();
        let row = guest.row.clone();
        drop(guests);
        let _ = self.changes.send(Change::Upsert(Box::new(row)));
        true
    }

    pub(super) fn set_state(&self, id: &InstanceId, state: State) {
        let changed = self.change(id, |guest| {
            guest.row.state = state;
            guest.row.native_state = Some(state.to_string());
            guest.row.reason = None;
            if state == State::Running {
                guest.row.uptime_seconds.get_or_insert(0);
            } else {
                guest.row.usage = None;
            }
            if matches!(state, State::Stopped) {
                guest.row.uptime_seconds = None;
            }
        });
        if changed {
            self.event(
                id,
                EventLevel::Info,
                state.as_str(),
                &format!("is {state} now"),
            );
        }
    }

    pub(super) fn add(&self, guest: Guest) {
        let row = guest.row.clone();
        self.guests().insert(row.id.clone(), guest);
        let _ = self.changes.send(Change::Upsert(Box::new(row)));
    }

    pub(super) fn remove(&self, id: &InstanceId) {
        self.guests().shift_remove(id);
        let _ = self.changes.send(Change::Gone(id.clone()));
    }

    pub(super) fn event(&self, id: &InstanceId, level: EventLevel, kind: &str, message: &str) {
        let event = Event {
            at: Timestamp::now(),
            context: id.context().to_owned(),
            instance: Some(id.clone()),
            level,
            kind: kind.to_owned(),
            message: message.to_owned(),
        };
        let _ = self.changes.send(Change::Event(event));
    }
}
