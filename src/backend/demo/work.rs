//! A change as a list of acts: as a plan, and carried out.

use std::sync::Arc;
use std::time::Duration;

use super::act::Act;
use super::guest::Guest;
use super::world::World;
use crate::backend::contract::{Prepared, TaskCx};
use crate::model::{
    Consistency, Error, EventLevel, InstanceId, Outcome, Result, State, print_duration,
};

/// How long a stop waits for the guest when nothing else is said.
const PATIENCE: Duration = Duration::from_secs(120);

/// What `prepare` hands to `run`.
pub(crate) struct Work {
    pub(crate) acts: Vec<Act>,
    /// The line for the user when all is done.
    pub(crate) done: String,
    /// The guest that is to be made.
    pub(crate) draft: Option<Guest>,
}

impl Work {
    pub(crate) fn new(acts: Vec<Act>, done: impl Into<String>) -> Self {
        Self {
            acts,
            done: done.into(),
            draft: None,
        }
    }

    /// As a plan for `guest`.
    pub(crate) fn plan(self, world: &World, guest: &Guest) -> Prepared {
        // Later steps are worded for the state that earlier ones lead to.
        let mut expected = guest.clone();
        let mut steps = Vec::new();
        for act in &self.acts {
            steps.push(act.step(world.dialect, &expected));
            if let Some(state) = act.leads_to() {
                expected.base.state = state;
            }
        }
        let mut prepared = Prepared::new(guest.token(), steps).with((guest.id().clone(), self));
        prepared.detachable = world.dialect.is_server_side();
        prepared
    }
}

/// Carries out what `prepare` said.
pub(crate) async fn run(
    world: &Arc<World>,
    cx: &TaskCx,
    mut prepared: Prepared,
) -> Result<Outcome> {
    if prepared.unchanged {
        return Ok(Outcome::unchanged(prepared.notes.join("; ")));
    }
    if let Some(refusal) = prepared.refusals.first() {
        let mut error = Error::refused(refusal.message.clone()).in_context(world.name());
        error.remedy.clone_from(&refusal.remedy);
        return Err(error);
    }
    let (id, work): (InstanceId, Work) = prepared.take()?;
    let id = &id;
    world.calls.method("run");
    tokio::time::sleep(world.knobs.latency_of(world.name())).await;
    world.connect().await?;
    cx.checkpoint()?;
    if work.draft.is_some() {
        if world.guest(id).is_some() {
            return Err(
                Error::conflict(format!("{id} exists by now. Nothing was done"))
                    .in_context(world.name()),
            );
        }
    } else {
        world.claim(id, &prepared.token)?;
    }
    if world.fails() {
        return Err(Error::backend(format!(
            "{} failed: internal error (simulated)",
            world.name()
        ))
        .in_context(world.name()));
    }
    if world.dialect.is_server_side() {
        let number = world.with_random(super::random::Random::next);
        cx.native_task(format!("task-{:08x}", number as u32));
    }
    let mut performer = Performer {
        world,
        cx,
        id,
        last: work.draft.clone().or_else(|| world.guest(id)),
        draft: work.draft,
        consistency: None,
    };
    for (n, act) in work.acts.iter().enumerate() {
        if n > 0 {
            cx.checkpoint()?;
        }
        performer.perform(act, &work.acts[n + 1..]).await?;
    }
    let mut outcome = Outcome::changed(work.done);
    outcome.consistency = performer.consistency;
    outcome.id = Some(id.clone()).filter(|_| performer.draft.is_some());
    Ok(outcome)
}

/// Carries out one act after the other.
struct Performer<'a> {
    world: &'a Arc<World>,
    cx: &'a TaskCx,
    id: &'a InstanceId,
    /// The guest as last seen: calls on a guest that is gone are still worded for it.
    last: Option<Guest>,
    draft: Option<Guest>,
    consistency: Option<Consistency>,
}

