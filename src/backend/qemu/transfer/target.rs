//! Where an export goes: written beside its place, moved there whole.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::super::image::quoted;
use super::form::Form;
use super::parts::Begun;
use crate::backend::portable::{folder, private};
use crate::link::files::{fault, write_atomically};
use crate::model::{Bytes, Error, PortableDisk, Result, shown};

/// Says in a half-written folder what it is and how far.
const STATE: &str = ".corral-partial.json";

/// How far a folder is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The UUID of the VM whose work it is; nobody else goes on with it or removes it.
    #[serde(default)]
    pub vm: String,
    /// What the disks are read from; another source begins anew.
    pub source: String,
    /// Disks that are whole.
    pub done: Vec<PortableDisk>,
    /// One that is written in part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Begun>,
}

/// Where something half-written is until it is whole.
pub fn partial(to: &Path) -> PathBuf {
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    to.with_file_name(name)
}

/// What is written beside a half-written file, to be packed into it.
pub fn part(partial: &Path, what: &str) -> PathBuf {
    let mut name = partial.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(what);
    partial.with_file_name(name)
}

/// All such files that are there.
pub fn beside(partial: &Path) -> Vec<PathBuf> {
    let Some(own) = partial.file_name().and_then(|name| name.to_str()) else {
        return Vec::new();
    };
    let entries = partial.parent().and_then(|dir| fs::read_dir(dir).ok());
    entries
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let rest = name
                .to_str()
                .and_then(|name| name.strip_prefix(own)?.strip_prefix('.'));
            rest.is_some_and(|rest| rest == "raw" || rest.ends_with(".qcow2.vmdk"))
        })
        .map(|entry| entry.path())
        .collect()
}

/// Space that a file or the files of a folder take, as they are read.
pub fn size(path: &Path) -> Bytes {
    let length = |path: &Path| fs::symlink_metadata(path).map_or(0, |meta| meta.len());
    let Ok(entries) = fs::read_dir(path) else {
        return Bytes(length(path));
    };
    Bytes(entries.flatten().map(|entry| length(&entry.path())).sum())
}

/// Reads how far a half-written folder is; `None`: it is none of ours.
pub fn progress(dir: &Path) -> Option<Progress> {
    let bytes = fs::read(dir.join(STATE)).ok()?;
    Some(serde_json::from_slice(&bytes).unwrap_or_default())
}

/// Takes the place of a half-written file, so that two who want it at once do not share it.
///
/// # Errors
/// `Conflict` when something is there.
pub fn claim(partial: &Path) -> Result<()> {
    let taken = beside(partial).into_iter().next();
    match taken.map_or_else(|| private(partial).map(drop), |_| Err(Errno::EXIST.into())) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Err(in_the_way(partial)),
        claimed => claimed.map_err(|e| fault("make", partial, e)),
    }
}

/// Somebody else's work is there.
pub fn in_the_way(partial: &Path) -> Error {
    Error::conflict(format!(
        "{} is in the way",
        shown(&partial.to_string_lossy())
    ))
    .remedy("Move it away, or name another place.")
}

/// Writes how far it is.
pub fn note(dir: &Path, progress: &Progress) -> Result<()> {
    let text = serde_json::to_vec(progress)
        .map_err(|e| Error::backend(format!("the progress cannot be written down: {e}")))?;
    write_atomically(&dir.join(STATE), &text)
}

/// Takes the note of a folder away, since it is whole.
pub fn whole(dir: &Path) -> Result<()> {
    let file = dir.join(STATE);
    fs::remove_file(&file).map_err(|e| fault("remove", &file, e))
}

