//! The effective settings.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

/// Where to look for systems on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discover {
    /// Everywhere.
    All,
    /// Nowhere.
    Nothing,
    /// For these kinds.
    Kinds(Vec<String>),
}

impl Discover {
    /// Whether to look for `kind`.
    pub fn wants(&self, kind: &str) -> bool {
        match self {
            Self::All => true,
            Self::Nothing => false,
            Self::Kinds(kinds) => kinds.iter().any(|wanted| wanted == kind),
        }
    }
}

/// What the terminal front reads. What the user changed there since wins over `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UiSettings {
    /// A theme's name.
    pub theme: Option<String>,
    /// `auto`, `unicode` or `ascii`.
    pub icons: String,
    /// Mouse reports.
    pub mouse: Option<bool>,
    /// A keymap's name.
    pub keymap: Option<String>,
    /// The terminal's title says what runs.
    pub title: Option<bool>,
    /// A progress for terminals that show one (OSC 9;4).
    pub progress: Option<bool>,
    /// How the end of a long task is told: `bell`, `desktop`, `off`.
    pub notify: Option<String>,
    /// Columns by smallest width.
    pub columns: BTreeMap<u16, Vec<String>>,
    /// Sort column by smallest width; a leading `-` turns it round.
    pub sort: BTreeMap<u16, String>,
}

impl UiSettings {
    /// The columns for this width, where the user chose any.
    pub fn columns_at(&self, width: u16) -> Option<&[String]> {
        let (_, columns) = self.columns.range(..=width).next_back()?;
        Some(columns)
    }

    /// The sort column for this width, where the user chose one.
    pub fn sort_at(&self, width: u16) -> Option<&str> {
        let (_, sort) = self.sort.range(..=width).next_back()?;
        Some(sort)
    }
}

/// Everything that is not a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Routes commands without a target.
    pub default_context: Option<String>,
    /// Refuses every change.
    pub readonly: bool,
    /// Where to look for systems.
    pub discover: Discover,
    /// The terminal front.
    pub ui: UiSettings,
    /// How long `stop` waits.
    pub stop_timeout: Duration,
    /// How many targets of a bulk run at once per context.
    pub bulk_concurrency: usize,
    /// Login user where nothing better is known.
    pub ssh_user: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_context: None,
            readonly: false,
            discover: Discover::All,
            ui: UiSettings {
                icons: "auto".to_owned(),
                ..UiSettings::default()
            },
            stop_timeout: Duration::from_mins(2),
            bulk_concurrency: 4,
            ssh_user: None,
        }
    }
}

/// The layered tables as serde reads them.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Raw {
    default_context: Option<String>,
    readonly: bool,
    discover: RawDiscover,
    #[serde(default)]
    ui: RawUi,
    stop: RawStop,
    bulk: RawBulk,
    #[serde(default)]
    ssh: RawSsh,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawDiscover {
    All(bool),
    Kinds(Vec<String>),
}

#[derive(Deserialize, Default)]
struct RawUi {
    theme: Option<String>,
    icons: Option<String>,
    mouse: Option<bool>,
    keymap: Option<String>,
    title: Option<bool>,
    progress: Option<bool>,
    notify: Option<String>,
    #[serde(default)]
    columns: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    sort: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct RawStop {
    timeout: f64,
}

#[derive(Deserialize)]
struct RawBulk {
    concurrency: usize,
}

#[derive(Deserialize, Default)]
struct RawSsh {
    user: Option<String>,
}

fn widths<T>(map: BTreeMap<String, T>) -> BTreeMap<u16, T> {
    map.into_iter()
        .filter_map(|(width, value)| Some((width.parse().ok()?, value)))
        .collect()
}

impl From<Raw> for Settings {
    fn from(raw: Raw) -> Self {
        let default = Self::default();
        Self {
            default_context: raw.default_context,
            readonly: raw.readonly,
            discover: match raw.discover {
                RawDiscover::All(true) => Discover::All,
                RawDiscover::All(false) => Discover::Nothing,
                RawDiscover::Kinds(kinds) => Discover::Kinds(kinds),
            },
            ui: UiSettings {
                theme: raw.ui.theme,
                icons: raw.ui.icons.unwrap_or(default.ui.icons),
                mouse: raw.ui.mouse,
                keymap: raw.ui.keymap,
                title: raw.ui.title,
                progress: raw.ui.progress,
                notify: raw.ui.notify,
                columns: widths(raw.ui.columns),
                sort: widths(raw.ui.sort),
            },
            stop_timeout: Duration::try_from_secs_f64(raw.stop.timeout)
                .unwrap_or(default.stop_timeout),
            bulk_concurrency: raw.bulk.concurrency.max(1),
            ssh_user: raw.ssh.user,
        }
    }
}
