//! What `qemu-img` said of a file that has not changed since: a plan is made twice, and each look costs more than
//! the rest of it.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::stamp;
use crate::link::child::{Cmd, Output, run};
use crate::model::Result;

/// A file that was written less long ago may be written again within the same tick of its clock.
const SETTLED: Duration = Duration::from_secs(2);

/// Answers that are kept; then all begin anew.
const KEPT: usize = 64;

/// The stamp of a file of which the last answer may still hold: `None` for what is no file, was written just now, or
/// is locked. QEMU holds a lock on each image it writes, and of such a file the answer would be a refusal.
fn settled(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    let age = SystemTime::now().duration_since(meta.modified().ok()?);
    if !meta.is_file() || age.ok()? < SETTLED {
        return None;
    }
    // Asked of the file: to read /proc/locks stops all who lock on this machine, and takes 15 ms.
    let mut found = lock(libc::F_WRLCK);
    fcntl(fs::File::open(path).ok()?, FcntlArg::F_GETLK(&mut found)).ok()?;
    (i32::from(found.l_type) == libc::F_UNLCK).then(|| stamp(path).ok())?
}

/// A lock on a whole file. (Not rustix: it takes the process of a lock like QEMU's, which is -1, for impossible.)
fn lock(kind: i32) -> libc::flock {
    libc::flock {
        l_type: kind as _,
        l_whence: libc::SEEK_SET as _,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

static ANSWERS: LazyLock<Mutex<HashMap<String, (String, Output)>>> = LazyLock::new(Mutex::default);

/// Runs `cmd`, which only looks at `path`; or says what it said when the file was the same. Only good answers are
/// kept.
///
/// # Errors
/// As [`run`].
pub(super) async fn asked(cmd: &Cmd, path: &Path, limit: Duration) -> Result<Output> {
    let Some(now) = settled(path) else {
        return run(cmd, limit).await;
    };
    let answers = || ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    let question = cmd.shown();
    if let Some((then, output)) = answers().get(&question)
        && *then == now
    {
        return Ok(output.clone());
    }
    let output = run(cmd, limit).await?;
    if output.status.success() && settled(path).is_some_and(|after| after == now) {
        let mut answers = answers();
        if answers.len() >= KEPT {
            answers.clear();
        }
        answers.insert(question, (now, output.clone()));
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_looked_at_again_when_it_changed_or_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let (path, log) = (dir.path().join("disk"), dir.path().join("log"));
        fs::write(&path, "one").unwrap();
        let old = SystemTime::now() - Duration::from_secs(60);
        let age = || {
            fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(old)
                .unwrap();
        };
        let script = format!("echo x >> '{}'; cat '{}'", log.display(), path.display());
        let cmd = Cmd::new("/bin/sh").args(["-c", &script]);
        let ask = || async {
            asked(&cmd, &path, Duration::from_secs(5))
                .await
                .unwrap()
                .text()
        };
        let times = || fs::read_to_string(&log).unwrap().lines().count();
        // Just written: not believed yet.
        assert_eq!((ask().await, ask().await), ("one".into(), "one".into()));
        assert_eq!(times(), 2);
        age();
        assert_eq!((ask().await, ask().await), ("one".into(), "one".into()));
        assert_eq!(times(), 3);
        // The same size, and the clock of the file set back: its inode tells.
        fs::write(&path, "two").unwrap();
        age();
        assert_eq!(ask().await, "two");
        assert_eq!(times(), 4);
        // As QEMU does: a lock that is the open file's, not the process's.
        let held = fs::File::open(&path).unwrap();
        fcntl(&held, FcntlArg::F_OFD_SETLK(&lock(libc::F_RDLCK))).unwrap();
        assert_eq!(ask().await, "two");
        assert_eq!(times(), 5, "who holds it has a say");
        drop(held);
        assert_eq!((ask().await, ask().await), ("two".into(), "two".into()));
        assert!(times() <= 6, "nobody does");
    }
}
