//! A live stream that an action opened.

use crate::link::Duplex;
use crate::model::InstanceId;

/// A live stream, and what it is.
pub struct OpenSession {
    /// The instance.
    pub id: InstanceId,
    /// One line: the way that was taken and why.
    pub way: String,
    /// The bytes.
    pub stream: Duplex,
}
