//! What is known of one context: its health, and its rows in the order they are shown.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::cache::{Cached, Shared};
use super::learnt::Learnt;
use super::sort;
use crate::model::{
    ContextSpec, ContextView, Detail, Error, ErrorKind, Event, EventLevel, Facts, Health, Instance,
    InstanceId, Inventory, Problem, State, Usage,
};

/// A row missing from an answer that says of itself to be incomplete stays for so many answers.
const MISSED: u8 = 2;

type Place = (bool, Vec<u8>, InstanceId);

struct Row {
    /// As the backend said it.
    raw: Arc<Instance>,
    /// Where it stands in `order`.
    place: Place,
    /// Load, where the list does not carry it.
    usage: Option<Usage>,
    /// Answers that should have had it, and had not.
    missed: u8,
}

/// Among protected identities: all of them. No identity is spelt so.
pub const EVERYTHING: &str = "*";

/// One context.
pub(super) struct Slot {
    /// Of the worker that may write here.
    pub(super) key: u64,
    pub(super) view: ContextView,
    rows: HashMap<InstanceId, Row>,
    /// Rows as they are shown. An upsert moves one, whatever the number of rows.
    order: BTreeMap<Place, Arc<Instance>>,
    /// `order` flattened; made when it is first asked for after a change.
    flat: Option<Arc<[Arc<Instance>]>>,
    learnt: HashMap<InstanceId, Learnt>,
    /// Rows that went since it was last asked for.
    gone: Vec<InstanceId>,
    fresh: bool,
    answered: bool,
    pub(super) unsaved: bool,
}

impl Slot {
    pub(super) fn new(key: u64, spec: &ContextSpec) -> Self {
        Self {
            key,
            view: ContextView::of(spec),
            rows: HashMap::new(),
            order: BTreeMap::new(),
            flat: None,
            learnt: HashMap::new(),
            gone: Vec::new(),
            fresh: false,
            answered: false,
            unsaved: false,
        }
    }

    /// The context is opened again, by another worker: what was known is shown on, as stale, until it answers.
    pub(super) fn reopened(&mut self, key: u64, spec: &ContextSpec, protected: &HashSet<String>) {
        let mut view = Self::new(key, spec).view;
        view.answered_at = self.view.answered_at;
        view.hosts = std::mem::take(&mut self.view.hosts);
        self.view = view;
        self.key = key;
        self.fresh = false;
        self.redraw(protected);
    }

    /// Rows of an earlier run, until the first answer.
    pub(super) fn load(&mut self, cached: Cached, protected: &HashSet<String>) {
        self.view.answered_at = Some(cached.observed_at);
        self.view.from_cache = true;
        self.view.hosts = cached.hosts;
        self.learnt = cached.learnt;
        for row in cached.instances {
            if !self.rows.contains_key(&row.id) {
                self.put(row, 0, protected);
            }
        }
    }

    /// A full answer. Gives back the changes of state it shows when `note_changes`.
    pub(super) fn reset(
        &mut self,
        inventory: Inventory,
        note_changes: bool,
        protected: &HashSet<String>,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let mut problems = inventory.problems;
        let mut seen: HashSet<InstanceId> = HashSet::with_capacity(inventory.instances.len());
        let offline: HashSet<&str> = inventory
            .hosts
            .iter()
            .filter(|host| !host.online)
            .map(|host| host.name.as_str())
            .collect();
        let was_fresh = std::mem::replace(&mut self.fresh, true);
        let compare = note_changes && self.answered && was_fresh;
        for row in inventory.instances {
            if !seen.insert(row.id.clone()) {
                problems.push(Problem {
                    instance: Some(row.id.clone()),
                    message: "the backend lists this ID twice; the first is shown".to_owned(),
                    remedy: None,
                });
                continue;
            }
            if compare && let Some(event) = self.difference(&row) {
                events.push(event);
            }
            self.put(row, 0, protected);
        }
        let missing: Vec<InstanceId> = self
            .rows
            .keys()
            .filter(|id| !seen.contains(*id))
            .cloned()
            .collect();
        for id in missing {
            let Some(row) = self.rows.get(&id) else {
                continue;
            };
            // Half an answer is no proof that a row is gone: it stays, as unknown.
            let silent_host = row.raw.host.as_deref().is_some_and(|h| offline.contains(h));
            let unsure = !inventory.complete && inventory.hidden.is_none() && row.missed < MISSED;
            if silent_host || unsure {
                let (raw, missed) = (Instance::clone(&row.raw), row.missed.saturating_add(1));
                self.put(raw, missed, protected);
            } else {
                self.gone(&id);
            }
        }
        let view = &mut self.view;
        view.health = Health::Ok;
        view.answered_at = Some(inventory.observed_at);
        view.complete = inventory.complete && inventory.hidden.unwrap_or(0) == 0;
        view.hidden = inventory.hidden;
        view.hosts = inventory.hosts;
        view.problems = problems;
        view.from_cache = false;
        self.answered = true;
        self.unsaved = true;
        self.flat = None;
        events
    }

