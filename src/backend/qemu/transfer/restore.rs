//! A backup onto the VM that it is of: all disks, or none.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::change::Seen;
use super::super::ctx::Ctx;
use super::super::families::first_start;
use super::super::image::{self, quoted};
use super::super::op::{Change, Journal, Phase};
use super::super::snapshots::record::Records;
use super::super::{events, locks, op, process};
use super::convert::internal;
use super::import::guard::{self, Content, Slice};
use super::import::read::Source;
use super::pieces::{Piece, pieces};
use super::shelf::Kept;
use super::target;
use crate::backend::contract::{Prepared, TaskCx};
use crate::backend::portable::folder;
use crate::link::child::Cmd;
use crate::link::files::fault;
use crate::model::{
    Bytes, Error, EventLevel, InstanceId, Outcome, Portable, Result, State, Step, shown,
};

/// What `prepare` decided.
pub struct Restoring {
    id: InstanceId,
    from: PathBuf,
    content: Portable,
    works: Vec<Work>,
    start: bool,
}

struct Work {
    source: Source,
    piece: Piece,
    swap: Swap,
}

/// A file that takes another's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swap {
    /// The new one.
    pub staged: PathBuf,
    /// Its place.
    pub place: PathBuf,
}

fn staged(piece: &Piece) -> PathBuf {
    let name = piece
        .path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    piece.path.with_file_name(format!(".{name}.restored.new"))
}

/// Says what it would do.
///
/// # Errors
/// What forbids it.
pub async fn plan(ctx: &Ctx, seen: &Seen, kept: Kept, start: bool) -> Result<Prepared> {
    let (id, token, vm) = (&seen.id, seen.token(), &seen.vm);
    if let Some(refused) = seen.unclear(&token) {
        return Ok(refused);
    }
    let refused = |why: String, remedy: String| Ok(Prepared::refused(&token, why, Some(remedy)));
    let anew = format!(
        "Restore it as a new one: corral backup restore {id}@{} --name NAME",
        kept.name
    );
    if seen.live.is_active() {
        return refused(
            format!("{id} runs"),
            format!("Stop it first: corral stop {id}"),
        );
    }
    if seen.live.state == State::Hibernated {
        return refused(
            format!("{id} is hibernated: its RAM belongs to the disks it has now"),
            format!("Let it go on and shut it down: corral start {id}, corral stop {id}"),
        );
    }
    if let Some(why) = vm.readonly_reason() {
        return refused(why, "Use the newer corral.".to_owned());
    }
    if let Some(why) = ctx.store.held_by_clones(vm, id)? {
        return Ok(Prepared::failed(&token, &why));
    }
    if vm.template {
        return refused(
            format!("{id} is a template: others may stand on its disks"),
            anew,
        );
    }
    let content = match kept.content {
        Ok(content) => content,
        Err(error) => {
            return refused(
                format!("the backup {} is broken: {}", kept.name, error.message),
                "Choose another one: corral backup list".to_owned(),
            );
        }
    };
    let own = pieces(vm);
    let names = |all: Vec<&str>| shown(&all.join(", ")).into_owned();
    let here: Vec<&str> = own.iter().map(|piece| piece.name.as_str()).collect();
    let there: Vec<&str> = content
        .disks
        .iter()
        .map(|disk| disk.name.as_str())
        .collect();
    let mut works = Vec::new();
    for disk in &content.disks {
        let Some(piece) = own
            .iter()
            .find(|p| p.name == disk.name && p.role == disk.role)
        else {
            break;
        };
        works.push(Work {
            source: source(&kept.path.join(&disk.file), &disk.format)?,
            piece: piece.clone(),
            swap: Swap {
                staged: staged(piece),
                place: piece.path.clone(),
            },
        });
    }
    if works.len() != own.len() || works.len() != content.disks.len() {
        return refused(
            format!(
                "{id} has {}, the backup has {}: they do not match",
                names(here),
                names(there)
            ),
            anew,
        );
    }
    if let Some(foreign) = vm.disks.iter().find(|disk| !disk.owned) {
        return refused(
            format!(
                "{} is no file of corral's: {}",
                shown(&foreign.name),
                shown(&foreign.path.to_string_lossy())
            ),
            anew,
        );
    }
    let needs: u64 = content.disks.iter().map(|disk| disk.file_bytes.0).sum();
    image::room(&ctx.store.dir(&vm.name)?, Bytes(needs))?;
    let tool = image::tool(&ctx.env)?;
    let mut steps = vec![Step::new(
        format!(
            "Check the checksums of {}",
            crate::model::counted(works.len(), "file")
        ),
        format!("sha256sum -c (in {})", quoted(&kept.path)),
    )];
    for work in &works {
        steps.push(Step::new(
            format!("Copy {}", shown(&work.piece.name)),
            copy(&tool, work).shown(),
        ));
    }
    for work in &works {
        steps.push(Step::new(
            format!("Put {} in its place", shown(&work.piece.name)),
            format!(
                "mv {} {}",
                quoted(&work.swap.staged),
                quoted(&work.swap.place)
            ),
        ));
    }
    let mut prepared = Prepared::new(token, steps);
    prepared.losses.push(format!(
        "all that was written to {} since {:.0}",
        names(here),
        content.taken_at
    ));
    let mut snapshots = 0;
    for (_, path) in vm.snapshot_nodes() {
        let inside = image::info(&ctx.env, &path, true).await;
        snapshots = snapshots.max(inside.map_or(0, |image| image.snapshots.len()));
    }
    if snapshots > 0 {
        prepared
            .losses
            .push(crate::model::counted(snapshots, "snapshot"));
    }
    if content.origin.uid.as_deref() != Some(&vm.uuid.to_string()) {
        prepared
            .notes
            .push("it is a backup of another machine that had this name".to_owned());
    }
    prepared
        .notes
        .push("CPUs, memory, devices and ports stay as they are".to_owned());
    Ok(prepared.with(Restoring {
        id: id.clone(),
        from: kept.path,
        content,
        works,
        start,
    }))
}

