//! What single reads learnt of an instance, kept over refreshes: uid and addresses.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::{Address, Detail, Instance};

/// Ends the `source` of an address that was true once and is not confirmed now.
const LAST_KNOWN: &str = "last known";

/// Kept of one instance, beside its row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Learnt {
    pub(super) uid: Option<String>,
    pub(super) addresses: Option<Vec<Address>>,
    /// When that was learnt.
    pub(super) at: Option<Timestamp>,
    /// The last look found nobody who knows the addresses.
    #[serde(default)]
    pub(super) silent: bool,
}

impl Learnt {
    /// Takes in a row of a list. False when nothing is worth keeping.
    pub(super) fn see(&mut self, row: &Instance) {
        self.meet(row.uid.as_deref());
        if !row.state.is_active() {
            // A stopped guest has no address, and the next one may get another.
            self.addresses = None;
            self.silent = false;
        } else if let Some(addresses) = row.addresses.as_ref().filter(|a| !a.is_empty()) {
            if self.addresses.as_ref() != Some(addresses) {
                self.addresses = Some(addresses.clone());
            }
            self.at = Some(row.observed_at);
            self.silent = false;
        }
    }

    /// Takes in a detail read.
    pub(super) fn note(&mut self, detail: &Detail) {
        let row = &detail.instance;
        self.see(row);
        if row.uid.is_some() {
            self.uid.clone_from(&row.uid);
        }
        self.at = Some(row.observed_at);
        self.silent = row.addresses.as_ref().is_none_or(Vec::is_empty);
    }

    /// Nobody answered when asked: what was known may still be true, but is not confirmed.
    pub(super) fn note_silence(&mut self, at: Timestamp) {
        self.at = Some(at);
        self.silent = true;
    }

    /// Another machine under the same ID: nothing of the old one holds.
    fn meet(&mut self, uid: Option<&str>) {
        if let (Some(old), Some(new)) = (self.uid.as_deref(), uid)
            && old != new
        {
            *self = Self::default();
        }
    }

    /// Whether `row` would be shown differently.
    pub(super) fn adds_to(&self, row: &Instance) -> bool {
        (row.uid.is_none() && self.uid.is_some()) || self.has_address_for(row)
    }

    fn has_address_for(&self, row: &Instance) -> bool {
        self.addresses.is_some()
            && row.state.is_active()
            && row.addresses.as_ref().is_none_or(Vec::is_empty)
    }

    /// Fills in what the list did not say. The last known address stays, marked as such.
    pub(super) fn fill(&self, row: &mut Instance) {
        if row.uid.is_none() {
            row.uid.clone_from(&self.uid);
        }
        if self.has_address_for(row) {
            row.addresses.clone_from(&self.addresses);
            if self.silent || row.agent == Some(false) {
                for address in row.addresses.iter_mut().flatten() {
                    address.source = Some(match address.source.take() {
                        Some(source) => format!("{source}, {LAST_KNOWN}"),
                        None => LAST_KNOWN.to_owned(),
                    });
                }
            }
        }
    }
}

/// Whether an address was true once and is not confirmed now: drawn with a `?`.
pub fn is_last_known(address: &Address) -> bool {
    address
        .source
        .as_deref()
        .is_some_and(|source| source.ends_with(LAST_KNOWN))
}
