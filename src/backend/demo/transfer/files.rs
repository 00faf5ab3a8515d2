//! Files into the guest and out of it.

use super::super::act::Act;
use super::super::backend::Demo;
use super::super::changes::family;
use super::super::dialect::Dialect;
use super::super::guest::Guest;
use super::super::work::Work;
use super::SIMULATED;
use crate::backend::contract::{FilesRequest, Prepared};
use crate::model::{Error, Result, State, shown};

family!(FilesRequest, "files.prepare", copy_file);

/// What is in every guest.
const EVERYWHERE: &[&str] = &[
    "/etc/hostname",
    "/etc/hosts",
    "/etc/os-release",
    "/etc/fstab",
];

impl Demo {
    fn copy_file(&self, guest: &Guest, request: FilesRequest) -> Result<Prepared> {
        let world = &self.world;
        let id = guest.id();
        let inside = match &request {
            FilesRequest::Push { to, .. } => to,
            FilesRequest::Pull { from, .. } => from,
        };
        if !inside.starts_with('/') {
            return Err(
                Error::invalid(format!("{} is no absolute path inside", shown(inside)))
                    .remedy(format!("Write it like {id}:/tmp/file."))
                    .in_context(world.name()),
            );
        }
        if guest.state() != State::Running {
            return Ok(Self::refuse(
                guest,
                format!("{id} is {}", guest.state()),
                format!("Start it: corral start {id}"),
            ));
        }
        if let Some(refused) = self.no_way_in(guest) {
            return Ok(refused);
        }
        let (act, done) = match request {
            FilesRequest::Push {
                from,
                to,
                overwrite,
            } => {
                let there = EVERYWHERE.contains(&to.as_str()) || guest.files.contains_key(&to);
                if there && !overwrite {
                    return Ok(Self::refuse(
                        guest,
                        format!("{} is in {id} already", shown(&to)),
                        "Choose another place, or add --overwrite.",
                    ));
                }
                let from = from.to_string_lossy().into_owned();
                let done = format!("{} is in {id}", shown(&to));
                (Act::Push { from, to }, done)
            }
            FilesRequest::Pull { from, to, .. } => {
                let known = EVERYWHERE.contains(&from.as_str()) || guest.files.contains_key(&from);
                if !known {
                    return Err(
                        Error::not_found(format!("{id} has no file {}", shown(&from)))
                            .in_context(world.name()),
                    );
                }
                let to = to.to_string_lossy().into_owned();
                let done = format!("{} is in {}", shown(&from), shown(&to));
                (Act::Pull { from, to }, done)
            }
        };
        let mut prepared = Work::new(vec![act], done).plan(world, guest);
        prepared.notes.push(SIMULATED.into());
        prepared.detachable = false;
        Ok(prepared)
    }

    /// What the way in needs and the guest has not.
    fn no_way_in(&self, guest: &Guest) -> Option<Prepared> {
        let id = guest.id();
        let silent = guest.base.agent == Some(false);
        let hidden = guest.addresses.is_empty()
            && guest
                .base
                .ports
                .iter()
                .flatten()
                .all(|p| p.guest != 22 || !p.is_tcp());
        let (lacks, what) = match self.world.dialect {
            Dialect::Incus | Dialect::Peer => return None,
            Dialect::Qemu | Dialect::Libvirt => (
                silent && hidden,
                "its agent is silent, and no SSH is reached",
            ),
            Dialect::Virtualbox => (silent, "Guest Additions do not run in it"),
            Dialect::Vsphere => (silent, "VMware Tools do not run in it"),
            Dialect::Kubevirt | Dialect::Proxmox | Dialect::Xen | Dialect::Nutanix => {
                (hidden, "no address of it is known for SFTP")
            }
        };
        lacks.then(|| {
            Self::refuse(
                guest,
                format!("{id}: {what}"),
                "Install the guest agent inside for next time.",
            )
        })
    }
}
