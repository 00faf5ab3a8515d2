//! The journal: one line per start and end of every change, for `corral history`.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::link::files::lock_beside;
use crate::model::{Action, Error, HistoryEntry, HistoryLeft, Result, TargetState, Task};

/// A line is never longer: it is written by one `write`.
const LINE: usize = 4096;
/// A journal file is put aside when it has grown to this.
const ROTATE: u64 = 10 << 20;
/// How many old ones are kept.
const KEEP: usize = 5;

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    format: u32,
    what: String,
    task: String,
    at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    action: Option<Action>,
    /// Of a start: all of them. Ends of earlier versions have here what was left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    targets: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left: Vec<HistoryLeft>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The journal, on disk or (for the simulated fleet) in memory.
pub struct Journal {
    file: Option<PathBuf>,
    memory: Mutex<Vec<Line>>,
}

/// What a journal holds, and how much of it was unreadable.
pub struct History {
    /// Oldest first.
    pub entries: Vec<HistoryEntry>,
    /// Torn or foreign lines that were skipped.
    pub skipped: usize,
}

impl Journal {
    /// The journal in a state folder.
    pub fn open(state: Option<PathBuf>) -> Self {
        Self {
            file: state.map(|dir| dir.join("journal.jsonl")),
            memory: Mutex::new(Vec::new()),
        }
    }

    /// A change begins.
    ///
    /// # Errors
    /// Why it will be missing in the history.
    pub fn start(&self, task: &Task) -> Result<()> {
        let targets = task.targets.iter().map(|t| t.id.to_string()).collect();
        self.append(Line {
            format: 1,
            what: "start".to_owned(),
            task: task.id.clone(),
            at: task.started_at,
            command: Some(task.command.clone()),
            action: Some(task.action.clone()),
            targets,
            left: Vec::new(),
            user: Some(user_name()),
            state: None,
            error: None,
        })
    }

    /// A change has ended.
    pub fn end(&self, task: &Task) {
        let ended = self.append(Line {
            format: 1,
            what: "end".to_owned(),
            task: task.id.clone(),
            at: task.ended_at.unwrap_or_else(Timestamp::now),
            command: None,
            action: None,
            targets: Vec::new(),
            left: left_of(task),
            user: None,
            state: Some(task.state.as_str().to_owned()),
            error: error_of(task),
        });
        if let Err(error) = ended {
            tracing::warn!(%error, "the journal could not be written");
        }
    }

    fn append(&self, mut line: Line) -> Result<()> {
        let Some(path) = &self.file else {
            self.memory
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .push(line);
            return Ok(());
        };
        let text = encode_short(&mut line);
        Self::write(path, &text)
    }

    fn write(path: &Path, text: &str) -> Result<()> {
        let _guard = lock_beside(path)?;
        if std::fs::metadata(path).is_ok_and(|m| m.len() > ROTATE) {
            rotate(path);
        }
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .map_err(|e| Error::backend(format!("{}: {e}", path.display())).because(e))?;
        file.write_all(text.as_bytes())
            .map_err(|e| Error::backend(format!("{}: {e}", path.display())).because(e))
    }

    /// The last `limit` changes, oldest first.
    pub fn read(&self, limit: usize) -> Result<History> {
        let mut skipped = 0;
        let lines = match &self.file {
            None => self
                .memory
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .clone(),
            Some(path) => read_lines(path, &mut skipped)?,
        };
        let mut entries: Vec<HistoryEntry> = Vec::new();
        for line in lines {
            if line.what == "start" {
                entries.push(HistoryEntry {
                    task: line.task,
                    at: line.at,
                    ended_at: None,
                    command: line.command.unwrap_or_default(),
                    action: line.action.unwrap_or_default(),
                    state: "running".to_owned(),
                    targets: line.targets,
                    left: Vec::new(),
                    error: None,
                    user: line.user.unwrap_or_default(),
                });
            } else if line.what == "end"
                && let Some(entry) = entries.iter_mut().rev().find(|e| e.task == line.task)
            {
                entry.ended_at = Some(line.at);
                entry.state = line.state.unwrap_or_default();
                entry.error = line.error;
                let earlier = line.targets.into_iter().map(|id| HistoryLeft {
                    id,
                    why: String::new(),
                });
                entry.left = line.left.into_iter().chain(earlier).collect();
            }
        }
        let from = entries.len().saturating_sub(limit);
        Ok(History {
            entries: entries.split_off(from),
            skipped,
        })
    }
}

