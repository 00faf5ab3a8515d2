//! The files by which every corral of a user sees the tasks of all others.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;

use super::engine::Engine;
use super::leftovers::is_held;
use crate::model::{Task, TaskState};

/// Tasks that have ended and are kept, in memory and as files.
pub(super) const KEEP: usize = 200;

/// The folder is looked at so often: one `stat` of each file.
const LOOK: Duration = Duration::from_secs(1);

/// What a file was when it was read: it is replaced whole, so a new content is a new inode.
type Stamp = (u64, i64, i64, u64);

/// The task files of a folder, each read once for every time it is written.
pub(super) struct TaskFiles {
    dir: PathBuf,
    known: HashMap<PathBuf, (Stamp, Option<Task>)>,
}

impl TaskFiles {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            known: HashMap::new(),
        }
    }

    /// All tasks as they are now, oldest first. One whose process is gone without an end is
    /// `interrupted`.
    pub(super) fn read(&mut self) -> impl Iterator<Item = &Task> {
        let mut files = task_files(&self.dir);
        files.sort();
        let surplus = files.len().saturating_sub(KEEP);
        let mut before = std::mem::take(&mut self.known);
        let mut order = Vec::new();
        for (n, path) in files.into_iter().enumerate() {
            let Some(stamp) = stamp(&path) else { continue };
            let mut task = match before.remove(&path) {
                Some((then, task)) if then == stamp => task,
                _ => read_task(&path),
            };
            if let Some(task) = &mut task {
                if n < surplus && task.state.is_final() {
                    let _ = std::fs::remove_file(&path);
                    continue;
                }
                if !task.state.is_final() && !is_held(&path.with_extension("lock")) {
                    task.state = TaskState::Interrupted;
                }
            }
            self.known.insert(path.clone(), (stamp, task));
            order.push(path);
        }
        let known = &self.known;
        order
            .into_iter()
            .filter_map(move |path| known.get(&path).and_then(|(_, task)| task.as_ref()))
    }
}

/// The task of a file; one that cannot be read is none.
pub(super) fn read_task(path: &Path) -> Option<Task> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn task_files(dir: &Path) -> Vec<PathBuf> {
    let Ok(read) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    read.filter_map(std::result::Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect()
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len()))
}

/// The tasks of other corral processes: as they are now, and again whenever one has changed.
pub fn follow_others(engine: Arc<Engine>) -> BoxStream<'static, Arc<Vec<Task>>> {
    let looks = futures::stream::unfold(false, |again| async move {
        if again {
            tokio::time::sleep(LOOK).await;
        }
        Some(((), true))
    });
    looks
        .then(move |()| {
            let engine = Arc::clone(&engine);
            // A state folder may lie on a slow disk.
            async move { tokio::task::spawn_blocking(move || engine.board().others()).await }
        })
        .scan(Vec::new(), |last: &mut Vec<Task>, now| {
            let new = now.ok().filter(|now| now != last);
            if let Some(now) = &new {
                last.clone_from(now);
            }
            futures::future::ready(Some(new.map(Arc::new)))
        })
        .filter_map(futures::future::ready)
        .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_of_a_newer_corral_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t1.json");
        let text = r#"{"format": 2, "id": "t1", "state": "teleporting"}"#;
        std::fs::write(&file, text).unwrap();
        let mut files = TaskFiles::new(dir.path().to_owned());
        assert_eq!(files.read().count(), 0);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
}
