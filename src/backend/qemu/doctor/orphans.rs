//! State of VMs whose definition is gone: left by a delete that was killed at its very end, or by
//! someone who removed a VM's folder by hand. And disks that no VM uses any more.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::super::ctx::Ctx;
use super::super::disks::place;
use super::super::image::{header, quoted};
use super::super::op;
use super::super::storage::Users;
use super::super::store::real;
use super::{failed, fix, mending};
use crate::link::{files, signal};
use crate::model::{Bytes, Check, Error, Outcome, Result, encode_segment};

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

/// One check for each disk in the folder of a VM, or of one that was deleted, that no definition needs:
/// detached, or kept for a clone that has gone. They hold data, so only their owner lets them go.
pub(super) fn disks(ctx: &Ctx) -> Vec<Check> {
    match unused(ctx) {
        Ok(found) => found,
        Err(error) => vec![failed("qemu.orphan-disk", error)],
    }
}

fn unused(ctx: &Ctx) -> Result<Vec<Check>> {
    let entries = ctx.store.list()?;
    // What a definition that cannot be read needs is not known.
    if entries.iter().any(|entry| entry.definition.is_err()) {
        return Ok(Vec::new());
    }
    let users = Users::read(ctx)?;
    let mut files = Vec::new();
    for name in ctx.store.folders()? {
        let dir = ctx.store.dir(&name)?;
        // A change that is under way, or was cut short, has its own check.
        if dir.join(op::FILE).exists() {
            continue;
        }
        let Ok(inside) = std::fs::read_dir(&dir) else {
            continue;
        };
        let inside = inside.filter_map(std::result::Result::ok);
        let mut paths: Vec<PathBuf> = inside.map(|entry| entry.path()).collect();
        paths.retain(|path| place::is_named(path) && path.is_file() && users.of(path).is_empty());
        paths.sort();
        files.extend(paths.into_iter().map(|path| (name.clone(), path)));
    }
    let base = |file: &PathBuf| {
        header(file)
            .and_then(|head| head.backing)
            .map(|base| real(&base))
    };
    let bases: Vec<(PathBuf, PathBuf)> = files
        .iter()
        .filter_map(|(_, file)| Some((base(file)?, file.clone())))
        .collect();
    Ok(files
        .iter()
        .map(|(name, file)| {
            let used = std::fs::metadata(file).map_or(0, |meta| meta.blocks().saturating_mul(512));
            let above = bases.iter().find(|(base, _)| *base == real(file));
            let mut message = format!("{}: {} that no VM uses", file.display(), Bytes(used));
            if let Some((_, above)) = above {
                message = format!("{message}, but {} is an overlay of it", above.display());
            }
            let there = entries.iter().any(|entry| entry.name == *name);
            let keep = if there {
                let id = ctx.id(name);
                format!("corral disk add {id} --image {}", quoted(file))
            } else {
                format!("corral create NAME --image {}", quoted(file))
            };
            let key = encode_segment(&file.to_string_lossy());
            Check::warn(&format!("qemu.orphan-disk.{key}"), message).remedy(format!(
                "To use it again: {keep}. To let its data go: rm {}",
                quoted(file)
            ))
        })
        .collect())
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