impl Performer<'_> {
    async fn perform(&mut self, act: &Act, next: &[Act]) -> Result<()> {
        if let Some(guest) = self.world.guest(self.id) {
            self.last = Some(guest);
        }
        let guest = self
            .last
            .clone()
            .ok_or_else(|| self.world.missing(self.id))?;
        if matches!(act, Act::PowerOffAfter(_)) && !guest.state().is_active() {
            return Ok(());
        }
        self.cx.step(act.title());
        let native = act.native(self.world.dialect, &guest);
        self.cx.log(native.clone());
        self.world.calls.change(&native);
        match act {
            Act::Start => self.start(&guest).await,
            Act::ShutDown => self.shut_down(&guest, next).await,
            Act::PowerOff | Act::PowerOffAfter(_) => {
                self.go(State::Stopping, 200, State::Stopped, "stopped")
                    .await
            }
            Act::Reboot if guest.temper == super::guest::Temper::Stubborn => {
                self.wait_in_vain("reboot request", self.cx.timeout.unwrap_or(PATIENCE))
                    .await
            }
            Act::Reboot | Act::Cycle { now: false } => self.restart(1800).await,
            Act::Reset | Act::Cycle { now: true } => self.restart(500).await,
            Act::Pause => self.go(guest.state(), 80, State::Paused, "paused").await,
            Act::Resume => self.go(guest.state(), 80, State::Running, "resumed").await,
            Act::TakeSnapshot { name, note, memory } => {
                let taken = self.snapshot(name, note.as_deref(), *memory).await?;
                self.consistency = Some(taken);
                Ok(())
            }
            Act::Revert { name } => self.revert(name).await,
            Act::DropSnapshot { name } => self.drop_snapshot(name).await,
            Act::Define => self.define().await,
            Act::FillDisk { n, .. } => self.fill(*n).await,
            Act::RemoveDisk { .. } => {
                tokio::time::sleep(self.world.span(150)).await;
                Ok(())
            }
            Act::Undefine { .. } => {
                tokio::time::sleep(self.world.span(250)).await;
                self.world.remove(self.id);
                self.event(EventLevel::Info, "deleted", "was deleted");
                Ok(())
            }
        }
    }

    pub(super) fn event(&self, level: EventLevel, kind: &str, what: &str) {
        let name = self
            .last
            .as_ref()
            .map_or(self.id.key(), |g| g.base.name.as_str());
        let message = format!("{} {what}", crate::model::shown(name));
        self.world.report(self.id, level, kind, &message);
    }

    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&mut Guest, jiff::Timestamp) -> T,
    ) -> Result<T> {
        self.world
            .change(self.id, change)
            .ok_or_else(|| self.world.missing(self.id))
    }

    /// Through one state into another, and sees it arrive.
    async fn go(&self, by: State, millis: u64, to: State, word: &str) -> Result<()> {
        self.change(|guest, at| {
            if guest.state() != by {
                guest.enter(by, at);
            }
        })?;
        self.world
            .later(self.id, millis, move |guest, at| guest.enter(to, at))
            .await;
        self.see(to).await?;
        self.event(EventLevel::Info, word, &format!("is {to}"));
        Ok(())
    }

    /// Waits until the guest is in `state`; a `TimedOut` when the user waits no longer.
    async fn see(&self, state: State) -> Result<()> {
        let limit = self.cx.timeout.unwrap_or(Duration::from_secs(600));
        let seen = self.world.wait_until(self.id, |guest| {
            guest.is_none_or(|guest| guest.state() == state)
        });
        match tokio::time::timeout(limit, seen).await {
            Ok(()) => Ok(()),
            Err(_) => Err(Error::timed_out(format!(
                "{} is not {state} after {}; it may still get there",
                self.id,
                print_duration(limit)
            ))
            .remedy(format!("Wait: corral wait {} --for {state}", self.id))
            .in_context(self.world.name())),
        }
    }

    async fn start(&self, guest: &Guest) -> Result<()> {
        if guest.temper == super::guest::Temper::BadBoot {
            self.change(|guest, at| guest.enter(State::Starting, at))?;
            tokio::time::sleep(self.world.span(400)).await;
            self.change(|guest, at| guest.enter(State::Stopped, at))?;
            self.event(EventLevel::Error, "failed", "failed to start");
            return Err(Error::backend(format!(
                "{} did not start: no bootable device: {} is missing",
                self.id,
                guest
                    .disks
                    .first()
                    .and_then(|d| d.source.as_deref())
                    .unwrap_or("0")
            ))
            .in_context(self.world.name()));
        }
        self.go(State::Starting, 900, State::Running, "started")
            .await
    }

    async fn shut_down(&self, guest: &Guest, next: &[Act]) -> Result<()> {
        if guest.temper != super::guest::Temper::Stubborn {
            return self
                .go(State::Stopping, 1400, State::Stopped, "stopped")
                .await;
        }
        if let Some(Act::PowerOffAfter(wait)) = next.first() {
            return self.pause_unless_cancelled(*wait).await;
        }
        self.wait_in_vain("shutdown request", self.cx.timeout.unwrap_or(PATIENCE))
            .await
    }

    async fn wait_in_vain(&self, request: &str, limit: Duration) -> Result<()> {
        let from = self.world.guest(self.id).map(|g| g.revision);
        // Somebody else may force it off meanwhile.
        let helped = self.world.wait_until(self.id, |guest| {
            guest.is_none_or(|guest| Some(guest.revision) != from && !guest.state().is_active())
        });
        tokio::select! {
            () = helped => return Ok(()),
            cut = self.pause_unless_cancelled(limit) => cut?,
        }
        let id = self.id;
        Err(Error::timed_out(format!(
            "{id} is still running {} after the {request}; the guest has not reacted",
            print_duration(limit)
        ))
        .remedy(format!(
            "Wait: corral wait {id} --for stopped. Force: corral stop --force {id}"
        ))
        .in_context(self.world.name()))
    }

    async fn pause_unless_cancelled(&self, limit: Duration) -> Result<()> {
        tokio::select! {
            () = tokio::time::sleep(limit) => Ok(()),
            () = self.cx.cancel.cancelled() => Err(Error::refused(
                "cancelled; the request was sent and the guest may still react",
            )),
        }
    }

    async fn restart(&self, millis: u64) -> Result<()> {
        self.change(|guest, at| {
            guest.enter(State::Starting, at);
            guest.pending.clear();
        })?;
        self.world
            .later(self.id, millis, |guest, at| {
                guest.started_at = None;
                guest.enter(State::Running, at);
            })
            .await;
        self.see(State::Running).await?;
        self.event(EventLevel::Info, "restarted", "was restarted");
        Ok(())
    }

    async fn define(&self) -> Result<()> {
        let mut draft = self
            .draft
            .clone()
            .ok_or_else(|| Error::backend("internal: nothing to define"))?;
        draft.base.state = State::Provisioning;
        self.world.insert(draft);
        tokio::time::sleep(self.world.span(200)).await;
        Ok(())
    }

    async fn fill(&self, n: usize) -> Result<()> {
        const PARTS: u64 = 10;
        let total = self
            .draft
            .as_ref()
            .and_then(|g| g.disks.get(n))
            .and_then(|d| d.size_bytes)
            .map_or(0, |b| b.0);
        for part in 1..=PARTS {
            if self.cx.cancel.is_cancelled() {
                self.world.remove(self.id);
                return Err(Error::refused("cancelled; what was made is removed again"));
            }
            tokio::time::sleep(self.world.span(120)).await;
            self.cx.progress(total / PARTS * part, total);
        }
        self.change(|guest, at| guest.enter(State::Stopped, at))?;
        self.event(EventLevel::Info, "created", "was created");
        Ok(())
    }
}

