//! Dated copies.

use std::num::NonZeroU32;

use async_trait::async_trait;
use jiff::Timestamp;

use super::super::act::Act;
use super::super::backend::Demo;
use super::super::dialect::Dialect;
use super::super::guest::Guest;
use super::super::stores::Backup;
use super::super::work::{Work, run};
use super::SIMULATED;
use crate::backend::contract::{
    BackupRequest, Backups, Changes, Prepared, ReadCx, TaskCx, free_name,
};
use crate::model::{
    self, Bytes, Consistency, Error, Instance, InstanceId, Operation, Outcome, Result, State, shown,
};

#[async_trait]
impl Changes<BackupRequest> for Demo {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: BackupRequest,
    ) -> Result<Prepared> {
        self.world.answer(cx, "backup.prepare").await?;
        let backups = self.world.with_stores(|stores| stores.backups.clone());
        match request {
            BackupRequest::Create { at, to, keep } => {
                let guest = self.world.guest_as(on)?;
                if let Some(refused) = Self::guard(&guest) {
                    return Ok(refused);
                }
                Ok(self.make_backup(&guest, &backups, at, to, keep))
            }
            BackupRequest::Restore {
                backup,
                from,
                name: Some(name),
                of,
                start,
            } => {
                let own = |b: &Backup| of.as_deref().is_none_or(|of| b.is_of(of));
                let kept = find(&backups, &backup, from.as_deref(), own);
                let kept = kept.ok_or_else(|| self.no_backup(&on.id, &backup))?;
                self.restore_as(&on.id, kept, &name, start)
            }
            BackupRequest::Restore {
                backup,
                from,
                name: None,
                start,
                ..
            } => {
                let own = |b: &Backup| *b.guest.id() == on.id;
                let kept = find(&backups, &backup, from.as_deref(), own);
                let kept = kept.ok_or_else(|| self.no_backup(&on.id, &backup))?;
                if self.world.guest(&on.id).is_none() {
                    let name = kept.guest.base.name.clone();
                    return self.restore_as(&on.id, kept, &name, start);
                }
                let guest = self.world.guest_as(on)?;
                if let Some(refused) = Self::guard(&guest) {
                    return Ok(refused);
                }
                Ok(self.restore_over(&guest, kept, start))
            }
            BackupRequest::Delete { backup, from } => {
                // Its instance may be gone: that is what a backup is for.
                let own = |b: &Backup| *b.guest.id() == on.id;
                let kept = find(&backups, &backup, from.as_deref(), own);
                let guest = match (self.world.guest(&on.id), kept) {
                    (None, Some(kept)) => kept.guest.clone(),
                    _ => self.world.guest_as(on)?,
                };
                Ok(self.drop_backup(&guest, kept))
            }
        }
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        run(&self.world, cx, prepared).await
    }
}

impl Demo {
    fn make_backup(
        &self,
        guest: &Guest,
        backups: &[Backup],
        at: Timestamp,
        to: Option<String>,
        keep: Option<NonZeroU32>,
    ) -> Prepared {
        let world = &self.world;
        let dialect = world.dialect;
        let id = guest.id();
        if dialect.needs_off(Operation::Backup)
            && let Some(refused) = Self::must_be_off(guest)
        {
            return refused;
        }
        let place = to.unwrap_or_else(|| dialect.backup_place().to_owned());
        let mut own: Vec<&Backup> = backups.iter().filter(|b| b.guest.id() == id).collect();
        let now = at.strftime("%Y-%m-%dT%H-%M-%SZ").to_string();
        let name = free_name(&now, own.iter().map(|b| b.name.as_str()));
        let done = format!("{id} has backup {}", shown(&name));
        let mut acts = vec![Act::Backup { name, place }];
        let mut losses = Vec::new();
        while keep.is_some_and(|keep| own.len() >= keep.get() as usize) {
            let oldest = own.remove(0);
            losses.push(format!("backup {}", shown(&oldest.name)));
            acts.push(Act::DropBackup {
                name: oldest.name.clone(),
            });
        }
        let mut prepared = Work::new(acts, done).plan(world, guest);
        prepared.losses.extend(losses);
        if guest.state() == State::Running {
            prepared
                .notes
                .push("It runs: the backup is as after a power cut".into());
        }
        prepared.notes.push(SIMULATED.into());
        prepared
    }

    fn no_backup(&self, id: &InstanceId, which: &str) -> Error {
        Error::not_found(format!("{id} has no backup {}", shown(which)))
            .remedy("See: corral backup list")
            .in_context(self.world.name())
    }

