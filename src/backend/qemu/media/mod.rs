//! Media in CD-ROM drives: put in and taken out, while the VM runs and while it is off.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::change::Seen;
use super::ctx::Ctx;
use super::definition::{Definition, MediumDef};
use super::disks::live::{ANSWER, GAP, SLICE, drive_of, drop_node, file_in};
use super::disks::{Target, agree, failed, gone, save, show};
use super::drive::device_id;
use super::image;
use super::images::Shelf;
use super::op::{self, Change, Journal, Phase};
use super::slots::Slots;
use super::{events, locks, process};
use crate::backend::contract::{Changes, MediaRequest, Prepared, ReadCx, TaskCx};
use crate::link::qmp::Qmp;
use crate::model::{Error, EventLevel, Instance, InstanceId, Outcome, Result, Step, shown};

/// Until a guest that was asked has opened the tray.
const TRAY: Duration = Duration::from_secs(15);

/// The media family.
#[derive(Clone, Debug)]
pub struct Media(pub Arc<Ctx>);

struct Plan {
    id: InstanceId,
    drive: String,
    /// What is in it afterwards.
    image: Option<PathBuf>,
    force: bool,
}

#[async_trait]
impl Changes<MediaRequest> for Media {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: MediaRequest) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let target = match Target::of(&self.0, &seen) {
            Ok(target) => target,
            Err(refused) => return Ok(*refused),
        };
        let token = target.token.clone();
        Ok(match plan(&target, cx, request).await {
            Ok(mut prepared) => {
                prepared.token = token;
                prepared
            }
            Err(error) => Prepared::failed(token, &error),
        })
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let plan: Plan = prepared.take()?;
        let ctx = &self.0;
        let vm = super::inventory::load(ctx, &plan.id)?;
        let _lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
        let seen = Seen::now(ctx, &plan.id, process::MONITOR).await?;
        seen.still(&prepared.token)?;
        cx.checkpoint()?;
        if let Some(image) = &plan.image {
            image::disc(image)?;
        }
        let watch = events::during(ctx, &seen.vm).await;
        let done = change(ctx, cx, &seen, &plan).await;
        watch.end().await;
        let dir = ctx.store.dir(&vm.name)?;
        done.map_err(|error| op::remedied(&dir, error))
    }
}

/// The drive that is meant.
fn drive<'a>(id: &InstanceId, vm: &'a Definition, name: Option<&str>) -> Result<&'a MediumDef> {
    let names: Vec<_> = vm.cdroms.iter().map(|medium| shown(&medium.name)).collect();
    match (name, vm.cdroms.as_slice()) {
        (_, []) => Err(Error::refused(format!("{id} has no CD-ROM drive")).remedy(format!(
            "It gets one with the first medium while it is off: corral stop {id}. To let it read the \
             image without: corral disk add {id} --image FILE --format raw --write-protect"
        ))),
        (None, [only]) => Ok(only),
        (None, _) => Err(Error::invalid(format!(
            "{id} has several CD-ROM drives: {}",
            names.join(", ")
        ))
        .remedy("Name one: --drive")),
        (Some(name), drives) => drives
            .iter()
            .find(|medium| medium.name == name)
            .ok_or_else(|| {
                Error::not_found(format!("{id} has no CD-ROM drive \"{}\"", shown(name)))
                    .remedy(format!("It has: {}", names.join(", ")))
            }),
    }
}

