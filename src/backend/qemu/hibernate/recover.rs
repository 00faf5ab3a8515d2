//! What a corral that was killed left of a hibernate or of a start from a saved state.

use std::path::Path;

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::op::Phase;
use super::super::snapshots::inside::{Node, Reach, goes};
use super::super::snapshots::{HIBERNATED, power_off};
use super::wake::released;
use super::{Saved, forget, give_up, is_saved, unmark, whole};
use crate::link::qmp::Qmp;
use crate::model::{Error, Result};

/// Completes a hibernate whose state is whole, or takes it back. The caller holds the VM's lock,
/// and no job is under way.
///
/// # Errors
/// When an image or the process does not do as it should.
pub(in super::super) async fn recover_save(
    ctx: &Ctx,
    vm: &Definition,
    nodes: &[Node],
    monitor: Option<Qmp>,
    phase: Phase,
    (saved, running): (&Saved, bool),
) -> Result<&'static str> {
    let dir = ctx.store.dir(&vm.name)?;
    let Some(mut qmp) = monitor else {
        // It stood still from before its state was saved until it ended.
        if whole(&Reach::Files(&ctx.env).list(nodes).await?, nodes) {
            saved.write(&dir)?;
            return Ok("hibernated, as was begun");
        }
        forget(ctx, vm, nodes).await?;
        return Ok("it ended before its state was saved");
    };
    let complete = phase == Phase::Recording
        && is_saved(&dir)
        && !goes(&mut qmp).await?
        && whole(&Reach::Monitor(&mut qmp).list(nodes).await?, nodes);
    if complete {
        power_off(ctx, vm, Some(qmp)).await?;
        return Ok("hibernated, as was begun");
    }
    unmark(&dir)?;
    give_up(&mut qmp, nodes, running).await?;
    Ok(if running {
        "was not hibernated; it runs on"
    } else {
        "was not hibernated; it is paused"
    })
}

/// Completes a start from a saved state, or takes it back to hibernated. The caller holds the VM's
/// lock, and no job is under way.
///
/// # Errors
/// As [`recover_save`].
pub(in super::super) async fn recover_wake(
    ctx: &Ctx,
    vm: &Definition,
    nodes: &[Node],
    monitor: Option<Qmp>,
    phase: Phase,
) -> Result<&'static str> {
    let dir: &Path = &ctx.store.dir(&vm.name)?;
    let Some(mut qmp) = monitor else {
        if is_saved(dir) {
            return Ok("was not started; it is still hibernated");
        }
        forget(ctx, vm, nodes).await?;
        return Ok("it is off, and its saved state, which was used or given up, is removed");
    };
    if phase == Phase::Recording {
        unmark(dir)?;
        released(&mut qmp, nodes).await?;
        return Ok("runs on from its saved state");
    }
    if goes(&mut qmp).await? {
        let id = ctx.id(&vm.name);
        return Err(Error::refused(format!(
            "{id} was set going in the middle of its start from a saved state"
        ))
        .remedy(format!(
            "To go back to the saved state: corral stop --force {id}, then corral doctor --fix"
        )));
    }
    power_off(ctx, vm, Some(qmp)).await?;
    let kept = if is_saved(dir) {
        "was not started; it is still hibernated"
    } else {
        Reach::Files(&ctx.env).delete(nodes, HIBERNATED).await?;
        "was not started"
    };
    Ok(kept)
}
