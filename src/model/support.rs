//! What can be done where, always with a reason.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::Action;
use super::plan::Step;

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
    /// What that would do, for its plan; without any the remedy says it.
    #[serde(skip)]
    pub repair: Vec<Step>,
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
            repair: Vec::new(),
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

    /// Says how `--fix` does it, step by step.
    #[must_use]
    pub fn by(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.repair.extend(steps);
        self
    }
}
