//! The fleet's public face: views, settling, refreshing.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::future::join_all;
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::pending::Pending;
use super::recorder::Recorder;
use super::slot::Slot;
use super::state::State;
use super::worker::{self, Worker};
use super::{addresses, cache};
use crate::backend::contract::{Backend, ReadCx};
use crate::model::{ContextSpec, Detail, Event, FleetView, Instance, InstanceId, Sample, Scope};

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
    /// In the order of their contexts. Replaced as a whole by `arrange`.
    pub(super) workers: ArcSwap<Vec<Arc<Worker>>>,
    pub(super) options: FleetOptions,
    pub(super) state: Mutex<State>,
    dirty: Arc<Notify>,
    view: ArcSwap<FleetView>,
    generation: watch::Sender<u64>,
    events: broadcast::Sender<Event>,
    /// What all clocks of this fleet are set by.
    pub(super) began: Instant,
    pub(super) recorder: Recorder,
    pub(super) pending: Pending,
    watched: Mutex<Vec<InstanceId>>,
    /// What runs, by the key of its worker; the fleet's own under 0.
    pub(super) tasks: Mutex<HashMap<u64, Vec<JoinHandle<()>>>>,
    /// Held while the contexts are arranged anew; the last key given away.
    pub(super) arranging: Mutex<u64>,
    /// Caches being written.
    saving: TaskTracker,
}

impl Fleet {
    /// Starts one worker per context, inside a tokio runtime. Cached rows are in the first view.
    pub fn start(members: Vec<Member>, options: FleetOptions) -> Arc<Self> {
        let fleet = Arc::new(Self {
            workers: ArcSwap::default(),
            began: Instant::now(),
            recorder: Recorder::new(options.state.clone()),
            pending: Pending::default(),
            options,
            state: Mutex::new(State::default()),
            dirty: Arc::new(Notify::new()),
            view: ArcSwap::default(),
            generation: watch::channel(0).0,
            events: broadcast::channel(EVENTS).0,
            watched: Mutex::new(Vec::new()),
            tasks: Mutex::new(HashMap::new()),
            arranging: Mutex::new(0),
            saving: TaskTracker::new(),
        });
        if fleet.options.watch {
            let publisher = publish_loop(Arc::downgrade(&fleet), Arc::clone(&fleet.dirty));
            let tasks = vec![tokio::spawn(publisher)];
            lock(&fleet.tasks).insert(0, tasks);
        }
        fleet.arrange(members, &[]);
        fleet
    }

    /// The fleet as last published.
    pub fn view(&self) -> Arc<FleetView> {
        self.view.load_full()
    }

    /// The newest row at an ID, without a walk over the view.
    pub fn instance(&self, id: &InstanceId) -> Option<Arc<Instance>> {
        let mut state = lock(&self.state);
        let (slot, _) = state.named(id.context())?;
        slot.get(id).cloned()
    }

    /// Told of every published view; at most 60 a second, none when nothing changed.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Events as they happen.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// The context of this name.
    pub fn member(&self, context: &str) -> Option<Arc<Member>> {
        self.worker(context)
            .map(|worker| Arc::clone(&worker.member))
    }

    fn worker(&self, context: &str) -> Option<Arc<Worker>> {
        let workers = self.workers.load();
        let mut workers = workers.iter();
        workers
            .find(|worker| worker.member.spec.name == context)
            .cloned()
    }

    /// All contexts, in order, as they are now.
    pub fn members(&self) -> Vec<Arc<Member>> {
        let workers = self.workers.load();
        workers.iter().map(|w| Arc::clone(&w.member)).collect()
    }

    /// A read of a context, with its own deadline.
    pub fn read_cx(&self, context: &str) -> ReadCx {
        let limit = self
            .worker(context)
            .map_or(Duration::from_secs(15), |w| w.deadlines().1);
        worker::read_within(limit)
    }

    /// Asks again at once, and forgets the back-off.
    pub fn refresh(&self, context: Option<&str>) {
        for worker in self.workers.load().iter() {
            if context.is_none_or(|name| name == worker.member.spec.name) {
                worker.ask();
            }
        }
    }

    /// Waits until every context in scope has answered, failed, or let its deadline pass. After a
    /// `refresh` that is the answer to it. Contexts out of scope are not waited for, and in
    /// one-shot mode not even asked.
    pub async fn settle(self: &Arc<Self>, scope: &Scope) -> Arc<FleetView> {
        join_all(self.in_scope(scope).iter().map(|worker| async move {
            if self.options.watch {
                worker.settled().await;
            } else {
                worker::ask_once(self, worker).await;
            }
        }))
        .await;
        self.publish();
        self.view()
    }

    /// Looks for the addresses of running guests in scope, now.
    pub async fn sweep_addresses(self: &Arc<Self>, scope: &Scope) {
        self.settle(scope).await;
        join_all(
            self.in_scope(scope)
                .iter()
                .map(|worker| addresses::sweep(self, worker)),
        )
        .await;
        self.publish();
    }

    fn in_scope(&self, scope: &Scope) -> Vec<Arc<Worker>> {
        let workers = self.workers.load();
        workers
            .iter()
            .filter(|worker| {
                let spec = &worker.member.spec;
                scope.covers(&spec.name, spec.kind.as_str())
            })
            .cloned()
            .collect()
    }