/// The targets of a task that has ended, or whose process is gone, that did not do it, and why.
pub(super) fn left_of(task: &Task) -> Vec<HistoryLeft> {
    let left = task.targets.iter().filter_map(|target| {
        let why = match &target.state {
            TargetState::Done(_) => return None,
            TargetState::Failed(error) => error.to_string(),
            TargetState::Queued | TargetState::Skipped => "not begun".to_owned(),
            TargetState::Running => match &target.step {
                Some(step) => format!("not ended: {step}"),
                None => "not ended".to_owned(),
            },
        };
        let id = target.id.to_string();
        Some(HistoryLeft { id, why })
    });
    left.collect()
}

/// The first failure of a task.
pub(super) fn error_of(task: &Task) -> Option<String> {
    task.targets.iter().find_map(|t| match &t.state {
        TargetState::Failed(error) => Some(error.to_string()),
        _ => None,
    })
}

/// A line that is short enough: of long lists as many as have room, and how many more there were.
fn encode_short(line: &mut Line) -> String {
    let mut text = encode(line);
    let (targets, left) = (line.targets.clone(), line.left.clone());
    for keep in [20, 10, 4, 1] {
        if text.len() <= LINE {
            break;
        }
        let more = |all: usize| (all > keep).then(|| format!("and {} more", all - keep));
        let first = |text: &str, most: usize| text.chars().take(most).collect::<String>();
        line.targets = targets.iter().take(keep).cloned().collect();
        line.targets.extend(more(targets.len()));
        let shorter = left.iter().take(keep).map(|left| HistoryLeft {
            id: left.id.clone(),
            why: first(&left.why, 100),
        });
        line.left = shorter.collect();
        line.left.extend(more(left.len()).map(|id| HistoryLeft {
            id,
            why: String::new(),
        }));
        line.error = line.error.as_deref().map(|error| first(error, 300));
        line.command = line.command.as_deref().map(|command| first(command, 800));
        text = encode(line);
        if text.len() > LINE {
            // What cannot be run again can still be read.
            line.action = None;
            text = encode(line);
        }
    }
    text
}

fn encode(line: &Line) -> String {
    let mut text = serde_json::to_string(line).unwrap_or_default();
    text.push('\n');
    text
}

fn read_lines(path: &Path, skipped: &mut usize) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for n in (0..=KEEP).rev() {
        let file = match File::open(rotated(path, n)) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => {
                return Err(Error::backend(format!(
                    "{} cannot be read: {e}",
                    path.display()
                )));
            }
        };
        for raw in BufReader::new(file).split(b'\n') {
            let Ok(raw) = raw else { break };
            if raw.is_empty() {
                continue;
            }
            match serde_json::from_slice::<Line>(&raw) {
                Ok(line) => lines.push(line),
                Err(_) => *skipped += 1,
            }
        }
    }
    Ok(lines)
}

fn rotated(path: &Path, n: usize) -> PathBuf {
    if n == 0 {
        path.to_owned()
    } else {
        path.with_extension(format!("jsonl.{n}"))
    }
}

fn rotate(path: &Path) {
    for n in (0..KEEP).rev() {
        let _ = std::fs::rename(rotated(path, n), rotated(path, n + 1));
    }
}

fn user_name() -> String {
    std::env::var("USER")
        .or_else(|_| std::env::var("LOGNAME"))
        .unwrap_or_else(|_| format!("uid {}", rustix::process::getuid().as_raw()))
}

/// An action without the values of secret fields: what may be written down.
pub fn without_secrets(action: &Action) -> Action {
    let mut clean = action.clone();
    if let Some(row) = super::rows::find(&action.verb) {
        for field in row.fields.iter().filter(|field| field.secret) {
            if clean.args.has(field.name) {
                clean.args.0.remove(field.name);
            }
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_newer_corral_are_read_as_far_as_they_are_known_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("journal.jsonl");
        let line = |format: u32, what: &str, more: &str| {
            format!(
                "{{\"format\":{format},\"what\":\"{what}\",\"task\":\"t1\",\"at\":\"2026-01-01T00:00:00Z\"{more}}}\n"
            )
        };
        let text = [
            line(2, "start", ",\"command\":\"corral stop web\",\"hue\":[1]"),
            line(2, "moved", ",\"state\":\"elsewhere\""),
            line(2, "end", ",\"state\":3"),
            line(1, "end", ",\"state\":\"done\""),
        ]
        .concat();
        std::fs::write(&file, &text).unwrap();
        let history = Journal::open(Some(dir.path().to_owned())).read(9).unwrap();
        assert_eq!(history.skipped, 1);
        let [entry] = history.entries.as_slice() else {
            panic!("{:?}", history.entries);
        };
        assert_eq!(entry.command, "corral stop web");
        assert_eq!(entry.state, "done");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
}
