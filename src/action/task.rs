//! Tasks of this process, and the files by which every corral sees those of the others.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::leftovers::{self, Leftovers};
use super::task_files::{KEEP, TaskFiles};
use crate::link::files::write_atomically;
use crate::model::{Error, Result, TargetState, Task, TaskState};

/// An interruption that nobody looked after for so long is history.
const RECENT: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Begins a line of a log that whoever waits for the task is told.
pub const WARNING: &str = "warning: ";

/// A task that was submitted.
#[derive(Clone)]
pub struct TaskHandle {
    /// Its ID.
    pub id: String,
    /// Its state, as it goes.
    pub task: watch::Receiver<Task>,
    /// Asks it to stop.
    pub cancel: CancellationToken,
}

impl TaskHandle {
    /// Waits for its end.
    pub async fn finished(&mut self) -> Task {
        if let Ok(task) = self.task.wait_for(|task| task.state.is_final()).await {
            return task.clone();
        }
        self.task.borrow().clone()
    }
}

struct Entry {
    sender: watch::Sender<Task>,
    cancel: CancellationToken,
    /// Held while the task runs: another corral that gets it knows that we are gone.
    lock: Option<File>,
}

/// Every task of this process.
pub struct TaskBoard {
    dir: Option<PathBuf>,
    files: Option<Mutex<TaskFiles>>,
    entries: Mutex<HashMap<String, Entry>>,
    order: Mutex<Vec<String>>,
    published: watch::Sender<Arc<Vec<Task>>>,
    /// No further target is begun once this is cancelled.
    queue: CancellationToken,
}

impl TaskBoard {
    /// An empty board; files go below `state`.
    pub fn open(state: Option<PathBuf>) -> Self {
        let dir = state.map(|dir| dir.join("tasks"));
        Self {
            files: dir.clone().map(TaskFiles::new).map(Mutex::new),
            dir,
            entries: Mutex::new(HashMap::new()),
            order: Mutex::new(Vec::new()),
            published: watch::channel(Arc::new(Vec::new())).0,
            queue: CancellationToken::new(),
        }
    }