async fn plan(target: &Target<'_>, cx: &ReadCx, request: MediaRequest) -> Result<Prepared> {
    let (id, vm) = (&target.seen.id, target.vm());
    let (name, image, force) = match request {
        MediaRequest::Insert {
            drive,
            image,
            force,
        } => (drive, Some(image), force),
        MediaRequest::Eject { drive, force } => (drive, None, force),
    };
    let added;
    let medium = if vm.cdroms.is_empty() && image.is_some() && !target.runs() {
        added = new_drive(vm)?;
        &added
    } else {
        drive(id, vm, name.as_deref())?
    };
    let image = match image {
        Some(image) => {
            let path = Shelf::of(target.ctx).place(&image)?;
            image::disc(&path)?;
            Some(super::store::real(&path))
        }
        None => None,
    };
    let label = shown(&medium.name);
    let mut inside = medium.path.clone();
    let mut steps = Vec::new();
    let mut notes = Vec::new();
    if target.runs() {
        let mut qmp = target.monitor(cx).await?;
        let now = drive_of(&mut qmp, &medium.name).await?.ok_or_else(|| {
            Error::refused(format!("the running {id} has no drive {label} yet"))
                .remedy(format!("Restart it: corral restart --cold {id}"))
        })?;
        inside = file_in(&now).map(PathBuf::from);
        let call = call(&medium.name, image.as_deref(), force);
        if inside != image {
            if now.get("locked").and_then(Value::as_bool) == Some(true) && !force {
                return Err(locked(id, &label));
            }
            let title = match &image {
                Some(image) => format!("Put {} into {label}", show(image)),
                None => format!("Take the medium out of {label}"),
            };
            steps.push(Step::new(title, format!("QMP {} {}", call.0, call.1)));
        }
    }
    if inside == image && medium.path == image {
        let what = match &image {
            Some(image) => format!("{label} holds {} already", show(image)),
            None => format!("{label} is empty already"),
        };
        return Ok(Prepared::unchanged("", what));
    }
    if let Some(out) = inside.filter(|out| Some(out) != image.as_ref()) {
        notes.push(format!("Takes {} out of {label}", show(&out)));
    }
    let step = if vm.cdroms.is_empty() {
        format!("Write the drive {label} with it into the definition")
    } else {
        "Write it into the definition".to_owned()
    };
    steps.push(target.write_down(step)?);
    let mut prepared = Prepared::new("", steps);
    prepared.notes = notes;
    Ok(prepared.with(Plan {
        id: id.clone(),
        drive: medium.name.clone(),
        image,
        force,
    }))
}

/// A drive for a VM that has none and is off: beside its disks.
fn new_drive(vm: &Definition) -> Result<MediumDef> {
    let scsi = vm.disks.first().is_some_and(|disk| disk.bus == "scsi");
    let bus = if scsi && !vm.is_windows() {
        "scsi"
    } else {
        "sata"
    };
    let slot = Slots::of(vm)?.free_for(bus, false).ok_or_else(|| {
        Error::refused("there is no place left for a CD-ROM drive").remedy("Remove a disk first.")
    })?;
    Ok(MediumDef {
        name: "cdrom0".to_owned(),
        path: None,
        slot: Some(slot),
    })
}

fn locked(id: &InstanceId, drive: &str) -> Error {
    Error::refused(format!("the guest of {id} has locked the tray of {drive}"))
        .remedy("Unmount it inside the guest, or add --force: what it reads from there fails then.")
}

/// The command that changes what is in a drive.
fn call(drive: &str, image: Option<&Path>, force: bool) -> (&'static str, Value) {
    let id = device_id(drive);
    match image {
        Some(image) => (
            "blockdev-change-medium",
            json!({"id": id, "filename": image.to_string_lossy(), "format": "raw",
                "read-only-mode": "read-only", "force": force}),
        ),
        None => ("eject", json!({"id": id, "force": force})),
    }
}

async fn change(ctx: &Ctx, cx: &TaskCx, seen: &Seen, plan: &Plan) -> Result<Outcome> {
    let (vm, id) = (&seen.vm, &seen.id);
    let label = shown(&plan.drive);
    let live = seen.live.is_active();
    // Before anything is written down: another corral may have it.
    let monitor = if live {
        let qmp = process::connect(ctx, vm).await?;
        Some(qmp.ok_or_else(|| gone(id))?)
    } else {
        None
    };
    let mut journal = Journal::begin(
        &ctx.store.dir(&vm.name)?,
        Change::Media {
            drive: plan.drive.clone(),
            image: plan.image.clone(),
        },
    )?;
    journal.phase(Phase::Working)?;
    if let Some(qmp) = monitor {
        cx.step(match &plan.image {
            Some(image) => format!("Put {} into {label}", show(image)),
            None => format!("Take the medium out of {label}"),
        });
        let done = exchange(ctx, vm, id, plan, qmp).await;
        if let Err(error) = done {
            // The drive tells what is in it; it may have changed all the same.
            let undone = recover(ctx, vm, &plan.drive, plan.image.as_deref()).await;
            return Err(failed(journal, error, undone.map(drop)));
        }
    }
    journal.phase(Phase::Recording)?;
    write_down(ctx, vm, &plan.drive, plan.image.clone(), live)?;
    journal.finish()?;
    let message = match &plan.image {
        Some(image) => format!("{label} of {id} holds {}", show(image)),
        None => format!("{label} of {id} is empty"),
    };
    events::say(ctx, vm, EventLevel::Info, "MEDIUM_CHANGED", &*message);
    Ok(Outcome::changed(message))
}

