//! The one error type.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure it was; decides the exit code and whether a retry makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ErrorKind {
    /// Input that cannot be right: usage, config, a bad value.
    Invalid,
    /// No such thing.
    NotFound,
    /// More than one such thing, or no way to be sure there is only one.
    Ambiguous,
    /// The backend cannot do it.
    Unsupported,
    /// corral or the backend declines: a guard, a gate, a state that forbids it.
    Refused,
    /// Wrong, expired or insufficient credentials.
    Unauthorized,
    /// No connection.
    Unreachable,
    /// A deadline passed; a change may still finish.
    TimedOut,
    /// Someone else changed or holds it.
    Conflict,
    /// The backend failed.
    Backend,
    /// Some of several parts failed.
    Partial,
}

/// One failure: what, which context, what to do.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Error {
    /// The context it concerns.
    pub context: Option<String>,
    /// The kind.
    pub kind: ErrorKind,
    /// One sentence: what failed and why. No trailing full stop needed, no control characters.
    pub message: String,
    /// What the user can do, ideally a command.
    pub remedy: Option<String>,
    /// The cause, for the log.
    #[serde(skip)]
    #[schemars(skip)]
    pub source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// A failure of `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            context: None,
            kind,
            message: message.into(),
            remedy: None,
            source: None,
        }
    }

    /// `Invalid`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// `NotFound`.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// `Refused`.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    /// `Conflict`.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// `Backend`.
    pub fn backend(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Backend, message)
    }

    /// `Unsupported`.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// `Unreachable`.
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unreachable, message)
    }

    /// `TimedOut`.
    pub fn timed_out(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::TimedOut, message)
    }

    /// Says what the user can do.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Names the context, unless one is named already.
    #[must_use]
    pub fn in_context(mut self, context: &str) -> Self {
        self.context.get_or_insert_with(|| context.to_owned());
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Whether a read that failed so may be tried again unchanged.
    pub fn is_temporary(&self) -> bool {
        matches!(self.kind, ErrorKind::Unreachable | ErrorKind::TimedOut)
    }

    /// The process's exit code for this failure alone (`design`: errors and exit codes).
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            ErrorKind::Invalid => 2,
            ErrorKind::Partial => 3,
            ErrorKind::TimedOut => 4,
            ErrorKind::NotFound | ErrorKind::Ambiguous => 5,
            ErrorKind::Refused | ErrorKind::Unsupported => 6,
            ErrorKind::Unauthorized
            | ErrorKind::Unreachable
            | ErrorKind::Conflict
            | ErrorKind::Backend => 1,
        }
    }

    /// The word a message starts with: `refused`, `timed out` or `error`.
    pub fn label(&self) -> &'static str {
        match self.kind {
            ErrorKind::Refused | ErrorKind::Unsupported => "refused",
            ErrorKind::TimedOut => "timed out",
            _ => "error",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.remedy {
            Some(remedy) if self.message.ends_with(['.', '?', '!']) => write!(f, " {remedy}"),
            Some(remedy) => write!(f, ". {remedy}"),
            None => Ok(()),
        }
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.context == other.context
            && self.message == other.message
            && self.remedy == other.remedy
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source
            .as_ref()
            .map(|source| source.as_ref() as &(dyn std::error::Error + 'static))
    }
}
