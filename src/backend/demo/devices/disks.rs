//! Disks: attach, detach, grow, move.

use super::super::act::Act;
use super::super::backend::Demo;
use super::super::changes::family;
use super::super::dialect::Dialect;
use super::super::guest::{Guest, gib};
use super::super::stores::pools;
use super::super::work::Work;
use crate::backend::contract::{DiskMoveRequest, DiskRequest, Growth, Prepared};
use crate::model::{Bytes, Disk, Error, Operation, Result, shown};

family!(DiskRequest, "disks.prepare", change_disks);
family!(DiskMoveRequest, "disk_move.prepare", move_disk);

/// What is asked of a new disk.
struct Wanted {
    size: Option<Bytes>,
    image: Option<String>,
    copy: bool,
    bus: Option<String>,
    format: Option<String>,
    readonly: bool,
    storage: Option<String>,
}

impl Demo {
    fn change_disks(&self, guest: &Guest, request: DiskRequest) -> Result<Prepared> {
        match request {
            DiskRequest::Add {
                size,
                image,
                copy,
                bus,
                format,
                readonly,
                storage,
            } => {
                let wanted = Wanted {
                    size,
                    image,
                    copy,
                    bus,
                    format,
                    readonly,
                    storage,
                };
                Ok(self.attach_disk(guest, wanted))
            }
            DiskRequest::Remove { disk, delete_data } => {
                Ok(self.detach_disk(guest, &disk, delete_data))
            }
            DiskRequest::Grow { disk, size } => {
                let to = match size {
                    Growth::To(to) => to,
                    Growth::By(by) => {
                        let now = guest.disk(&disk).and_then(|disk| disk.size_bytes);
                        Bytes(now.unwrap_or_default().0.saturating_add(by.0))
                    }
                };
                self.grow_disk(guest, &disk, to)
            }
        }
    }

    fn attach_disk(&self, guest: &Guest, wanted: Wanted) -> Prepared {
        let world = &self.world;
        let dialect = world.dialect;
        let id = guest.id();
        if wanted.size.is_none() && wanted.image.is_none() {
            return Self::refuse(
                guest,
                "a new disk needs a size".to_string(),
                "Give --size, or --image.",
            );
        }
        let n = (0..1000)
            .find(|n| {
                let name = dialect.disk(guest.base.kind, id.key(), *n).0;
                guest.disks.iter().all(|d| d.name != name)
            })
            .unwrap_or(0);
        let (name, bus, format, source) = dialect.disk(guest.base.kind, id.key(), n);
        let source = match &wanted.storage {
            None => source,
            Some(storage) => match dialect.placed(&source, storage) {
                Some(placed) => placed,
                None => return self.no_storage(guest, storage),
            },
        };
        let used_as_is = wanted.image.clone().filter(|_| !wanted.copy);
        if let Some(image) = &used_as_is
            && let Some(user) = self.user_of(image)
        {
            return Self::refuse(
                guest,
                format!("{} is a disk of {user}", shown(image)),
                "Attach a copy of it: --copy.",
            );
        }
        let loose = world.with_stores(|stores| {
            let volume = stores
                .loose
                .iter()
                .find(|v| Some(&v.name) == wanted.image.as_ref());
            volume.and_then(|v| v.size_bytes)
        });
        let size = wanted.size.or(loose).unwrap_or(gib(8));
        let disk = Disk {
            name: name.clone(),
            device: "disk".into(),
            bus: Some(wanted.bus.unwrap_or_else(|| bus.into())),
            owned: used_as_is.is_none() || loose.is_some(),
            source: Some(used_as_is.unwrap_or(source)),
            format: Some(wanted.format.unwrap_or_else(|| format.into())),
            size_bytes: Some(size),
            used_bytes: Some(Bytes(if wanted.image.is_some() {
                size.0 / 3
            } else {
                0
            })),
            backing: None,
            readonly: wanted.readonly,
            snapshots: None,
        };
        let act = Act::AddDisk {
            disk: Box::new(disk),
        };
        let done = format!("{id} has disk {} of {size}", shown(&name));
        Work::new(vec![act], done).plan(world, guest)
    }

    /// Whose disk it is.
    fn user_of(&self, source: &str) -> Option<String> {
        let guests = self.world.guests();
        let user = guests
            .iter()
            .find(|g| g.disks.iter().any(|d| d.source.as_deref() == Some(source)));
        user.map(|g| g.id().to_string())
    }

    fn no_storage(&self, guest: &Guest, storage: &str) -> Prepared {
        let names: Vec<&str> = pools(self.world.dialect).iter().map(|p| p.name).collect();
        Self::refuse(
            guest,
            format!("{} has no storage {}", self.world.name(), shown(storage)),
            format!("It has: {}", names.join(", ")),
        )
    }

