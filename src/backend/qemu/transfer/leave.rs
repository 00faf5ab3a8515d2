//! Taking back an export that did not come to its end.

use std::path::Path;

use super::super::ctx::Ctx;
use super::live::Held;
use super::{live, target};
use crate::model::Result;

/// Ends what QEMU still does for it, and removes what is half-written; with `keep` a folder stays,
/// for the next run to go on with.
pub async fn undo(
    ctx: &Ctx,
    name: &str,
    partial: &Path,
    live: Option<Held>,
    keep: bool,
) -> Result<()> {
    if let Some(held) = live
        && let Ok(vm) = ctx.store.load(name)
    {
        live::end(ctx, &vm, held.frozen).await?;
    }
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
