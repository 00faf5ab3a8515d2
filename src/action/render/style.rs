//! Colour as roles. Never the only sign: the word always stands beside it.

use crate::model::{CheckStatus, State};

/// What a piece of text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing special.
    #[default]
    Plain,
    /// Good.
    Ok,
    /// Worth a look.
    Warn,
    /// Wrong.
    Error,
    /// Under way.
    Busy,
    /// Of less interest.
    Muted,
    /// A heading.
    Strong,
}

impl Role {
    fn code(self) -> Option<&'static str> {
        Some(match self {
            Self::Plain => return None,
            Self::Ok => "32",
            Self::Warn => "33",
            Self::Error => "1;31",
            Self::Busy => "34",
            Self::Muted => "2",
            Self::Strong => "1",
        })
    }

    /// The text in this role's colour, where colour is wanted.
    pub(crate) fn paint(self, text: &str, colour: bool) -> String {
        match self.code() {
            Some(code) if colour && !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
}

/// The role of a state.
pub(crate) fn of_state(state: State) -> Role {
    match state {
        State::Running => Role::Ok,
        State::Stopped | State::Hibernated => Role::Muted,
        State::Paused | State::Unknown => Role::Warn,
        State::Starting | State::Stopping | State::Migrating | State::Provisioning => Role::Busy,
        State::Crashed | State::Broken => Role::Error,
    }
}

/// The role of a check.
pub(crate) fn of_check(status: CheckStatus) -> Role {
    match status {
        CheckStatus::Ok => Role::Ok,
        CheckStatus::Warn => Role::Warn,
        CheckStatus::Fail => Role::Error,
    }
}
