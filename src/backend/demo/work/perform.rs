//! Acts as they are carried out, one after the other.

use std::sync::Arc;
use std::time::Duration;

use super::super::act::Act;
use super::super::guest::{Guest, Temper};
use super::super::world::World;
use crate::backend::contract::TaskCx;
use crate::model::{Consistency, Error, EventLevel, InstanceId, Result, State, print_duration};

/// How long a stop waits for the guest when nothing else is said.
const PATIENCE: Duration = Duration::from_secs(120);

/// Carries out one act after the other.
pub(super) struct Performer<'a> {
    pub(super) world: &'a Arc<World>,
    pub(super) cx: &'a TaskCx,
    pub(super) id: &'a InstanceId,
    /// The guest as last seen: calls on a guest that is gone are still worded for it.
    pub(super) last: Option<Guest>,
    pub(super) draft: Option<Guest>,
    pub(super) consistency: Option<Consistency>,
    /// The ID from now on, where it is another one.
    pub(super) became: Option<InstanceId>,
}

impl Performer<'_> {
    pub(super) async fn perform(&mut self, act: &Act, next: &[Act]) -> Result<()> {
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
            Act::Reboot if guest.temper == Temper::Stubborn => {
                self.wait_in_vain("reboot request", self.cx.timeout.unwrap_or(PATIENCE))
                    .await
            }
            Act::Reboot | Act::Cycle { now: false } => self.restart(1800).await,
            Act::Reset | Act::Cycle { now: true } => self.restart(500).await,
            Act::Pause => self.go(guest.state(), 80, State::Paused, "paused").await,
            Act::Resume => self.go(guest.state(), 80, State::Running, "resumed").await,
            Act::TakeSnapshot { .. } => {
                let taken = self.snapshot(act).await?;
                self.consistency = Some(taken);
                Ok(())
            }
            Act::Revert { name } => self.revert(name).await,
            Act::DropSnapshot { name } => self.drop_snapshot(name).await,
            Act::Define => self.define().await,
            Act::FillDisk { n, .. } => self.fill(*n).await,
            Act::RemoveDisk { .. } => {
                tokio::time::sleep(self.world.span(150)).await;
                self.world.keep(act, &guest);
                Ok(())
            }
            Act::Undefine { .. } => {
                tokio::time::sleep(self.world.span(250)).await;
                self.world.keep(act, &guest);
                self.world.remove(self.id);
                self.event(EventLevel::Info, "deleted", "was deleted");
                Ok(())
            }
            Act::Hibernate => self.hibernate(&guest).await,
            Act::Rename { to, id } => self.rename(to, id).await,
            Act::Clone { linked, .. } => self.clone(*linked).await,
            other => self.take_effect(other, &guest).await,
        }
    }

    /// An act that changes the guest in one go.
    async fn take_effect(&self, act: &Act, guest: &Guest) -> Result<()> {
        let Some(effect) = act.effect(guest) else {
            return Err(Error::backend("internal: an act without an effect"));
        };
        tokio::time::sleep(self.world.span(effect.millis)).await;
        if let Some(bytes) = effect.bytes {
            self.carry(bytes.0).await?;
        }
        let dialect = self.world.dialect;
        let kept = self.world.keep(act, guest);
        let changed = self.world.change(self.id, |guest, at| {
            if let Some(kept) = kept {
                guest.become_again(kept);
            }
            act.apply(dialect, guest, at);
        });
        // A backup outlives its guest.
        if changed.is_none() && !matches!(act, Act::DropBackup { .. }) {
            return Err(self.world.missing(self.id));
        }
        self.event(EventLevel::Info, effect.word, &effect.said);
        Ok(())
    }

    /// Bytes on their way; nothing of them stays when the user cancels.
    async fn carry(&self, total: u64) -> Result<()> {
        const PARTS: u64 = 10;
        for part in 1..=PARTS {
            if self.cx.cancel.is_cancelled() {
                return Err(Error::refused(
                    "cancelled; what was written is removed again",
                ));
            }
            tokio::time::sleep(self.world.span(120)).await;
            self.cx.progress(total / PARTS * part, total);
        }
        Ok(())
    }

    async fn hibernate(&self, guest: &Guest) -> Result<()> {
        let memory = guest.base.memory_bytes.unwrap_or_default();
        self.carry(memory.0).await?;
        self.go(guest.state(), 100, State::Hibernated, "hibernated")
            .await
    }

    async fn rename(&mut self, to: &str, id: &InstanceId) -> Result<()> {
        tokio::time::sleep(self.world.span(150)).await;
        self.event(
            EventLevel::Info,
            "renamed",
            &format!("is named {}", crate::model::shown(to)),
        );
        let renamed = self.world.rename(self.id, id, to);
        if !renamed {
            return Err(self.world.missing(self.id));
        }
        self.became = (id != self.id).then(|| id.clone());
        Ok(())
    }

    async fn clone(&self, linked: bool) -> Result<()> {
        let mut draft = self
            .draft
            .clone()
            .ok_or_else(|| Error::backend("internal: nothing to make"))?;
        let total = draft.base.disk_bytes.unwrap_or_default();
        draft.base.state = State::Provisioning;
        self.world.insert(draft);
        if !linked && let Err(error) = self.carry(total.0).await {
            self.world.remove(self.id);
            return Err(error);
        }
        self.change(|guest, at| guest.enter(State::Stopped, at))?;
        self.event(EventLevel::Info, "created", "was cloned");
        Ok(())
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
        if guest.temper == Temper::BadBoot {
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
        if guest.temper != Temper::Stubborn {
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
            guest.settle();
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
        let total = self
            .draft
            .as_ref()
            .and_then(|g| g.disks.get(n))
            .and_then(|d| d.size_bytes)
            .map_or(0, |b| b.0);
        if self.carry(total).await.is_err() {
            self.world.remove(self.id);
            return Err(Error::refused("cancelled; what was made is removed again"));
        }
        self.change(|guest, at| guest.enter(State::Stopped, at))?;
        self.event(EventLevel::Info, "created", "was created");
        Ok(())
    }
}
