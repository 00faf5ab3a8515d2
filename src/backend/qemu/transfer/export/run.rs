//! Writes a VM out, goes on with what was interrupted, and leaves alone what others write.

use super::Exporting;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::convert::{self, Access};
use super::super::form::Form;
use super::super::pieces::{self};
use super::super::target::{self, Progress};
use super::super::{leave, live, pack, parts};
use crate::backend::contract::TaskCx;
use crate::backend::qemu::change::Seen;
use crate::backend::qemu::ctx::Ctx;
use crate::backend::qemu::definition::Definition;
use crate::backend::qemu::image::{self};
use crate::backend::qemu::op::{self, Change, Journal, Phase};
use crate::backend::qemu::{events, locks, process};
use crate::link::files::{fault, make_dir};
use crate::model::{Bytes, Consistency, Error, EventLevel, Portable, PortableDisk, Result, shown};
/// Nothing is there, or what an export of this VM left: by its note in a folder, by the VM's record
/// for a file.
pub(super) fn is_ours(ctx: &Ctx, vm: &Definition, partial: &Path) -> bool {
    if !partial.exists() && target::beside(partial).is_empty() {
        return true;
    }
    let dir = ctx.store.dir(&vm.name);
    let left = dir.and_then(|dir| leave::left(&dir)).unwrap_or_default();
    left.iter().any(|known| known == partial) || is_noted(vm, partial)
}

/// Whether a half-written folder says that it is this VM's.
fn is_noted(vm: &Definition, partial: &Path) -> bool {
    target::progress(partial).is_some_and(|progress| progress.vm == vm.uuid.to_string())
}

/// Takes the place where it is written: with what is there of it already, if the disks are still the
/// same, and never from anybody else.
fn claim(vm: &Definition, exporting: &Exporting, partial: &Path) -> Result<()> {
    if exporting.form != Form::Folder {
        return target::claim(partial);
    }
    if is_noted(vm, partial) {
        let same = target::progress(partial).is_some_and(|progress| {
            progress.source == exporting.source && exporting.live().is_none()
        });
        if same {
            return Ok(());
        }
        target::remove(partial)?;
    }
    if partial.exists() {
        return Err(target::in_the_way(partial));
    }
    make_dir(partial)?;
    let progress = Progress {
        vm: vm.uuid.to_string(),
        source: exporting.source.clone(),
        ..Progress::default()
    };
    target::note(partial, &progress)
}

/// Writes a VM out. Where anything fails, or the user cancels, nothing of it stays.
///
/// # Errors
/// `Conflict` when the VM is not as it was when the plan was made.
pub async fn run(
    ctx: &Ctx,
    cx: &TaskCx,
    exporting: &Exporting,
    token: &str,
) -> Result<(Portable, Bytes)> {
    let vm = crate::backend::qemu::inventory::load(ctx, &exporting.id)?;
    let dir = ctx.store.dir(&vm.name)?;
    let lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
    let seen = Seen::now(ctx, &exporting.id, process::MONITOR).await?;
    seen.still(token)?;
    cx.checkpoint()?;
    let partial = target::partial(&exporting.to);
    let others = resume(ctx, &vm, &partial).await?;
    target::fault_of(&exporting.to, exporting.form, exporting.overwrite)?;
    let change = Change::Export {
        partial: partial.clone(),
        live: exporting.live(),
        others: others.clone(),
    };
    let others = leave::still(others);
    let mut journal = Journal::begin(&dir, change)?;
    if let Err(error) = claim(&vm, exporting, &partial) {
        journal.finish_but(others)?;
        return Err(error);
    }
    journal.phase(Phase::Working)?;
    let mut held = exporting.live();
    let written = write(ctx, cx, exporting, &vm, &partial, lock, &mut held).await;
    let written = written.map_err(|error| {
        let runs = ctx
            .paths(&vm.uuid)
            .is_ok_and(|paths| process::owner(&paths, &vm).is_some());
        if exporting.live().is_none() || runs || cx.cancel.is_cancelled() {
            return error;
        }
        // What failed first is only what that looked like from here.
        let id = &exporting.id;
        Error::conflict(format!("{id} ended while its disks were written out")).remedy(
            "Give the same command again: it is off now, and its disks are read as they are.",
        )
    });
    let ended = match held {
        Some(held) => live::end(ctx, &vm, held).await,
        None => Ok(()),
    };
    let result = match written {
        Ok(portable) => ended.and_then(|()| {
            let size = target::size(&partial);
            // What is there may be something else by now.
            target::fault_of(&exporting.to, exporting.form, exporting.overwrite)?;
            target::publish(&partial, &exporting.to, exporting.overwrite)?;
            Ok((portable, size))
        }),
        Err(error) => Err(error),
    };
    match result {
        Ok(done) => {
            journal.finish_but(others)?;
            let place = shown(&exporting.to.to_string_lossy()).into_owned();
            events::say(
                ctx,
                &vm,
                EventLevel::Info,
                "EXPORTED",
                format!("written to {place}"),
            );
            Ok(done)
        }
        Err(error) => {
            // What cannot be taken back now is doctor's.
            leave::undo(ctx, &vm.name, &partial, held, false).await?;
            journal.finish_but(others)?;
            Err(unwritten(error))
        }
    }
}

fn unwritten(mut error: Error) -> Error {
    if !error.message.contains("Nothing was") {
        error.message = format!(
            "{}. Nothing was written",
            error.message.trim_end_matches('.')
        );
    }
    error
}

