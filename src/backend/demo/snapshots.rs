//! Snapshots: take, go back, delete.

use async_trait::async_trait;

use super::act::Act;
use super::backend::Demo;
use super::dialect::Dialect;
use super::guest::Guest;
use super::work::{Work, promise, run};
use crate::backend::contract::{
    Changes, Prepared, ReadCx, SnapshotRequest, TakeSnapshot, TaskCx, free_name, satisfies,
};
use crate::model::{
    Consistency, Error, Instance, Operation, Outcome, Result, State, Support, shown,
};

#[async_trait]
impl Changes<SnapshotRequest> for Demo {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: SnapshotRequest,
    ) -> Result<Prepared> {
        self.world.answer(cx, "snapshots.prepare").await?;
        let guest = self.world.guest_as(on)?;
        if let Some(refused) = Self::guard(&guest) {
            return Ok(refused);
        }
        match request {
            SnapshotRequest::Create(take) => {
                let there = guest.snapshots.iter();
                let name = take.name_after(there.map(|s| (s.name.as_str(), s.policy.as_deref())));
                Ok(self.take(&guest, name, &take))
            }
            SnapshotRequest::Restore {
                name,
                stop,
                start,
                keep_present,
            } => self.go_back(&guest, &name, stop, start, keep_present),
            SnapshotRequest::Delete { names } => Ok(self.forget(&guest, &names)),
        }
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        run(&self.world, cx, prepared).await
    }
}

impl Demo {
    /// Why no snapshot can be taken under this name.
    fn cannot_take(&self, guest: &Guest, name: &str) -> Option<Prepared> {
        let refuse = |message, remedy: &str| {
            Some(Prepared::refused(
                guest.token(),
                message,
                Some(remedy.to_owned()),
            ))
        };
        if let Some(why) = self.world.dialect.bad_snapshot_name(name) {
            return refuse(why, "Choose another --name.");
        }
        if guest.snapshot(name).is_some() {
            return refuse(
                format!("{} already has a snapshot {}", guest.id(), shown(name)),
                "Choose another --name, or delete that one first.",
            );
        }
        None
    }

    fn take(&self, guest: &Guest, name: String, wanted: &TakeSnapshot) -> Prepared {
        let memory = wanted.memory;
        let id = guest.id();
        let dialect = self.world.dialect;
        if let Some(refused) = self.cannot_take(guest, &name) {
            return refused;
        }
        let row = guest.row(dialect, self.world.now(), self.world.knobs.seed);
        let live = guest.state().is_active();
        if memory
            && live
            && let Support::Conditional(why) | Support::No(why) =
                dialect.support(Operation::SnapshotMemory, Some(&row))
        {
            return Prepared::refused(
                guest.token(),
                format!("{id}: no snapshot with memory: {why}"),
                Some("Leave --with-memory out.".into()),
            );
        }
        let done = format!("{id} has a snapshot {}", shown(&name));
        let act = Act::TakeSnapshot {
            name,
            note: wanted.note.clone(),
            memory: memory && live,
            quiesce: wanted.quiesce && live,
            expires_at: wanted.expires_at,
            policy: wanted.policy.clone(),
        };
        let consistency = promise(dialect, guest, &act);
        if let (Some(got), Some(least)) = (consistency, wanted.require)
            && !satisfies(got, least)
        {
            return Self::refuse(
                guest,
                format!(
                    "{id}: a snapshot taken now is {}, not {}",
                    got.as_str(),
                    least.as_str()
                ),
                "Require less, or stop it first.",
            );
        }
        let mut acts = vec![act];
        let mut losses = Vec::new();
        if let (Some(keep), Some(policy)) = (wanted.keep, &wanted.policy) {
            let mut own: Vec<_> = guest
                .snapshots
                .iter()
                .filter(|s| s.policy.as_ref() == Some(policy))
                .collect();
            own.sort_by_key(|s| s.created_at);
            let surplus = (own.len() + 1).saturating_sub(keep.max(1));
            for old in own.into_iter().take(surplus) {
                losses.push(format!("snapshot {}", shown(&old.name)));
                acts.push(Act::DropSnapshot {
                    name: old.name.clone(),
                });
            }
        }
        let mut prepared = Work::new(acts, done).plan(&self.world, guest);
        prepared.losses.extend(losses);
        prepared.notes.extend(wanted.ending(jiff::Timestamp::now()));
        if wanted.quiesce && live && consistency == Some(Consistency::Crash) {
            prepared
                .notes
                .push("Its agent is silent: no file system is frozen".into());
        }
        if let Some(consistency) = consistency {
            prepared
                .notes
                .push(format!("Consistency: {}", consistency.as_str()));
        }
        if memory && !live {
            prepared
                .notes
                .push("It is off: there is no memory to keep".into());
        }
        prepared
    }

