//! What was entered in the command line of the full-screen view, kept for the next time: `lines` beside the
//! journal, one a line, the newest last. A line with a secret in it is never among them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::task::TaskTracker;

use super::{grammar, rows};
use crate::link::files::{lock_beside, make_dir, write_atomically};
use crate::model::Result;

/// Lines kept.
pub const KEPT: usize = 500;

/// The file.
pub struct Entered {
    file: Option<PathBuf>,
    /// One writer after the other, so that lines stay in their order.
    waiting: Arc<Mutex<Vec<String>>>,
    writing: TaskTracker,
}

impl Entered {
    /// In the state folder; without one nothing is kept.
    pub(super) fn open(state: Option<&Path>) -> Self {
        Self {
            file: state.map(|dir| dir.join("lines")),
            waiting: Arc::default(),
            writing: TaskTracker::new(),
        }
    }

    /// What was entered, the newest last. A file that cannot be read holds nothing.
    pub fn load(&self) -> Vec<String> {
        self.file.as_deref().map(read).unwrap_or_default()
    }

    /// Keeps one more, in the background; what other corrals entered meanwhile stays. A failure is only
    /// logged: nothing depends on it.
    pub fn keep(&self, line: String) {
        let Some(file) = self.file.clone() else {
            return;
        };
        let waiting = Arc::clone(&self.waiting);
        let lock = |all: &Mutex<Vec<String>>| -> Vec<String> {
            std::mem::take(&mut *all.lock().unwrap_or_else(PoisonError::into_inner))
        };
        waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
        self.writing.spawn_blocking(move || {
            let Err(error) = write(&file, || lock(&waiting)) else {
                return;
            };
            tracing::info!(%error, "what was entered is not kept");
        });
    }

    /// Waits for what is being written.
    pub(super) async fn flush(&self) {
        self.writing.close();
        let _ = tokio::time::timeout(super::ui_state::LAST_WORDS, self.writing.wait()).await;
        self.writing.reopen();
    }
}

/// Puts a line at the end of those before; the same line further up goes.
pub fn push(all: &mut Vec<String>, line: String) {
    all.retain(|known| *known != line);
    all.push(line);
    let extra = all.len().saturating_sub(KEPT);
    all.drain(..extra);
}

/// Whether a line may be written down: no field of it is a secret, and no address has a password in it.
pub fn may_be_kept(line: &str) -> bool {
    let (words, _) = grammar::scan(line);
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let skip = usize::from(words.first() == Some(&"corral"));
    let words = words.get(skip..).unwrap_or_default();
    let named = |count: usize| rows::find(&words.get(..count)?.join(" "));
    let row = named(2).or_else(|| named(1));
    // Of a verb that nobody knows every word that is a secret's anywhere is one.
    let is_secret = |name: &str| match row {
        Some(row) => row.field(name).is_some_and(|field| field.secret),
        None => {
            let fields = rows::rows().iter().flat_map(|row| row.fields);
            fields.into_iter().any(|f| f.secret && f.name == name)
        }
    };
    let gives_away = |word: &&str| {
        let name = word.strip_prefix("--").and_then(|w| w.split('=').next());
        name.is_some_and(is_secret) || has_password(word) || sets_secret(word)
    };
    !words.iter().any(gives_away)
}

/// `https://user:password@host/`.
fn has_password(word: &str) -> bool {
    let rest = word.split_once("://").map(|(_, rest)| rest);
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    host.is_some_and(|host| host.contains('@'))
}

/// `token=…`, as `--set` takes it; a file or a variable that it is in may be named.
fn sets_secret(word: &str) -> bool {
    let key = word.rsplit_once('=').map_or("", |(key, _)| key);
    let key = key.to_lowercase();
    let odd = ["password", "passphrase", "secret", "token"];
    let names_it = ["-file", "-env"].iter().any(|end| key.ends_with(end));
    !names_it && odd.iter().any(|word| key.contains(word))
}

fn read(file: &Path) -> Vec<String> {
    let bytes = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().filter(|line| !line.is_empty());
    let mut all: Vec<String> = lines.map(str::to_owned).collect();
    let extra = all.len().saturating_sub(KEPT);
    all.drain(..extra);
    all
}

fn write(file: &Path, new: impl FnOnce() -> Vec<String>) -> Result<()> {
    if let Some(dir) = file.parent() {
        make_dir(dir)?;
    }
    let _lock = lock_beside(file)?;
    let new = new();
    if new.is_empty() {
        return Ok(());
    }
    let mut all = read(file);
    for line in new {
        push(&mut all, line);
    }
    let mut text = all.join("\n");
    text.push('\n');
    write_atomically(file, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn lines_are_kept_in_order_bounded_and_for_the_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let entered = Entered::open(Some(&state));
        assert!(entered.load().is_empty());
        for n in 0..KEPT + 20 {
            entered.keep(format!("info local/vm{n}"));
        }
        entered.keep("info local/vm30".to_owned());
        entered.flush().await;
        // Another corral.
        let other = Entered::open(Some(&state));
        other.keep("list".to_owned());
        other.flush().await;
        let all = entered.load();
        assert_eq!(all.len(), KEPT);
        assert_eq!(all.last().unwrap(), "list");
        assert_eq!(all[KEPT - 2], "info local/vm30");
        assert_eq!(all.iter().filter(|l| *l == "info local/vm30").count(), 1);
        let mode = state.join("lines").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        Entered::open(None).keep("list".to_owned());
    }

    #[test]
    fn no_secret_is_kept() {
        for line in [
            "sendkey local/web --text hunter2",
            "sendkey local/web --text=hunter2",
            "image pull https://me:hunter2@example.org/a.qcow2",
            "context set pve --set token=hunter2",
            "create web --set 'ci-password=hunter2'",
        ] {
            assert!(!may_be_kept(line), "{line}");
        }
        for line in [
            "note local/web --text hello",
            "stop local/web@x",
            "image pull https://example.org/a.qcow2",
            "create web --password-file=~/pw",
        ] {
            assert!(may_be_kept(line), "{line}");
        }
    }
}
