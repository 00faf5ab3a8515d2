//! What can be done where, always with a reason.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::Action;

/// One operation of the support matrix. Enters with its first implementation.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Power on.
    Start,
    /// Ask the guest to shut down.
    Stop,
    /// Power off now.
    ForceStop,
    /// Ask the guest to reboot.
    Restart,
    /// Reset now.
    Reset,
    /// Stop and start, so that pending settings apply.
    ColdRestart,
    /// Halt the CPUs, stay in RAM.
    Pause,
    /// Go on after a pause.
    Resume,
    /// Make a new instance.
    Create,
    /// Delete an instance.
    Delete,
    /// Take a snapshot, without RAM.
    SnapshotCreate,
    /// Take a snapshot with RAM.
    SnapshotMemory,
    /// Go back to a snapshot.
    SnapshotRestore,
    /// Delete a snapshot.
    SnapshotDelete,
    /// A way to a guest's port.
    Route,
    /// Load over time.
    Metrics,
    /// What the backend reported.
    Events,
}

/// A group of operations that a backend has wholly or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Start, stop, restart.
    Power,
    /// Pause and resume.
    Pause,
    /// Create.
    Create,
    /// Delete.
    Remove,
    /// Snapshots.
    Snapshots,
    /// Ways in.
    Routes,
    /// Load.
    Metrics,
    /// Recorded events.
    Events,
}

impl Operation {
    /// All of them, in the matrix's order.
    pub const ALL: [Self; 17] = [
        Self::Start,
        Self::Stop,
        Self::ForceStop,
        Self::Restart,
        Self::Reset,
        Self::ColdRestart,
        Self::Pause,
        Self::Resume,
        Self::Create,
        Self::Delete,
        Self::SnapshotCreate,
        Self::SnapshotMemory,
        Self::SnapshotRestore,
        Self::SnapshotDelete,
        Self::Route,
        Self::Metrics,
        Self::Events,
    ];

    /// The family that carries it out.
    pub fn family(self) -> Family {
        match self {
            Self::Start
            | Self::Stop
            | Self::ForceStop
            | Self::Restart
            | Self::Reset
            | Self::ColdRestart => Family::Power,
            Self::Pause | Self::Resume => Family::Pause,
            Self::Create => Family::Create,
            Self::Delete => Family::Remove,
            Self::SnapshotCreate
            | Self::SnapshotMemory
            | Self::SnapshotRestore
            | Self::SnapshotDelete => Family::Snapshots,
            Self::Route => Family::Routes,
            Self::Metrics => Family::Metrics,
            Self::Events => Family::Events,
        }
    }

    /// As printed.
    pub fn title(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::ForceStop => "stop --force",
            Self::Restart => "restart",
            Self::Reset => "restart --force",
            Self::ColdRestart => "restart --cold",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::SnapshotCreate => "snapshot create",
            Self::SnapshotMemory => "snapshot create --with-memory",
            Self::SnapshotRestore => "snapshot restore",
            Self::SnapshotDelete => "snapshot delete",
            Self::Route => "dial",
            Self::Metrics => "metrics",
            Self::Events => "events",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.title())
    }
}

/// Whether and how an operation is possible. Never a bare bool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", tag = "support", content = "why")]
pub enum Support {
    /// The backend does it.
    Native,
    /// corral does it by other means.
    Emulated(String),
    /// Possible when a condition holds; for an instance: not now, and why.
    Conditional(String),
    /// Another corral does it.
    Relayed,
    /// Not possible; the native way where one exists.
    No(String),
}

impl Support {
    /// Possible somehow (perhaps under a condition).
    pub fn is_possible(&self) -> bool {
        !matches!(self, Self::No(_))
    }

    /// Possible for this instance now.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Native | Self::Emulated(_) | Self::Relayed)
    }

    /// The reason, where there is one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Emulated(why) | Self::Conditional(why) | Self::No(why) => Some(why),
            Self::Native | Self::Relayed => None,
        }
    }

    /// The cell's word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Native => "yes",
            Self::Emulated(_) => "emulated",
            Self::Conditional(_) => "when",
            Self::Relayed => "relayed",
            Self::No(_) => "no",
        }
    }
}

/// Result of one doctor check.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    /// Seen to be good.
    Ok,
    /// Worth knowing.
    Warn,
    /// Broken.
    Fail,
}

/// One doctor check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Stable word, unique in its context: `qemu.kvm`.
    pub id: String,
    /// The context, or `None` for corral itself.
    pub context: Option<String>,
    /// The result.
    pub status: CheckStatus,
    /// What was seen.
    pub message: String,
    /// What to do, ideally a command.
    pub remedy: Option<String>,
    /// What `doctor --fix` would run; `None` where only the user can.
    pub fix: Option<Action>,
}

impl Check {
    /// A check of `context` with `status`.
    pub fn new(id: &str, status: CheckStatus, message: impl Into<String>) -> Self {
        Self {
            id: id.to_owned(),
            context: None,
            status,
            message: message.into(),
            remedy: None,
            fix: None,
        }
    }

    /// Good.
    pub fn ok(id: &str, message: impl Into<String>) -> Self {
        Self::new(id, CheckStatus::Ok, message)
    }

    /// Worth knowing.
    pub fn warn(id: &str, message: impl Into<String>) -> Self {
        Self::new(id, CheckStatus::Warn, message)
    }

    /// Broken.
    pub fn fail(id: &str, message: impl Into<String>) -> Self {
        Self::new(id, CheckStatus::Fail, message)
    }

    /// Says what to do.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Says what `--fix` would run.
    #[must_use]
    pub fn fix(mut self, fix: Action) -> Self {
        self.fix = Some(fix);
        self
    }
}