/// Why nothing can be written there. With `overwrite` only what is there of the same kind is
/// replaced: what is lost then is returned.
pub fn fault_of(to: &Path, form: Form, overwrite: bool) -> Result<Option<String>> {
    let place = shown(&to.to_string_lossy()).into_owned();
    let Some(parent) = to.parent().filter(|_| to.file_name().is_some()) else {
        return Err(Error::invalid(format!("{place} is no place for an export"))
            .remedy("Name a file or a new folder."));
    };
    if !parent.is_dir() {
        return Err(Error::not_found(format!(
            "there is no folder {}",
            shown(&parent.to_string_lossy())
        ))
        .remedy(format!("Make it: mkdir -p {}", quoted(parent))));
    }
    let meta = match fs::symlink_metadata(to) {
        Ok(meta) => meta,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(fault("read", to, e)),
    };
    let ours = match form {
        Form::Folder => meta.is_dir() && (folder::is_one(to) || is_empty(to)),
        _ => meta.is_file() && looks_like(to, form),
    };
    if !ours {
        let what = if meta.is_dir() {
            "a folder that is no export"
        } else if meta.is_symlink() {
            "a link"
        } else if meta.is_file() && form == Form::Folder {
            "a file"
        } else if meta.is_file() {
            "a file that is no such export"
        } else {
            "a device or a pipe"
        };
        let remedy = if meta.is_dir() {
            format!("Name a place in it: {}", quoted(&to.join("NAME")))
        } else {
            "Name another place.".to_owned()
        };
        return Err(
            Error::refused(format!("{place} is {what}; it is never replaced")).remedy(remedy),
        );
    }
    if !overwrite {
        return Err(Error::refused(format!("{place} is there already"))
            .remedy("Name another place, or replace it: --overwrite"));
    }
    Ok(Some(format!("what is in {place} now")))
}

/// Whether a file begins as an export of this form does. Of a raw disk nobody can tell, and in an empty file nothing
/// is lost.
fn looks_like(file: &Path, form: Form) -> bool {
    let (at, magic): (u64, &[u8]) = match form {
        Form::Qcow2 => (0, b"QFI\xfb"),
        Form::Gz => (0, b"\x1f\x8b"),
        Form::Ova => (257, b"ustar"),
        Form::Folder | Form::Raw => return true,
    };
    let mut head = vec![0; magic.len()];
    fs::File::open(file).is_ok_and(|mut file| {
        file.metadata().is_ok_and(|meta| meta.len() == 0)
            || (file.seek(SeekFrom::Start(at)).is_ok()
                && file.read_exact(&mut head).is_ok()
                && head == magic)
    })
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// Removes a half-written export, whatever it is.
pub fn remove(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) => Err(e),
    };
    match removed {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(fault("remove", path, e)),
        _ => Ok(()),
    }
}

/// Moves what is whole to its place. What was there is gone once the new one is there.
pub fn publish(partial: &Path, to: &Path, overwrite: bool) -> Result<()> {
    sync(partial)?;
    let moved = renameat_with(CWD, partial, CWD, to, RenameFlags::NOREPLACE);
    match moved {
        Ok(()) => {}
        Err(Errno::EXIST | Errno::NOTEMPTY) if overwrite => {
            match renameat_with(CWD, partial, CWD, to, RenameFlags::EXCHANGE) {
                Ok(()) => remove(partial)?,
                Err(_) => instead(partial, to)?,
            }
        }
        Err(Errno::EXIST | Errno::NOTEMPTY) => return Err(made_meanwhile(to)),
        // A file system that knows no such rename.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if overwrite => instead(partial, to)?,
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => beside_none(partial, to)?,
        Err(e) => return Err(fault("make", to, e.into())),
    }
    to.parent().map_or(Ok(()), sync)
}

fn made_meanwhile(to: &Path) -> Error {
    Error::conflict(format!(
        "{} was made meanwhile",
        shown(&to.to_string_lossy())
    ))
    .remedy("Name another place, or replace it: --overwrite")
}

/// Without a rename that replaces nothing: the place is taken by something empty of ours first, and
/// only that is replaced.
fn beside_none(partial: &Path, to: &Path) -> Result<()> {
    let folder = partial.is_dir();
    let taken = if folder {
        fs::create_dir(to)
    } else {
        private(to).map(drop)
    };
    match taken {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Err(made_meanwhile(to)),
        taken => taken.map_err(|e| fault("make", to, e))?,
    }
    fs::rename(partial, to).map_err(|e| {
        // Only what is still empty.
        let _ = if folder {
            fs::remove_dir(to)
        } else {
            fs::remove_file(to)
        };
        fault("make", to, e)
    })
}

