//! What the user changed in the full-screen view, kept for the next time: `ui.toml` beside the journal. The configuration,
//! where it says something, wins.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio_util::task::TaskTracker;

use crate::link::files::{lock_beside, make_dir, write_atomically};
use crate::model::{Error, InstanceId, Result, shown};

/// A disk that is slower must not hold up leaving.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(1);

/// What is remembered; `None` was never changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UiState {
    /// Mouse reports.
    pub mouse: Option<bool>,
    /// The theme's name.
    pub theme: Option<String>,
    /// Sort column; a leading `-` turns it round.
    pub sort: Option<String>,
    /// The detail is open.
    pub detail: Option<bool>,
    /// Its share of the width, in percent, where it stands beside the list.
    pub beside: Option<u16>,
    /// Its share of the height, where it stands below.
    pub below: Option<u16>,
    /// Filters entered before, the newest last.
    pub filters: Vec<String>,
    /// Columns of the inventory by the smallest width they are for.
    pub columns: Option<ColumnWords>,
    /// What the inventory is grouped by.
    pub group: Option<String>,
    /// Views by name.
    pub views: Option<Vec<SavedView>>,
}

/// Columns by the smallest width they are for: `state`, or `state:22` with a width of its own.
pub type ColumnWords = BTreeMap<String, Vec<String>>;

/// A way to look at the inventory, under a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedView {
    /// The name.
    pub name: String,
    /// The filter as typed.
    pub filter: String,
    /// Only problems.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub problems: bool,
    /// Only this context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Sort column; a leading `-` turns it round.
    pub sort: String,
    /// What it is grouped by.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Columns, where any were chosen.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: ColumnWords,
}

/// Where a view was when its line was cut: only the next one begins there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cut {
    /// Word of the pane.
    pub pane: String,
    /// Instances that were marked, by identity: one that was made anew since is not marked.
    pub marks: Vec<String>,
    /// Groups that were folded.
    pub folded: Vec<String>,
    /// The instance under the cursor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected: Option<InstanceId>,
    /// What the inventory showed.
    pub view: SavedView,
}

/// The file.
pub struct UiMemory {
    file: Option<PathBuf>,
    /// The newest state that is not written yet: writers take it, so that the last one wins.
    newest: Arc<Mutex<Option<UiState>>>,
    writing: TaskTracker,
}

impl UiMemory {
    /// In the state folder; without one nothing is kept.
    pub(super) fn open(state: Option<&Path>) -> Self {
        Self {
            file: state.map(|dir| dir.join("ui.toml")),
            newest: Arc::default(),
            writing: TaskTracker::new(),
        }
    }

    /// What is kept, and what is wrong with the file. Where it cannot be read nothing was kept.
    pub fn load(&self) -> (UiState, Option<Error>) {
        match self.file.as_deref().map(read) {
            None => (UiState::default(), None),
            Some(Ok(table)) => of(&table),
            Some(Err(error)) => (UiState::default(), Some(error)),
        }
    }

    /// Keeps a state, in the background; `failed` hears why it could not be.
    pub fn keep(&self, state: UiState, failed: impl FnOnce(Error) + Send + 'static) {
        let Some(file) = self.file.clone() else {
            return;
        };
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
        let newest = Arc::clone(&self.newest);
        self.writing.spawn_blocking(move || {
            // Held while it is written: a later writer finds nothing left, or something newer.
            let mut newest = newest.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(state) = newest.take()
                && let Err(error) = write(&file, &state)
            {
                tracing::info!(%error, "what was changed in the view is not kept");
                failed(error);
            }
        });
    }

    /// When a view was opened before this one, and that one is open now. Waits for the disk.
    pub fn opened(&self) -> Option<Timestamp> {
        let file = self.file.as_deref()?;
        let before = read(file).ok().and_then(|table| {
            let text = table.get("opened")?.as_str()?;
            text.parse().ok()
        });
        let now = Timestamp::now().to_string();
        if let Err(error) = insert(file, [("opened", Some(toml::Value::from(now)))]) {
            tracing::info!(%error, "when the view was opened is not kept");
        }
        before
    }

