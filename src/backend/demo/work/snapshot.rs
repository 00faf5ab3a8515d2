//! The part of the work that is about snapshots.

use super::super::act::Act;
use super::super::dialect::Dialect;
use super::super::guest::Guest;
use super::perform::Performer;
use crate::model::{Bytes, Consistency, Error, EventLevel, Result, Snapshot, State};

impl Performer<'_> {
    pub(super) async fn snapshot(&self, act: &Act) -> Result<Consistency> {
        let Act::TakeSnapshot {
            name,
            note,
            memory,
            quiesce,
            expires_at,
            policy,
        } = act
        else {
            return Err(Error::backend("internal: no snapshot is taken by this"));
        };
        let (memory, quiesce) = (*memory, *quiesce);
        tokio::time::sleep(self.world.span(if memory { 1600 } else { 500 })).await;
        let dialect = self.world.dialect;
        let taken = self.change(|guest, at| {
            let consistency = consistency(dialect, guest, memory, quiesce);
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
                name: name.clone(),
                parent,
                current: true,
                created_at: Some(at),
                consistency: Some(consistency),
                size_bytes: Some(size),
                note: note.clone(),
                broken: None,
                expires_at: *expires_at,
                policy: policy.clone(),
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
pub(super) fn consistency(
    dialect: Dialect,
    guest: &Guest,
    memory: bool,
    quiesce: bool,
) -> Consistency {
    // These freeze by themselves where they can.
    let freezes = quiesce
        || matches!(
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
        Act::TakeSnapshot {
            memory, quiesce, ..
        } => Some(consistency(dialect, guest, *memory, *quiesce)),
        _ => None,
    }
}