    /// Takes in what a detail read learnt: uid, addresses.
    pub fn note_detail(&self, detail: &Detail) {
        let id = &detail.instance.id;
        self.with_named(id.context(), |slot, protected| {
            slot.note_detail(detail, protected)
        });
    }

    pub(super) fn note_silence(&self, id: &InstanceId) {
        self.with_named(id.context(), |slot, protected| {
            slot.note_silence(id, protected)
        });
    }

    /// Recent samples of an instance, oldest first.
    pub fn samples(&self, id: &InstanceId) -> Vec<Sample> {
        self.recorder.samples(id)
    }

    /// The rows on screen: only they are sampled, and their addresses are looked for first.
    pub fn watch_metrics(&self, ids: Vec<InstanceId>) {
        let mut watched = lock(&self.watched);
        if *watched == ids {
            return;
        }
        let old = std::mem::replace(&mut *watched, ids);
        for worker in self.workers.load().iter() {
            let name = worker.member.spec.name.as_str();
            let mut new = watched.iter().filter(|id| id.context() == name);
            if new.any(|id| !old.contains(id)) {
                worker.looked.notify_one();
            }
        }
    }

    pub(super) fn watched(&self, context: &str) -> Vec<InstanceId> {
        let watched = lock(&self.watched);
        let own = watched.iter().filter(|id| id.context() == context);
        own.cloned().collect()
    }

    /// Events kept of an instance, or of a context; oldest first.
    pub async fn recorded_events(
        &self,
        id: Option<&InstanceId>,
        context: Option<&str>,
    ) -> Vec<Event> {
        self.recorder.events(id, context).await
    }

    /// An action of ours is under way on an instance.
    pub fn set_pending(&self, id: &InstanceId, verb: &str) {
        self.pending.set(id, verb);
        self.mark_dirty();
    }

    /// It is over. It is shown on until the backend has reported the instance, or was asked anew.
    pub fn clear_pending(&self, id: &InstanceId) {
        match self.worker(id.context()) {
            Some(worker) if self.options.watch => {
                // Noted first, asked second: an answer in between settles nothing.
                self.pending.ended(id, worker.question() + 1);
                worker.ask();
            }
            _ => {
                self.pending.remove(id);
            }
        }
        self.mark_dirty();
    }

    /// Actions of ours that are under way, by instance.
    pub fn pending(&self) -> Arc<HashMap<InstanceId, String>> {
        self.pending.shown()
    }

    /// Which identities (identity, ID or uid) corral itself protects.
    pub fn set_protected(&self, identities: HashSet<String>) {
        lock(&self.state).set_protected(identities);
        self.publish();
    }

    /// Stops every worker, and writes down what a later run would want to know.
    pub async fn shutdown(&self) {
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        let tasks: Vec<_> = tasks.into_values().flatten().collect();
        for task in &tasks {
            task.abort();
        }
        for task in tasks {
            let _ = task.await;
        }
        for worker in self.workers.load().iter() {
            self.save(worker);
        }
        self.recorder.flush().await;
        self.saving.close();
        self.saving.wait().await;
        self.saving.reopen();
    }

    /// Writes a context's cache, in the background, when there is something new.
    pub(super) fn save(&self, worker: &Arc<Worker>) {
        let Some(dir) = self.options.cache.clone() else {
            return;
        };
        let kept = self.with_slot(worker.key, |slot, _| slot.take_unsaved());
        if let Some(kept) = kept.flatten() {
            let member = Arc::clone(&worker.member);
            self.saving
                .spawn_blocking(move || cache::save(&dir, &member.spec, &kept));
        }
    }

    /// Works on one context. Whoever changes what is shown calls `mark_dirty` afterwards.
    pub(super) fn with_slot<T>(
        &self,
        key: u64,
        work: impl FnOnce(&mut Slot, &HashSet<String>) -> T,
    ) -> Option<T> {
        let mut state = lock(&self.state);
        let (slot, protected) = state.slot(key)?;
        Some(work(slot, protected))
    }

    fn with_named(&self, context: &str, change: impl FnOnce(&mut Slot, &HashSet<String>) -> bool) {
        let mut state = lock(&self.state);
        let changed = state
            .named(context)
            .is_some_and(|(slot, protected)| change(slot, protected));
        drop(state);
        if changed {
            self.mark_dirty();
        }
    }

    pub(super) fn emit(&self, event: Event) {
        let kept_there = self
            .member(&event.context)
            .is_some_and(|m| m.backend.families().events().is_some());
        self.recorder.event(&event, !kept_there);
        let _ = self.events.send(event);
        self.mark_dirty();
    }

    pub(super) fn mark_dirty(&self) {
        self.dirty.notify_one();
    }

    pub(super) fn publish(&self) {
        // The lock is held to the end, so that generations only grow.
        let mut state = lock(&self.state);
        let generation = self.view.load().generation + 1;
        self.view.store(Arc::new(state.view(generation)));
        self.generation.send_replace(generation);
        drop(state);
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        for task in tasks.values().flatten() {
            task.abort();
        }
    }
}

/// A fault elsewhere while a lock was held is no reason to stop.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Publishes at once, then rests for a frame: a thousand changes in that time are one view.
async fn publish_loop(fleet: Weak<Fleet>, dirty: Arc<Notify>) {
    loop {
        dirty.notified().await;
        let Some(strong) = fleet.upgrade() else {
            return;
        };
        strong.publish();
        drop(strong);
        tokio::time::sleep(PUBLISH_EVERY).await;
    }
}
