//! Out into files.

use super::super::act::Act;
use super::super::backend::Demo;
use super::super::changes::family;
use super::super::dialect::Dialect;
use super::super::guest::Guest;
use super::super::work::Work;
use super::SIMULATED;
use crate::backend::contract::{ExportRequest, Prepared};
use crate::model::{Error, InstanceKind, Operation, Result, State, shown};

family!(ExportRequest, "export.prepare", export);

impl Demo {
    fn export(&self, guest: &Guest, request: ExportRequest) -> Result<Prepared> {
        let world = &self.world;
        let dialect = world.dialect;
        let id = guest.id();
        let to = request.to.to_string_lossy().into_owned();
        let format = match dialect.export_format(guest.base.kind, request.format.as_deref(), &to) {
            Ok(format) => format,
            Err(formats) => {
                return Ok(Self::refuse(
                    guest,
                    format!("{id} cannot be written like that here"),
                    format!("Choose one: --format {}", formats.join(", ")),
                ));
            }
        };
        if let Some(name) = &request.snapshot
            && guest.snapshot(name).is_none()
        {
            return Err(
                Error::not_found(format!("{id} has no snapshot {}", shown(name)))
                    .remedy(format!("See: corral snapshot list {id}"))
                    .in_context(world.name()),
            );
        }
        if request.snapshot.is_none()
            && dialect.needs_off(Operation::Export)
            && let Some(refused) = Self::must_be_off(guest)
        {
            return Ok(refused);
        }
        let there = world.with_stores(|stores| stores.files.contains_key(&to));
        if there && !request.overwrite {
            return Ok(Self::refuse(
                guest,
                format!("{} is there already", shown(&to)),
                "Choose another place, or add --overwrite.",
            ));
        }
        let done = format!("{id} is in {}", shown(&to));
        let act = Act::Export {
            to: to.clone(),
            format,
            snapshot: request.snapshot.clone(),
        };
        let mut prepared = Work::new(vec![act], done).plan(world, guest);
        if there {
            prepared.losses.push(format!("what is in {}", shown(&to)));
        }
        if request.snapshot.is_none() && guest.state() == State::Running {
            prepared
                .notes
                .push("It runs: the copy is as after a power cut".into());
        }
        prepared.notes.push(SIMULATED.into());
        prepared.detachable = false;
        Ok(prepared)
    }
}

impl Dialect {
    /// The format that is meant, or those there are.
    fn export_format(
        self,
        kind: InstanceKind,
        format: Option<&str>,
        to: &str,
    ) -> std::result::Result<&'static str, Vec<&'static str>> {
        let formats: &[&'static str] = match (self, kind) {
            (Self::Incus | Self::Proxmox, InstanceKind::Ct) => &["tar.gz"],
            (Self::Proxmox, InstanceKind::Vm) => &["qcow2", "raw", "gz", "vma"],
            (Self::Virtualbox, _) => &["ova"],
            (Self::Vsphere, _) => &["vmdk", "qcow2", "raw", "gz", "ova"],
            (Self::Xen, _) => &["xva", "raw", "gz"],
            (Self::Nutanix, _) => &["ova", "qcow2", "raw", "gz"],
            (Self::Kubevirt, _) => &["gz", "raw"],
            _ => &["qcow2", "raw", "gz", "ova"],
        };
        let by_name = formats.iter().find(|f| to.ends_with(&format!(".{f}")));
        match format {
            Some(word) => formats.iter().find(|f| **f == word),
            None => by_name.or(formats.first()),
        }
        .copied()
        .ok_or_else(|| formats.to_vec())
    }
}
