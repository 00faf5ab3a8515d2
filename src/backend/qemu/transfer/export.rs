//! The export family.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use super::super::change::Seen;
use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::image::{self, quoted};
use super::super::live::Live;
use super::super::op::{self, Change, Journal, Phase};
use super::super::snapshots::record::Records;
use super::super::store::Store;
use super::super::{events, locks, process, store};
use super::convert::{self, Access};
use super::form::Form;
use super::pieces::{self, Piece};
use super::target::{self, Progress};
use super::{leave, live, pack, parts};
use crate::backend::contract::{Changes, ExportRequest, Prepared, ReadCx, TaskCx};
use crate::link::files::{fault, make_dir};
use crate::model::{
    Bytes, Consistency, DiskRole, Error, EventLevel, Instance, InstanceId, Outcome, Portable,
    PortableDisk, Refusal, Result, State, Step, shown,
};

/// The export family.
#[derive(Clone, Debug)]
pub struct Export(pub Arc<Ctx>);

/// What `prepare` decided.
#[derive(Clone, Debug)]
pub struct Exporting {
    /// The VM.
    pub id: InstanceId,
    /// What it becomes.
    pub form: Form,
    /// Where.
    pub to: PathBuf,
    /// Replaces what is there.
    pub overwrite: bool,
    /// How its images are read.
    pub access: Access,
    /// Those that are written out.
    pub pieces: Vec<Piece>,
    /// What its disks hold of a guest that ran.
    pub consistency: Consistency,
    /// The guest ran when it was planned.
    pub ran: bool,
    /// What is read, for an export that goes on.
    pub source: String,
}

impl Exporting {
    /// The snapshot it is from.
    fn snapshot(&self) -> Option<&str> {
        match &self.access {
            Access::Snapshot(tag) => Some(tag),
            _ => None,
        }
    }

    fn live(&self) -> Option<live::Held> {
        matches!(self.access, Access::Live(_)).then_some(live::Held {
            frozen: self.consistency == Consistency::Filesystem,
            ran: self.ran,
        })
    }

    /// Whether a disk is written in parts: where the next run finds the same source again.
    fn in_parts(&self, piece: &Piece) -> bool {
        self.form == Form::Folder && self.access == Access::Files && parts::apply(piece)
    }

    fn total(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.size.0).sum()
    }
}

#[async_trait]
impl Changes<ExportRequest> for Export {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: ExportRequest,
    ) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let to = image::absolute(&request.to);
        let form = match Form::of(&to, request.format.as_deref()) {
            Ok(form) => form,
            Err(e) => return Ok(Prepared::failed(seen.token(), &e)),
        };
        let lost = match target::fault_of(&to, form, request.overwrite) {
            Ok(lost) => lost,
            Err(e) => return Ok(Prepared::failed(seen.token(), &e)),
        };
        plan(&self.0, &seen, form, to, request.snapshot.as_deref(), lost).await
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let exporting: Exporting = prepared.take()?;
        let (portable, size) = run(&self.0, cx, &exporting, &prepared.token).await?;
        let mut outcome = Outcome::changed(format!(
            "{} is written to {} ({size})",
            exporting.id,
            shown(&exporting.to.to_string_lossy())
        ));
        outcome.consistency = Some(portable.consistency);
        Ok(outcome)
    }
}

