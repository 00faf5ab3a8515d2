//! One simulated server: its guests, what it reports, and how it answers.

mod events;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indexmap::IndexMap;
use jiff::Timestamp;
use tokio::sync::{broadcast, watch};

use crate::backend::contract::{Change, ReadCx};
use crate::backend::demo::calls::Recorder;
use crate::backend::demo::dialect::Dialect;
use crate::backend::demo::guest::Guest;
use crate::backend::demo::knobs::Knobs;
use crate::backend::demo::random::Random;
use crate::backend::demo::stores::Stores;
use crate::model::{
    ContextSpec, Error, ErrorKind, Event, Host, Instance, InstanceId, Inventory, Problem, Result,
};

/// Changes a slow watcher may lag behind before it is sent everything anew.
const WATCH_BACKLOG: usize = 1024;

/// How a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Answers,
    Silent,
    Refuses,
    Expired,
}

/// One simulated server.
pub(crate) struct World {
    pub(crate) dialect: Dialect,
    pub(crate) spec: ContextSpec,
    pub(crate) knobs: Knobs,
    pub(crate) mood: Mood,
    pub(crate) hosts: Vec<Host>,
    pub(crate) calls: Recorder,
    inner: Mutex<Inner>,
    changes: broadcast::Sender<Change>,
    /// Grows with every change: what waits for a state waits for this.
    turn: watch::Sender<u64>,
}

struct Inner {
    guests: IndexMap<InstanceId, Guest>,
    problems: Vec<Problem>,
    events: Vec<Event>,
    random: Random,
    stores: Stores,
}

impl World {
    pub(crate) fn new(
        dialect: Dialect,
        spec: ContextSpec,
        knobs: Knobs,
        mood: Mood,
        hosts: Vec<Host>,
        guests: Vec<Guest>,
        problems: Vec<Problem>,
    ) -> Self {
        let random = Random::new(knobs.seed, &format!("world {}", spec.name));
        let world = Self {
            dialect,
            mood,
            hosts,
            calls: Recorder::default(),
            inner: Mutex::new(Inner {
                guests: guests.into_iter().map(|g| (g.id().clone(), g)).collect(),
                problems,
                events: Vec::new(),
                random,
                stores: Stores::new(dialect, &spec.name),
            }),
            changes: broadcast::channel(WATCH_BACKLOG).0,
            turn: watch::channel(0).0,
            spec,
            knobs,
        };
        world.remember_the_past();
        world
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.knobs.clock.now()
    }

    /// Every read passes here: the delay of the line, and the ways not to answer.
    pub(crate) async fn answer(&self, cx: &ReadCx, method: &'static str) -> Result<()> {
        self.calls.method(method);
        let name = self.name();
        if cx.left().is_zero() {
            return Err(Error::timed_out(format!("{name} did not answer in time")).in_context(name));
        }
        cx.within(name, async {
            tokio::time::sleep(self.knobs.latency_of(name)).await;
            self.connect().await?;
            if self.lock().random.chance(self.knobs.read_failures) {
                return Err(Error::backend(format!(
                    "{name} failed to answer: internal error (simulated)"
                )));
            }
            Ok(())
        })
        .await
        .map_err(|error| error.in_context(name))
    }

    /// Succeeds where the server answers at all.
    pub(crate) async fn connect(&self) -> Result<()> {
        let name = self.name();
        let endpoint = self.endpoint();
        let error = match self.mood {
            Mood::Answers => return Ok(()),
            Mood::Silent => {
                let limit = self.spec.connect_timeout.unwrap_or(5);
                tokio::time::sleep(Duration::from_secs(limit)).await;
                Error::unreachable(format!(
                    "{name} does not answer: no connection to {endpoint} in {limit} s"
                ))
                .remedy(format!("Retry: corral context test {name}"))
            }
            Mood::Refuses => Error::unreachable(format!(
                "{name} does not answer: {endpoint} refused the connection"
            ))
            .remedy(format!("Retry: corral context test {name}")),
            Mood::Expired => Error::new(
                ErrorKind::Unauthorized,
                format!("{name} refused the login: the session of corral@demo has expired"),
            )
            .remedy(format!(
                "Log in again: corral context set {name} --secret-stdin"
            )),
        };
        Err(error.in_context(name))
    }

    pub(crate) fn endpoint(&self) -> String {
        ["url", "uri"]
            .iter()
            .find_map(|field| self.spec.text(field))
            .unwrap_or("this machine")
            .to_owned()
    }

    /// Everything, as one list call gives it.
    pub(crate) fn inventory(&self) -> Inventory {
        let now = self.now();
        let inner = self.lock();
        Inventory {
            instances: inner
                .guests
                .values()
                .map(|g| g.row(self.dialect, now, self.knobs.seed))
                .collect(),
            hosts: self.hosts.clone(),
            complete: true,
            hidden: None,
            problems: inner.problems.clone(),
            observed_at: now,
        }
    }

    /// Copies of all guests.
    pub(crate) fn guests(&self) -> Vec<Guest> {
        self.lock().guests.values().cloned().collect()
    }

    pub(crate) fn with_stores<T>(&self, with: impl FnOnce(&mut Stores) -> T) -> T {
        with(&mut self.lock().stores)
    }

    /// A problem of the context says this.
    pub(crate) fn problem_about(&self, text: &str) -> bool {
        self.lock()
            .problems
            .iter()
            .any(|p| p.message.contains(text))
    }

    /// A copy of a guest.
    pub(crate) fn guest(&self, id: &InstanceId) -> Option<Guest> {
        self.lock().guests.get(id).cloned()
    }

