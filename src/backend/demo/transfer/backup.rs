//! Dated copies.

use async_trait::async_trait;

use super::super::act::Act;
use super::super::backend::Demo;
use super::super::dialect::Dialect;
use super::super::guest::Guest;
use super::super::stores::Backup;
use super::super::work::{Work, run};
use super::SIMULATED;
use crate::backend::contract::{BackupRequest, Changes, Prepared, ReadCx, TaskCx};
use crate::model::{Error, Instance, Operation, Outcome, Result, State, shown};

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
        // Its instance may be gone: that is what a backup is for.
        let there = self.world.guest(&on.id).is_some();
        let guest = match (&request, backups.iter().find(|b| b.guest.id() == &on.id)) {
            (BackupRequest::Restore { .. } | BackupRequest::Delete { .. }, Some(backup))
                if !there =>
            {
                backup.guest.clone()
            }
            _ => self.world.guest_as(on)?,
        };
        if there && let Some(refused) = Self::guard(&guest) {
            return Ok(refused);
        }
        match request {
            BackupRequest::Create { to, keep } => Ok(self.make_backup(&guest, &backups, to, keep)),
            BackupRequest::Restore { backup, name } => {
                self.restore_backup(&guest, there, &backups, &backup, name)
            }
            BackupRequest::Delete { backup } => Ok(self.drop_backup(&guest, &backups, backup)),
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
        to: Option<String>,
        keep: Option<u32>,
    ) -> Prepared {
        let world = &self.world;
        let dialect = world.dialect;
        let id = guest.id();
        if dialect.needs_off(Operation::Backup)
            && let Some(refused) = Self::must_be_off(guest)
        {
            return refused;
        }
        if keep == Some(0) {
            return Self::refuse(
                guest,
                "to keep none is no backup".to_string(),
                "Give --keep 1 or more.",
            );
        }
        let place = to.unwrap_or_else(|| dialect.backup_place().to_owned());
        let now = world.now().strftime("%Y%m%d-%H%M%S");
        let mut name = format!("{}-{now}", id.key());
        let mut n = 2;
        while backups.iter().any(|b| b.name == name) {
            name = format!("{}-{now}-{n}", id.key());
            n += 1;
        }
        let mut own: Vec<&Backup> = backups.iter().filter(|b| b.guest.id() == id).collect();
        let done = format!("{id} has backup {}", shown(&name));
        let mut acts = vec![Act::Backup { name, place }];
        let mut losses = Vec::new();
        while keep.is_some_and(|keep| own.len() >= keep as usize) {
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

    fn restore_backup(
        &self,
        guest: &Guest,
        there: bool,
        backups: &[Backup],
        which: &str,
        name: Option<String>,
    ) -> Result<Prepared> {
        let world = &self.world;
        let id = guest.id();
        let Some(backup) = backups
            .iter()
            .find(|b| b.name == which && b.guest.id() == id)
        else {
            return Err(
                Error::not_found(format!("{id} has no backup {}", shown(which)))
                    .remedy(format!("See: corral backup list {id}"))
                    .in_context(world.name()),
            );
        };
        let act = Act::RestoreBackup {
            name: which.to_owned(),
        };
        let new = name.map(|name| (self.new_id(id, &name), name));
        let Some((new, name)) = new.or_else(|| {
            let same = || (id.clone(), backup.guest.base.name.clone());
            (!there).then(same)
        }) else {
            if let Some(refused) = Self::must_be_off(guest) {
                return Ok(refused);
            }
            let done = format!("{id} is back at backup {}", shown(which));
            let mut prepared = Work::new(vec![act], done).plan(world, guest);
            prepared
                .losses
                .push(format!("everything written since backup {}", shown(which)));
            prepared.notes.push(SIMULATED.into());
            return Ok(prepared);
        };
        if let Some(why) = world.dialect.bad_name(&name) {
            return Err(Error::invalid(format!("{:?}: {why}", shown(&name)))
                .remedy("Choose another name.")
                .in_context(world.name()));
        }
        let unique = world.dialect.has_unique_names();
        if world.taken(|g| *g.id() == new || (unique && g.base.name == name)) {
            return Ok(Self::refuse(
                guest,
                format!("{} has an instance {} already", world.name(), shown(&name)),
                "Choose another --name.",
            ));
        }
        let draft = self.copy(&backup.guest, &new, &name, false);
        let source = format!("{}/{}", backup.place, backup.name);
        let acts = vec![Act::Define, Act::FillDisk { n: 0, source }];
        let mut work = Work::new(acts, format!("{new} is made from backup {}", shown(which)));
        work.draft = Some(draft.clone());
        let mut prepared = work.plan(world, &draft);
        prepared.notes.push(SIMULATED.into());
        Ok(prepared)
    }

    fn drop_backup(&self, guest: &Guest, backups: &[Backup], which: String) -> Prepared {
        let id = guest.id();
        let own = |b: &Backup| b.name == which && b.guest.id() == id;
        if !backups.iter().any(own) {
            return Prepared::unchanged(
                guest.token(),
                format!("{id} has no backup {}", shown(&which)),
            );
        }
        let done = format!("backup {} of {id} is deleted", shown(&which));
        let loss = format!("backup {}", shown(&which));
        let mut work = Work::new(vec![Act::DropBackup { name: which }], done);
        work.leaves_guest_alone = true;
        let mut prepared = work.plan(&self.world, guest);
        prepared.losses.push(loss);
        prepared
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
