//! Files that a corral left which was killed while it wrote them.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::super::ctx::Ctx;
use super::super::image::quoted;
use super::super::images::Shelf;
use super::{failed, fix, mending};
use crate::link::files::fault;
use crate::model::{Check, Outcome, Result, counted, encode_segment, shown};

/// The check's name.
pub(super) const TEMPORARY: &str = "qemu.temporary";
/// What is younger may be being written.
const OLD: Duration = Duration::from_secs(600);

/// Says what there is of them.
pub(super) fn check(ctx: &Ctx) -> Option<Check> {
    let left = match find(ctx) {
        Ok(left) => left,
        Err(error) => return Some(failed(TEMPORARY, error)),
    };
    let first = left.first()?;
    let message = format!(
        "{} of a corral that was killed, such as {}",
        counted(left.len(), "temporary file"),
        first.display()
    );
    let check = Check::warn(TEMPORARY, message).remedy("corral doctor --fix");
    let steps = left.iter().map(|file| mending::removal("Remove", file));
    Some(check.by(steps).fix(fix()))
}

/// One check for each image that was fetched in part: it takes room, and no list shows it.
pub(super) fn partials(ctx: &Ctx) -> Vec<Check> {
    let all = Shelf::of(ctx).partials().into_iter();
    all.map(|part| {
        let name = shown(&part.name);
        let pull = part.record.url.as_deref().map_or_else(String::new, |url| {
            let sum = part.record.checksum.as_deref();
            let sum = sum.map_or_else(String::new, |sum| format!(" --checksum {sum}"));
            let url = quoted(Path::new(url));
            format!("To go on: corral image pull {url} --name {name}{sum}. ")
        });
        Check::warn(
            &format!("qemu.image-partial.{}", encode_segment(&part.name)),
            format!(
                "the image {name} was not fetched to its end; {} are kept",
                part.size
            ),
        )
        .remedy(format!("{pull}To let it go: corral image delete {name}"))
    })
    .collect()
}

/// Removes them.
pub(super) fn tidy(ctx: &Ctx) -> Result<Outcome> {
    let left = find(ctx)?;
    for file in &left {
        std::fs::remove_file(file).map_err(|e| fault("remove", file, e))?;
    }
    Ok(if left.is_empty() {
        Outcome::unchanged("no temporary file is left")
    } else {
        Outcome::changed(format!("{} removed", counted(left.len(), "temporary file")))
    })
}

fn find(ctx: &Ctx) -> Result<Vec<PathBuf>> {
    let mut dirs = Vec::new();
    for name in ctx.store.folders()? {
        dirs.push(ctx.store.dir(&name)?);
    }
    let states = std::fs::read_dir(ctx.state_dir()).into_iter().flatten();
    dirs.extend(states.filter_map(std::result::Result::ok).map(|e| e.path()));
    let mut found: Vec<PathBuf> = dirs.iter().flat_map(|dir| left_in(dir)).collect();
    found.sort();
    Ok(found)
}

/// Named as [`crate::link::files`] and the screenshots name them: nothing of a user's.
fn left_in(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    entries
        .filter_map(std::result::Result::ok)
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let ours = (name.starts_with('.') && name.ends_with(".new")) || is_screen(&name);
            ours && entry
                .metadata()
                .is_ok_and(|meta| meta.is_file() && is_old(&meta))
        })
        .map(|entry| entry.path())
        .collect()
}

fn is_screen(name: &str) -> bool {
    name.strip_prefix("screen-")
        .is_some_and(|rest| rest.len() == 6 && rest.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// A clock that went back makes nothing old.
fn is_old(meta: &std::fs::Metadata) -> bool {
    let age = meta
        .modified()
        .ok()
        .and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age > OLD)
}
