//! Attaching a disk: a new one, an image as it is, or a copy of one.

use super::super::definition::DiskDef;
use super::super::drive::{self, device_id};
use super::super::image;
use super::super::op::{self, Change, Journal, Phase};
use super::super::slots::{Slot, Slots};
use super::source::{Source, Wanted, data};
use super::{Target, failed, gone, live, place, save, show, told, users};
use crate::backend::contract::{DiskRequest, Prepared, ReadCx, TaskCx};
use crate::backend::qemu::locks;
use crate::link::child::Cmd;
use crate::link::qmp::Qmp;
use crate::model::{Error, Outcome, Result, Step, shown};

/// What `run` needs.
pub(super) struct Adding {
    disk: DiskDef,
    slot: Slot,
    source: Source,
}

pub(super) async fn prepare(
    target: &Target<'_>,
    cx: &ReadCx,
    request: DiskRequest,
) -> Result<(Prepared, Option<Adding>)> {
    let DiskRequest::Add {
        size,
        image,
        copy,
        bus,
        format,
        readonly,
        storage,
    } = request
    else {
        return Err(Error::backend("internal: no disk to add"));
    };
    let wanted = Wanted {
        size,
        image,
        copy,
        bus,
        format,
        readonly,
        storage,
    };
    let mut monitor = None;
    if target.runs() {
        monitor = Some(target.monitor(cx).await?);
    }
    let mut notes = Vec::new();
    let (bus, slot) = sit(target, &wanted, monitor.as_mut(), &mut notes).await?;
    let vm = target.vm();
    let free = |n: &usize| {
        let name = format!("disk{n}");
        vm.disks.iter().all(|disk| disk.name != name)
    };
    let number = (0..=vm.disks.len()).find(free).unwrap_or_default();
    let name = format!("disk{number}");
    let (mut disk, source) = data(target, &wanted, &name, &mut notes).await?;
    disk.bus = bus;
    disk.slot = Some(slot);
    disk.serial = format!("{}-{number}", &vm.uuid.simple().to_string()[..16]);
    if disk.format == "raw" && !disk.readonly {
        notes.push(
            "A raw disk holds no snapshots: none can be taken or restored while the VM has it"
                .to_owned(),
        );
    } else if target.snapshots() > 0 && !disk.readonly {
        notes.push(format!(
            "Snapshots that are there do not hold it: to go back to one, remove {name} first"
        ));
    }
    let work = Adding { disk, slot, source };
    let steps = steps(target, &work)?;
    let mut prepared = Prepared::new("", steps);
    prepared.notes = notes;
    Ok((prepared, Some(work)))
}

/// Bus and place.
async fn sit(
    target: &Target<'_>,
    wanted: &Wanted,
    monitor: Option<&mut Qmp>,
    notes: &mut Vec<String>,
) -> Result<(String, Slot)> {
    let (vm, id) = (target.vm(), &target.seen.id);
    let first = vm.disks.iter().find(|disk| !disk.readonly);
    let usual = first.map_or("virtio", |disk| disk.bus.as_str());
    let bus = match wanted.bus.as_deref() {
        Some(bus) => bus,
        None if monitor.is_some() && usual == "sata" => {
            notes.push("On virtio, since SATA takes no disk while the VM runs: the guest needs the driver for it".to_owned());
            "virtio"
        }
        None => usual,
    };
    if !["virtio", "scsi", "sata"].contains(&bus) {
        return Err(Error::invalid(format!("--bus {}: not known", shown(bus)))
            .remedy("One of: virtio, scsi, sata"));
    }
    let stop = format!("Stop it first: corral stop {id}");
    let mut slots = Slots::of(vm)?;
    let Some(qmp) = monitor else {
        let slot = slots.free_for(bus, false).ok_or_else(|| {
            Error::refused(format!("there is no place left for another {bus} disk"))
                .remedy("Remove one, or take another --bus.")
        })?;
        return Ok((bus.to_owned(), slot));
    };
    if bus == "sata" {
        return Err(Error::refused("SATA takes no disk while the VM runs")
            .remedy(format!("{stop}, or take --bus virtio.")));
    }
    let has_scsi = live::has_scsi(qmp).await?;
    if bus == "scsi" && !has_scsi {
        return Err(
            Error::refused(format!("{id} was started without a SCSI controller"))
                .remedy(format!("{stop}, or take --bus virtio.")),
        );
    }
    // One that the guest has not let go of yet is in no definition.
    slots.disks.extend(live::taken_spares(qmp).await?);
    let slot = slots.free_for(bus, true).ok_or_else(|| {
        Error::refused(format!("no root port of {id} is free for another disk")).remedy(
            if has_scsi {
                format!("{stop}, or take --bus scsi.")
            } else {
                stop.clone()
            },
        )
    })?;
    Ok((bus.to_owned(), slot))
}

