//! State of VMs whose definition is gone: left by a delete that was killed at its very end, or by
//! someone who removed a VM's folder by hand.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::ctx::Ctx;
use super::{failed, fix, mending};
use crate::link::{files, signal};
use crate::model::{Check, Error, Outcome, Result};

/// One check for each folder that belongs to nobody.
pub(super) fn checks(ctx: &Ctx) -> Vec<Check> {
    let found = match find(ctx) {
        Ok(found) => found,
        Err(error) => return vec![failed("qemu.orphan", error)],
    };
    found
        .into_iter()
        .map(|dir| {
            let key = dir.file_name().unwrap_or_default().to_string_lossy();
            let id = format!("qemu.orphan.{key}");
            match process(&dir) {
                Some(pid) => Check::fail(
                    &id,
                    format!("a QEMU runs (process {pid}) whose definition is gone"),
                )
                .remedy(format!(
                    "Put its definition back, or end it, then: corral doctor --fix. To end it: kill {pid}"
                )),
                None => Check::warn(
                    &id,
                    format!("{}: state of a VM that is gone", dir.display()),
                )
                .remedy("corral doctor --fix")
                .by([mending::removal("Remove", &dir)])
                .fix(fix()),
            }
        })
        .collect()
}

/// Removes one such folder.
pub(super) fn tidy(ctx: &Ctx, key: &str) -> Result<Outcome> {
    let Some(dir) = find(ctx)?
        .into_iter()
        .find(|dir| dir.file_name().is_some_and(|name| name == key))
    else {
        return Ok(Outcome::unchanged("nothing is left of it"));
    };
    if let Some(pid) = process(&dir) {
        return Err(Error::refused(format!("process {pid} still runs there"))
            .remedy(format!("End it first: kill {pid}")));
    }
    std::fs::remove_dir_all(&dir).map_err(|e| files::fault("remove", &dir, e))?;
    Ok(Outcome::changed(format!("{} is removed", dir.display())))
}

/// Folders of the state directory that no definition, not even one that cannot be read, may own.
fn find(ctx: &Ctx) -> Result<Vec<PathBuf>> {
    let entries = ctx.store.list()?;
    // Whose state is whose cannot be told while a definition cannot be read.
    if entries.iter().any(|entry| entry.definition.is_err()) {
        return Ok(Vec::new());
    }
    let mut owned = BTreeSet::new();
    for vm in entries
        .iter()
        .filter_map(|entry| entry.definition.as_ref().ok())
    {
        owned.insert(ctx.paths(&vm.uuid)?.dir);
    }
    let Ok(all) = std::fs::read_dir(ctx.state_dir()) else {
        return Ok(Vec::new());
    };
    Ok(all
        .filter_map(std::result::Result::ok)
        .map(|entry| entry.path())
        .filter(|dir| is_ours(dir) && !owned.contains(dir))
        .collect())
}

/// Named as [`Ctx::paths`] names them.
fn is_ours(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or("");
    dir.is_dir() && name.len() == 12 && name.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The QEMU that was started there, if it still runs.
fn process(dir: &Path) -> Option<u32> {
    let file = dir.join("pid");
    let pid = signal::read_pidfile(&file)?;
    let argv = signal::argv(pid)?;
    let file = file.to_string_lossy();
    argv.windows(2)
        .any(|w| w[0] == "-pidfile" && w[1] == file)
        .then_some(pid)
}
