//! Files on this machine: replaced atomically, locked by sidecars.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::model::{Error, Result};

/// How long a lock is waited for.
const WAIT: Duration = Duration::from_secs(5);

/// Makes a folder and its parents, 0700.
pub fn make_dir(dir: &Path) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| Error::backend(format!("{} cannot be made: {e}", dir.display())).because(e))
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
        .map_err(|e| {
            Error::backend(format!("{} cannot be opened: {e}", file.display())).because(e)
        })?;
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

/// Replaces a file: written beside it, synced, renamed; 0600.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let fail = |e: std::io::Error| {
        Error::backend(format!("{} cannot be written: {e}", path.display())).because(e)
    };
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    make_dir(dir)?;
    let mut file = tempfile::NamedTempFile::new_in(dir).map_err(fail)?;
    file.write_all(bytes).map_err(fail)?;
    file.as_file()
        .set_permissions(std::fs::Permissions::from_mode(0o600))
        .map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    file.persist(path).map_err(|e| fail(e.error))?;
    // The rename itself must survive a power cut.
    if let Ok(dir) = File::open(dir) {
        let _ = dir.sync_all();
    }
    Ok(())
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