/// The commands that make its file.
fn cmds(target: &Target<'_>, work: &Adding) -> Result<Vec<(&'static str, Cmd)>> {
    let disk = &work.disk;
    let tool = image::tool(&target.ctx.env)?;
    Ok(match &work.source {
        Source::Blank => vec![(
            "Make an empty disk",
            image::new_cmd(&tool, &disk.path, &disk.format, disk.size),
        )],
        Source::Image { .. } => Vec::new(),
        Source::Copy {
            from, format, grow, ..
        } => {
            let mut cmds = vec![(
                "Copy the image",
                image::into_cmd(&tool, from, format, &disk.path, &disk.format),
            )];
            if *grow {
                cmds.push((
                    "Grow the copy",
                    image::resize_cmd(&tool, &disk.path, &disk.format, disk.size),
                ));
            }
            cmds
        }
    })
}

fn steps(target: &Target<'_>, work: &Adding) -> Result<Vec<Step>> {
    let disk = &work.disk;
    let mut steps: Vec<Step> = cmds(target, work)?
        .into_iter()
        .map(|(title, cmd)| Step::new(title, cmd.shown()))
        .collect();
    if target.runs() {
        steps.push(Step::new(
            "Open it",
            format!("QMP blockdev-add {}", drive::node(disk)?),
        ));
        steps.push(Step::new(
            format!("Plug it in as {}", disk.name),
            format!(
                "QMP device_add {}",
                drive::disk(disk, work.slot, None).arguments()
            ),
        ));
    }
    let undo = format!("corral disk remove {} --disk {}", target.seen.id, disk.name);
    steps.push(
        target
            .write_down(format!("Write {} into the definition", disk.name))?
            .undo(undo),
    );
    Ok(steps)
}

pub(super) async fn run(target: &Target<'_>, cx: &TaskCx, work: Adding) -> Result<Outcome> {
    let (vm, id) = (target.vm(), &target.seen.id);
    let disk = &work.disk;
    if let Source::Image { stamp } | Source::Copy { stamp, .. } = &work.source {
        let from = match &work.source {
            Source::Copy { from, .. } => from,
            _ => &disk.path,
        };
        if image::stamp(from)? != *stamp {
            return Err(
                Error::conflict(format!("{} changed since the plan was made", show(from)))
                    .remedy("Run it again."),
            );
        }
    }
    let made = !matches!(work.source, Source::Image { .. });
    let files = locks::files(target.ctx).await?;
    if made {
        place::unused(&disk.path)?;
    } else if !users(&target.ctx.store, &disk.path, &vm.name)?.is_empty() {
        return Err(Error::conflict(format!(
            "{} was given to another VM meanwhile, or is being deleted",
            show(&disk.path)
        ))
        .remedy("Look who uses it: corral storage info"));
    }
    let mut journal = Journal::begin(
        &target.dir()?,
        Change::DiskAdd {
            disk: disk.clone(),
            made,
        },
    )?;
    drop(files);
    journal.phase(Phase::Working)?;
    if made && let Err(error) = place::reserve(&disk.path) {
        return Err(failed(journal, error, Ok(())));
    }
    if let Err(error) = make(target, cx, &work).await {
        let undone = if made { op::remove(&disk.path) } else { Ok(()) };
        return Err(failed(journal, error, undone));
    }
    let mut attached = Ok(());
    if target.runs() {
        attached = plug(target, cx, &work).await;
    }
    let saved = attached.and_then(|()| {
        let mut after = vm.clone();
        after.pin_slots()?;
        after.disks.push(disk.clone());
        save(target.ctx, vm, &after, target.runs())
    });
    if let Err(error) = saved {
        return Err(failed(journal, error, take_back(target, disk, made).await));
    }
    journal.finish()?;
    let message = format!("{} is attached to {id}: {}", disk.name, show(&disk.path));
    told(target, "DISK_ADDED", &*message);
    Ok(Outcome::changed(message))
}

async fn make(target: &Target<'_>, cx: &TaskCx, work: &Adding) -> Result<()> {
    for (title, cmd) in cmds(target, work)? {
        cx.checkpoint()?;
        cx.step(title);
        image::make(&cmd, &work.disk.path, &cx.cancel, |percent| {
            cx.progress(percent, 100);
        })
        .await?;
    }
    cx.checkpoint()
}

async fn plug(target: &Target<'_>, cx: &TaskCx, work: &Adding) -> Result<()> {
    cx.step(format!("Plug in {}", work.disk.name));
    let qmp = super::process::connect(target.ctx, target.vm()).await?;
    let mut qmp = qmp.ok_or_else(|| gone(&target.seen.id))?;
    live::attach(&mut qmp, &work.disk, work.slot).await
}

/// Whatever was done goes again.
async fn take_back(target: &Target<'_>, disk: &DiskDef, made: bool) -> Result<()> {
    if target.runs() {
        let limit = std::time::Duration::from_secs(30);
        let never = tokio_util::sync::CancellationToken::new();
        let out = live::detach(target.ctx, target.vm(), &disk.name, &never, limit).await?;
        if out == super::super::unplug::Unplug::Kept {
            return Err(Error::timed_out(format!(
                "the guest does not let go of {}",
                device_id(&disk.name)
            )));
        }
    }
    if made { op::remove(&disk.path) } else { Ok(()) }
}