/// Says what writing a VM out would do. `lost` is what it replaces.
///
/// # Errors
/// Never for what forbids it: that is refused.
pub async fn plan(
    ctx: &Ctx,
    seen: &Seen,
    form: Form,
    to: PathBuf,
    snapshot: Option<&str>,
    lost: Option<String>,
) -> Result<Prepared> {
    let token = seen.token();
    if let Some(refused) = seen.unclear(&token) {
        return Ok(refused);
    }
    match look(ctx, seen, form, &to, snapshot).await {
        Ok((mut exporting, mut steps, notes)) => {
            exporting.overwrite = lost.is_some();
            let partial = target::partial(&to);
            if !is_ours(ctx, &seen.vm, &partial) {
                return Ok(Prepared::failed(token, &target::in_the_way(&partial)));
            }
            steps.push(
                Step::new(
                    format!("Move it to its place: {}", exporting.form.title()),
                    format!("mv {} {}", quoted(&partial), quoted(&to)),
                )
                .undo(format!("rm -r {}", quoted(&to))),
            );
            let mut prepared = Prepared::new(token, steps);
            prepared.losses.extend(lost);
            prepared.notes = notes;
            prepared.notes.extend(moment(&exporting));
            let left = leave::left(&ctx.store.dir(&seen.vm.name)?)?;
            for other in left.iter().filter(|other| **other != partial) {
                prepared.notes.push(format!(
                    "{}, of an export that was interrupted, stays: corral doctor --fix removes it",
                    shown(&other.to_string_lossy())
                ));
            }
            Ok(prepared.with(exporting))
        }
        Err(error) => {
            let mut prepared = Prepared::new(token, Vec::new());
            prepared.refusals.push(Refusal::from(&error));
            Ok(prepared)
        }
    }
}

/// What a running guest's disks will hold, in words.
fn moment(exporting: &Exporting) -> Option<String> {
    let id = &exporting.id;
    match (exporting.live(), exporting.consistency) {
        (Some(_), Consistency::Filesystem) => Some(format!(
            "{id} runs on: its disks are taken at one moment, its file systems frozen"
        )),
        (Some(_), _) => Some(format!(
            "{id} runs on: its disks are taken at one moment, as after a power cut"
        )),
        (None, Consistency::Crash) if exporting.access == Access::Files => {
            Some(format!("{id} is hibernated: its RAM is not in it"))
        }
        _ => None,
    }
}

async fn look(
    ctx: &Ctx,
    seen: &Seen,
    form: Form,
    to: &Path,
    snapshot: Option<&str>,
) -> Result<(Exporting, Vec<Step>, Vec<String>)> {
    let vm = &seen.vm;
    let tool = image::tool(&ctx.env)?;
    if let Some(error) = store::lost(vm) {
        return Err(error);
    }
    let mut pieces = pieces::pieces(vm);
    if form != Form::Folder {
        pieces.retain(|piece| piece.role == DiskRole::Disk);
    }
    if pieces.iter().all(|piece| piece.role != DiskRole::Disk) {
        return Err(Error::unsupported(format!("{} has no disk", seen.id)));
    }
    if form.is_single() && pieces.len() > 1 {
        return Err(Error::refused(format!(
            "{} has {} disks, and {} holds one",
            seen.id,
            pieces.len(),
            form.title()
        ))
        .remedy("Name a folder, or a file that ends in .ova"));
    }
    let (access, consistency) = access(ctx, seen, &pieces, snapshot).await?;
    for piece in &mut pieces {
        if piece.size.0 == 0 {
            piece.size = convert::size(ctx, &piece.path, &piece.format).await?;
        }
    }
    room(ctx, &access, &pieces, form, to.parent().unwrap_or(to)).await?;
    let mut source = format!("{} {access:?}", Store::hash(vm));
    if access == Access::Files {
        for piece in &pieces {
            source.push(' ');
            source.push_str(&image::stamp(&piece.path)?);
        }
    }
    let exporting = Exporting {
        id: seen.id.clone(),
        form,
        to: to.to_owned(),
        overwrite: false,
        access,
        pieces,
        consistency,
        ran: seen.live.state == State::Running,
        source,
    };
    let mut steps = Vec::new();
    if let Some(held) = exporting.live() {
        let wanted = live::steps(&exporting.pieces, held.frozen);
        steps.extend(
            wanted
                .into_iter()
                .map(|(title, native)| Step::new(title, native)),
        );
    }
    let partial = target::partial(to);
    for piece in &exporting.pieces {
        let (format, file) = pack::written(form, &partial, piece);
        let native = if exporting.in_parts(piece) {
            parts::shown_as(&tool, piece, &file)
        } else {
            let cmd = exporting.access.convert(&tool, piece, format, &file);
            cmd.shown()
        };
        let title = format!("Write {} ({})", shown(&piece.name), piece.size);
        steps.push(Step::new(title, native));
    }
    if exporting.live().is_some() {
        steps.push(Step::new("Let the disks go", live::UNDO));
    }
    steps.extend(pack::step(form, to));
    let mut notes = Vec::new();
    let mut lacks = pieces::not_carried(vm);
    if form != Form::Folder {
        lacks.extend(pieces::not_in_one_file(vm, form == Form::Ova));
    }
    if !lacks.is_empty() {
        notes.push(format!("not in it: {}", lacks.join(", ")));
    }
    Ok((exporting, steps, notes))
}

