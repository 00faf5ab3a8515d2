//! What is known of every context, and the one view made of it.

use std::collections::HashSet;

use super::slot::Slot;
use crate::model::{FleetView, Problem};

/// What is known of every context.
#[derive(Default)]
pub(super) struct State {
    slots: Vec<Slot>,
    protected: HashSet<String>,
}

impl State {
    /// A context with what corral itself protects, by the key of its worker; none for a worker of the past.
    pub(super) fn slot(&mut self, key: u64) -> Option<(&mut Slot, &HashSet<String>)> {
        let slot = self.slots.iter_mut().find(|slot| slot.key == key)?;
        Some((slot, &self.protected))
    }

    /// The same, by name.
    pub(super) fn named(&mut self, context: &str) -> Option<(&mut Slot, &HashSet<String>)> {
        let mut slots = self.slots.iter_mut();
        let slot = slots.find(|slot| slot.view.name == context)?;
        Some((slot, &self.protected))
    }

    /// Every slot, for a new set of contexts to be made of.
    pub(super) fn take(&mut self) -> (Vec<Slot>, &HashSet<String>) {
        (std::mem::take(&mut self.slots), &self.protected)
    }

    /// The contexts from now on, in order.
    pub(super) fn put(&mut self, slots: Vec<Slot>) {
        self.slots = slots;
    }

    pub(super) fn set_protected(&mut self, identities: HashSet<String>) {
        if self.protected != identities {
            self.protected = identities;
            for slot in &mut self.slots {
                slot.redraw(&self.protected);
            }
        }
    }

    /// The whole as one view. A found context whose server a configured one reaches too is hidden:
    /// its rows are the other's.
    pub(super) fn view(&mut self, generation: u64) -> FleetView {
        let twins: Vec<Option<Twin>> = (0..self.slots.len()).map(|n| self.twin(n)).collect();
        let rows: usize = self.slots.iter().map(Slot::count).sum();
        let mut view = FleetView {
            generation,
            contexts: Vec::with_capacity(self.slots.len()),
            instances: Vec::with_capacity(rows),
        };
        for (slot, twin) in self.slots.iter_mut().zip(twins) {
            let mut shown = slot.view.clone();
            let hidden = twin.as_ref().is_some_and(|twin| twin.hides);
            if let Some(twin) = twin {
                shown.problems.push(twin.note());
            }
            if !hidden {
                shown.count = slot.count();
                view.instances.extend(slot.shown().iter().cloned());
            }
            view.contexts.push(shown);
        }
        view
    }

    /// The context that reaches the same server and goes first: a configured one before a found one.
    fn twin(&self, n: usize) -> Option<Twin> {
        let own = &self.slots.get(n)?.view;
        let server = own.facts.as_ref()?.server.as_ref()?;
        let other = self.slots.iter().enumerate().find(|(m, other)| {
            let other = &other.view;
            *m != n
                && other.kind == own.kind
                && other.facts.as_ref().and_then(|f| f.server.as_ref()) == Some(server)
                && match (other.configured, own.configured) {
                    (true, false) => true,
                    (false, true) => false,
                    _ => *m < n,
                }
        })?;
        Some(Twin {
            name: other.1.view.name.clone(),
            // Hiding what the user wrote down would be a surprise: it is only noted. Nor may a
            // context that does not answer hide one that does.
            hides: !own.configured && (other.1.view.health.is_ok() || !own.health.is_ok()),
        })
    }
}

struct Twin {
    name: String,
    hides: bool,
}

impl Twin {
    fn note(&self) -> Problem {
        Problem {
            instance: None,
            message: if self.hides {
                format!("is the same server as {}, which is shown", self.name)
            } else {
                format!(
                    "is the same server as {}: its instances are listed twice",
                    self.name
                )
            },
            remedy: None,
        }
    }
}
