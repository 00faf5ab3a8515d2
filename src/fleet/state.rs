//! What is known of every context, and how answers change it.

use std::collections::HashSet;
use std::sync::Arc;

use indexmap::IndexMap;
use jiff::Timestamp;

use super::cache::Cached;
use super::hub::Member;
use super::sort;
use crate::model::{
    Address, ContextView, Detail, Error, ErrorKind, Facts, FleetView, Health, Instance, InstanceId,
    Inventory, Problem,
};

struct Context {
    view: ContextView,
    rows: IndexMap<InstanceId, Arc<Instance>>,
    /// Learnt by detail reads, kept over refreshes: uid and addresses.
    learnt: IndexMap<InstanceId, Learnt>,
    sorted: bool,
}

#[derive(Clone, Default)]
struct Learnt {
    uid: Option<String>,
    addresses: Option<Vec<Address>>,
}

/// What is known of every context.
pub struct State {
    contexts: Vec<Context>,
    protected: HashSet<String>,
    changed: bool,
}

impl State {
    pub(super) fn new<'a>(members: impl Iterator<Item = &'a Member>) -> Self {
        let contexts = members
            .map(|member| Context {
                view: ContextView {
                    name: member.spec.name.clone(),
                    kind: member.spec.kind.clone(),
                    health: Health::Connecting,
                    answered_at: None,
                    complete: false,
                    hidden: None,
                    facts: None,
                    hosts: Vec::new(),
                    problems: Vec::new(),
                    configured: member.spec.configured,
                    origin: member.spec.origin.clone(),
                    readonly: member.spec.readonly,
                    protected: member.spec.protected,
                    relaxed: member.spec.relaxed,
                    from_cache: false,
                    count: 0,
                    latency_ms: None,
                },
                rows: IndexMap::new(),
                learnt: IndexMap::new(),
                sorted: true,
            })
            .collect();
        Self {
            contexts,
            protected: HashSet::new(),
            changed: true,
        }
    }

    pub(super) fn is_changed(&self) -> bool {
        self.changed
    }

    pub(super) fn from_cache(&mut self, n: usize, cached: Cached) {
        let Some(context) = self.contexts.get_mut(n) else {
            return;
        };
        context.view.answered_at = Some(cached.observed_at);
        context.view.from_cache = true;
        for row in cached.instances {
            context
                .rows
                .entry(row.id.clone())
                .or_insert_with(|| Arc::new(row.as_stale()));
        }
        context.sorted = false;
        self.changed = true;
    }

    /// A full answer.
    pub(super) fn reset(&mut self, n: usize, inventory: Inventory, latency_ms: Option<u64>) {
        let Some(context) = self.contexts.get_mut(n) else {
            return;
        };
        let mut rows: IndexMap<InstanceId, Arc<Instance>> =
            IndexMap::with_capacity(inventory.instances.len());
        let mut problems = inventory.problems;
        for mut row in inventory.instances {
            if rows.contains_key(&row.id) {
                problems.push(Problem {
                    instance: Some(row.id.clone()),
                    message: "the backend lists this ID twice; the first is shown".to_owned(),
                    remedy: None,
                });
                continue;
            }
            learn(context.learnt.get(&row.id), &mut row);
            // An equal row keeps its allocation, so that views share it.
            let shared = context
                .rows
                .get(&row.id)
                .filter(|old| ***old == row)
                .cloned();
            rows.insert(row.id.clone(), shared.unwrap_or_else(|| Arc::new(row)));
        }
        context.rows = rows;
        context.sorted = false;
        let view = &mut context.view;
        view.health = Health::Ok;
        view.answered_at = Some(inventory.observed_at);
        view.complete = inventory.complete && inventory.hidden.unwrap_or(0) == 0;
        view.hidden = inventory.hidden;
        view.hosts = inventory.hosts;
        view.problems = problems;
        view.from_cache = false;
        if latency_ms.is_some() {
            view.latency_ms = latency_ms;
        }
        self.changed = true;
    }

    pub(super) fn upsert(&mut self, n: usize, mut row: Instance) {
        let Some(context) = self.contexts.get_mut(n) else {
            return;
        };
        learn(context.learnt.get(&row.id), &mut row);
        if context.rows.get(&row.id).is_some_and(|old| **old == row) {
            return;
        }
        if !context.rows.contains_key(&row.id) {
            context.sorted = false;
        }
        context.view.answered_at = Some(row.observed_at);
        context.rows.insert(row.id.clone(), Arc::new(row));
        self.changed = true;
    }

    pub(super) fn gone(&mut self, n: usize, id: &InstanceId) {
        if let Some(context) = self.contexts.get_mut(n)
            && context.rows.shift_remove(id).is_some()
        {
            context.learnt.shift_remove(id);
            self.changed = true;
        }
    }

    pub(super) fn facts(&mut self, n: usize, facts: Facts) {
        if let Some(context) = self.contexts.get_mut(n) {
            context.view.facts = Some(facts);
            self.changed = true;
        }
    }

    pub(super) fn has_facts(&self, n: usize) -> bool {
        self.contexts
            .get(n)
            .is_some_and(|context| context.view.facts.is_some())
    }

    pub(super) fn degraded(&mut self, n: usize, why: String) {
        if let Some(context) = self.contexts.get_mut(n) {
            context.view.problems.retain(|p| p.message != why);
            context.view.problems.push(Problem {
                instance: None,
                message: why,
                remedy: None,
            });
            self.changed = true;
        }
    }

    /// No answer: rows stay, as unknown.
    pub(super) fn failed(&mut self, n: usize, error: Error) {
        let Some(context) = self.contexts.get_mut(n) else {
            return;
        };
        let error = error.in_context(&context.view.name);
        let health = match (error.kind, context.view.answered_at) {
            (ErrorKind::Unauthorized, _) => Health::LoginNeeded(error),
            (_, Some(_)) => Health::Stale(error),
            (_, None) => Health::Failed(error),
        };
        if context.view.health == health {
            return;
        }
        context.view.health = health;
        for row in context.rows.values_mut().filter(|row| !row.stale) {
            *row = Arc::new(row.as_stale());
        }
        self.changed = true;
    }

    pub(super) fn note_detail(&mut self, detail: &Detail) {
        let row = &detail.instance;
        let Some(context) = self
            .contexts
            .iter_mut()
            .find(|c| c.view.name == row.context)
        else {
            return;
        };
        let learnt = context.learnt.entry(row.id.clone()).or_default();
        if learnt.uid.is_some() && row.uid.is_some() && learnt.uid != row.uid {
            // Another machine under the same ID: nothing of the old one holds.
            *learnt = Learnt::default();
        }
        if row.uid.is_some() {
            learnt.uid.clone_from(&row.uid);
        }
        if row.addresses.as_ref().is_some_and(|a| !a.is_empty()) {
            learnt.addresses.clone_from(&row.addresses);
        }
        let learnt = learnt.clone();
        if let Some(old) = context.rows.get_mut(&row.id) {
            let mut new = Instance::clone(old);
            learn(Some(&learnt), &mut new);
            new.agent = row.agent.or(new.agent);
            if new != **old {
                *old = Arc::new(new);
                self.changed = true;
            }
        }
    }

    /// Running rows of a context whose addresses nobody knows.
    pub(super) fn without_addresses(&self, n: usize) -> Vec<InstanceId> {
        self.contexts.get(n).map_or_else(Vec::new, |context| {
            context
                .rows
                .values()
                .filter(|row| {
                    row.state == crate::model::State::Running
                        && row.addresses.as_ref().is_none_or(Vec::is_empty)
                })
                .map(|row| row.id.clone())
                .collect()
        })
    }

    pub(super) fn rows(&self, n: usize) -> Vec<Arc<Instance>> {
        self.contexts
            .get(n)
            .map_or_else(Vec::new, |context| context.rows.values().cloned().collect())
    }

    pub(super) fn answered_at(&self, n: usize) -> Option<Timestamp> {
        self.contexts
            .get(n)
            .and_then(|context| context.view.answered_at)
    }

    pub(super) fn set_protected(&mut self, identities: HashSet<String>) {
        self.protected = identities;
        self.changed = true;
    }

    /// The whole as one view. A found context whose server a configured one reaches too is hidden.
    pub(super) fn view(&mut self, generation: u64) -> FleetView {
        self.changed = false;
        let twins = self.twins();
        let mut view = FleetView {
            generation,
            ..FleetView::default()
        };
        for (n, context) in self.contexts.iter_mut().enumerate() {
            if !context.sorted {
                context.rows.sort_by(|_, a, _, b| sort::by_name(a, b));
                context.sorted = true;
            }
            let mut shown = context.view.clone();
            if let Some(twin) = twins.get(n).and_then(Clone::clone) {
                shown.count = 0;
                shown.problems.push(Problem {
                    instance: None,
                    message: format!("is the same server as {twin}, which is shown"),
                    remedy: None,
                });
                view.contexts.push(shown);
                continue;
            }
            shown.count = context.rows.len();
            let guarded = shown.protected;
            view.contexts.push(shown);
            view.instances.extend(context.rows.values().map(|row| {
                if (guarded || self.protected.contains(&row.identity())) && !row.protected {
                    let mut row = Instance::clone(row);
                    row.protected = true;
                    Arc::new(row)
                } else {
                    Arc::clone(row)
                }
            }));
        }
        view
    }

    fn twins(&self) -> Vec<Option<String>> {
        let server = |context: &Context| context.view.facts.as_ref().and_then(|f| f.server.clone());
        self.contexts
            .iter()
            .map(|context| {
                let own = server(context)?;
                if context.view.configured {
                    return None;
                }
                self.contexts
                    .iter()
                    .find(|other| {
                        other.view.configured
                            && other.view.kind == context.view.kind
                            && other.view.name != context.view.name
                            && server(other).as_ref() == Some(&own)
                    })
                    .map(|other| other.view.name.clone())
            })
            .collect()
    }
}

fn learn(learnt: Option<&Learnt>, row: &mut Instance) {
    let Some(learnt) = learnt else { return };
    if row.uid.is_none() {
        row.uid.clone_from(&learnt.uid);
    } else if learnt.uid.is_some() && learnt.uid != row.uid {
        return;
    }
    if row.addresses.as_ref().is_none_or(Vec::is_empty) && learnt.addresses.is_some() {
        row.addresses.clone_from(&learnt.addresses);
    }
}
