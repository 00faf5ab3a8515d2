//! What is known of every context, and the one view made of it.

use std::collections::{HashMap, HashSet};

use super::hub::Member;
use super::slot::Slot;
use crate::model::{FleetView, Problem};

/// What is known of every context.
pub(super) struct State {
    slots: Vec<Slot>,
    index: HashMap<String, usize>,
    protected: HashSet<String>,
}

impl State {
    pub(super) fn new<'a>(members: impl Iterator<Item = &'a Member>) -> Self {
        let slots: Vec<Slot> = members.map(|member| Slot::new(&member.spec)).collect();
        let index = slots
            .iter()
            .enumerate()
            .map(|(n, slot)| (slot.view.name.clone(), n))
            .collect();
        Self {
            slots,
            index,
            protected: HashSet::new(),
        }
    }

    /// A context with what corral itself protects.
    pub(super) fn slot(&mut self, n: usize) -> Option<(&mut Slot, &HashSet<String>)> {
        Some((self.slots.get_mut(n)?, &self.protected))
    }

    /// The same, by name.
    pub(super) fn named(&mut self, context: &str) -> Option<(&mut Slot, &HashSet<String>)> {
        let n = *self.index.get(context)?;
        self.slot(n)
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
