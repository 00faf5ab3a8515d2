//! A disk to another folder: renamed or copied while the VM is off, mirrored while it runs. The old
//! file goes only once the new one is the disk.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::definition::{Definition, DiskDef};
use super::super::image::{self, Image, quoted};
use super::super::op::{self, Change, Journal, Phase};
use super::super::store::real;
use super::{Target, copy, failed, mirror, place, save, show, told, users};
use crate::backend::contract::{DiskMoveRequest, Prepared, ReadCx, TaskCx};
use crate::link::child::{Cmd, run_ok};
use crate::link::files::fault;
use crate::model::{Bytes, Error, Outcome, Result, Step, shown};

/// How a file gets to its new place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// On the same file system.
    Rename,
    /// To another one.
    Copy,
    /// By the running QEMU.
    Mirror,
}

/// What `run` needs.
pub(super) struct Moving {
    disk: DiskDef,
    to: PathBuf,
    how: How,
    /// corral made the old file, so it goes.
    own: bool,
    image: Image,
}

pub(super) async fn prepare(
    target: &Target<'_>,
    cx: &ReadCx,
    request: &DiskMoveRequest,
) -> Result<(Prepared, Option<Moving>)> {
    let disk = target.disk(&request.disk)?;
    let (vm, id) = (target.vm(), &target.seen.id);
    let folder = place::folder(&request.to)?;
    let from_dir = disk.path.parent().unwrap_or(Path::new("/"));
    if real(from_dir) == folder {
        return Ok((
            Prepared::unchanged(
                "",
                format!("{} is in {} already", shown(&disk.name), show(&folder)),
            ),
            None,
        ));
    }
    let image = movable(target, disk).await?;
    let dir = target.dir()?;
    let own = real(&dir) == folder;
    let to = folder.join(place::file_name(&vm.name, own, &disk.name, &disk.format)?);
    place::unused(&to).map_err(in_the_way)?;
    let own = place::is_own(vm, &dir, disk);
    let how = if target.runs() {
        How::Mirror
    } else if own && same_file_system(&disk.path, &folder) {
        How::Rename
    } else {
        How::Copy
    };
    if how != How::Rename {
        use std::os::unix::fs::MetadataExt as _;
        let meta = fs::metadata(&disk.path).map_err(|e| fault("read", &disk.path, e))?;
        let used = image
            .used
            .unwrap_or(Bytes(meta.blocks().saturating_mul(512)));
        image::room(&folder, Bytes(used.0.saturating_add(Bytes::mib(4).0)))?;
    }
    let work = Moving {
        disk: disk.clone(),
        to,
        how,
        own,
        image,
    };
    let mut prepared = Prepared::new("", steps(target, cx, &work).await?);
    if !own {
        prepared.notes.push(format!(
            "Keeps {}: it was not made by corral for {id}",
            show(&disk.path)
        ));
    }
    Ok((prepared, Some(work)))
}

/// What of a disk's image a move has to know; what others have of it, or what is in it, may forbid
/// one. None of that is in the definition, so that it is looked at again right before the move.
async fn movable(target: &Target<'_>, disk: &DiskDef) -> Result<Image> {
    let meta = fs::metadata(&disk.path).map_err(|e| fault("read", &disk.path, e))?;
    if !meta.is_file() {
        return Err(Error::refused(format!(
            "{} is the device {}, which stays where it is",
            shown(&disk.name),
            show(&disk.path)
        )));
    }
    let users = users(&target.ctx.store, &disk.path, &target.vm().name)?;
    if !users.is_empty() {
        return Err(Error::refused(format!(
            "{} is needed by {} where it is",
            show(&disk.path),
            users.join(", ")
        ))
        .remedy("Make those independent of it first."));
    }
    let image = image::of_disk(&target.ctx.env, disk, target.runs()).await?;
    if target.runs() {
        live_possible(target, disk, &image)?;
    }
    Ok(image)
}

/// What a running QEMU can mirror without loss.
fn live_possible(target: &Target<'_>, disk: &DiskDef, image: &Image) -> Result<()> {
    let id = &target.seen.id;
    let why = if disk.readonly {
        "it is read-only"
    } else if !image.snapshots.is_empty() {
        "it holds snapshots, which a running QEMU would leave behind"
    } else {
        return Ok(());
    };
    Err(Error::refused(format!(
        "{} cannot be moved while {id} runs: {why}",
        shown(&disk.name)
    ))
    .remedy(format!("Stop it first: corral stop {id}")))
}

fn same_file_system(file: &Path, folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (fs::metadata(file), fs::metadata(folder)) {
        (Ok(file), Ok(folder)) => file.dev() == folder.dev(),
        _ => false,
    }
}

