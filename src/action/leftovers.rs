//! What tasks of corrals that were killed have left in the state folder.

use std::fs::File;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::task_files::read_task;
use crate::link::files::write_atomically;
use crate::model::{Result, Task, TaskState};

/// Task files that say "running" although nobody runs them, and locks and notes that nobody holds.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// Tasks, as their files have them.
    pub tasks: Vec<Task>,
    /// Locks and notes.
    pub files: Vec<PathBuf>,
}

/// Looks through a folder of tasks.
pub(super) fn find(dir: &Path) -> Leftovers {
    let mut found = Leftovers::default();
    let Ok(entries) = std::fs::read_dir(dir) else {
        return found;
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(std::result::Result::ok)
        .map(|entry| entry.path())
        .filter(|path| !is_held(&path.with_extension("lock")))
        .collect();
    paths.sort();
    for path in paths {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("lock" | "cancel") => found.files.push(path),
            Some("json") => {
                let task = read_task(&path).filter(|task| !task.state.is_final());
                found.tasks.extend(task);
            }
            _ => {}
        }
    }
    found
}

/// Ends the tasks in their files and removes what nobody holds; how much that was.
pub(super) fn clean(dir: &Path) -> Result<usize> {
    let found = find(dir);
    let count = found.tasks.len() + found.files.len();
    for mut task in found.tasks {
        task.state = TaskState::Interrupted;
        task.ended_at.get_or_insert_with(Timestamp::now);
        let bytes = serde_json::to_vec(&task).unwrap_or_default();
        write_atomically(&dir.join(format!("{}.json", task.id)), &bytes)?;
    }
    for file in found.files {
        // Somebody may have begun a task of this ID since; a lock that is held stays.
        if !is_held(&file.with_extension("lock")) {
            let _ = std::fs::remove_file(file);
        }
    }
    Ok(count)
}

/// Another process, or this one, holds the lock.
pub(super) fn is_held(lock: &Path) -> bool {
    File::open(lock).is_ok_and(|file| {
        matches!(
            file.try_lock_shared(),
            Err(std::fs::TryLockError::WouldBlock)
        )
    })
}