/// Ends what a killed export left. What it had written of the same disks is kept, and what others
/// left in other places is theirs: those are returned.
async fn resume(ctx: &Ctx, vm: &Definition, partial: &Path) -> Result<Vec<PathBuf>> {
    let dir = ctx.store.dir(&vm.name)?;
    let file = dir.join(op::FILE);
    let mut others = leave::left(&dir)?;
    if let Some(op) = op::read(&file)?
        && let Change::Export { live, .. } = op.change
        && !others.is_empty()
    {
        leave::end(ctx, &vm.name, live).await?;
        if others.iter().any(|known| known == partial) {
            let keep = is_noted(vm, partial);
            leave::undo(ctx, &vm.name, partial, None, keep).await?;
            others.retain(|other| other != partial);
        }
        op::remove(&file)?;
    }
    Ok(others)
}

async fn write(
    ctx: &Ctx,
    cx: &TaskCx,
    exporting: &Exporting,
    vm: &Definition,
    partial: &Path,
    lock: locks::Lock,
    held: &mut Option<live::Held>,
) -> Result<Portable> {
    let mut portable = pieces::portable(ctx, vm, exporting.consistency, exporting.snapshot());
    let mut lock = Some(lock);
    if let Some(held) = held {
        cx.step("Keep the disks as they are");
        let less = live::begin(ctx, vm, &exporting.pieces, held.frozen).await?;
        // They are thawed again.
        held.frozen = false;
        portable.taken_at = jiff::Timestamp::now();
        if let Some(why) = less {
            cx.log(format!("as after a power cut: {why}"));
            portable.consistency = Consistency::Crash;
        }
    }
    if exporting.access != Access::Files {
        // Nothing that it keeps away would change what is read, and a guest must be stoppable.
        lock.take();
    }
    let mut task = cx.clone();
    task.cancel = cx.cancel.child_token();
    let copying = async {
        if exporting.form == Form::Folder {
            folder(ctx, &task, exporting, partial, &mut portable).await
        } else {
            pack::write(ctx, &task, exporting, partial, &portable).await
        }
    };
    if held.is_some() {
        tokio::pin!(copying);
        tokio::select! {
            copied = &mut copying => copied?,
            error = live::halted(ctx, vm) => {
                task.cancel.cancel();
                let _ = copying.await;
                return Err(error);
            }
        }
        live::holds(ctx, vm, &exporting.pieces).await?;
    } else {
        copying.await?;
    }
    drop(lock);
    Ok(portable)
}

/// A disk that is written, and what makes sure of it.
type Sealing = (
    PortableDisk,
    tokio::task::JoinHandle<Result<(String, Bytes)>>,
);

/// Waits for it, and notes that it is whole.
async fn finish(
    sealing: &mut Option<Sealing>,
    progress: &mut Progress,
    partial: &Path,
    portable: &mut Portable,
) -> Result<()> {
    let Some((mut disk, task)) = sealing.take() else {
        return Ok(());
    };
    (disk.sha256, disk.file_bytes) = task.await.map_err(convert::internal)??;
    progress.done.retain(|old| old.name != disk.name);
    progress.done.push(disk.clone());
    target::note(partial, progress)?;
    portable.disks.push(disk);
    Ok(())
}

async fn folder(
    ctx: &Ctx,
    cx: &TaskCx,
    exporting: &Exporting,
    partial: &Path,
    portable: &mut Portable,
) -> Result<()> {
    let tool = image::tool(&ctx.env)?;
    let mut progress = target::progress(partial).unwrap_or_default();
    let total = exporting.total();
    let mut before = 0;
    // One disk is made sure of while the next is written.
    let mut sealing: Option<Sealing> = None;
    for piece in &exporting.pieces {
        cx.checkpoint()?;
        let name = shown(&piece.name).into_owned();
        let file = partial.join(piece.file());
        let known = progress.done.iter().find(|disk| disk.name == piece.name);
        let known = match known {
            Some(known) if file.is_file() => {
                cx.step(format!("Check {name}, which is there already"));
                let (sum, length) = convert::checksum(cx, &file).await?;
                (sum == known.sha256 && length == known.file_bytes).then(|| known.clone())
            }
            _ => None,
        };
        if let Some(known) = known {
            finish(&mut sealing, &mut progress, partial, portable).await?;
            portable.disks.push(known);
        } else {
            cx.step(format!("Write {name}"));
            if exporting.in_parts(piece) {
                finish(&mut sealing, &mut progress, partial, portable).await?;
                let noted = (partial, &mut progress);
                parts::write(ctx, cx, (piece, &file), noted, (before, total)).await?;
            } else {
                convert::blank(&file)?;
                let cmd = exporting.access.convert(&tool, piece, "qcow2", &file);
                let (written, sealed) = tokio::join!(
                    convert::write(cx, &cmd, &file, before, piece.size, total),
                    finish(&mut sealing, &mut progress, partial, portable),
                );
                written.and(sealed)?;
            }
            let disk = pieces::disk(piece, convert::size(ctx, &file, "qcow2").await?);
            let cx = cx.clone();
            let task = tokio::spawn(async move { convert::seal(&cx, &file).await });
            sealing = Some((disk, task));
        }
        before += piece.size.0;
        cx.progress(before, total);
    }
    finish(&mut sealing, &mut progress, partial, portable).await?;
    crate::backend::portable::folder::write(partial, portable)?;
    target::whole(partial)?;
    fs::File::open(partial)
        .and_then(|dir| dir.sync_all())
        .map_err(|e| fault("write", partial, e))
}