    /// A copy of a guest that the caller knows as `on`: another incarnation is a `Conflict`.
    /// Reading it makes its uid known, as on kinds whose list does not carry it.
    pub(crate) fn guest_as(&self, on: &Instance) -> Result<Guest> {
        let mut inner = self.lock();
        let guest = inner
            .guests
            .get_mut(&on.id)
            .ok_or_else(|| self.missing(&on.id))?;
        if on.uid.as_ref().is_some_and(|uid| *uid != guest.uid) {
            return Err(Error::conflict(format!(
                "{} is another machine now. Nothing was done",
                on.id
            ))
            .in_context(self.name()));
        }
        guest.uid_known = true;
        Ok(guest.clone())
    }

    pub(crate) fn learn_uid(&self, id: &InstanceId) {
        if let Some(guest) = self.lock().guests.get_mut(id) {
            guest.uid_known = true;
        }
    }

    pub(crate) fn missing(&self, id: &InstanceId) -> Error {
        Error::not_found(format!("{id} does not exist")).in_context(self.name())
    }

    pub(crate) fn taken(&self, test: impl Fn(&Guest) -> bool) -> bool {
        self.lock().guests.values().any(test)
    }

    /// Checks the token and makes it void in one go: of two plans with it, one runs.
    pub(crate) fn claim(&self, id: &InstanceId, token: &str) -> Result<()> {
        let mut inner = self.lock();
        match inner.guests.get_mut(id) {
            Some(guest) if guest.token() == token => {
                guest.revision += 1;
                Ok(())
            }
            Some(_) => Err(Error::conflict(format!(
                "{id} has changed since the plan was made. Nothing was done"
            ))
            .in_context(self.name())),
            None => Err(Error::conflict(format!(
                "{id} is gone since the plan was made. Nothing was done"
            ))
            .in_context(self.name())),
        }
    }

    /// Changes a guest and tells the watchers; `None` when it is gone.
    pub(crate) fn change<T>(
        &self,
        id: &InstanceId,
        change: impl FnOnce(&mut Guest, Timestamp) -> T,
    ) -> Option<T> {
        let now = self.now();
        let mut inner = self.lock();
        let guest = inner.guests.get_mut(id)?;
        let result = change(guest, now);
        let row = guest.row(self.dialect, now, self.knobs.seed);
        drop(inner);
        self.tell(Change::Upsert(Box::new(row)));
        Some(result)
    }

    pub(crate) fn insert(&self, guest: Guest) {
        let row = guest.row(self.dialect, self.now(), self.knobs.seed);
        self.lock().guests.insert(guest.id().clone(), guest);
        self.tell(Change::Upsert(Box::new(row)));
    }

    /// Gives a guest another name, and the ID that follows from it; false when it is gone.
    pub(crate) fn rename(&self, id: &InstanceId, new: &InstanceId, name: &str) -> bool {
        let now = self.now();
        let mut inner = self.lock();
        let Some(at) = inner.guests.get_index_of(id) else {
            return false;
        };
        let Some((_, mut guest)) = inner.guests.shift_remove_index(at) else {
            return false;
        };
        guest.revision += 1;
        name.clone_into(&mut guest.base.name);
        guest.base.id = new.clone();
        for snapshot in &mut guest.snapshots {
            snapshot.instance = new.clone();
        }
        let row = guest.row(self.dialect, now, self.knobs.seed);
        let at = at.min(inner.guests.len());
        inner.guests.shift_insert(at, new.clone(), guest);
        drop(inner);
        if new != id {
            self.tell(Change::Gone(id.clone()));
        }
        self.tell(Change::Upsert(Box::new(row)));
        true
    }

    pub(crate) fn remove(&self, id: &InstanceId) -> Option<Guest> {
        let gone = self.lock().guests.shift_remove(id);
        if gone.is_some() {
            self.tell(Change::Gone(id.clone()));
        }
        gone
    }

    fn tell(&self, change: Change) {
        // Nobody watching is fine.
        let _ = self.changes.send(change);
        self.turn.send_modify(|turn| *turn = turn.wrapping_add(1));
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Waits until `wanted` holds of the guest (`None`: it is gone).
    pub(crate) async fn wait_until(
        &self,
        id: &InstanceId,
        wanted: impl Fn(Option<&Guest>) -> bool,
    ) {
        let mut turn = self.turn.subscribe();
        loop {
            turn.borrow_and_update();
            if wanted(self.lock().guests.get(id)) || turn.changed().await.is_err() {
                return;
            }
        }
    }

    /// Some of life: `millis` as in life, a little more or less.
    pub(crate) fn span(&self, millis: u64) -> Duration {
        let jitter = 0.8 + 0.4 * self.lock().random.unit();
        Duration::from_secs_f64(
            millis as f64 / 1000.0 * jitter * f64::from(self.knobs.pace) / 100.0,
        )
    }

    pub(crate) fn fails(&self) -> bool {
        self.lock().random.chance(self.knobs.change_failures)
    }

    pub(crate) fn with_random<T>(&self, with: impl FnOnce(&mut Random) -> T) -> T {
        with(&mut self.lock().random)
    }

    /// Moves a guest on after a while, unless something else has happened to it by then.
    pub(crate) async fn later(
        self: &Arc<Self>,
        id: &InstanceId,
        millis: u64,
        finish: impl FnOnce(&mut Guest, Timestamp) + Send + 'static,
    ) {
        let expected = self.guest(id).map(|g| g.token());
        let wait = self.span(millis);
        let world = Arc::clone(self);
        let id = id.clone();
        let finish = move || {
            world.change(&id, |guest, at| {
                if Some(guest.token()) == expected {
                    finish(guest, at);
                }
            });
        };
        if wait.is_zero() {
            tokio::task::yield_now().await;
            finish();
        } else {
            // On its own, as on a real server: it goes on when nobody waits any more.
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                finish();
            });
        }
    }
}
