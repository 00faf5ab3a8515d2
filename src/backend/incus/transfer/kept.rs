//! Backups in a folder of this machine: `DIR/INSTANCE/TIME.tar.gz`, and beside each what is said of it.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::backend::portable::sums;
use crate::link::files::{fault, write_atomically};
use crate::model::{Consistency, Error, Result, decode_segment, encode_segment, shown};

/// The ending of a backup.
pub const ENDING: &str = ".tar.gz";

/// What is said of a backup.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Note {
    /// Whose it is.
    pub name: String,
    /// Its project.
    pub project: String,
    /// Its incarnation.
    pub uid: Option<String>,
    /// When it was taken.
    pub taken_at: Timestamp,
    /// What it holds of a guest that ran.
    pub consistency: Consistency,
    /// SHA-256 of the file.
    pub sha256: String,
    /// Size of the file, bytes.
    pub size: u64,
    /// Disks of the instance.
    pub disks: u64,
}

/// A backup that is there.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// What is said of it, or why nobody can tell.
    pub note: Result<Note>,
}

impl Kept {
    /// Whether the file is what it was.
    ///
    /// # Errors
    /// Why it is not; `TimedOut` where `go` says so.
    pub fn verify(&self, go: impl FnMut(u64) -> Result<()>) -> Result<()> {
        let note = self.note.clone()?;
        let file =
            std::fs::File::open(&self.path).map_err(|error| fault("read", &self.path, error))?;
        let (found, _) = sums::of_file(&self.path, &file, go)?;
        sums::same(&self.path.display().to_string(), &note.sha256, &found)
    }

    /// Takes it away.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn remove(&self) -> Result<()> {
        for path in [beside(&self.path), self.path.clone()] {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(fault("remove", &path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The folder of all backups of a place.
///
/// # Errors
/// `NotFound` where it is not there: a disk that is not mounted is not filled up below its mount point.
pub fn root(named: &str) -> Result<PathBuf> {
    let path = PathBuf::from(named);
    if path.is_dir() {
        return Ok(path);
    }
    Err(
        Error::not_found(format!("there is no folder {}", shown(named)))
            .remedy(format!("Mount it, or make it: mkdir -p {}", shown(named))),
    )
}

/// The folder of one instance's backups.
pub fn of(root: &Path, name: &str) -> PathBuf {
    root.join(encode_segment(name))
}

/// The name of one that is made now.
pub fn new_name<'a>(at: Timestamp, taken: impl Iterator<Item = &'a str>) -> String {
    let base = at.strftime("%Y-%m-%dT%H-%M-%SZ").to_string();
    crate::backend::contract::free_name(&base, taken)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".json");
    PathBuf::from(name)
}

/// Says what a backup is.
///
/// # Errors
/// When it cannot be written.
pub fn describe(path: &Path, note: &Note) -> Result<()> {
    let text = serde_json::to_vec_pretty(note)
        .map_err(|error| Error::backend(format!("internal: {error}")))?;
    write_atomically(&beside(path), &text)
}

/// Backups in an instance's folder, oldest first by name.
///
/// # Errors
/// When the folder cannot be read; one that is not there holds none.
pub fn list(dir: &Path) -> Result<Vec<Kept>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(fault("read", dir, error)),
    };
    let mut found: Vec<Kept> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let name = name.strip_suffix(ENDING)?.to_owned();
            let path = entry.path();
            Some(Kept {
                note: read(&path),
                name,
                path,
            })
        })
        .filter(|kept| !kept.name.starts_with('.'))
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn read(path: &Path) -> Result<Note> {
    let file = beside(path);
    let text = std::fs::read(&file).map_err(|error| {
        Error::not_found(format!(
            "what it is is not said: {}: {error}",
            shown(&file.display().to_string())
        ))
    })?;
    let note: Note = serde_json::from_slice(&text).map_err(|error| {
        Error::invalid(format!("{}: {error}", shown(&file.display().to_string())))
    })?;
    let size = std::fs::metadata(path)
        .map(|meta| meta.len())
        .unwrap_or_default();
    if size != note.size {
        return Err(Error::invalid(format!(
            "it has {size} bytes, and had {}",
            note.size
        )));
    }
    Ok(note)
}

/// Names of all instances that have backups here.
///
/// # Errors
/// When the folder cannot be read.
pub fn instances(root: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(root).map_err(|error| fault("read", root, error))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| decode_segment(entry.file_name().to_str()?))
        .collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_says_what_it_is_and_a_damaged_one_that_it_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let at: Timestamp = "2026-11-30T11:22:33Z".parse().unwrap();
        let name = new_name(at, ["2026-11-30T11-22-33Z"].into_iter());
        assert_eq!(name, "2026-11-30T11-22-33Z-2");
        let path = dir.path().join(format!("{name}{ENDING}"));
        std::fs::write(&path, "data").unwrap();
        assert!(list(dir.path()).unwrap()[0].note.is_err());
        let file = std::fs::File::open(&path).unwrap();
        let (sum, _) = sums::of_file(&path, &file, |_| Ok(())).unwrap();
        let note = Note {
            name: "x".into(),
            project: "default".into(),
            uid: None,
            taken_at: at,
            consistency: Consistency::Offline,
            sha256: sum,
            size: 4,
            disks: 1,
        };
        describe(&path, &note).unwrap();
        let kept = list(dir.path()).unwrap();
        assert!(kept[0].verify(|_| Ok(())).is_ok());
        std::fs::write(&path, "dat").unwrap();
        assert!(list(dir.path()).unwrap()[0].note.is_err());
        std::fs::write(&path, "dada").unwrap();
        assert!(list(dir.path()).unwrap()[0].verify(|_| Ok(())).is_err());
        kept[0].remove().unwrap();
        assert!(list(dir.path()).unwrap().is_empty());
    }
}
