//! Events on disk, one file per context. A thread of its own writes them: a slow disk holds up neither a
//! context nor the view.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::link::files::make_dir;
use crate::model::{Event, InstanceId, encode_segment};

/// An event file is put aside when it has grown to this.
const ROTATE: u64 = 4 << 20;
/// Events that wait for the disk: a storm of a large fleet, some megabytes. What comes then is lost to the
/// file, and counted; it is still shown.
const WAITING: usize = 10_000;

/// Leaving does not wait longer for a disk.
const PATIENCE: Duration = Duration::from_secs(3);

enum Job {
    Write(Box<Event>),
    /// Everything before it is on disk.
    Told(oneshot::Sender<()>),
}

/// The files below a folder.
pub(super) struct Log {
    dir: PathBuf,
    writer: OnceLock<Option<SyncSender<Job>>>,
    lost: Arc<AtomicU64>,
}

impl Log {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            writer: OnceLock::new(),
            lost: Arc::default(),
        }
    }

    /// Hands an event to the writer; never waits.
    pub(super) fn write(&self, event: &Event) {
        let Some(writer) = self.writer.get_or_init(|| self.start()) else {
            return;
        };
        if let Err(TrySendError::Full(_)) = writer.try_send(Job::Write(Box::new(event.clone()))) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn start(&self) -> Option<SyncSender<Job>> {
        let (sender, receiver) = sync_channel(WAITING);
        let (dir, lost) = (self.dir.clone(), Arc::clone(&self.lost));
        let started = std::thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || work(&dir, &receiver, &lost));
        match started {
            Ok(_) => Some(sender),
            Err(error) => {
                tracing::warn!(%error, "events cannot be recorded");
                None
            }
        }
    }

    /// Everything that was handed over is on disk, or the disk has had its time.
    pub(super) async fn flush(&self) {
        let Some(Some(writer)) = self.writer.get() else {
            return;
        };
        let flushed = async {
            let (sender, told) = oneshot::channel();
            let mut job = Job::Told(sender);
            // The queue may be full, and nobody may block here.
            while let Err(TrySendError::Full(back)) = writer.try_send(job) {
                job = back;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let _ = told.await;
        };
        if tokio::time::timeout(PATIENCE, flushed).await.is_err() {
            tracing::warn!("the last events are not on disk: it takes too long");
        }
    }

    /// Where the events of a context are, older file first.
    pub(super) fn files(&self, context: &str) -> [PathBuf; 2] {
        let file = file_of(&self.dir, context);
        [put_aside(&file), file]
    }
}

/// Reads what is wanted of some files. Torn lines are skipped: the others still count.
pub(super) fn read(
    files: &[PathBuf],
    id: Option<&InstanceId>,
    context: Option<&str>,
) -> Vec<Event> {
    files
        .iter()
        .filter_map(|file| std::fs::read(file).ok())
        .flat_map(|bytes| {
            bytes
                .split(|byte| *byte == b'\n')
                .filter_map(|line| serde_json::from_slice::<Event>(line).ok())
                .filter(|event| super::is_wanted(event, id, context))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn file_of(dir: &Path, context: &str) -> PathBuf {
    dir.join(format!("{}.jsonl", encode_segment(context)))
}

fn put_aside(file: &Path) -> PathBuf {
    file.with_extension("jsonl.1")
}

fn work(dir: &Path, jobs: &Receiver<Job>, lost: &AtomicU64) {
    let mut told: BTreeSet<String> = BTreeSet::new();
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Write(event) => {
                // Once per reason: a full disk would fill the log, too.
                if let Err(error) = append(dir, &event)
                    && told.insert(error.to_string())
                {
                    tracing::warn!(%error, "an event could not be recorded");
                }
            }
            Job::Told(sender) => {
                let _ = sender.send(());
            }
        }
        let missed = lost.swap(0, Ordering::Relaxed);
        if missed > 0 {
            tracing::warn!(missed, "events came faster than the disk took them");
        }
    }
}

fn append(dir: &Path, event: &Event) -> std::io::Result<()> {
    make_dir(dir).map_err(|error| std::io::Error::other(error.message))?;
    let path = file_of(dir, &event.context);
    if std::fs::metadata(&path).is_ok_and(|facts| facts.len() > ROTATE) {
        std::fs::rename(&path, put_aside(&path))?;
    }
    let mut line = serde_json::to_string(event)?;
    line.push('\n');
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(line.as_bytes())
}