    /// What the list of a backend without events shows to have happened.
    fn difference(&self, new: &Instance) -> Option<Event> {
        let old = self.rows.get(&new.id)?;
        (old.missed == 0 && old.raw.state != new.state).then(|| Event {
            at: new.observed_at,
            context: self.view.name.clone(),
            instance: Some(new.id.clone()),
            level: match new.state {
                State::Crashed | State::Broken => EventLevel::Error,
                _ if super::filter::problem(new).is_some() => EventLevel::Warn,
                _ => EventLevel::Info,
            },
            kind: "state".to_owned(),
            message: match &new.reason {
                Some(why) => format!("{} → {}: {why}", old.raw.state, new.state),
                None => format!("{} → {}", old.raw.state, new.state),
            },
        })
    }

    /// One row is new or different. False for one that is older than what is known.
    pub(super) fn upsert(&mut self, row: Instance, protected: &HashSet<String>) -> bool {
        if let Some(old) = self.rows.get(&row.id)
            && old.raw.observed_at > row.observed_at
        {
            return false;
        }
        self.view.answered_at = self.view.answered_at.max(Some(row.observed_at));
        self.put(row, 0, protected);
        self.unsaved = true;
        true
    }

    /// One row is gone.
    pub(super) fn gone(&mut self, id: &InstanceId) -> bool {
        let Some(row) = self.rows.remove(id) else {
            return false;
        };
        self.order.remove(&row.place);
        self.learnt.remove(id);
        self.gone.push(id.clone());
        self.flat = None;
        self.unsaved = true;
        true
    }

    /// Which rows went since this was last asked.
    pub(super) fn take_gone(&mut self) -> Vec<InstanceId> {
        std::mem::take(&mut self.gone)
    }

    pub(super) fn degraded(&mut self, why: String) {
        self.view.complete = false;
        self.view.problems.retain(|p| p.message != why);
        self.view.problems.push(Problem {
            instance: None,
            message: why,
            remedy: None,
        });
    }

    pub(super) fn facts(&mut self, facts: Facts) {
        self.view.facts = Some(facts);
    }

    /// No answer: rows stay, as unknown.
    pub(super) fn failed(&mut self, error: Error, protected: &HashSet<String>) {
        let error = error.in_context(&self.view.name);
        self.view.health = match (error.kind, self.view.answered_at) {
            (ErrorKind::Unauthorized, _) => Health::LoginNeeded(error),
            (_, Some(_)) => Health::Stale(error),
            (_, None) => Health::Failed(error),
        };
        if std::mem::replace(&mut self.fresh, false) {
            self.redraw(protected);
        }
    }

    /// Every row anew: staleness or protection has changed.
    pub(super) fn redraw(&mut self, protected: &HashSet<String>) {
        let ids: Vec<InstanceId> = self.rows.keys().cloned().collect();
        for id in ids {
            self.show(&id, protected);
        }
    }

    /// Whether anything that is shown has changed by it.
    pub(super) fn note_detail(&mut self, detail: &Detail, protected: &HashSet<String>) -> bool {
        let id = &detail.instance.id;
        self.learnt.entry(id.clone()).or_default().note(detail);
        self.unsaved = true;
        self.show(id, protected)
    }

    /// Whether anything that is shown has changed by it.
    pub(super) fn note_silence(&mut self, id: &InstanceId, protected: &HashSet<String>) -> bool {
        let now = Timestamp::now();
        self.learnt.entry(id.clone()).or_default().note_silence(now);
        self.show(id, protected)
    }