fn copy(tool: &Path, work: &Work) -> Cmd {
    work.source
        .copy(tool, &work.swap.staged, &work.piece.format)
}

/// A file of a backup as the image that it says it is, which needs no other file: whoever can
/// write where backups are kept is not believed.
fn source(path: &Path, format: &str) -> Result<Source> {
    let file = folder::open_plain(path)?;
    let size = file.metadata().map_err(|e| fault("read", path, e))?.len();
    let slice = Slice {
        path: path.to_owned(),
        offset: 0,
        size,
        inner: false,
        name: path.to_string_lossy().into_owned(),
    };
    if format != "qcow2" || guard::identify(&slice, &file)? != Content::Image("qcow2") {
        return Err(
            Error::invalid(format!("{} is no qcow2 image", shown(&slice.name)))
                .remedy("The backup is damaged: corral backup list"),
        );
    }
    Ok(Source {
        slice,
        driver: format.to_owned(),
    })
}

/// Does it.
///
/// # Errors
/// `Conflict` when the VM is not as it was when the plan was made.
pub async fn run(ctx: &Ctx, cx: &TaskCx, plan: &Restoring, token: &str) -> Result<Outcome> {
    let vm = super::super::inventory::load(ctx, &plan.id)?;
    let lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
    let seen = Seen::now(ctx, &plan.id, process::MONITOR).await?;
    seen.still(token)?;
    // The token knows nothing of others: a clone may have been made since.
    if let Some(why) = ctx.store.held_by_clones(&vm, &plan.id)? {
        return Err(why);
    }
    cx.checkpoint()?;
    cx.step("Check the checksums");
    let (from, content, task) = (plan.from.clone(), plan.content.clone(), cx.clone());
    let total: u64 = content.disks.iter().map(|disk| disk.file_bytes.0).sum();
    let checked = tokio::task::spawn_blocking(move || {
        folder::verify(&from, &content, |done| {
            if task.cancel.is_cancelled() {
                return Err(Error::refused("cancelled"));
            }
            if done % (64 << 20) < (1 << 20) {
                task.progress(done, total);
            }
            Ok(())
        })
    });
    checked.await.map_err(internal)??;
    let dir = ctx.store.dir(&vm.name)?;
    let swaps: Vec<Swap> = plan.works.iter().map(|work| work.swap.clone()).collect();
    let change = Change::BackupRestore {
        files: swaps.clone(),
    };
    let mut journal = Journal::begin(&dir, change)?;
    journal.phase(Phase::Working)?;
    if let Err(error) = stage(ctx, cx, plan).await {
        undo(&swaps)?;
        journal.finish()?;
        return Err(error);
    }
    journal.phase(Phase::Recording)?;
    complete(ctx, &vm.name, &swaps)
        .await
        .map_err(|error| op::remedied(&dir, error))?;
    journal.finish()?;
    let name = plan.from.file_name().unwrap_or_default().to_string_lossy();
    let said = format!("its disks are those of the backup {name}");
    events::say(ctx, &vm, EventLevel::Info, "RESTORED", said.clone());
    drop(lock);
    if plan.start {
        cx.step("Start it");
        first_start(ctx, &vm.name).await.map_err(|mut e| {
            e.message = format!("{said}, but {}", e.message);
            e
        })?;
        return Ok(Outcome::changed(format!("{}: {said}, running", plan.id)));
    }
    Ok(Outcome::changed(format!("{}: {said}", plan.id)))
}

async fn stage(ctx: &Ctx, cx: &TaskCx, plan: &Restoring) -> Result<()> {
    let tool = image::tool(&ctx.env)?;
    let total: u64 = plan.works.iter().map(|work| work.piece.size.0).sum();
    let mut before = 0;
    for work in &plan.works {
        cx.checkpoint()?;
        cx.step(format!("Copy {}", shown(&work.piece.name)));
        let to = &work.swap.staged;
        target::remove(to)?;
        let size = work.piece.size.0;
        image::make(&copy(&tool, work), to, &cx.cancel, |percent| {
            let done = (u128::from(size) * u128::from(percent) / 100) as u64;
            cx.progress(before + done, total);
        })
        .await?;
        before += size;
    }
    cx.checkpoint()
}

/// Takes it back before a file was put in its place.
pub fn undo(swaps: &[Swap]) -> Result<()> {
    swaps
        .iter()
        .try_for_each(|swap| target::remove(&swap.staged))
}

/// Puts every file in its place that is not yet there, and the definition in step.
pub async fn complete(ctx: &Ctx, name: &str, swaps: &[Swap]) -> Result<()> {
    for swap in swaps {
        match fs::rename(&swap.staged, &swap.place) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && swap.place.exists() => {}
            Err(e) => return Err(fault("move", &swap.staged, e)),
            Ok(()) => {}
        }
        if let Some(dir) = swap.place.parent() {
            fs::File::open(dir)
                .and_then(|dir| dir.sync_all())
                .map_err(|e| fault("write", dir, e))?;
        }
    }
    let dir = ctx.store.dir(name)?;
    let mut vm = ctx.store.load(name)?;
    for disk in &mut vm.disks {
        if swaps.iter().any(|swap| swap.place == disk.path) {
            disk.size = image::of_disk(&ctx.env, disk, false).await?.size;
            // It stands on nothing any more.
            disk.backing = None;
        }
    }
    ctx.store.save(&vm)?;
    Records::default().save(&dir)
}