    fn restore_over(&self, guest: &Guest, kept: &Backup, start: bool) -> Prepared {
        let id = guest.id();
        if let Some(refused) = Self::must_be_off(guest) {
            return refused;
        }
        let which = shown(&kept.name);
        let mut acts = vec![Act::RestoreBackup {
            name: kept.name.clone(),
        }];
        acts.extend(start.then_some(Act::Start));
        let done = format!("{id} is back at backup {which}");
        let mut prepared = Work::new(acts, done).plan(&self.world, guest);
        prepared
            .losses
            .push(format!("everything written since backup {which}"));
        prepared.notes.push(SIMULATED.into());
        prepared
    }

    fn restore_as(
        &self,
        wanted: &InstanceId,
        kept: &Backup,
        name: &str,
        start: bool,
    ) -> Result<Prepared> {
        let world = &self.world;
        if let Some(why) = world.dialect.bad_name(name) {
            return Err(Error::invalid(format!("{:?}: {why}", shown(name)))
                .remedy("Choose another name.")
                .in_context(world.name()));
        }
        let new = self.new_id(wanted, name);
        let unique = world.dialect.has_unique_names();
        if world.taken(|g| *g.id() == new || (unique && g.base.name == name)) {
            return Ok(Prepared::refused(
                "absent",
                format!("{} has an instance {} already", world.name(), shown(name)),
                Some("Choose another name.".into()),
            ));
        }
        let draft = self.copy(&kept.guest, &new, name, false);
        let source = format!("{}/{}", kept.place, kept.name);
        let mut acts = vec![Act::Define, Act::FillDisk { n: 0, source }];
        acts.extend(start.then_some(Act::Start));
        let which = shown(&kept.name);
        let mut work = Work::new(acts, format!("{new} is made from backup {which}"));
        work.draft = Some(draft.clone());
        let mut prepared = work.plan(world, &draft);
        "absent".clone_into(&mut prepared.token);
        prepared.notes.push(SIMULATED.into());
        Ok(prepared)
    }

    fn drop_backup(&self, guest: &Guest, kept: Option<&Backup>) -> Prepared {
        let id = guest.id();
        let Some(kept) = kept else {
            return Prepared::unchanged(guest.token(), format!("{id} has no such backup"));
        };
        let which = shown(&kept.name);
        let done = format!("backup {which} of {id} is deleted");
        let act = Act::DropBackup {
            name: kept.name.clone(),
        };
        let mut work = Work::new(vec![act], done);
        work.leaves_guest_alone = true;
        let mut prepared = work.plan(&self.world, guest);
        prepared.losses.push(format!("backup {which}"));
        prepared
    }
}

/// The backup that is meant.
fn find<'a>(
    backups: &'a [Backup],
    which: &str,
    place: Option<&str>,
    own: impl Fn(&Backup) -> bool,
) -> Option<&'a Backup> {
    let there = |b: &Backup| place.is_none_or(|place| b.place == place);
    backups
        .iter()
        .find(|b| b.name == which && there(b) && own(b))
}

#[async_trait]
impl Backups for Demo {
    async fn backups(
        &self,
        cx: &ReadCx,
        on: Option<&Instance>,
        from: Option<&str>,
        _verify: bool,
    ) -> Result<Vec<model::Backup>> {
        self.world.answer(cx, "backups").await?;
        let mut kept = self.world.with_stores(|stores| stores.backups.clone());
        kept.retain(|b| {
            on.is_none_or(|on| *b.guest.id() == on.id) && from.is_none_or(|from| b.place == from)
        });
        let listed = kept.into_iter().map(|b| model::Backup {
            instance: b.guest.id().clone(),
            name: b.name,
            taken_at: Some(b.taken_at),
            consistency: Some(if b.guest.state().is_active() {
                Consistency::Crash
            } else {
                Consistency::Offline
            }),
            disks: Some(b.guest.disks.iter().filter(|d| d.owned).count() as u64),
            size_bytes: Some(Bytes(
                b.guest
                    .disks
                    .iter()
                    .filter_map(|d| d.used_bytes)
                    .map(|n| n.0)
                    .sum(),
            )),
            place: b.place,
            broken: None,
        });
        Ok(listed.collect())
    }
}

impl Dialect {
    /// Where backups go when nothing else is said.
    const fn backup_place(self) -> &'static str {
        match self {
            Self::Incus => "default",
            Self::Proxmox => "local",
            Self::Peer => "site2:backups",
            Self::Qemu
            | Self::Libvirt
            | Self::Kubevirt
            | Self::Virtualbox
            | Self::Vsphere
            | Self::Xen
            | Self::Nutanix => "~/.local/share/corral/backups",
        }
    }
}
