//! Where backups are kept: one folder per instance, in it one per backup, named by its time.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::super::ctx::Ctx;
use super::super::definition::{folder_name, name_of_folder};
use super::super::image::{self, quoted};
use super::target;
use crate::backend::portable::folder;
use crate::link::files::fault;
use crate::model::{Error, Portable, Result, shown};

/// A backup that is there.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub path: PathBuf,
    /// What is in it, or why nobody can tell.
    pub content: Result<Portable>,
}

/// The folder of all backups.
///
/// # Errors
/// `NotFound` where one was named and is not there: a disk that is not mounted is not filled up
/// below its mount point.
pub fn root(ctx: &Ctx, named: Option<&str>) -> Result<PathBuf> {
    let Some(named) = named else {
        return Ok(ctx.env.dirs.data.join("backups"));
    };
    let path = image::absolute(Path::new(named));
    if path.is_dir() {
        return Ok(path);
    }
    Err(Error::not_found(format!(
        "there is no folder {}",
        shown(&path.to_string_lossy())
    ))
    .remedy(format!("Mount it, or make it: mkdir -p {}", quoted(&path))))
}

/// The folder of one instance's backups.
pub fn of(root: &Path, name: &str) -> Result<PathBuf> {
    Ok(root.join(folder_name(name)?))
}

/// The name of one that is made now.
pub fn new_name(dir: &Path, at: Timestamp) -> String {
    let base = at.strftime("%Y-%m-%dT%H-%M-%SZ").to_string();
    let mut name = base.clone();
    let mut n = 2;
    while dir.join(&name).exists() || target::partial(&dir.join(&name)).exists() {
        name = format!("{base}-{n}");
        n += 1;
    }
    name
}

/// `2026-11-30T11-22-33Z`, with a number behind it where there were two in a second.
pub fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let form = b"0000-00-00T00-00-00Z";
    let stem = bytes.len() >= form.len()
        && bytes.iter().zip(form).all(|(b, f)| match f {
            b'0' => b.is_ascii_digit(),
            other => b == other,
        });
    let rest = bytes.get(form.len()..).unwrap_or_default();
    stem && (rest.is_empty()
        || (rest.len() > 1 && rest[0] == b'-' && rest[1..].iter().all(u8::is_ascii_digit)))
}

/// Backups in an instance's folder, oldest first by name.
///
/// # Errors
/// When the folder cannot be read; one that is not there holds none.
pub fn list(dir: &Path) -> Result<Vec<Kept>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(fault("read", dir, e)),
    };
    let mut found: Vec<Kept> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let path = entry.path();
            is_name(&name).then(|| Kept {
                content: folder::read(&path),
                name,
                path,
            })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// One backup.
///
/// # Errors
/// `NotFound` with how to see those that are there.
pub fn find(root: &Path, instance: &str, backup: &str) -> Result<Kept> {
    let dir = of(root, instance)?;
    let found = list(&dir)?.into_iter().find(|kept| kept.name == backup);
    found.ok_or_else(|| {
        Error::not_found(format!(
            "{} has no backup {} in {}",
            shown(instance),
            shown(backup),
            shown(&root.to_string_lossy())
        ))
        .remedy("List them: corral backup list (kept elsewhere: --from DIR)")
    })
}

/// Names of all instances that have backups here.
pub fn instances(root: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(fault("read", root, e)),
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| name_of_folder(entry.file_name().to_str()?))
        .collect();
    names.sort();
    Ok(names)
}

/// Whole backups of this very machine that `keep` has no room for once there is one more.
pub fn surplus(kept: &[Kept], uid: &str, keep: u32) -> Vec<Kept> {
    let mut own: Vec<(&Kept, Timestamp)> = kept
        .iter()
        .filter_map(|one| {
            let content = one.content.as_ref().ok()?;
            (content.origin.uid.as_deref() == Some(uid)).then_some((one, content.taken_at))
        })
        .collect();
    own.sort_by(|(a, at), (b, bt)| (at, &a.name).cmp(&(bt, &b.name)));
    let room = (keep as usize).saturating_sub(1);
    let surplus = own.len().saturating_sub(room);
    own.into_iter()
        .take(surplus)
        .map(|(one, _)| one.clone())
        .collect()
}

/// Removes a backup: out of sight first, so that none is ever seen half-gone.
pub fn remove(kept: &Kept) -> Result<()> {
    let gone = kept
        .path
        .with_file_name(format!(".{}{DELETING}", kept.name));
    target::remove(&gone)?;
    fs::rename(&kept.path, &gone).map_err(|e| fault("remove", &kept.path, e))?;
    target::remove(&gone)
}

const DELETING: &str = ".deleting";

/// Removes what a delete that was killed left.
pub fn sweep(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name
            .to_str()
            .and_then(|name| name.strip_prefix('.')?.strip_suffix(DELETING));
        if name.is_some_and(is_name) {
            // The next one tries again.
            let _ = target::remove(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ErrorKind;

    #[test]
    fn names_are_times_and_nothing_else_is_a_backup() {
        let at: Timestamp = "2026-11-30T11:22:33.9Z".parse().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let first = new_name(dir.path(), at);
        assert_eq!(first, "2026-11-30T11-22-33Z");
        fs::create_dir(dir.path().join(&first)).unwrap();
        let second = new_name(dir.path(), at);
        assert_eq!(second, "2026-11-30T11-22-33Z-2");
        assert!(is_name(&first) && is_name(&second));
        for other in [
            "",
            "mine",
            "2026-11-30T11-22-33Z.partial",
            "2026-11-30T11-22-33Z-",
            "..",
        ] {
            assert!(!is_name(other), "{other}");
        }
        fs::create_dir(dir.path().join("mine")).unwrap();
        let listed = list(dir.path()).unwrap();
        assert_eq!(listed.len(), 1);
        let error = listed[0].content.as_ref().unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
        remove(&listed[0]).unwrap();
        assert!(list(dir.path()).unwrap().is_empty());
        assert!(dir.path().join("mine").exists());
    }
}
