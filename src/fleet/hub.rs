//! The fleet's public face: views, settling, refreshing.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures::future::join_all;
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinHandle;

use super::recorder::Recorder;
use super::state::State;
use super::worker::{self, Worker};
use super::{addresses, cache};
use crate::backend::contract::{Backend, ReadCx};
use crate::model::{
    ContextSpec, ContextView, Detail, Event, FleetView, Instance, InstanceId, Sample, Scope,
};

/// A frame can show no more than this many states a second.
const PUBLISH_EVERY: Duration = Duration::from_millis(16);
/// Events not yet read by a slow reader; older ones are dropped for it.
const EVENTS: usize = 1024;

/// How a fleet lives.
#[derive(Clone, Debug, Default)]
pub struct FleetOptions {
    /// Where inventories are cached; `None` keeps nothing.
    pub cache: Option<PathBuf>,
    /// Where events are recorded; `None` keeps them in memory.
    pub state: Option<PathBuf>,
    /// Long-lived: watches and polls. False: each context is asked once, when it is needed.
    pub watch: bool,
    /// Looks for addresses in the background.
    pub addresses: bool,
}

/// One context and what drives it.
pub struct Member {
    /// How it was opened.
    pub spec: ContextSpec,
    /// What drives it.
    pub backend: Arc<dyn Backend>,
}

/// The whole fleet.
pub struct Fleet {
    members: Vec<Arc<Member>>,
    pub(super) workers: Vec<Arc<Worker>>,
    pub(super) options: FleetOptions,
    pub(super) state: Mutex<State>,
    dirty: Notify,
    view: ArcSwap<FleetView>,
    generation: watch::Sender<u64>,
    events: broadcast::Sender<Event>,
    pub(super) recorder: Recorder,
    watched: Mutex<Vec<InstanceId>>,
    pending: ArcSwap<HashMap<InstanceId, String>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Fleet {
    /// Starts one worker per context. Cached rows are in the first view.
    pub fn start(members: Vec<Member>, options: FleetOptions) -> Arc<Self> {
        let members: Vec<Arc<Member>> = members.into_iter().map(Arc::new).collect();
        let mut state = State::new(members.iter().map(std::convert::AsRef::as_ref));
        if let Some(dir) = &options.cache {
            for (n, member) in members.iter().enumerate() {
                if let Some(cached) = cache::load(dir, &member.spec) {
                    state.from_cache(n, cached);
                }
            }
        }
        let workers = members
            .iter()
            .map(|m| Arc::new(Worker::new(Arc::clone(m))))
            .collect();
        let view = Arc::new(state.view(0));
        let fleet = Arc::new(Self {
            members,
            workers,
            recorder: Recorder::new(options.state.clone()),
            options,
            state: Mutex::new(state),
            dirty: Notify::new(),
            view: ArcSwap::new(view),
            generation: watch::channel(0).0,
            events: broadcast::channel(EVENTS).0,
            watched: Mutex::new(Vec::new()),
            pending: ArcSwap::default(),
            tasks: Mutex::new(Vec::new()),
        });
        if fleet.options.watch {
            let mut tasks = Vec::new();
            for n in 0..fleet.workers.len() {
                tasks.push(tokio::spawn(worker::supervise(Arc::downgrade(&fleet), n)));
            }
            tasks.push(tokio::spawn(publish_loop(Arc::downgrade(&fleet))));
            tasks.push(tokio::spawn(worker::sample_loop(Arc::downgrade(&fleet))));
            if fleet.options.addresses {
                tasks.push(tokio::spawn(addresses::sweep_loop(Arc::downgrade(&fleet))));
            }
            *fleet.tasks.lock().unwrap_or_else(PoisonError::into_inner) = tasks;
        }
        fleet
    }

    /// The fleet as last published.
    pub fn view(&self) -> Arc<FleetView> {
        self.view.load_full()
    }

    /// Told of every published view; at most 60 a second.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Events as they happen.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// The context of this name.
    pub fn member(&self, context: &str) -> Option<&Member> {
        self.members
            .iter()
            .find(|m| m.spec.name == context)
            .map(AsRef::as_ref)
    }

    /// All contexts, in order.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().map(AsRef::as_ref)
    }

    /// A read of a context, with its own deadline.
    pub fn read_cx(&self, context: &str) -> ReadCx {
        let seconds = self
            .member(context)
            .and_then(|m| m.spec.read_timeout)
            .unwrap_or(15);
        ReadCx::quiet(Duration::from_secs(seconds))
    }

    /// Asks again at once, and forgets the back-off.
    pub fn refresh(&self, context: Option<&str>) {
        for worker in &self.workers {
            if context.is_none_or(|name| name == worker.member.spec.name) {
                worker.wake();
            }
        }
    }

