//! A change that runs.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::Action;
use super::error::Error;
use super::id::InstanceId;
use super::plan::Outcome;

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// Not begun.
    Queued,
    /// Runs.
    Running,
    /// All targets did it.
    Done,
    /// Some did not.
    Partial,
    /// None did.
    Failed,
    /// Cancelled before the end.
    Cancelled,
    /// corral was stopped or killed while it ran.
    Interrupted,
    /// corral waits no longer; it may go on at its server.
    TimedOut,
}

impl TaskState {
    /// Nothing more will happen.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Partial => "partial",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::TimedOut => "timedout",
        }
    }
}

/// Where one target of a task stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", tag = "state", content = "result")]
pub enum TargetState {
    /// Waits for its turn.
    Queued,
    /// Runs.
    Running,
    /// Did it (or it was so already).
    Done(Outcome),
    /// Did not.
    Failed(Error),
    /// Not begun: cancelled, or an earlier failure stopped the queue.
    Skipped,
}

/// One target of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskTarget {
    /// The instance.
    pub id: InstanceId,
    /// Incarnation.
    pub uid: Option<String>,
    /// Where it stands.
    #[serde(flatten)]
    pub state: TargetState,
    /// The step under way, in words.
    pub step: Option<String>,
    /// Done and total of the step, in bytes or percent.
    pub progress: Option<(u64, u64)>,
    /// The server's own task.
    pub native_task: Option<String>,
}

/// A change that runs or ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// Unique, short, sortable: `20261130-051402-7f3a`.
    pub id: String,
    /// The headless command.
    pub command: String,
    /// The row's name.
    pub verb: String,
    /// The action, without secrets, so that it can be run again.
    pub action: Action,
    /// Where it stands.
    pub state: TaskState,
    /// When it was submitted.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Its targets.
    pub targets: Vec<TaskTarget>,
    /// The last 200 log lines.
    pub log: Vec<String>,
    /// The process that runs it.
    pub pid: u32,
    /// Goes on when corral leaves.
    pub detachable: bool,
}

/// Something that happened in a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", tag = "event")]
pub enum TaskEvent {
    /// A target's turn came.
    Started {
        /// The target.
        id: InstanceId,
    },
    /// A step began.
    Step {
        /// The target.
        id: InstanceId,
        /// The step in words.
        title: String,
    },
    /// A step moved on.
    Progress {
        /// The target.
        id: InstanceId,
        /// Units done.
        done: u64,
        /// Units in all.
        total: u64,
    },
    /// A line for the log.
    Log {
        /// The target.
        id: InstanceId,
        /// The line.
        line: String,
    },
    /// The server's own task is known.
    Native {
        /// The target.
        id: InstanceId,
        /// The server's word for it.
        task: String,
    },
    /// A target ended well.
    Done {
        /// The target.
        id: InstanceId,
        /// What came of it.
        outcome: Outcome,
    },
    /// A target failed.
    Failed {
        /// The target.
        id: InstanceId,
        /// Why.
        error: Error,
    },
}
