//! Files on this machine: replaced atomically, locked by sidecars.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::model::{Error, Result, shown};

/// How long a lock is waited for.
const WAIT: Duration = Duration::from_secs(5);

/// A file operation that failed, with the remedy for the commonest causes.
pub fn fault(what: &str, path: &Path, error: std::io::Error) -> Error {
    use std::io::ErrorKind as K;
    let message = format!(
        "cannot {what} {}: {error}",
        shown(&path.display().to_string())
    );
    let remedy = match error.kind() {
        K::StorageFull | K::QuotaExceeded | K::FileTooLarge => Some(format!(
            "Free some space: df -h '{}'",
            path.parent().unwrap_or(path).display()
        )),
        K::PermissionDenied => Some(format!("Look at: ls -ld '{}'", path.display())),
        K::ReadOnlyFilesystem => Some("The file system is mounted read-only.".to_owned()),
        _ => None,
    };
    let error = Error::backend(message).because(error);
    match remedy {
        Some(remedy) => error.remedy(remedy),
        None => error,
    }
}

/// Whether what failed had no room: the file system is full, or this user's share of it.
pub fn is_full(error: &Error) -> bool {
    use std::io::ErrorKind as K;
    let source = error.source.as_deref();
    source
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .is_some_and(|e| matches!(e.kind(), K::StorageFull | K::QuotaExceeded))
}

/// Makes a folder and its parents, 0700.
pub fn make_dir(dir: &Path) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| fault("make", dir, e))
}

/// Takes the lock of a file (a sidecar, so that the file itself can be replaced), waiting at most
/// 5 s; then `Conflict` naming the holder. Released when dropped. Never held across a network call.
pub fn lock_beside(path: &Path) -> Result<File> {
    if let Some(dir) = path.parent() {
        make_dir(dir)?;
    }
    lock(
        &path.with_extension("lock"),
        &path.display().to_string(),
        WAIT,
    )
}

/// Takes the lock that `file` is; `what` names what it stands for. The holder's process stands in it.
pub fn lock(file: &Path, what: &str, wait: Duration) -> Result<File> {
    let mut held = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(file)
        .map_err(|e| fault("open", file, e))?;
    let until = Instant::now() + wait;
    loop {
        match held.try_lock() {
            Ok(()) => {
                let _ = held.set_len(0);
                let _ = write!(held, "{}", std::process::id());
                return Ok(held);
            }
            Err(std::fs::TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(_) => {
                let holder = std::fs::read_to_string(file).unwrap_or_default();
                let holder = holder.trim();
                let who = if holder.is_empty() {
                    String::new()
                } else {
                    format!(" (process {holder})")
                };
                return Err(Error::conflict(format!(
                    "{what} is being changed by another corral{who}"
                ))
                .remedy("Wait for it: corral tasks list"));
            }
        }
    }
}

/// Moves a folder, all of it at once, to a name that nobody has.
///
/// # Errors
/// `Conflict` when somebody has it.
pub fn move_dir(from: &Path, to: &Path) -> Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    let moved = match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that cannot promise it.
        Err(Errno::INVAL | Errno::NOSYS) if std::fs::symlink_metadata(to).is_err() => {
            std::fs::rename(from, to)
        }
        other => other.map_err(std::io::Error::from),
    };
    moved.map_err(|e| {
        if e.kind() == std::io::ErrorKind::AlreadyExists {
            let to = shown(&to.display().to_string()).into_owned();
            return Error::conflict(format!("{to} is there already"))
                .remedy("Choose another name.");
        }
        fault("move", from, e)
    })?;
    // The move itself should outlive a power cut; it is done, also where the disk cannot promise that.
    if let Some(dir) = to.parent() {
        let _ = File::open(dir).and_then(|dir| dir.sync_all());
    }
    Ok(())
}