/// The part of the work that is about snapshots.
mod snapshot {
    use super::{Act, Consistency, EventLevel, Performer, Result, State};
    use crate::backend::demo::dialect::Dialect;
    use crate::backend::demo::guest::Guest;
    use crate::model::{Bytes, Snapshot};

    impl Performer<'_> {
        pub(super) async fn snapshot(
            &self,
            name: &str,
            note: Option<&str>,
            memory: bool,
        ) -> Result<Consistency> {
            tokio::time::sleep(self.world.span(if memory { 1600 } else { 500 })).await;
            let dialect = self.world.dialect;
            let taken = self.change(|guest, at| {
                let consistency = consistency(dialect, guest, memory);
                let size = match consistency {
                    Consistency::Memory => guest.base.memory_bytes.unwrap_or_default(),
                    _ => Bytes(64 << 20),
                };
                let parent = guest.current_snapshot().map(|s| s.name.clone());
                for snapshot in &mut guest.snapshots {
                    snapshot.current = false;
                }
                guest.snapshots.push(Snapshot {
                    instance: guest.id().clone(),
                    name: name.to_owned(),
                    parent,
                    current: true,
                    created_at: Some(at),
                    consistency: Some(consistency),
                    size_bytes: Some(size),
                    note: note.map(str::to_owned),
                    broken: None,
                    expires_at: None,
                    policy: None,
                });
                guest.revision += 1;
                consistency
            })?;
            self.event(
                EventLevel::Info,
                "snapshot-created",
                &format!("has a snapshot {}", crate::model::shown(name)),
            );
            Ok(taken)
        }

