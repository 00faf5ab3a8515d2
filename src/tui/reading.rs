//! What panes ask for when they are shown, and ask again when they are refreshed.

use std::collections::BTreeMap;

use super::app::{App, Loaded, Pane};
use super::msg::Effect;
use crate::model::{Action, Body, Data, InstanceId, Selector};

/// A question whose answer a pane is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reading {
    /// What corral changed.
    History,
    /// Checks.
    Doctor,
    /// What can be done where.
    Matrix,
    /// Hosts.
    Hosts,
    /// Places for disks.
    Pools,
    /// Networks.
    Networks,
    /// Images.
    Images,
    /// Snapshots of several instances.
    Snapshots,
}

/// Entries of the journal that are shown.
const LAST: u64 = 200;

/// Instances whose snapshots are asked for at once: each is a question of its own to its backend.
pub const MOST: usize = 200;

impl Reading {
    /// What a pane is made of.
    pub fn of(pane: Pane) -> &'static [Self] {
        match pane {
            Pane::History => &[Self::History],
            Pane::Doctor => &[Self::Doctor],
            Pane::Support => &[Self::Matrix],
            Pane::Hosts => &[Self::Hosts],
            Pane::Places => &[Self::Pools, Self::Networks],
            Pane::Images => &[Self::Images],
            Pane::Snapshots => &[Self::Snapshots],
            Pane::Inventory
            | Pane::Tasks
            | Pane::Contexts
            | Pane::Problems
            | Pane::Answer
            | Pane::Notices => &[],
        }
    }

    fn action(self) -> Action {
        match self {
            Self::History => Action::new("history").with("last", LAST),
            Self::Doctor => Action::new("doctor"),
            Self::Matrix => Action::new("matrix"),
            Self::Hosts => Action::new("host list"),
            Self::Pools => Action::new("storage list"),
            Self::Networks => Action::new("network list"),
            Self::Images => Action::new("image list"),
            Self::Snapshots => Action::new("snapshot list"),
        }
    }

    /// Contexts answer it each for itself, so that a slow one holds up nobody's rows.
    fn is_by_context(self) -> bool {
        !matches!(self, Self::History | Self::Matrix)
    }

    /// Never becomes another one while corral runs.
    fn is_fixed(self) -> bool {
        self == Self::Matrix
    }
}

/// Whose snapshots are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// In the order of the inventory.
    pub ids: Vec<InstanceId>,
    /// Those are marked, and not just all that are visible.
    pub marked: bool,
    /// So many there would be, were there no limit.
    pub of: usize,
}

impl About {
    /// The marked instances, else all that are visible.
    fn now(app: &App) -> Self {
        let marks = app.inventory.visible_marks();
        let marked = !marks.is_empty();
        let all = if marked { &marks } else { &app.inventory.rows };
        Self {
            ids: all.iter().take(MOST).map(|row| row.id.clone()).collect(),
            marked,
            of: all.len(),
        }
    }
}

/// All that was asked, by question.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    all: BTreeMap<Reading, Loaded<Box<Data>>>,
    /// Whose snapshots were asked for.
    pub about: About,
}

impl Readings {
    /// One of them.
    pub fn get(&self, reading: Reading) -> Option<&Loaded<Box<Data>>> {
        self.all.get(&reading)
    }

    /// What came of one, the last time something came.
    pub fn body(&self, reading: Reading) -> Option<&Body> {
        self.get(reading)?.value.as_ref().map(|data| &data.body)
    }

    /// The one that is open under this number.
    pub fn asked(&mut self, number: u64) -> Option<&mut Loaded<Box<Data>>> {
        self.all
            .values_mut()
            .find(|loaded| loaded.asked == Some(number))
    }
}

/// Asks for something that is not known yet, for a form or the command line.
pub fn want(app: &mut App, reading: Reading) -> Option<Effect> {
    let known = app.readings.get(reading);
    if known.is_some_and(|loaded| loaded.asked.is_some() || loaded.value.is_some()) {
        return None;
    }
    ask(app, reading, false)
}

/// Asks for what the pane on the screen shows; `again`: even if that is under way.
pub fn reload(app: &mut App, again: bool) -> Vec<Effect> {
    let readings = Reading::of(app.pane).iter();
    readings
        .filter_map(|reading| ask(app, *reading, again))
        .collect()
}

fn ask(app: &mut App, reading: Reading, mut again: bool) -> Option<Effect> {
    let number = app.number();
    let mut action = reading.action();
    if reading == Reading::Snapshots {
        let about = About::now(app);
        // What was said of other instances is no answer to this.
        if about.ids != app.readings.about.ids {
            app.readings.all.remove(&reading);
            again = true;
        }
        app.readings.about = about;
        let ids = &app.readings.about.ids;
        action.targets = ids.iter().map(Selector::id).collect();
        if action.targets.is_empty() {
            return None;
        }
    }
    let loaded = app.readings.all.entry(reading).or_default();
    if loaded.asked.is_some() && !again || (loaded.value.is_some() && reading.is_fixed()) {
        return None;
    }
    loaded.asked = Some(number);
    Some(if reading.is_by_context() {
        Effect::ReadInParts(number, action)
    } else {
        Effect::Read(number, action)
    })
}
