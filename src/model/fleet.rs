//! The whole fleet at one moment.

use std::sync::Arc;

use jiff::Timestamp;

use super::context::ContextSpec;
use super::detail::{Facts, Host, Problem};
use super::error::Error;
use super::id::InstanceId;
use super::instance::Instance;
use super::kind::Kind;

/// How a context is.
#[derive(Clone, Debug, PartialEq)]
pub enum Health {
    /// No answer yet; within its deadline.
    Connecting,
    /// Answered when last asked.
    Ok,
    /// Answered once, not when last asked.
    Stale(Error),
    /// Never answered.
    Failed(Error),
    /// Answers only after a login.
    LoginNeeded(Error),
}

impl Health {
    /// The failure, if it has one.
    pub fn error(&self) -> Option<&Error> {
        match self {
            Self::Stale(error) | Self::Failed(error) | Self::LoginNeeded(error) => Some(error),
            Self::Connecting | Self::Ok => None,
        }
    }

    /// A fresh answer exists.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Ok)
    }
}

/// One context at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextView {
    /// Its name.
    pub name: String,
    /// The backend's kind.
    pub kind: Kind,
    /// How it is.
    pub health: Health,
    /// When it last answered.
    pub answered_at: Option<Timestamp>,
    /// Its rows include everything there is; false also when never asked.
    pub complete: bool,
    /// Instances known to exist that the credentials do not show.
    pub hidden: Option<u64>,
    /// What a probe learnt.
    pub facts: Option<Facts>,
    /// Hosts.
    pub hosts: Vec<Host>,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// The user wrote it down.
    pub configured: bool,
    /// The name it had where it was found.
    pub origin: Option<String>,
    /// Refuses changes.
    pub readonly: bool,
    /// Every change that asks at all asks for the name.
    pub protected: bool,
    /// Typed gates become confirmations.
    pub relaxed: bool,
    /// Rows come from a cache of an earlier run.
    pub from_cache: bool,
    /// How many of `FleetView::instances` are its own.
    pub count: usize,
    /// How long its last answer took, milliseconds.
    pub latency_ms: Option<u64>,
}

impl ContextView {
    /// A context as it was opened, before anything is known of it.
    pub fn of(spec: &ContextSpec) -> Self {
        Self {
            name: spec.name.clone(),
            kind: spec.kind.clone(),
            health: Health::Connecting,
            answered_at: None,
            complete: false,
            hidden: None,
            facts: None,
            hosts: Vec::new(),
            problems: Vec::new(),
            configured: spec.configured,
            origin: spec.origin.clone(),
            readonly: spec.readonly,
            protected: spec.protected,
            relaxed: spec.relaxed,
            from_cache: false,
            count: 0,
            latency_ms: None,
        }
    }
}

/// The whole fleet at one moment. Cheap to clone: rows are shared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetView {
    /// Grows with every change.
    pub generation: u64,
    /// In config order; a found one never shifts another.
    pub contexts: Vec<ContextView>,
    /// Rows, grouped by context in the same order.
    pub instances: Vec<Arc<Instance>>,
}

impl FleetView {
    /// The row at an ID.
    pub fn get(&self, id: &InstanceId) -> Option<&Arc<Instance>> {
        self.instances.iter().find(|row| row.id == *id)
    }

    /// A context by name.
    pub fn context(&self, name: &str) -> Option<&ContextView> {
        self.contexts.iter().find(|context| context.name == name)
    }
}
