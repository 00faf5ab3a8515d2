//! Delete.

use async_trait::async_trait;

use super::act::Act;
use super::backend::Demo;
use super::dialect::Dialect;
use super::work::{Work, run};
use crate::backend::contract::{Changes, Prepared, ReadCx, RemoveRequest, TaskCx};
use crate::model::{Instance, Outcome, Result, State, shown};

#[async_trait]
impl Changes<RemoveRequest> for Demo {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: RemoveRequest,
    ) -> Result<Prepared> {
        let world = &self.world;
        world.answer(cx, "remove.prepare").await?;
        if world.guest(&on.id).is_none() {
            return Ok(Prepared::unchanged(
                "gone",
                format!("{} does not exist any more", on.id),
            ));
        }
        let guest = world.guest_as(on)?;
        let (id, token) = (guest.id().clone(), guest.token());
        // A broken item may be deleted; nothing else may be done with it.
        if guest.state() != State::Broken
            && let Some(refused) = Self::guard(&guest)
        {
            return Ok(refused);
        }
        if guest.state().is_active() && !request.force {
            return Ok(Prepared::refused(
                token,
                format!("{id} is {}", guest.state()),
                Some(format!(
                    "Stop it first: corral stop {id} (or add --force to power it off)"
                )),
            ));
        }
        if request.keep_disks && matches!(world.dialect, Dialect::Incus | Dialect::Nutanix) {
            return Ok(Prepared::refused(
                token,
                format!("{id} cannot be deleted without its root disk here"),
                Some(format!(
                    "Leave --keep-disks out, or keep it stopped: corral stop {id}"
                )),
            ));
        }
        let mut acts = Vec::new();
        if guest.state().is_active() {
            acts.push(Act::PowerOff);
        }
        acts.push(Act::Undefine {
            keep_disks: request.keep_disks,
        });
        let sources = || {
            guest
                .disks
                .iter()
                .filter(|d| d.owned)
                .filter_map(|d| Some((d.source.clone()?, d)))
        };
        // These forget the disks with the instance; the others are asked for each disk.
        let with_disks = matches!(
            world.dialect,
            Dialect::Incus | Dialect::Proxmox | Dialect::Vsphere | Dialect::Nutanix | Dialect::Peer
        );
        if !request.keep_disks && !with_disks {
            acts.extend(sources().map(|(source, _)| Act::RemoveDisk { source }));
        }
        let mut prepared = Work::new(acts, format!("{id} is deleted")).plan(world, &guest);
        for (source, disk) in sources() {
            let size = disk.size_bytes.unwrap_or_default();
            let line = format!("disk {} {} {size}", disk.name, shown(&source));
            if request.keep_disks {
                prepared.notes.push(format!("Kept: {line}"));
            } else {
                prepared.losses.push(line);
            }
        }
        for disk in guest.disks.iter().filter(|d| !d.owned) {
            prepared.notes.push(format!(
                "Kept: {} {} (not its own)",
                disk.device,
                shown(disk.source.as_deref().unwrap_or(&disk.name))
            ));
        }
        for snapshot in &guest.snapshots {
            prepared
                .losses
                .push(format!("snapshot {}", shown(&snapshot.name)));
        }
        if guest.state().is_active() {
            prepared
                .losses
                .push("what the guest has not written to disk yet".into());
        }
        Ok(prepared)
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        run(&self.world, cx, prepared).await
    }
}