    fn go_back(
        &self,
        guest: &Guest,
        name: &str,
        stop: bool,
        start: bool,
        keep_present: Option<String>,
    ) -> Result<Prepared> {
        let (id, token) = (guest.id(), guest.token());
        let dialect = self.world.dialect;
        let Some(snapshot) = guest.snapshot(name) else {
            return Err(
                Error::not_found(format!("{id} has no snapshot {}", shown(name)))
                    .remedy(format!("See: corral snapshot list {id}"))
                    .in_context(self.world.name()),
            );
        };
        if let Some(why) = &snapshot.broken {
            return Ok(Prepared::refused(
                token,
                format!("{} cannot be restored: {}", shown(name), shown(why)),
                Some(format!("See the others: corral snapshot list {id}")),
            ));
        }
        let newest = guest.snapshots.iter().max_by_key(|s| s.created_at);
        if dialect.needs_newest(guest.base.kind) && newest.is_some_and(|s| s.name != name) {
            return Ok(Prepared::refused(
                token,
                format!(
                    "only the newest snapshot can be restored here, {} is not it",
                    shown(name)
                ),
                Some(format!(
                    "Delete the newer ones first: corral snapshot list {id}"
                )),
            ));
        }
        let live = guest.state().is_active();
        if live && !stop {
            return Ok(Prepared::refused(
                token,
                format!("{id} is {}", guest.state()),
                Some(format!(
                    "stop it first: corral stop {id} (or add --stop --start)"
                )),
            ));
        }
        let there = guest.snapshots.iter().map(|s| s.name.as_str());
        let keep_present = keep_present.map(|wanted| free_name(&wanted, there));
        if let Some(present) = &keep_present
            && let Some(refused) = self.cannot_take(guest, present)
        {
            return Ok(refused);
        }
        let mut acts = Vec::new();
        if live {
            acts.push(match guest.state() {
                State::Running if !self.is_deaf(guest) => Act::ShutDown,
                _ => Act::PowerOff,
            });
        }
        acts.extend(keep_present.clone().map(|name| Act::TakeSnapshot {
            name,
            note: Some("before a restore".into()),
            memory: false,
            quiesce: false,
            expires_at: None,
            policy: None,
        }));
        acts.push(Act::Revert {
            name: name.to_owned(),
        });
        if start {
            acts.push(Act::Start);
        }
        let done = format!("{id} is back at snapshot {}", shown(name));
        let mut prepared = Work::new(acts, done).plan(&self.world, guest);
        if keep_present.is_none() {
            let since = snapshot
                .created_at
                .map_or_else(String::new, |at| format!(" {at}"));
            prepared.losses.push(format!(
                "everything written since snapshot {}{since}",
                shown(name)
            ));
        }
        let newer = guest
            .snapshots
            .iter()
            .filter(|s| s.created_at > snapshot.created_at);
        for other in newer {
            prepared
                .notes
                .push(format!("Newer snapshot kept: {}", shown(&other.name)));
        }
        Ok(prepared)
    }

    fn forget(&self, guest: &Guest, names: &[String]) -> Prepared {
        let id = guest.id();
        let (there, missing): (Vec<&String>, Vec<&String>) = names
            .iter()
            .partition(|name| guest.snapshot(name).is_some());
        let missing = missing
            .into_iter()
            .map(|name| format!("{id} has no snapshot {}", shown(name)));
        if there.is_empty() {
            let said: Vec<String> = missing.collect();
            return Prepared::unchanged(guest.token(), said.join("; "));
        }
        let children = guest.snapshots.iter().filter(|s| {
            !names.contains(&s.name) && s.parent.as_ref().is_some_and(|p| there.contains(&p))
        });
        let kept: Vec<String> = children
            .map(|s| format!("Kept: its child {}", shown(&s.name)))
            .collect();
        let called: Vec<_> = there.iter().map(|name| shown(name)).collect();
        let done = match called.as_slice() {
            [one] => format!("snapshot {one} of {id} is deleted"),
            several => format!("snapshots {} of {id} are deleted", several.join(", ")),
        };
        let acts = there
            .iter()
            .map(|name| Act::DropSnapshot {
                name: (*name).clone(),
            })
            .collect();
        let mut prepared = Work::new(acts, done).plan(&self.world, guest);
        prepared
            .losses
            .extend(called.iter().map(|name| format!("snapshot {name}")));
        prepared.notes.extend(missing.chain(kept));
        prepared
    }

    /// Cannot be asked to shut down.
    fn is_deaf(&self, guest: &Guest) -> bool {
        self.world.dialect == Dialect::Vsphere && guest.base.agent == Some(false)
    }
}