        pub(super) async fn revert(&self, name: &str) -> Result<()> {
            tokio::time::sleep(self.world.span(800)).await;
            self.change(|guest, at| {
                for snapshot in &mut guest.snapshots {
                    snapshot.current = snapshot.name == name;
                }
                guest.enter(State::Stopped, at);
            })?;
            self.event(
                EventLevel::Info,
                "snapshot-restored",
                &format!("is back at snapshot {}", crate::model::shown(name)),
            );
            Ok(())
        }

        pub(super) async fn drop_snapshot(&self, name: &str) -> Result<()> {
            tokio::time::sleep(self.world.span(400)).await;
            self.change(|guest, _| {
                let Some(at) = guest.snapshots.iter().position(|s| s.name == name) else {
                    return;
                };
                let gone = guest.snapshots.remove(at);
                Dialect::reparent(&mut guest.snapshots, &gone.name, gone.parent.as_deref());
                if gone.current
                    && let Some(parent) = &gone.parent
                    && let Some(parent) = guest.snapshots.iter_mut().find(|s| s.name == *parent)
                {
                    parent.current = true;
                }
                guest.revision += 1;
            })?;
            self.event(
                EventLevel::Info,
                "snapshot-deleted",
                &format!("lost snapshot {}", crate::model::shown(name)),
            );
            Ok(())
        }
    }

    /// What a snapshot taken now would hold.
    pub(super) fn consistency(dialect: Dialect, guest: &Guest, memory: bool) -> Consistency {
        let freezes = matches!(
            dialect,
            Dialect::Kubevirt | Dialect::Vsphere | Dialect::Nutanix
        );
        if !guest.state().is_active() {
            Consistency::Offline
        } else if memory || matches!(dialect, Dialect::Qemu | Dialect::Virtualbox) {
            Consistency::Memory
        } else if freezes && guest.base.agent == Some(true) && guest.state() == State::Running {
            Consistency::Filesystem
        } else {
            Consistency::Crash
        }
    }

    /// What `act` would give, for the plan's notes.
    pub(crate) fn promise(dialect: Dialect, guest: &Guest, act: &Act) -> Option<Consistency> {
        match act {
            Act::TakeSnapshot { memory, .. } => Some(consistency(dialect, guest, *memory)),
            _ => None,
        }
    }
}

pub(crate) use snapshot::promise;