/// Changes what is in a drive of the running VM. While the guest opens its tray the monitor is given to
/// others between two tries.
async fn exchange(
    ctx: &Ctx,
    vm: &Definition,
    id: &InstanceId,
    plan: &Plan,
    mut qmp: Qmp,
) -> Result<()> {
    let (command, arguments) = call(&plan.drive, plan.image.as_deref(), plan.force);
    let until = Instant::now() + TRAY;
    loop {
        match qmp.execute(command, arguments.clone(), ANSWER).await {
            Ok(_) => break,
            // The guest was asked to open the tray and may do so in a moment.
            Err(error) if error.message.contains("is locked") => {
                if Instant::now() >= until {
                    return Err(locked(id, &shown(&plan.drive)));
                }
                qmp.event(SLICE).await?;
            }
            Err(error) => return Err(error),
        }
        drop(qmp);
        tokio::time::sleep(GAP).await;
        qmp = process::connect(ctx, vm).await?.ok_or_else(|| gone(id))?;
    }
    if plan.image.is_none() {
        let tray = json!({"id": device_id(&plan.drive)});
        qmp.execute("blockdev-close-tray", tray, ANSWER).await?;
    }
    // The medium that the VM was started with is a node of its own, which nothing uses now.
    drop_node(&mut qmp, &plan.drive).await
}

fn write_down(
    ctx: &Ctx,
    vm: &Definition,
    drive: &str,
    image: Option<PathBuf>,
    live: bool,
) -> Result<()> {
    let mut after = vm.clone();
    if after.cdroms.is_empty() {
        after.pin_slots()?;
        after.cdroms.push(new_drive(vm)?);
    }
    for medium in after.cdroms.iter_mut().filter(|m| m.name == drive) {
        medium.path.clone_from(&image);
    }
    save(ctx, vm, &after, live)
}

/// Makes the definition say what is in the drive, after a corral was killed in between.
///
/// # Errors
/// When that cannot be found out.
pub(super) async fn recover(
    ctx: &Ctx,
    vm: &Definition,
    drive: &str,
    wanted: Option<&Path>,
) -> Result<String> {
    let label = shown(drive);
    let Some(mut qmp) = process::connect(ctx, vm).await? else {
        // While it is off the definition alone says what is in there, whole or not at all.
        let now = vm.cdroms.iter().find(|medium| medium.name == drive);
        let as_wanted = now.is_some_and(|medium| medium.path.as_deref() == wanted);
        return Ok(format!(
            "{label} is as it was{}",
            if as_wanted { " to be" } else { "" }
        ));
    };
    let Some(now) = drive_of(&mut qmp, drive).await? else {
        return Ok(format!("{label} is not in the running VM"));
    };
    let inside = file_in(&now).map(PathBuf::from);
    if now.get("tray_open").and_then(Value::as_bool) == Some(true) {
        let tray = json!({"id": device_id(drive)});
        qmp.execute("blockdev-close-tray", tray, ANSWER).await?;
    }
    if inside.as_deref() == wanted {
        drop_node(&mut qmp, drive).await.or_else(|error| {
            // It is what is in there, as it was.
            if wanted.is_some() { Ok(()) } else { Err(error) }
        })?;
    }
    write_down(ctx, vm, drive, inside.clone(), true)?;
    agree(ctx, &ctx.store.load(&vm.name)?, drive)?;
    Ok(match inside {
        Some(image) => format!("{label} holds {}", show(&image)),
        None => format!("{label} is empty"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::definition::tests::sample;
    use super::*;

    #[test]
    fn the_drive_is_named_or_the_only_one() {
        let id = InstanceId::new("local", None, "web");
        let mut vm = sample("web", Path::new("/d"));
        let error = drive(&id, &vm, None).unwrap_err();
        assert!(error.to_string().contains("--write-protect"), "{error}");
        for name in ["cdrom0", "cdrom1"] {
            assert!(drive(&id, &vm, None).is_ok() != vm.cdroms.is_empty());
            vm.cdroms.push(MediumDef {
                name: name.into(),
                path: None,
                slot: None,
            });
        }
        assert!(
            drive(&id, &vm, None)
                .unwrap_err()
                .message
                .contains("several")
        );
        assert_eq!(drive(&id, &vm, Some("cdrom1")).unwrap().name, "cdrom1");
        assert!(drive(&id, &vm, Some("disk0")).is_err());
    }
}
