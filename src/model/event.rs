//! What a backend reports of an instance.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::InstanceId;

/// How loud.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum EventLevel {
    /// Normal life.
    Info,
    /// Look at it.
    Warn,
    /// Something failed.
    Error,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// When it happened.
    pub at: Timestamp,
    /// The context.
    pub context: String,
    /// The instance, if one.
    pub instance: Option<InstanceId>,
    /// Loudness.
    pub level: EventLevel,
    /// The backend's word: `STOP`, `instance-started`.
    pub kind: String,
    /// In a sentence.
    pub message: String,
}