async fn steps(target: &Target<'_>, cx: &ReadCx, work: &Moving) -> Result<Vec<Step>> {
    let (from, to) = (quoted(&work.disk.path), quoted(&work.to));
    let mut steps = Vec::new();
    if let Some(cmd) = absolute_base(target, work)? {
        steps.push(Step::new(
            "Write the whole path of its base into it",
            cmd.shown(),
        ));
    }
    let back = work.disk.path.parent().map(quoted).unwrap_or_default();
    let undo = format!(
        "corral disk move {} --disk {} --to {back}",
        target.seen.id, work.disk.name
    );
    match work.how {
        How::Rename => steps.push(Step::new("Move it", format!("mv -n {from} {to}")).undo(undo)),
        How::Copy => {
            steps.push(Step::new("Copy it", format!("cp --sparse=always {from} {to}")).undo(undo));
            steps.push(Step::new("Compare both", format!("cmp {from} {to}")));
        }
        How::Mirror => {
            let mut qmp = target.monitor(cx).await?;
            steps.extend(mirror::steps(target, &mut qmp, &work.disk, &work.image, &work.to).await?);
        }
    }
    steps.push(target.write_down("Write its new place down")?);
    if work.own && work.how != How::Rename {
        steps.push(Step::new("Remove the old file", format!("rm {from}")));
    }
    Ok(steps)
}

/// An overlay that names its base from where it lies would lose it elsewhere.
fn absolute_base(target: &Target<'_>, work: &Moving) -> Result<Option<Cmd>> {
    let image = &work.image;
    let Some((base, format)) = image.base(&work.disk.path)? else {
        return Ok(None);
    };
    if work.how == How::Mirror || !image.backing_is_relative {
        // The new overlay of a mirror is made with the whole path.
        return Ok(None);
    }
    let tool = image::tool(&target.ctx.env)?;
    let mut cmd = Cmd::new(tool).args(["rebase", "-q", "-u", "-f", &work.disk.format, "-b"]);
    cmd = cmd.arg(base).args(["-F", format]);
    Ok(Some(cmd.arg(&work.disk.path)))
}

/// Nothing takes a file that lies where a disk goes: a move has no image to name.
fn in_the_way(error: Error) -> Error {
    error.remedy("Move that file away, or name another folder.")
}

pub(super) async fn run(target: &Target<'_>, cx: &TaskCx, mut work: Moving) -> Result<Outcome> {
    let (vm, id) = (target.vm(), &target.seen.id);
    let image = movable(target, &work.disk).await?;
    if (image.size, &image.backing) != (work.image.size, &work.image.backing) {
        return Err(Error::conflict(format!(
            "{} of {id} is another image by now. Nothing was done",
            shown(&work.disk.name)
        ))
        .remedy("Look at it and ask again."));
    }
    work.image = image;
    let (from, to) = (&work.disk.path, &work.to);
    place::unused(to).map_err(in_the_way)?;
    if let Some(cmd) = absolute_base(target, &work)? {
        run_ok(&cmd, std::time::Duration::from_secs(60)).await?;
    }
    let mut journal = Journal::begin(
        &target.dir()?,
        Change::DiskMove {
            disk: work.disk.name.clone(),
            from: from.clone(),
            to: to.clone(),
            how: work.how,
            own: work.own,
        },
    )?;
    journal.phase(Phase::Working)?;
    if work.how != How::Rename
        && let Err(error) = place::reserve(to)
    {
        return Err(failed(journal, error, Ok(())));
    }
    cx.step(format!("Move {} to {}", shown(&work.disk.name), show(to)));
    let moved = match work.how {
        How::Rename => rename(from, to),
        How::Copy => copy::copy(from, to, &cx.cancel, |done, total| cx.progress(done, total)).await,
        How::Mirror => {
            let spec = mirror::Spec {
                disk: &work.disk,
                image: &work.image,
                to,
            };
            mirror::run(target, cx, &mut journal, &spec).await
        }
    };
    if let Err(error) = moved {
        let undone = match work.how {
            How::Rename => Ok(()),
            How::Copy => op::remove(to),
            // Where its QEMU is gone or silent, doctor finds out which of the two it is.
            How::Mirror => mirror::undo(target, &work.disk.name, &journal, to).await,
        };
        return Err(failed(journal, error, undone));
    }
    journal.phase(Phase::Recording)?;
    settle(
        target.ctx,
        vm,
        &work.disk.name,
        from,
        to,
        target.runs(),
        work.how,
        work.own,
    )?;
    journal.finish()?;
    let message = format!("{} of {id} is at {}", shown(&work.disk.name), show(to));
    told(target, "DISK_MOVED", &*message);
    Ok(Outcome::changed(message))
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let done = renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE);
    done.map_err(|e| fault("move", from, e.into()))?;
    sync_dir(to);
    sync_dir(from);
    Ok(())
}

fn sync_dir(file: &Path) {
    let dir = file.parent().and_then(|dir| fs::File::open(dir).ok());
    let _ = dir.map(|dir| dir.sync_all());
}

/// The new file is the disk from now on; the old one goes.
#[allow(clippy::too_many_arguments)]
pub(super) fn settle(
    ctx: &super::Ctx,
    vm: &Definition,
    name: &str,
    from: &Path,
    to: &Path,
    live: bool,
    how: How,
    own: bool,
) -> Result<()> {
    let mut after = vm.clone();
    for disk in after.disks.iter_mut().filter(|disk| disk.name == name) {
        to.clone_into(&mut disk.path);
        disk.owned = true;
    }
    save(ctx, vm, &after, live)?;
    if own && how != How::Rename && real(from) != real(to) {
        op::remove(from)?;
        sync_dir(from);
    }
    Ok(())
}