/// Refuses what would fill the file system. What it takes is measured only where it matters.
async fn room(ctx: &Ctx, access: &Access, pieces: &[Piece], form: Form, dir: &Path) -> Result<()> {
    // The plain one and the packed one, for a while.
    let copies = if matches!(form, Form::Ova | Form::Gz) {
        2
    } else {
        1
    };
    let most = pieces.iter().fold(0u64, |sum, piece| {
        sum.saturating_add(image::at_most(piece.size).0)
    });
    if image::fits(dir, Bytes(most.saturating_mul(copies))) {
        return Ok(());
    }
    let mut needs = 0u64;
    for piece in pieces {
        needs = needs.saturating_add(access.measure(&ctx.env, piece).await?.0);
    }
    image::room(dir, Bytes(needs.saturating_mul(copies)))
}

/// What the disks hold of a guest that is as it was seen. Only what each look sees alike decides,
/// since a plan is made twice: whether its agent freezes is found out when it is asked to.
fn now(live: &Live) -> Consistency {
    match live.state {
        State::Running if live.is_active() && live.agent == Some(true) => Consistency::Filesystem,
        State::Hibernated => Consistency::Crash,
        _ if live.is_active() => Consistency::Crash,
        _ => Consistency::Offline,
    }
}

/// How the images can be read now, and what they hold then.
pub async fn access(
    ctx: &Ctx,
    seen: &Seen,
    pieces: &[Piece],
    snapshot: Option<&str>,
) -> Result<(Access, Consistency)> {
    let Some(tag) = snapshot else {
        let access = if seen.live.is_active() {
            Access::Live(live::socket(ctx, &seen.vm)?)
        } else {
            Access::Files
        };
        return Ok((access, now(&seen.live)));
    };
    let mut memory = false;
    for piece in pieces.iter().filter(|piece| !piece.readonly) {
        let inside = image::info_as(&ctx.env, &piece.path, Some(&piece.format), true).await?;
        let found = inside.snapshots.iter().find(|s| s.tag == tag);
        let Some(found) = found else {
            return Err(Error::not_found(format!(
                "{} has no snapshot {} in {}",
                seen.id,
                shown(tag),
                shown(&piece.name)
            ))
            .remedy(format!("List them: corral snapshot list {}", seen.id)));
        };
        memory |= found.vm_state > 0;
    }
    let records = Records::load(&ctx.store.dir(&seen.vm.name)?).unwrap_or_default();
    let noted = records.get(tag).and_then(|record| record.consistency);
    // Of what was saved with RAM only the disks are written out.
    let consistency = match noted.filter(|c| *c != Consistency::Memory) {
        _ if memory => Consistency::Crash,
        Some(noted) => noted,
        None => Consistency::Crash,
    };
    Ok((Access::Snapshot(tag.to_owned()), consistency))
}

/// Nothing is there, or what an export of this VM left: by its note in a folder, by the VM's record
/// for a file.
fn is_ours(ctx: &Ctx, vm: &Definition, partial: &Path) -> bool {
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
    let vm = super::super::inventory::load(ctx, &exporting.id)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_frozen_is_decided_by_what_was_seen() {
        let mut live = Live {
            state: State::Running,
            reason: None,
            native: None,
            pid: Some(1),
            agent: Some(true),
            version: None,
        };
        assert_eq!(now(&live), Consistency::Filesystem);
        live.agent = None;
        assert_eq!(now(&live), Consistency::Crash);
        (live.agent, live.state) = (Some(true), State::Paused);
        assert_eq!(now(&live), Consistency::Crash);
        (live.pid, live.state) = (None, State::Hibernated);
        assert_eq!(now(&live), Consistency::Crash);
        live.state = State::Stopped;
        assert_eq!(now(&live), Consistency::Offline);
    }
}