/// Replaces a file, whole or not at all: written beside it, synced, renamed; 0600. A corral that
/// is killed meanwhile leaves a file that ends in `.new`.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    replace(path, true, |file| file.write_all(bytes))
}

/// Whether [`place`] would be refused.
///
/// # Errors
/// `Refused` where something is there that is not to be replaced, or is no file.
pub fn can_place(path: &Path, overwrite: bool) -> Result<()> {
    let name = shown(&path.display().to_string()).into_owned();
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty())
        && !dir.is_dir()
    {
        let dir = shown(&dir.display().to_string()).into_owned();
        return Err(Error::not_found(format!("there is no folder {dir}")));
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => Err(Error::refused(format!("{name} is a folder"))),
        Ok(_) if !overwrite => Err(Error::refused(format!("{name} is there already"))
            .remedy("Name another, or replace it: --overwrite")),
        _ => Ok(()),
    }
}

/// Puts a file where a user wants it, whole or not at all; 0600. Only with `overwrite` is anything
/// replaced that is there.
///
/// # Errors
/// As [`can_place`]; also where it cannot be written.
pub fn place(path: &Path, bytes: &[u8], overwrite: bool) -> Result<()> {
    let new = beside(path)?;
    let written = new.as_file().write_all(bytes);
    written.map_err(|e| fault("write", path, e))?;
    settle(new, path, overwrite)
}

/// A file beside `path`, gone if it is dropped.
///
/// # Errors
/// Where none can be made.
pub fn beside(path: &Path) -> Result<tempfile::NamedTempFile> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    tempfile::Builder::new()
        .prefix(".corral-")
        .suffix(".part")
        .permissions(std::fs::Permissions::from_mode(0o600))
        .tempfile_in(dir)
        .map_err(|e| fault("write", path, e))
}

/// Gives a file of [`beside`] its name.
///
/// # Errors
/// As [`place`].
pub fn settle(new: tempfile::NamedTempFile, path: &Path, overwrite: bool) -> Result<()> {
    can_place(path, overwrite)?;
    new.as_file()
        .sync_all()
        .map_err(|e| fault("write", path, e))?;
    let named = if overwrite {
        new.persist(path)
    } else {
        // Also against one that came meanwhile.
        new.persist_noclobber(path)
    };
    named.map_err(|e| fault("write", path, e.error))?;
    Ok(())
}

/// [`write_atomically`] for what can be had again, such as a cache: a power cut may lose it.
pub fn write_unsynced(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<()> {
    replace(path, false, |file| {
        let mut out = std::io::BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    })
}

fn replace(
    path: &Path,
    sync: bool,
    write: impl FnOnce(&mut File) -> std::io::Result<()>,
) -> Result<()> {
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    make_dir(dir)?;
    let written = (|| {
        let mut new = tempfile::Builder::new()
            .prefix(".")
            .suffix(".new")
            .permissions(std::fs::Permissions::from_mode(0o600))
            .tempfile_in(dir)?;
        write(new.as_file_mut())?;
        if sync {
            new.as_file().sync_all()?;
        }
        new.persist(path).map_err(|e| e.error)?;
        // The rename itself must survive a power cut.
        if sync {
            File::open(dir)?.sync_all()?;
        }
        Ok(())
    })();
    written.map_err(|e| fault("write", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ErrorKind;

    #[test]
    fn a_held_lock_names_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.lock");
        let held = lock(&file, "x", Duration::ZERO).unwrap();
        let error = lock(&file, "x", Duration::ZERO).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict);
        assert!(error.message.contains(&std::process::id().to_string()));
        drop(held);
        assert!(lock(&file, "x", Duration::ZERO).is_ok());
    }

    #[test]
    fn replacing_is_whole_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a/b/c.toml");
        write_atomically(&file, b"one").unwrap();
        write_atomically(&file, b"two").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"two");
        assert_eq!(
            std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(
            std::fs::read_dir(dir.path().join("a/b")).unwrap().count(),
            1
        );
    }
}
