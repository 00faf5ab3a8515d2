//! What writing a VM out would do, and whether it can be done.

use super::Exporting;
use super::run::is_ours;
use std::path::{Path, PathBuf};

use super::super::convert::{self, Access};
use super::super::form::Form;
use super::super::pieces::{self, Piece};
use super::super::target::{self};
use super::super::{leave, live, pack, parts};
use crate::backend::contract::Prepared;
use crate::backend::qemu::change::Seen;
use crate::backend::qemu::ctx::Ctx;
use crate::backend::qemu::image::{self, quoted};
use crate::backend::qemu::live::Live;
use crate::backend::qemu::snapshots::record::Records;
use crate::backend::qemu::store;
use crate::backend::qemu::store::Store;
use crate::model::{Bytes, Consistency, DiskRole, Error, Refusal, Result, State, Step, shown};
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
