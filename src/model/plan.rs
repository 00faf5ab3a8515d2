//! What a change would do, and what came of it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::Action;
use super::detail::Consistency;
use super::error::{Error, ErrorKind};
use super::id::InstanceId;
use super::instance::State;
use super::kind::Kind;

/// What the user must do before a plan runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", tag = "gate")]
pub enum Gate {
    /// Nothing.
    Free,
    /// Say yes.
    Confirm,
    /// Type exactly this.
    Type {
        /// The instance's name, an ID, or `verb number`.
        text: String,
    },
}

/// The user's answer to a gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    /// Yes to a `Confirm`.
    pub yes: bool,
    /// The text for a `Type`.
    pub typed: Option<String>,
}

/// One step of a change, with the call that makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// In words.
    pub title: String,
    /// The native call or command line, secrets masked.
    pub native: String,
    /// How it could be taken back.
    pub undo: Option<String>,
}

impl Step {
    /// A step that cannot be taken back by one call.
    pub fn new(title: impl Into<String>, native: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            native: native.into(),
            undo: None,
        }
    }

    /// How to take it back.
    #[must_use]
    pub fn undo(mut self, undo: impl Into<String>) -> Self {
        self.undo = Some(undo.into());
        self
    }
}

/// Why a target is not changed, and what would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// `refused`, unless it is something else: what it needs is not there, say.
    #[serde(default = "refused")]
    pub kind: ErrorKind,
    /// Why.
    pub message: String,
    /// What would help.
    pub remedy: Option<String>,
}

fn refused() -> ErrorKind {
    ErrorKind::Refused
}

impl Refusal {
    /// A refusal.
    pub fn new(message: impl Into<String>, remedy: Option<String>) -> Self {
        Self {
            kind: refused(),
            message: message.into(),
            remedy,
        }
    }

    /// As the error of a change that is not begun. Only what is not there is told apart: everything
    /// else is refused, whatever made it so.
    pub fn error(&self) -> Error {
        let kind = match self.kind {
            ErrorKind::NotFound => ErrorKind::NotFound,
            _ => refused(),
        };
        let mut error = Error::new(kind, self.message.clone());
        error.remedy.clone_from(&self.remedy);
        error
    }
}

impl From<&Error> for Refusal {
    fn from(error: &Error) -> Self {
        Self {
            kind: error.kind,
            message: error.message.clone(),
            remedy: error.remedy.clone(),
        }
    }
}

/// One target of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetPlan {
    /// Address.
    pub id: InstanceId,
    /// Incarnation the plan is for; re-read right before the first write.
    pub uid: Option<String>,
    /// Name.
    pub name: String,
    /// The backend's kind.
    pub backend: Kind,
    /// Its state when the plan was made.
    pub state: State,
    /// Host or node.
    pub host: Option<String>,
    /// Age of that knowledge.
    pub observed_at: Timestamp,
    /// Guarded: protected instance or context.
    pub protected: bool,
    /// Already as wanted: running it changes nothing.
    pub unchanged: bool,
    /// What would be done, in order.
    pub steps: Vec<Step>,
    /// What is lost.
    pub losses: Vec<String>,
    /// What stays, or is worth knowing.
    pub notes: Vec<String>,
    /// Why it is not done.
    pub refusals: Vec<Refusal>,
    /// uid + etag or digest: what must still hold when it runs.
    pub token: String,
    /// Goes on at its server when corral leaves.
    pub detachable: bool,
}

/// Something in scope that a bulk plan does not touch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// A context or an ID.
    pub what: String,
    /// Why.
    pub why: String,
}

/// What a change would do. `--dry-run` prints it, the confirmation shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The action it is for.
    pub action: Action,
    /// `= corral …`: the same thing as a headless command.
    pub command: String,
    /// `Stop db?`: the question.
    pub question: String,
    /// What the user must do.
    #[serde(flatten)]
    pub gate: Gate,
    /// Shown in danger style: data or unsaved work is lost.
    pub danger: bool,
    /// Each target.
    pub targets: Vec<TargetPlan>,
    /// Not included, and why.
    pub left_out: Vec<LeftOut>,
    /// How many run at once per context.
    pub concurrency: usize,
}

impl TargetPlan {
    /// Something would change: it is neither refused nor already as wanted.
    pub fn changes(&self) -> bool {
        self.refusals.is_empty() && !self.unchanged
    }
}

impl Plan {
    /// Targets that would run.
    pub fn runnable(&self) -> impl Iterator<Item = &TargetPlan> {
        self.targets.iter().filter(|t| t.refusals.is_empty())
    }

    /// Targets on which something would change: neither refused nor already as wanted.
    pub fn changing(&self) -> impl Iterator<Item = &TargetPlan> {
        self.targets.iter().filter(|t| t.changes())
    }

    /// Targets that are refused.
    pub fn refused(&self) -> impl Iterator<Item = &TargetPlan> {
        self.targets.iter().filter(|t| !t.refusals.is_empty())
    }
}

/// What came of one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Something was changed; false is "already as wanted".
    pub changed: bool,
    /// One line for the user.
    pub message: Option<String>,
    /// The ID from now on, where it changed or was made.
    pub id: Option<InstanceId>,
    /// What a snapshot really is.
    pub consistency: Option<Consistency>,
}

impl Outcome {
    /// Changed, with a line.
    pub fn changed(message: impl Into<String>) -> Self {
        Self {
            changed: true,
            message: Some(message.into()),
            ..Self::default()
        }
    }

    /// Already as wanted.
    pub fn unchanged(message: impl Into<String>) -> Self {
        Self {
            changed: false,
            message: Some(message.into()),
            ..Self::default()
        }
    }
}
