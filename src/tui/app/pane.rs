//! What fills the body, and what of it is under the cursor.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::action::Output;
use crate::model::{Data, Detail, Error, Instance, InstanceId, Sample};

/// A pane that fills the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pane {
    /// Instances.
    Inventory,
    /// What corral does now.
    Tasks,
    /// What corral changed.
    History,
    /// Checks.
    Doctor,
    /// Contexts.
    Contexts,
    /// What is wrong.
    Problems,
    /// What can be done where.
    Support,
    /// Hosts and their loads.
    Hosts,
    /// Where disks are kept, and networks.
    Places,
    /// Images to make instances from.
    Images,
    /// Snapshots of several instances.
    Snapshots,
    /// What was told.
    Notices,
    /// The answer to a question of the command line.
    Answer,
}

impl Pane {
    /// Word of `ui go`, and heading.
    pub const NAMES: [(&'static str, Self, &'static str); 13] = [
        ("inventory", Self::Inventory, "Inventory"),
        ("tasks", Self::Tasks, "Tasks"),
        ("history", Self::History, "History"),
        ("doctor", Self::Doctor, "Doctor"),
        ("contexts", Self::Contexts, "Contexts"),
        ("problems", Self::Problems, "Problems"),
        ("support", Self::Support, "Support"),
        ("hosts", Self::Hosts, "Hosts"),
        ("places", Self::Places, "Storage & Networks"),
        ("images", Self::Images, "Images"),
        ("snapshots", Self::Snapshots, "Snapshots"),
        ("notices", Self::Notices, "Notices"),
        ("answer", Self::Answer, "Answer"),
    ];

    /// The word, which is also its section in a keymap.
    pub fn word(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, pane, _)| *pane == self)
            .map_or("", |(word, _, _)| word)
    }

    /// The heading.
    pub fn title(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, pane, _)| *pane == self)
            .map_or("", |(_, _, title)| title)
    }
}

/// Where keys go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// The list.
    List,
    /// The detail beside it.
    Detail,
}

/// A tab of the detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tab {
    /// What it is and how it is.
    Summary,
    /// Snapshots as a tree.
    Snapshots,
    /// Disks and network interfaces.
    Devices,
    /// What its backend reported.
    Events,
    /// Its load over the last minutes.
    Metrics,
    /// Its definition.
    Native,
}

impl Tab {
    /// In order.
    pub const ALL: [Self; 6] = [
        Self::Summary,
        Self::Snapshots,
        Self::Devices,
        Self::Events,
        Self::Metrics,
        Self::Native,
    ];

    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Summary => "Summary",
            Self::Snapshots => "Snapshots",
            Self::Devices => "Disks & NICs",
            Self::Events => "Events",
            Self::Metrics => "Metrics",
            Self::Native => "Native",
        }
    }
}

/// Something that is fetched.
#[derive(Clone, Debug)]
pub struct Loaded<T> {
    /// The number it was last asked under, while that is open.
    pub asked: Option<u64>,
    /// What came, the last time something came.
    pub value: Option<T>,
    /// That is only what came first; the whole is still to come.
    pub part: bool,
    /// Why nothing came, the last time.
    pub error: Option<Error>,
}

impl<T> Default for Loaded<T> {
    fn default() -> Self {
        Self {
            asked: None,
            value: None,
            part: false,
            error: None,
        }
    }
}

/// The detail pane.
#[derive(Clone, Debug)]
pub struct DetailPane {
    /// Shown beside the list.
    pub open: bool,
    /// Which tab.
    pub tab: Tab,
    /// Lines scrolled away.
    pub scroll: usize,
    /// The snapshot under the cursor.
    pub snapshot: usize,
    /// The line of the definition under the cursor.
    pub line: usize,
    /// Lines of the definition that are shown without what they hold.
    pub folded: BTreeSet<usize>,
    /// Secrets of the definition are shown.
    pub secrets: bool,
    /// What is shown, whose identity the first is.
    pub detail: Loaded<(String, Box<Detail>)>,
    /// Whose detail is being asked for, or was.
    pub of: Option<String>,
    /// Events of the same instance.
    pub events: Loaded<Box<Data>>,
    /// Recent readings of its load, and the number they were last asked under, while that is open.
    pub samples: Vec<Sample>,
    /// As said.
    pub sampled: Option<u64>,
    /// The row for which they were asked: it changes with each reading.
    pub sampled_for: Option<(InstanceId, Timestamp)>,
    /// The row as it was when the detail was asked for.
    pub row: Option<Arc<Instance>>,
}

/// A cursor in a list, which stays on the same thing when the list changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Key of the thing.
    pub key: Option<String>,
    /// Its row.
    pub row: usize,
    /// First row on screen.
    pub top: usize,
    /// The thing is shown in full.
    pub open: bool,
    /// First line of that on screen; `None` until it was scrolled.
    pub scroll: Option<usize>,
}

/// An answer to show.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The question.
    pub title: String,
    /// Lines.
    pub lines: Vec<String>,
    /// More may come, under this number.
    pub follows: Option<u64>,
    /// How it is wanted.
    pub output: Output,
}

/// Lines kept of an answer that goes on: what a person scrolls back through.
pub const ANSWER_LINES: usize = 2000;
