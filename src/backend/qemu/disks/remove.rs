//! Detaching a disk: its data stays, unless it is told to go.

use std::time::Duration;

use super::super::definition::DiskDef;
use super::super::op::{self, Change, Journal, Phase};
use super::super::slots::Slots;
use super::super::unplug::Unplug;
use super::live;
use super::{Target, failed, place, save, show, told, users};
use crate::backend::contract::{Prepared, ReadCx, TaskCx};
use crate::backend::qemu::locks;
use crate::model::{Error, Outcome, Result, State, Step, shown};

/// How long a guest may take to let go of a disk, where the user does not say. It answers within
/// seconds; one under emulation on a busy machine takes ten times as long.
const LET_GO: Duration = Duration::from_secs(60);

/// What `run` needs.
pub(super) struct Removing {
    disk: DiskDef,
    delete: bool,
}

pub(super) async fn prepare(
    target: &Target<'_>,
    cx: &ReadCx,
    name: &str,
    delete: bool,
) -> Result<(Prepared, Option<Removing>)> {
    let disk = target.disk(name)?;
    let (id, vm) = (&target.seen.id, target.vm());
    let n = vm.disks.iter().position(|other| other.name == disk.name);
    let slot = n.and_then(|n| Slots::of(vm).ok()?.disks.get(n).copied());
    let mut steps = Vec::new();
    let mut notes = Vec::new();
    if delete {
        deletable(target, disk)?;
    }
    if target.runs() {
        let mut qmp = target.monitor(cx).await?;
        if live::has_device(&mut qmp, &disk.name).await? {
            if !slot.is_some_and(super::super::slots::Slot::can_be_plugged) {
                return Err(Error::refused(format!(
                    "{} is fixed to the board: {id} cannot let go of it while it runs",
                    shown(&disk.name)
                ))
                .remedy(format!("Stop it first: corral stop {id}")));
            }
            if target.seen.live.state == State::Paused {
                return Err(Error::refused(format!(
                    "{id} is paused: its guest cannot let go of {}",
                    shown(&disk.name)
                ))
                .remedy(format!("Resume it first: corral resume {id}")));
            }
            let node = live::node_of(&mut qmp, &disk.name).await?;
            steps.push(Step::new(
                format!(
                    "Ask the guest to let go of {}, and wait for it",
                    shown(name)
                ),
                format!("QMP device_del id={name}-dev"),
            ));
            steps.push(Step::new(
                "Close its image",
                format!("QMP blockdev-del node-name={node}"),
            ));
            notes.push(
                "Unmount it inside the guest first, or what it has not written yet is lost"
                    .to_owned(),
            );
        } else {
            notes.push("the running guest has it no more".to_owned());
        }
    }
    steps.push(target.write_down(format!("Take {} out of the definition", shown(name)))?);
    let mut prepared = Prepared::new("", Vec::new());
    if delete {
        steps.push(Step::new(
            format!("Delete {}", show(&disk.path)),
            format!("rm {}", super::quoted(&disk.path)),
        ));
        prepared.losses.push(format!(
            "{} {} {}",
            shown(name),
            show(&disk.path),
            disk.size
        ));
    } else {
        notes.push(format!("Keeps {}", show(&disk.path)));
    }
    if let Some(base) = &disk.backing {
        notes.push(format!("Keeps {}: base of {}", show(base), shown(name)));
    }
    let snapshots = target.snapshots();
    if snapshots > 0 && !disk.readonly {
        let s = if snapshots == 1 { "" } else { "s" };
        let line = format!("its part of {snapshots} snapshot{s}");
        if delete {
            prepared.losses.push(line);
        } else {
            notes.push(format!(
                "{snapshots} snapshot{s} will go back without it, and without RAM"
            ));
        }
    }
    if n == Some(0) && vm.disks.len() > 1 {
        notes.push("It is the first one: the guest boots from the next from now on".to_owned());
    }
    prepared.steps = steps;
    prepared.notes = notes;
    let work = Removing {
        disk: disk.clone(),
        delete,
    };
    Ok((prepared, Some(work)))
}

/// Only what corral made for this VM, and nobody else needs, is deleted.
fn deletable(target: &Target<'_>, disk: &DiskDef) -> Result<()> {
    let (vm, id) = (target.vm(), &target.seen.id);
    let detach = format!(
        "Detach it alone: corral disk remove {id} --disk {}",
        shown(&disk.name)
    );
    if !place::is_own(vm, &target.dir()?, disk) {
        return Err(Error::refused(format!(
            "{} was not made by corral for {id}: its data stays",
            show(&disk.path)
        ))
        .remedy(format!("{detach}, then remove the file yourself.")));
    }
    let mut users = users(&target.ctx.store, &disk.path, &vm.name)?;
    let own = vm.disks.iter().filter(|other| other.name != disk.name);
    let file = super::super::store::real(&disk.path);
    for other in own {
        let needs = [Some(&other.path), other.backing.as_ref()];
        if needs
            .into_iter()
            .flatten()
            .any(|path| super::super::store::real(path) == file)
        {
            users.push(shown(&other.name).into_owned());
        }
    }
    if !users.is_empty() {
        return Err(Error::refused(format!(
            "{} is needed by {}: its data stays",
            show(&disk.path),
            users.join(", ")
        ))
        .remedy(format!("{detach}.")));
    }
    Ok(())
}

pub(super) async fn run(target: &Target<'_>, cx: &TaskCx, work: Removing) -> Result<Outcome> {
    let Removing { disk, delete } = work;
    let (ctx, vm, id) = (target.ctx, target.vm(), &target.seen.id);
    let name = shown(&disk.name);
    let files = locks::files(ctx).await?;
    if delete {
        // Another VM may have come to need it since the plan was made.
        deletable(target, &disk)?;
    }
    let mut journal = Journal::begin(
        &target.dir()?,
        Change::DiskRemove {
            disk: disk.clone(),
            delete,
        },
    )?;
    drop(files);
    let mut live = target.runs();
    if live {
        journal.phase(Phase::Working)?;
        cx.step(format!("Ask the guest to let go of {name}"));
        let limit = cx.timeout.unwrap_or(LET_GO);
        let let_go = live::detach(ctx, vm, &disk.name, &cx.cancel, limit).await;
        match let_go {
            Ok(Unplug::Out) => {}
            Ok(Unplug::Ended) => live = false,
            Ok(Unplug::Kept) => {
                let error = Error::timed_out(format!(
                    "the guest of {id} did not let go of {name} within {} s. The request stays with the guest: once it lets go, the disk is gone from it, and only the definition still has it",
                    limit.as_secs()
                ))
                .remedy(format!(
                    "Unmount it in the guest, then ask again, which ends it: corral disk remove {id} --disk {name}; or stop it first: corral stop {id}"
                ));
                return Err(failed(journal, error, Ok(())));
            }
            Err(error) => return Err(failed(journal, error, Ok(()))),
        }
    }
    // From here on it is completed, now or by doctor.
    journal.phase(Phase::Recording)?;
    cx.step(format!("Take {name} out of the definition"));
    let mut after = vm.clone();
    after.pin_slots()?;
    after.disks.retain(|other| other.name != disk.name);
    save(ctx, vm, &after, live)?;
    let mut message = format!("{name} is detached from {id}, {} stays", show(&disk.path));
    if delete {
        cx.step(format!("Delete {}", show(&disk.path)));
        op::remove(&disk.path)?;
        message = format!("{name} of {id} is deleted");
    }
    journal.finish()?;
    told(target, "DISK_REMOVED", &*message);
    Ok(Outcome::changed(message))
}