    fn detach_disk(&self, guest: &Guest, slot: &str, delete_data: bool) -> Prepared {
        let id = guest.id();
        let Some(disk) = guest.disk(slot) else {
            return Prepared::unchanged(guest.token(), format!("{id} has no disk {}", shown(slot)));
        };
        let first = guest.disks.iter().find(|d| d.device == "disk");
        let boots = first.is_some_and(|d| d.name == slot);
        if boots && guest.state().is_active() {
            return Self::refuse(
                guest,
                format!("{id} runs from disk {}", shown(slot)),
                format!("stop it first: corral stop {id}"),
            );
        }
        let source = disk.source.clone();
        if delete_data && !disk.owned {
            return Self::refuse(
                guest,
                format!("disk {} of {id} is not its own", shown(slot)),
                "Leave --delete-data out.",
            );
        }
        let mut acts = vec![Act::DetachDisk {
            slot: slot.to_owned(),
        }];
        let what = format!(
            "disk {} {} {}",
            shown(slot),
            shown(source.as_deref().unwrap_or("")),
            disk.size_bytes.unwrap_or_default()
        );
        if delete_data {
            acts.extend(source.map(|source| Act::RemoveDisk { source }));
        }
        let done = format!("{id} has lost disk {}", shown(slot));
        let mut prepared = Work::new(acts, done).plan(&self.world, guest);
        if delete_data {
            prepared.losses.push(what);
        } else {
            prepared.notes.push(format!("Kept: {what}"));
        }
        if boots {
            prepared.notes.push("It boots from this one".into());
        }
        prepared
    }

    fn grow_disk(&self, guest: &Guest, slot: &str, to: Bytes) -> Result<Prepared> {
        let id = guest.id();
        let disk = self.the_disk(guest, slot)?;
        let now = disk.size_bytes.unwrap_or_default();
        if now == to {
            return Ok(Prepared::unchanged(
                guest.token(),
                format!("disk {} of {id} has {now} already", shown(slot)),
            ));
        }
        if now > to {
            return Ok(Self::refuse(
                guest,
                format!(
                    "disk {} of {id} has {now}: no disk is made smaller",
                    shown(slot)
                ),
                "Give more than that.",
            ));
        }
        if self.world.dialect.needs_off(Operation::DiskGrow)
            && let Some(refused) = Self::must_be_off(guest)
        {
            return Ok(refused);
        }
        let act = Act::GrowDisk {
            slot: slot.to_owned(),
            to,
        };
        let done = format!("disk {} of {id} has {to}", shown(slot));
        let mut prepared = Work::new(vec![act], done).plan(&self.world, guest);
        prepared
            .notes
            .push("Partitions and file systems inside grow by other means".into());
        Ok(prepared)
    }

    fn move_disk(&self, guest: &Guest, request: DiskMoveRequest) -> Result<Prepared> {
        let world = &self.world;
        let dialect = world.dialect;
        let id = guest.id();
        let disk = self.the_disk(guest, &request.disk)?;
        let source = disk.source.clone().unwrap_or_default();
        let Some(to) = dialect.placed(&source, &request.to) else {
            return Ok(self.no_storage(guest, &request.to));
        };
        let slot = shown(&request.disk).into_owned();
        if to == source {
            return Ok(Prepared::unchanged(
                guest.token(),
                format!("disk {slot} of {id} is in {} already", shown(&request.to)),
            ));
        }
        if dialect.needs_off(Operation::DiskMove)
            && let Some(refused) = Self::must_be_off(guest)
        {
            return Ok(refused);
        }
        let size = disk.used_bytes.unwrap_or_default();
        let act = Act::MoveDisk {
            slot: request.disk,
            pool: request.to.clone(),
            to: to.clone(),
        };
        let done = format!("disk {slot} of {id} is in {}", shown(&request.to));
        let mut prepared = Work::new(vec![act], done).plan(world, guest);
        prepared.notes.push(format!(
            "{size} go from {} to {}",
            shown(&source),
            shown(&to)
        ));
        Ok(prepared)
    }

    fn the_disk<'a>(&self, guest: &'a Guest, slot: &str) -> Result<&'a Disk> {
        guest.disk(slot).ok_or_else(|| {
            let id = guest.id();
            Error::not_found(format!("{id} has no disk {}", shown(slot)))
                .remedy(format!("See: corral disk list {id}"))
                .in_context(self.world.name())
        })
    }
}

impl Dialect {
    /// The source of a disk once it is in another pool, or in a folder where there are folders.
    fn placed(self, source: &str, pool: &str) -> Option<String> {
        let pools = pools(self);
        let from = pools.iter().find(|p| p.holds(source));
        let rest = from.map_or(source, |p| source.trim_start_matches(p.prefix));
        match pools.iter().find(|p| p.name == pool) {
            Some(to) => Some(format!("{}{rest}", to.prefix)),
            None if matches!(self, Self::Qemu | Self::Virtualbox)
                && pool.starts_with(['/', '~']) =>
            {
                Some(format!("{}/{rest}", pool.trim_end_matches('/')))
            }
            None => None,
        }
    }
}