/// Without an exchange: a moment with neither.
fn instead(partial: &Path, to: &Path) -> Result<()> {
    if to.is_dir() {
        let mut old = to.file_name().unwrap_or_default().to_owned();
        old.push(".old");
        let old = to.with_file_name(old);
        fs::rename(to, &old).map_err(|e| fault("move", to, e))?;
        fs::rename(partial, to).map_err(|e| fault("make", to, e))?;
        return remove(&old);
    }
    fs::rename(partial, to).map_err(|e| fault("make", to, e))
}

fn sync(path: &Path) -> Result<()> {
    fs::File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|e| fault("write", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_export_is_ever_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("home")).unwrap();
        fs::write(at("home/letter"), "dear").unwrap();
        fs::write(at("file"), "x").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        for (name, form) in [
            ("home", Form::Folder),
            ("home", Form::Ova),
            ("link", Form::Raw),
            ("file", Form::Ova),
            ("file", Form::Qcow2),
            ("file", Form::Gz),
        ] {
            let error = fault_of(&at(name), form, true).unwrap_err();
            assert!(error.message.contains("never replaced"), "{error}");
        }
        assert!(fault_of(&at("file"), Form::Raw, false).is_err());
        assert!(fault_of(&at("file"), Form::Raw, true).unwrap().is_some());
        assert_eq!(fault_of(&at("new"), Form::Raw, false).unwrap(), None);
        for (form, at_byte, magic) in [(Form::Qcow2, 0, "QFI\u{fb}"), (Form::Ova, 257, "ustar")] {
            let mut bytes = vec![0; at_byte];
            bytes.extend(magic.chars().map(|c| c as u8));
            fs::write(at("old"), bytes).unwrap();
            assert!(fault_of(&at("old"), form, true).unwrap().is_some());
        }
        let error = fault_of(&at("no/new"), Form::Raw, false).unwrap_err();
        assert!(error.remedy.unwrap().starts_with("Make it: mkdir"));
    }

    #[test]
    fn what_is_there_stays_until_the_new_one_is() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("x");
        let new = partial(&to);
        for (overwrite, content) in [(false, "1"), (true, "2")] {
            fs::create_dir(&new).unwrap();
            fs::write(new.join("f"), content).unwrap();
            publish(&new, &to, overwrite).unwrap();
            assert_eq!(fs::read_to_string(to.join("f")).unwrap(), content);
            assert!(!new.exists());
        }
        fs::create_dir(&new).unwrap();
        assert!(publish(&new, &to, false).is_err());
        assert_eq!(fs::read_to_string(to.join("f")).unwrap(), "2");
    }

    #[test]
    fn what_came_meanwhile_stays_also_without_the_right_rename() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("x");
        let new = partial(&to);
        for folder in [false, true] {
            let make = |at: &Path| {
                if folder {
                    fs::create_dir(at).unwrap();
                } else {
                    fs::write(at, "new").unwrap();
                }
            };
            make(&new);
            fs::write(&to, "theirs").unwrap();
            let error = beside_none(&new, &to).unwrap_err();
            assert!(error.message.contains("made meanwhile"), "{error}");
            assert_eq!(fs::read_to_string(&to).unwrap(), "theirs");
            fs::remove_file(&to).unwrap();
            beside_none(&new, &to).unwrap();
            assert!(!new.exists() && to.is_dir() == folder);
            remove(&to).unwrap();
        }
    }

    #[test]
    fn a_place_is_given_to_one() {
        let dir = tempfile::tempdir().unwrap();
        let new = partial(&dir.path().join("x.raw.gz"));
        claim(&new).unwrap();
        assert_eq!(
            claim(&new).unwrap_err().kind,
            crate::model::ErrorKind::Conflict
        );
        fs::rename(&new, part(&new, "raw")).unwrap();
        assert!(claim(&new).is_err(), "what is packed is in its place");
    }
}
