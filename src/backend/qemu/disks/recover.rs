//! Changes of disks and media that a killed corral left: completed, or taken back.

use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::super::ctx::Ctx;
use super::super::definition::{Definition, DiskDef};
use super::super::image;
use super::super::op::{self, Change, Op, Phase};
use super::super::process;
use super::super::unplug::Unplug;
use super::live;
use super::moves::{How, settle};
use super::{agree, mirror, save, show};
use crate::link::qmp::Qmp;
use crate::model::{Bytes, Error, Result, shown};

/// How long a guest may take to let go of a disk that is taken back.
const LET_GO: Duration = Duration::from_secs(30);

/// Mends one. The caller holds the VM's lock and removes the record then; says what was done.
///
/// # Errors
/// Where it cannot be mended now.
pub(in super::super) async fn recover(ctx: &Ctx, vm: &Definition, op: &Op) -> Result<String> {
    let monitor = process::connect(ctx, vm).await?;
    if monitor.is_none() && process::owner(&ctx.paths(&vm.uuid)?, vm).is_some() {
        let id = ctx.called(vm);
        return Err(Error::refused(format!(
            "{id}: its QEMU is there but its monitor does not answer"
        ))
        .remedy(format!(
            "Power it off, then again: corral stop --force {id}"
        )));
    }
    let live = monitor.is_some();
    let (name, done) = match &op.change {
        Change::DiskAdd { disk, made } => {
            let done = add(ctx, vm, monitor, disk, *made).await?;
            (&disk.name, done)
        }
        Change::DiskRemove { disk, delete } => {
            let done = remove(ctx, vm, monitor, disk, *delete, op.phase).await?;
            (&disk.name, done)
        }
        Change::DiskGrow { disk, .. } => (disk, grow(ctx, vm, live, disk).await?),
        Change::DiskMove {
            disk,
            from,
            to,
            how,
            own,
        } => {
            let moving = Moving {
                disk,
                from,
                to,
                how: *how,
                own: *own,
            };
            (disk, moving.mend(ctx, vm, monitor, op.phase).await?)
        }
        _ => return Ok(String::new()),
    };
    if live {
        agree(ctx, &ctx.store.load(&vm.name)?, name)?;
    }
    Ok(done)
}

async fn add(
    ctx: &Ctx,
    vm: &Definition,
    monitor: Option<Qmp>,
    disk: &DiskDef,
    made: bool,
) -> Result<String> {
    let name = shown(&disk.name);
    if vm.disks.iter().any(|other| other.path == disk.path) {
        return Ok(format!("{name} is attached, as was begun"));
    }
    if let Some(mut qmp) = monitor {
        if live::has_device(&mut qmp, &disk.name).await? {
            let mut after = vm.clone();
            after.pin_slots()?;
            after.disks.push(disk.clone());
            save(ctx, vm, &after, true)?;
            return Ok(format!("{name} is attached, as was begun"));
        }
        live::drop_node(&mut qmp, &disk.name).await?;
    }
    if made {
        op::remove(&disk.path)?;
    }
    Ok(format!("{name} was not attached; nothing of it stays"))
}

async fn remove(
    ctx: &Ctx,
    vm: &Definition,
    monitor: Option<Qmp>,
    disk: &DiskDef,
    delete: bool,
    phase: Phase,
) -> Result<String> {
    let name = shown(&disk.name);
    let mut live = monitor.is_some();
    if let Some(mut qmp) = monitor {
        let there = live::has_device(&mut qmp, &disk.name).await?;
        drop(qmp);
        if there && phase != Phase::Recording {
            // The guest was asked and has not answered; nothing else was done.
            return Ok(format!("{name} stays: the guest has not let go of it"));
        }
        let never = CancellationToken::new();
        match live::detach(ctx, vm, &disk.name, &never, LET_GO).await? {
            Unplug::Out => {}
            Unplug::Ended => live = false,
            Unplug::Kept => {
                return Err(
                    Error::timed_out(format!("the guest does not let go of {name}"))
                        .remedy("Stop it, then: corral doctor --fix"),
                );
            }
        }
    } else if phase != Phase::Recording {
        return Ok(format!("{name} stays: the guest had not let go of it"));
    }
    let mut after = vm.clone();
    after.pin_slots()?;
    after.disks.retain(|other| other.name != disk.name);
    save(ctx, vm, &after, live)?;
    if delete {
        op::remove(&disk.path)?;
    }
    Ok(format!("{name} is removed, as was begun"))
}

async fn grow(ctx: &Ctx, vm: &Definition, live: bool, name: &str) -> Result<String> {
    let Some(disk) = super::find(vm, name) else {
        return Ok(format!("{} is gone", shown(name)));
    };
    let size: Bytes = image::of_disk(&ctx.env, disk, live).await?.size;
    let mut after = vm.clone();
    for disk in after.disks.iter_mut().filter(|disk| disk.name == name) {
        disk.size = size;
    }
    save(ctx, vm, &after, live)?;
    Ok(format!("{} has {size}", shown(name)))
}

struct Moving<'a> {
    disk: &'a str,
    from: &'a Path,
    to: &'a Path,
    how: How,
    own: bool,
}

impl Moving<'_> {
    async fn mend(
        &self,
        ctx: &Ctx,
        vm: &Definition,
        monitor: Option<Qmp>,
        phase: Phase,
    ) -> Result<String> {
        let live = monitor.is_some();
        let over = match monitor {
            Some(mut qmp) if self.how == How::Mirror => self.live(&mut qmp, phase).await?,
            // What was started since uses what the definition says.
            Some(_) => super::find(vm, self.disk).is_some_and(|disk| disk.path == self.to),
            None if self.how == How::Rename => self.to.exists() && !self.from.exists(),
            None => phase == Phase::Recording,
        };
        let name = shown(self.disk);
        if over {
            settle(
                ctx, vm, self.disk, self.from, self.to, live, self.how, self.own,
            )?;
            return Ok(format!("{name} is at {}, as was begun", show(self.to)));
        }
        if self.how != How::Rename {
            op::remove(self.to)?;
        }
        Ok(format!("{name} stays at {}", show(self.from)))
    }

    /// Whether the running QEMU uses the new file once what was begun has ended.
    async fn live(&self, qmp: &mut Qmp, phase: Phase) -> Result<bool> {
        if mirror::took_over(qmp, self.disk, self.to).await? {
            // The node of the old file is the other one.
            let now = live::node_of(qmp, self.disk).await?;
            let id = mirror::job_id(self.disk);
            if mirror::job(qmp, &id).await?.is_some() {
                mirror::clear(qmp, &id).await?;
            }
            live::drop_node(qmp, &mirror::next_node(self.disk, &now)).await?;
            return Ok(true);
        }
        let id = mirror::job_id(self.disk);
        let job = mirror::job(qmp, &id).await?;
        let waits = job
            .as_ref()
            .is_some_and(|job| live::word(job, "status") == Some("pending"));
        if phase == Phase::Recording && waits {
            let old = live::node_of(qmp, self.disk).await?;
            mirror::finalize(qmp, &id).await?;
            live::drop_node(qmp, &old).await?;
            return mirror::took_over(qmp, self.disk, self.to).await;
        }
        mirror::cancel(qmp, self.disk, self.to).await?;
        Ok(false)
    }
}
