//! What panes ask for when they are shown, and ask again when they are refreshed.

use std::collections::BTreeMap;

use super::app::{App, Loaded, Pane};
use super::msg::Effect;
use crate::model::{Action, Body, Data};

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
}

/// Entries of the journal that are shown.
const LAST: u64 = 200;

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
            Pane::Inventory | Pane::Tasks | Pane::Contexts | Pane::Problems | Pane::Answer => &[],
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
        }
    }

    /// Never becomes another one while corral runs.
    fn is_fixed(self) -> bool {
        self == Self::Matrix
    }
}

/// All that was asked, by question.
#[derive(Clone, Debug, Default)]
pub struct Readings(BTreeMap<Reading, Loaded<Box<Data>>>);

impl Readings {
    /// One of them.
    pub fn get(&self, reading: Reading) -> Option<&Loaded<Box<Data>>> {
        self.0.get(&reading)
    }

    /// What came of one, the last time something came.
    pub fn body(&self, reading: Reading) -> Option<&Body> {
        self.get(reading)?.value.as_ref().map(|data| &data.body)
    }

    /// The one that is open under this number.
    pub fn asked(&mut self, number: u64) -> Option<&mut Loaded<Box<Data>>> {
        self.0
            .values_mut()
            .find(|loaded| loaded.asked == Some(number))
    }
}

/// Asks for what the pane on the screen shows; `again`: even if that is under way.
pub fn reload(app: &mut App, again: bool) -> Vec<Effect> {
    let mut effects = Vec::new();
    for reading in Reading::of(app.pane) {
        let number = app.number();
        let loaded = app.readings.0.entry(*reading).or_default();
        if loaded.asked.is_some() && !again || (loaded.value.is_some() && reading.is_fixed()) {
            continue;
        }
        loaded.asked = Some(number);
        effects.push(match reading {
            Reading::Doctor => Effect::Doctor(number, reading.action()),
            _ => Effect::Read(number, reading.action()),
        });
    }
    effects
}