    pub(super) fn usage(&mut self, id: &InstanceId, usage: Usage, protected: &HashSet<String>) {
        if let Some(row) = self.rows.get_mut(id)
            && row.usage != Some(usage)
        {
            row.usage = Some(usage);
            self.show(id, protected);
        }
    }

    fn put(&mut self, raw: Instance, missed: u8, protected: &HashSet<String>) {
        let id = raw.id.clone();
        let has_news = raw.addresses.as_ref().is_some_and(|a| !a.is_empty());
        if has_news || self.learnt.contains_key(&id) {
            self.learnt.entry(id.clone()).or_default().see(&raw);
        }
        let place = (raw.template, sort::natural_key(&raw.name), id.clone());
        let raw = Arc::new(raw);
        match self.rows.get_mut(&id) {
            Some(row) => {
                if row.place != place {
                    self.order.remove(&row.place);
                    row.place = place;
                }
                if !raw.state.is_active() {
                    row.usage = None;
                }
                row.raw = raw;
                row.missed = missed;
            }
            None => {
                let row = Row {
                    raw,
                    place,
                    usage: None,
                    missed,
                };
                self.rows.insert(id.clone(), row);
            }
        }
        self.show(&id, protected);
    }

    /// Lays what corral knows over what the backend said. Whether the row is another one than before.
    fn show(&mut self, id: &InstanceId, protected: &HashSet<String>) -> bool {
        let Some(row) = self.rows.get(id) else {
            return false;
        };
        let raw = &row.raw;
        let learnt = self.learnt.get(id).filter(|learnt| learnt.adds_to(raw));
        let mut shown = Arc::clone(raw);
        if let Some(learnt) = learnt {
            learnt.fill(Arc::make_mut(&mut shown));
        }
        if raw.usage.is_none() && row.usage.is_some() {
            Arc::make_mut(&mut shown).usage = row.usage;
        }
        if !raw.protected
            && (self.view.protected
                || (!protected.is_empty()
                    && (protected.contains(EVERYTHING)
                        || protected.contains(&shown.identity())
                        || protected.contains(&shown.id.to_string())
                        || shown
                            .uid
                            .as_ref()
                            .is_some_and(|uid| protected.contains(uid)))))
        {
            Arc::make_mut(&mut shown).protected = true;
        }
        if !self.fresh || row.missed > 0 {
            shown = Arc::new(shown.as_stale());
        }
        // A confirmation is no news: of ten thousand guests some are always being asked.
        if self.order.get(&row.place).is_some_and(|old| *old == shown) {
            return false;
        }
        self.order.insert(row.place.clone(), shown);
        self.flat = None;
        true
    }

    /// Rows as they are shown, in order.
    pub(super) fn shown(&mut self) -> Arc<[Arc<Instance>]> {
        let order = &self.order;
        Arc::clone(
            self.flat
                .get_or_insert_with(|| order.values().cloned().collect()),
        )
    }

    pub(super) fn get(&self, id: &InstanceId) -> Option<&Arc<Instance>> {
        self.rows.get(id).and_then(|row| self.order.get(&row.place))
    }

    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// What a later run would want to know. `None` before an answer of this run.
    pub(super) fn take_unsaved(&mut self) -> Option<Cached<Shared>> {
        if !self.answered || !std::mem::take(&mut self.unsaved) {
            return None;
        }
        Some(Cached {
            observed_at: self.view.answered_at.unwrap_or(Timestamp::UNIX_EPOCH),
            hosts: self.view.hosts.clone(),
            learnt: self.learnt.clone(),
            instances: self
                .rows
                .values()
                .map(|row| Shared(Arc::clone(&row.raw)))
                .collect(),
        })
    }

    /// Running rows whose addresses nobody knows or confirms.
    pub(super) fn without_addresses(&self) -> Vec<InstanceId> {
        self.rows
            .values()
            .filter(|row| {
                row.raw.state == State::Running
                    && row.raw.addresses.as_ref().is_none_or(Vec::is_empty)
                    && !row.raw.template
            })
            .map(|row| row.raw.id.clone())
            .collect()
    }

    /// When something was last learnt of an instance.
    pub(super) fn learnt_at(&self, id: &InstanceId) -> Option<(Timestamp, bool)> {
        let learnt = self.learnt.get(id)?;
        learnt.at.map(|at| (at, learnt.addresses.is_some()))
    }
}