    /// Keeps where a view is whose line is cut. Waits for the disk: nothing comes after it.
    pub fn cut(&self, cut: &Cut) {
        let value = toml::Value::try_from(cut).ok();
        if let Some(file) = self.file.as_deref()
            && let Err(error) = change(file, |table| table.extend(value.map(|v| ("cut".into(), v))))
        {
            tracing::info!(%error, "where the view was is not kept");
        }
    }

    /// Where the view was before this one, if its line was cut; it is told once.
    pub fn take_cut(&self) -> Option<Cut> {
        let file = self.file.as_deref()?;
        let cut = read(file).ok()?.get("cut")?.clone().try_into().ok();
        change(file, |table| drop(table.remove("cut"))).ok()?;
        cut
    }

    /// Waits for what is being written.
    pub(super) async fn flush(&self) {
        self.writing.close();
        let _ = tokio::time::timeout(LAST_WORDS, self.writing.wait()).await;
        self.writing.reopen();
    }
}

fn read(file: &Path) -> Result<toml::Table> {
    let bad = |why: &str| {
        let path = file.display().to_string();
        Error::invalid(format!("{}: {}", shown(&path), shown(why)))
            .remedy("What was changed in the view is forgotten")
    };
    match std::fs::read_to_string(file) {
        Ok(text) => text.parse().map_err(|e: toml::de::Error| bad(e.message())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(toml::Table::new()),
        Err(error) => Err(bad(&error.to_string())),
    }
}

fn of(table: &toml::Table) -> (UiState, Option<Error>) {
    let mut fault = None;
    let state = UiState {
        mouse: value(table, "mouse", &mut fault),
        theme: value(table, "theme", &mut fault),
        sort: value(table, "sort", &mut fault),
        detail: value(table, "detail", &mut fault),
        beside: value(table, "beside", &mut fault),
        below: value(table, "below", &mut fault),
        filters: value(table, "filters", &mut fault).unwrap_or_default(),
        columns: value(table, "columns", &mut fault),
        group: value(table, "group", &mut fault),
        views: value(table, "views", &mut fault),
    };
    (state, fault)
}

fn value<T: DeserializeOwned>(
    table: &toml::Table,
    key: &str,
    fault: &mut Option<Error>,
) -> Option<T> {
    let read = table.get(key)?.clone().try_into().ok();
    if read.is_none() {
        *fault = Some(Error::invalid(format!(
            "ui.toml: {key} is not what it should be; it is forgotten"
        )));
    }
    read
}

fn write(file: &Path, state: &UiState) -> Result<()> {
    let UiState {
        mouse,
        theme,
        sort,
        detail,
        beside,
        below,
        filters,
        columns,
        group,
        views,
    } = state.clone();
    let filters = (!filters.is_empty()).then_some(filters);
    let values = [
        ("mouse", mouse.map(toml::Value::from)),
        ("theme", theme.map(toml::Value::from)),
        ("sort", sort.map(toml::Value::from)),
        ("detail", detail.map(toml::Value::from)),
        ("beside", written(beside)),
        ("below", written(below)),
        ("filters", filters.map(toml::Value::from)),
        ("columns", written(columns)),
        ("group", group.map(toml::Value::from)),
        ("views", written(views)),
    ];
    insert(file, values)
}

fn written<T: Serialize>(value: Option<T>) -> Option<toml::Value> {
    toml::Value::try_from(value?).ok()
}

fn insert<const N: usize>(file: &Path, values: [(&str, Option<toml::Value>); N]) -> Result<()> {
    change(file, |table| {
        for (key, value) in values {
            if let Some(value) = value {
                table.insert(key.to_owned(), value);
            }
        }
    })
}

/// What this corral knows nothing of stays in the file.
fn change(file: &Path, with: impl FnOnce(&mut toml::Table)) -> Result<()> {
    if let Some(dir) = file.parent() {
        make_dir(dir)?;
    }
    let _lock = lock_beside(file)?;
    let mut table = read(file).unwrap_or_default();
    with(&mut table);
    write_atomically(file, table.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn the_last_change_is_kept_and_what_is_not_known_stays() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("state/ui.toml");
        make_dir(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "split = 40\nmouse = true\n").unwrap();
        let memory = UiMemory::open(file.parent());
        let (mut state, fault) = memory.load();
        assert_eq!((state.mouse, fault), (Some(true), None));
        for theme in ["dark", "light", "dark", "contrast"] {
            state.theme = Some(theme.to_owned());
            memory.keep(state.clone(), |error| panic!("{error}"));
        }
        state.filters = vec!["tag:prod \"a b\"".to_owned()];
        state.columns = Some([("80".to_owned(), vec!["state:22".to_owned()])].into());
        state.views = Some(vec![SavedView {
            name: "night: web".to_owned(),
            filter: "tag:web".to_owned(),
            ..SavedView::default()
        }]);
        memory.keep(state.clone(), |error| panic!("{error}"));
        memory.flush().await;
        assert_eq!(memory.load(), (state, None));
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("split = 40"), "{text}");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn what_cannot_be_kept_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let memory = UiMemory::open(Some(dir.path()));
        // A folder stands where the file should be.
        std::fs::create_dir(dir.path().join("ui.toml")).unwrap();
        let (told, heard) = std::sync::mpsc::channel();
        memory.keep(UiState::default(), move |error| told.send(error).unwrap());
        memory.flush().await;
        assert!(heard.recv().unwrap().message.contains("ui.toml"));
    }

    #[tokio::test]
    async fn where_a_cut_view_was_is_told_once_and_the_rest_stays() {
        let dir = tempfile::tempdir().unwrap();
        let memory = UiMemory::open(Some(dir.path()));
        assert_eq!(memory.take_cut(), None);
        let state = UiState {
            mouse: Some(true),
            ..UiState::default()
        };
        memory.keep(state.clone(), |error| panic!("{error}"));
        memory.flush().await;
        let cut = Cut {
            pane: "tasks".to_owned(),
            marks: vec!["local#7".to_owned()],
            selected: "local/web".parse().ok(),
            ..Cut::default()
        };
        memory.cut(&cut);
        assert_eq!(memory.load(), (state.clone(), None));
        assert_eq!(memory.take_cut(), Some(cut));
        assert_eq!(memory.take_cut(), None);
        assert_eq!(memory.load(), (state, None));
        std::fs::write(dir.path().join("ui.toml"), "cut = 3\n").unwrap();
        assert_eq!(memory.take_cut(), None);
    }

    #[tokio::test]
    async fn a_broken_file_is_told_once_and_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let memory = UiMemory::open(Some(dir.path()));
        std::fs::write(dir.path().join("ui.toml"), "mouse = = true").unwrap();
        let (state, fault) = memory.load();
        assert_eq!(state, UiState::default());
        assert!(fault.unwrap().message.contains("ui.toml"));
        let state = UiState {
            mouse: Some(true),
            ..UiState::default()
        };
        memory.keep(state.clone(), |error| panic!("{error}"));
        memory.flush().await;
        assert_eq!(memory.load(), (state, None));
        std::fs::write(dir.path().join("ui.toml"), "mouse = 3\ntheme = \"dark\"").unwrap();
        let (state, fault) = memory.load();
        assert_eq!((state.mouse, state.theme.as_deref()), (None, Some("dark")));
        assert!(fault.unwrap().message.contains("mouse"));
        let nowhere = UiMemory::open(None);
        nowhere.keep(UiState::default(), |error| panic!("{error}"));
        assert_eq!(nowhere.load(), (UiState::default(), None));
    }
}