    /// Waits until every context in scope has answered, failed, or let its deadline pass.
    pub async fn settle(self: &Arc<Self>, scope: &Scope) -> Arc<FleetView> {
        let waits = self
            .workers
            .iter()
            .enumerate()
            .filter(|(_, w)| in_scope(&w.member.spec, scope))
            .map(|(n, worker)| async move {
                if self.options.watch {
                    worker.first_attempt().await;
                } else {
                    worker::ask_once(self, n).await;
                }
            });
        join_all(waits).await;
        self.publish();
        self.view()
    }

    /// Looks for the addresses of running guests in scope, now.
    pub async fn sweep_addresses(self: &Arc<Self>, scope: &Scope) {
        self.settle(scope).await;
        let sweeps = (0..self.workers.len())
            .filter(|n| in_scope(&self.workers[*n].member.spec, scope))
            .map(|n| addresses::sweep(self, n));
        join_all(sweeps).await;
        self.publish();
    }

    /// Takes in what a detail read learnt: uid, addresses, agent.
    pub fn note_detail(&self, detail: &Detail) {
        self.with_state(|state| state.note_detail(detail));
    }

    /// Recent samples of an instance, oldest first.
    pub fn samples(&self, id: &InstanceId) -> Vec<Sample> {
        self.recorder.samples(id)
    }

    /// The rows on screen: only they are sampled.
    pub fn watch_metrics(&self, ids: Vec<InstanceId>) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = ids;
    }

    pub(super) fn watched(&self) -> Vec<InstanceId> {
        self.watched
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Events kept of an instance, or of a context; oldest first.
    pub fn recorded_events(&self, id: Option<&InstanceId>, context: Option<&str>) -> Vec<Event> {
        self.recorder.events(id, context)
    }

    /// An action of ours is under way on an instance.
    pub fn set_pending(&self, id: &InstanceId, verb: &str) {
        self.change_pending(|pending| {
            pending.insert(id.clone(), verb.to_owned());
        });
    }

    /// It is over; shown until the backend's next answer.
    pub fn clear_pending(&self, id: &InstanceId) {
        self.change_pending(|pending| {
            pending.remove(id);
        });
    }

    fn change_pending(&self, change: impl Fn(&mut HashMap<InstanceId, String>)) {
        self.pending.rcu(|old| {
            let mut new = HashMap::clone(old);
            change(&mut new);
            new
        });
        self.mark_dirty();
    }

    /// Actions of ours that are under way, by instance.
    pub fn pending(&self) -> Arc<HashMap<InstanceId, String>> {
        self.pending.load_full()
    }

    /// Which identities corral itself protects.
    pub fn set_protected(&self, identities: HashSet<String>) {
        self.with_state(|state| state.set_protected(identities));
        if !self.options.watch {
            self.publish();
        }
    }

    /// Stops every worker.
    pub async fn shutdown(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in &tasks {
            task.abort();
        }
        for task in tasks {
            let _ = task.await;
        }
    }

    pub(super) fn with_state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.mark_dirty();
        result
    }

    pub(super) fn emit(&self, event: Event) {
        let own = self
            .member(&event.context)
            .is_some_and(|m| m.backend.events().is_some());
        self.recorder.event(&event, !own);
        let _ = self.events.send(event);
        self.mark_dirty();
    }

    fn mark_dirty(&self) {
        self.dirty.notify_one();
    }

    pub(super) fn publish(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = self.view.load().generation + 1;
        let view = state.view(generation);
        drop(state);
        self.view.store(Arc::new(view));
        self.generation.send_replace(generation);
    }
}

/// Whether a context is in scope.
pub(super) fn in_scope(spec: &ContextSpec, scope: &Scope) -> bool {
    (scope.contexts.is_empty() || scope.contexts.contains(&spec.name))
        && (scope.backends.is_empty() || scope.backends.iter().any(|b| b == spec.kind.as_str()))
}

async fn publish_loop(fleet: std::sync::Weak<Fleet>) {
    loop {
        let Some(strong) = fleet.upgrade() else {
            return;
        };
        // Bounded, so that a dropped fleet is noticed.
        let _ = tokio::time::timeout(Duration::from_secs(5), strong.dirty.notified()).await;
        let begun = Instant::now();
        strong.publish_if_changed();
        drop(strong);
        tokio::time::sleep(PUBLISH_EVERY.saturating_sub(begun.elapsed())).await;
    }
}

impl Fleet {
    fn publish_if_changed(&self) {
        let changed = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.is_changed()
        };
        if changed {
            self.publish();
        } else {
            // Pending marks and events are no part of the view, but are drawn.
            self.generation.send_modify(|_| {});
        }
    }
}

/// What the publisher shows of one row: for tests and callers that hold a view.
pub fn rows_of<'a>(
    view: &'a FleetView,
    context: &'a ContextView,
) -> impl Iterator<Item = &'a Arc<Instance>> {
    view.instances
        .iter()
        .filter(move |row| row.context == context.name)
}
