//! Taking back an export that did not come to its end.

use std::path::{Path, PathBuf};

use super::super::ctx::Ctx;
use super::super::op::{self, Change, Op, Phase};
use super::live::Held;
use super::{live, target};
use crate::model::Result;

/// Ends what QEMU still does for it.
pub async fn end(ctx: &Ctx, name: &str, live: Option<Held>) -> Result<()> {
    if let Some(held) = live
        && let Ok(vm) = ctx.store.load(name)
    {
        live::end(ctx, &vm, held).await?;
    }
    Ok(())
}

/// What interrupted exports of the VM in this folder left: the last one's first.
pub fn left(dir: &Path) -> Result<Vec<PathBuf>> {
    let Some(op) = op::read(&dir.join(op::FILE))? else {
        return Ok(Vec::new());
    };
    if op.is_alive() {
        return Ok(Vec::new());
    }
    Ok(half_written(&op).cloned().collect())
}

/// What an export has half-written, and what others had before it. One that only begun has not
/// taken its place yet: what is there is somebody else's.
pub fn half_written(op: &Op) -> impl Iterator<Item = &PathBuf> {
    let (own, others) = match &op.change {
        Change::Export {
            partial, others, ..
        } => (Some(partial), others.as_slice()),
        _ => (None, [].as_slice()),
    };
    own.filter(|_| op.phase > Phase::Begun)
        .into_iter()
        .chain(others)
}

/// The record of what still lies about of them.
pub fn still(mut others: Vec<PathBuf>) -> Option<Change> {
    others.retain(|other| other.exists());
    let partial = (!others.is_empty()).then(|| others.remove(0))?;
    Some(Change::Export {
        partial,
        live: None,
        others,
    })
}

/// Ends what QEMU still does for it, and removes what is half-written; with `keep` a folder stays,
/// for the next run to go on with.
pub async fn undo(
    ctx: &Ctx,
    name: &str,
    partial: &Path,
    live: Option<Held>,
    keep: bool,
) -> Result<()> {
    end(ctx, name, live).await?;
    for extra in target::beside(partial) {
        target::remove(&extra)?;
    }
    if target::progress(partial).is_some() {
        if keep {
            return Ok(());
        }
        return target::remove(partial);
    }
    // A folder without our note is not ours, whatever it is called.
    if partial.is_dir() {
        return Ok(());
    }
    target::remove(partial)
}