    /// All tasks, newest last, as they go.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Vec<Task>>> {
        self.published.subscribe()
    }

    /// Cancelled when corral is about to leave.
    pub fn queue(&self) -> CancellationToken {
        self.queue.clone()
    }

    /// No further target is begun.
    pub fn stop_queueing(&self) {
        self.queue.cancel();
    }

    /// Takes a task in.
    pub fn add(&self, task: Task, cancel: CancellationToken) -> TaskHandle {
        let lock = self.dir.as_ref().and_then(|dir| hold(dir, &task.id));
        let (sender, receiver) = watch::channel(task.clone());
        let handle = TaskHandle {
            id: task.id.clone(),
            task: receiver,
            cancel: cancel.clone(),
        };
        entries(&self.entries).insert(
            task.id.clone(),
            Entry {
                sender,
                cancel,
                lock,
            },
        );
        // It is known as ours before there is a file that could be taken for another's.
        self.save(&task);
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        order.push(task.id);
        if order.len() > KEEP {
            let old = order.remove(0);
            entries(&self.entries).remove(&old);
        }
        drop(order);
        self.publish();
        handle
    }

    /// Changes a task and tells everyone. A `durable` change is on disk before anyone is told:
    /// whoever waits for the end may be the last thing that keeps this process alive.
    pub fn update(&self, id: &str, durable: bool, change: impl FnOnce(&mut Task)) {
        let Some(mut task) = entries(&self.entries)
            .get(id)
            .map(|entry| entry.sender.borrow().clone())
        else {
            return;
        };
        change(&mut task);
        let ended = task.state.is_final();
        if durable {
            self.save(&task);
        }
        if let Some(entry) = entries(&self.entries).get_mut(id) {
            if ended {
                entry.lock = None;
                self.release(id);
            }
            entry.sender.send_replace(task);
        }
        self.publish();
    }

    fn release(&self, id: &str) {
        if let Some(dir) = &self.dir {
            let _ = std::fs::remove_file(dir.join(format!("{id}.lock")));
            let _ = std::fs::remove_file(dir.join(format!("{id}.cancel")));
        }
    }

    fn publish(&self) {
        let order = self
            .order
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let entries = entries(&self.entries);
        let tasks: Vec<Task> = order
            .iter()
            .filter_map(|id| entries.get(id))
            .map(|e| e.sender.borrow().clone())
            .collect();
        drop(entries);
        self.published.send_replace(Arc::new(tasks));
    }

    fn save(&self, task: &Task) {
        let Some(dir) = &self.dir else { return };
        let bytes = serde_json::to_vec(task).unwrap_or_default();
        if let Err(error) = write_atomically(&dir.join(format!("{}.json", task.id)), &bytes) {
            tracing::warn!(%error, "a task file could not be written");
        }
    }

    /// Asks a task to stop: one of this process at once, another's by a note beside its file.
    pub fn cancel(&self, id: &str) -> Result<()> {
        if let Some(entry) = entries(&self.entries).get(id) {
            if entry.sender.borrow().state.is_final() {
                return Err(Error::refused(format!("task {id} has ended already")));
            }
            entry.cancel.cancel();
            return Ok(());
        }
        let task = self.find(id)?;
        if task.state.is_final() {
            return Err(Error::refused(format!("task {id} has ended already")));
        }
        let dir = self.dir.as_ref().ok_or_else(|| unknown(id))?;
        std::fs::write(dir.join(format!("{}.cancel", task.id)), b"")
            .map_err(|e| Error::backend(format!("task {id} cannot be told to stop: {e}")))
    }

    /// Whether another process has asked to stop one of ours.
    pub fn asked_to_cancel(&self, id: &str) -> bool {
        self.dir
            .as_ref()
            .is_some_and(|dir| dir.join(format!("{id}.cancel")).exists())
    }

    /// Every task known: this process's and the files of all others, oldest first.
    pub fn all(&self) -> Vec<Task> {
        let mut tasks: Vec<Task> = self.published.borrow().as_ref().clone();
        tasks.extend(self.others());
        tasks.sort_by(|a, b| a.id.cmp(&b.id));
        tasks
    }

    /// Tasks of other corral processes, oldest first.
    pub fn others(&self) -> Vec<Task> {
        let Some(files) = &self.files else {
            return Vec::new();
        };
        let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
        let tasks = files.read();
        let own = entries(&self.entries);
        tasks
            .filter(|t| !own.contains_key(&t.id))
            .cloned()
            .collect()
    }

    /// Tasks that were interrupted since then (`None`: within a week; earlier is history), and those
    /// whose end nobody wrote down.
    pub fn interrupted(&self, since: Option<Timestamp>) -> Vec<Task> {
        let since = since.unwrap_or_else(|| Timestamp::now() - RECENT);
        self.all()
            .into_iter()
            .filter(|task| task.state == TaskState::Interrupted)
            .filter(|task| task.ended_at.is_none_or(|at| at > since))
            .collect()
    }

    /// Whether the tasks of other corrals can be seen. "No task" is only true then.
    pub fn readable(&self) -> Result<()> {
        let Some(dir) = &self.dir else {
            return Ok(());
        };
        match std::fs::read_dir(dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::backend(
                format!("the tasks in {} cannot be read: {error}", dir.display()),
            )
            .remedy(format!("Whose are they? ls -ld {}", dir.display()))),
            _ => Ok(()),
        }
    }

    /// A task by ID or unique beginning.
    pub fn find(&self, id: &str) -> Result<Task> {
        let all = self.all();
        if let Some(task) = all.iter().find(|task| task.id == id) {
            return Ok(task.clone());
        }
        let mut near = all.into_iter().filter(|task| task.id.starts_with(id));
        match (near.next(), near.next()) {
            (Some(task), None) => Ok(task),
            (Some(_), Some(_)) => Err(Error::new(
                crate::model::ErrorKind::Ambiguous,
                format!("several tasks begin with {id:?}"),
            )
            .remedy("See corral tasks list")),
            _ => Err(unknown(id)),
        }
    }

    /// What killed corrals have left.
    pub(super) fn leftovers(&self) -> Leftovers {
        self.dir.as_deref().map(leftovers::find).unwrap_or_default()
    }

    /// Puts that in order; how much it was.
    pub(super) fn clean(&self) -> Result<usize> {
        self.dir.as_deref().map_or(Ok(0), leftovers::clean)
    }

    /// Resolves when nothing runs.
    pub async fn idle(&self) {
        let mut published = self.published.subscribe();
        let _ = published
            .wait_for(|tasks| tasks.iter().all(|task| task.state.is_final()))
            .await;
    }

    /// Marks what still runs as interrupted; those tasks.
    pub fn interrupt(&self) -> Vec<Task> {
        let running: Vec<String> = self
            .published
            .borrow()
            .iter()
            .filter(|task| !task.state.is_final())
            .map(|task| task.id.clone())
            .collect();
        running
            .into_iter()
            .filter_map(|id| {
                self.update(&id, true, |task| {
                    task.state = TaskState::Interrupted;
                    task.ended_at = Some(Timestamp::now());
                    for target in &mut task.targets {
                        if matches!(target.state, TargetState::Queued) {
                            target.state = TargetState::Skipped;
                        }
                    }
                });
                self.find(&id).ok()
            })
            .collect()
    }
}

fn unknown(id: &str) -> Error {
    Error::not_found(format!("there is no task {:?}", crate::model::shown(id)))
        .remedy("See corral tasks list")
}

fn entries(entries: &Mutex<HashMap<String, Entry>>) -> MutexGuard<'_, HashMap<String, Entry>> {
    entries.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hold(dir: &Path, id: &str) -> Option<File> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .ok()?;
    let file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(dir.join(format!("{id}.lock")))
        .ok()?;
    file.try_lock().ok()?;
    Some(file)
}
