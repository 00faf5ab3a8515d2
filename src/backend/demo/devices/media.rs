//! Media in drives.

use super::super::act::Act;
use super::super::backend::Demo;
use super::super::changes::family;
use super::super::dialect::Dialect;
use super::super::guest::Guest;
use super::super::work::Work;
use crate::backend::contract::{MediaRequest, Prepared};
use crate::model::{Disk, Error, InstanceKind, Result, shown};

family!(MediaRequest, "media.prepare", change_medium);

impl Demo {
    fn change_medium(&self, guest: &Guest, request: MediaRequest) -> Result<Prepared> {
        let id = guest.id();
        if guest.base.kind == InstanceKind::Ct {
            return Ok(Self::refuse(
                guest,
                format!("{id} is a container: it has no drive"),
                format!("Copy files into it instead: corral cp FILE {id}:/tmp/"),
            ));
        }
        match request {
            MediaRequest::Insert { drive, image, .. } => self.insert(guest, drive, image),
            MediaRequest::Eject { drive, force } => self.eject(guest, drive, force),
        }
    }

    fn insert(&self, guest: &Guest, drive: Option<String>, image: String) -> Result<Prepared> {
        let world = &self.world;
        let id = guest.id();
        let name = match self.drive(guest, drive.as_deref())? {
            Some(drive) if drive.source.as_ref() == Some(&image) => {
                return Ok(Prepared::unchanged(
                    guest.token(),
                    format!("{} is in {} already", shown(&image), shown(&drive.name)),
                ));
            }
            Some(drive) => drive.name.clone(),
            None => {
                let plugged = matches!(world.dialect, Dialect::Incus | Dialect::Virtualbox);
                if guest.state().is_active() && !plugged {
                    return Ok(Self::refuse(
                        guest,
                        format!("{id} has no drive, and gets none while it runs"),
                        format!("stop it first: corral stop {id}"),
                    ));
                }
                world.dialect.drive().0.to_owned()
            }
        };
        let done = format!("{} is in {} of {id}", shown(&image), shown(&name));
        let act = Act::Insert { drive: name, image };
        Ok(Work::new(vec![act], done).plan(world, guest))
    }

    fn eject(&self, guest: &Guest, drive: Option<String>, force: bool) -> Result<Prepared> {
        let id = guest.id();
        let found = self.drive(guest, drive.as_deref())?;
        let Some(drive) = found.filter(|drive| drive.source.is_some()) else {
            return Ok(Prepared::unchanged(
                guest.token(),
                format!("{id} has no medium in a drive"),
            ));
        };
        let done = format!("{} of {id} is empty", shown(&drive.name));
        let act = Act::Eject {
            drive: drive.name.clone(),
            force,
        };
        let mut prepared = Work::new(vec![act], done).plan(&self.world, guest);
        if force && guest.state().is_active() {
            prepared
                .losses
                .push("what the guest still reads or writes there".into());
        }
        Ok(prepared)
    }

    /// The drive that is meant; `None` where there is none at all.
    fn drive<'a>(&self, guest: &'a Guest, name: Option<&str>) -> Result<Option<&'a Disk>> {
        let id = guest.id();
        let mut drives = guest.disks.iter().filter(|d| d.device == "cdrom");
        match name {
            Some(name) => match drives.find(|d| d.name == name) {
                Some(drive) => Ok(Some(drive)),
                None => Err(
                    Error::not_found(format!("{id} has no drive {}", shown(name)))
                        .remedy(format!("See: corral disk list {id}"))
                        .in_context(self.world.name()),
                ),
            },
            None => match (drives.next(), drives.next()) {
                (first, None) => Ok(first),
                (Some(first), Some(second)) => Err(Error::invalid(format!(
                    "{id} has several drives: {}, {}",
                    shown(&first.name),
                    shown(&second.name)
                ))
                .remedy("Say which: --drive NAME.")
                .in_context(self.world.name())),
                (None, Some(_)) => Ok(None),
            },
        }
    }
}
