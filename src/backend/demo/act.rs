//! Single acts on a guest: in words, and as the impersonated kind's own call.

use std::time::Duration;

use super::dialect::Dialect;
use super::guest::Guest;
use crate::model::{State, Step, print_duration};

/// One act on one guest; a change is a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Start,
    /// Ask the guest to shut down and wait.
    ShutDown,
    PowerOff,
    /// Power off if it still runs after this long.
    PowerOffAfter(Duration),
    /// Ask the guest to reboot.
    Reboot,
    Reset,
    /// The server stops and starts it in one call.
    Cycle {
        now: bool,
    },
    Pause,
    Resume,
    TakeSnapshot {
        name: String,
        note: Option<String>,
        memory: bool,
    },
    Revert {
        name: String,
    },
    DropSnapshot {
        name: String,
    },
    /// Write the definition of a new guest.
    Define,
    /// Fill disk number `0` from `source`.
    FillDisk {
        n: usize,
        source: String,
    },
    /// Remove the disk with this source.
    RemoveDisk {
        source: String,
    },
    Undefine {
        keep_disks: bool,
    },
}

impl Act {
    /// As a step of a plan.
    pub(crate) fn step(&self, dialect: Dialect, guest: &Guest) -> Step {
        let step = Step::new(self.title(), self.native(dialect, guest));
        let id = guest.id();
        match self {
            Self::Start => step.undo(format!("corral stop {id}")),
            Self::ShutDown | Self::PowerOff => step.undo(format!("corral start {id}")),
            Self::Pause => step.undo(format!("corral resume {id}")),
            Self::Resume => step.undo(format!("corral pause {id}")),
            Self::TakeSnapshot { name, .. } => step.undo(format!(
                "corral snapshot delete {id}@{}",
                crate::model::encode_segment(name)
            )),
            Self::Define => step.undo(format!("corral delete {id}")),
            _ => step,
        }
    }

    /// In words.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Start => "Power on".into(),
            Self::ShutDown => "Ask the guest to shut down".into(),
            Self::PowerOff => "Power off now".into(),
            Self::PowerOffAfter(wait) => {
                format!("Power off if it still runs after {}", print_duration(*wait))
            }
            Self::Reboot => "Ask the guest to reboot".into(),
            Self::Reset => "Reset now".into(),
            Self::Cycle { now: false } => "Shut down and start again".into(),
            Self::Cycle { now: true } => "Power off and start again".into(),
            Self::Pause => "Halt its CPUs".into(),
            Self::Resume => "Let its CPUs go on".into(),
            Self::TakeSnapshot {
                name, memory: true, ..
            } => format!("Take snapshot {name} with memory"),
            Self::TakeSnapshot { name, .. } => format!("Take snapshot {name}"),
            Self::Revert { name } => format!("Go back to snapshot {name}"),
            Self::DropSnapshot { name } => format!("Delete snapshot {name}"),
            Self::Define => "Write the definition".into(),
            Self::FillDisk { source, .. } if source.is_empty() => "Make an empty disk".into(),
            Self::FillDisk { source, .. } => format!("Make the disk from {source}"),
            Self::RemoveDisk { source } => format!("Remove disk {source}"),
            Self::Undefine { keep_disks: true } => "Remove the definition, keep disks".into(),
            Self::Undefine { keep_disks: false } => "Remove the definition".into(),
        }
    }

    /// The impersonated kind's own call.
    pub(crate) fn native(&self, dialect: Dialect, guest: &Guest) -> String {
        super::native::call(dialect, self, guest)
    }

    /// The state a guest is in after it, where it changes the state.
    pub(crate) fn leads_to(&self) -> Option<State> {
        match self {
            Self::Start | Self::Reboot | Self::Reset | Self::Cycle { .. } | Self::Resume => {
                Some(State::Running)
            }
            Self::ShutDown | Self::PowerOff => Some(State::Stopped),
            Self::Pause => Some(State::Paused),
            _ => None,
        }
    }
}
