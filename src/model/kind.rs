//! The word for a kind of system. Opaque: only `backend/` knows which words exist.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A backend's kind. Compared and printed, never matched on outside `backend/`.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Kind(Cow<'static, str>);

impl Kind {
    /// A kind known when corral was built.
    pub const fn new(word: &'static str) -> Self {
        Self(Cow::Borrowed(word))
    }

    /// A kind as it was read from a file or a command line.
    pub fn read(word: &str) -> Self {
        Self(Cow::Owned(word.to_owned()))
    }

    /// The word, as printed and as written in config.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
