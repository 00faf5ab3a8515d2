//! A VM or a container, as every list shows it.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bytes::Bytes;
use super::id::InstanceId;
use super::kind::Kind;

/// Virtual machine or container.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum InstanceKind {
    /// A virtual machine.
    Vm,
    /// A container.
    Ct,
}

impl fmt::Display for InstanceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Vm => "vm",
            Self::Ct => "ct",
        })
    }
}

/// What an instance does right now.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its CPUs run.
    Running,
    /// Off.
    Stopped,
    /// In RAM, CPUs halted.
    Paused,
    /// On disk, memory freed.
    Hibernated,
    /// On its way up.
    Starting,
    /// On its way down.
    Stopping,
    /// On its way to another host.
    Migrating,
    /// Being made.
    Provisioning,
    /// Ended by a fault.
    Crashed,
    /// The backend gave an item that cannot be read; the reason says why.
    Broken,
    /// No fresh answer.
    Unknown,
}

impl State {
    /// Every state, in sort order.
    pub const ALL: [Self; 11] = [
        Self::Running,
        Self::Stopped,
        Self::Paused,
        Self::Hibernated,
        Self::Starting,
        Self::Stopping,
        Self::Migrating,
        Self::Provisioning,
        Self::Crashed,
        Self::Broken,
        Self::Unknown,
    ];

    /// The word, as printed and filtered.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Paused => "paused",
            Self::Hibernated => "hibernated",
            Self::Starting => "starting",
            Self::Stopping => "stopping",
            Self::Migrating => "migrating",
            Self::Provisioning => "provisioning",
            Self::Crashed => "crashed",
            Self::Broken => "broken",
            Self::Unknown => "unknown",
        }
    }

    /// The state named by `word`.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == word)
    }

    /// Whether a process or guest exists that a delete would cut off.
    pub fn is_active(self) -> bool {
        matches!(
            self,
            Self::Running | Self::Paused | Self::Starting | Self::Stopping | Self::Migrating
        )
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An address of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Address {
    /// IPv4 or IPv6, textual.
    pub ip: String,
    /// The NIC that has it, where known.
    pub nic: Option<String>,
    /// Where it was learnt: `agent`, `lease`, `arp`, `list`.
    pub source: Option<String>,
}

/// A guest port reachable on an address of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Port {
    /// Port inside the guest.
    pub guest: u16,
    /// `ADDRESS:PORT` on the host.
    pub host: String,
    /// `tcp` or `udp`.
    #[serde(default = "tcp")]
    pub protocol: String,
}

impl Port {
    /// Whether programs connect to it; nothing dials UDP.
    pub fn is_tcp(&self) -> bool {
        self.protocol == "tcp"
    }

    /// Where it is, as people read it: `127.0.0.1:5353/udp`.
    pub fn place(&self) -> String {
        if self.is_tcp() {
            self.host.clone()
        } else {
            format!("{}/{}", self.host, self.protocol)
        }
    }
}

fn tcp() -> String {
    "tcp".to_owned()
}

/// Load of a running instance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Percent of one instance's CPUs: 100 is all of them busy.
    pub cpu_percent: Option<f64>,
    /// Memory in use at the host.
    pub memory_bytes: Option<Bytes>,
}

/// One instance. `None` is "not known or not asked"; an empty list is "known to be none".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Instance {
    /// Address.
    pub id: InstanceId,
    /// Incarnation, opaque.
    pub uid: Option<String>,
    /// Name as the backend has it, byte for byte.
    pub name: String,
    /// Context.
    pub context: String,
    /// The backend's kind.
    pub backend: Kind,
    /// Namespace or project.
    pub namespace: Option<String>,
    /// VM or container.
    pub kind: InstanceKind,
    /// State now.
    pub state: State,
    /// Why, where the state alone does not say.
    pub reason: Option<String>,
    /// The last state seen, when `state` is unknown.
    pub last_state: Option<State>,
    /// The row is older than its context's last expected answer.
    pub stale: bool,
    /// The backend's own word.
    pub native_state: Option<String>,
    /// The host or node it is on.
    pub host: Option<String>,
    /// Virtual CPUs.
    pub cpus: Option<u32>,
    /// Memory it is defined with.
    pub memory_bytes: Option<Bytes>,
    /// Total size of its disks.
    #[serde(default)]
    pub disk_bytes: Option<Bytes>,
    /// Addresses, best first.
    pub addresses: Option<Vec<Address>>,
    /// Published ports.
    pub ports: Option<Vec<Port>>,
    /// MAC addresses, lower case.
    pub macs: Option<Vec<String>>,
    /// Guest operating system.
    pub os: Option<String>,
    /// Whether the guest agent answers.
    pub agent: Option<bool>,
    /// Tags.
    pub tags: Vec<String>,
    /// A master that refuses start.
    pub template: bool,
    /// Starts with its host.
    pub autostart: Option<bool>,
    /// Protected by corral or by its backend.
    pub protected: bool,
    /// The lock that holds it, where there is one.
    pub locked: Option<String>,
    /// The user's note.
    #[serde(default)]
    pub note: Option<String>,
    /// Load.
    pub usage: Option<Usage>,
    /// Seconds since it was started.
    pub uptime_seconds: Option<u64>,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// When the backend said all this.
    pub observed_at: Timestamp,
}

impl Instance {
    /// Where it is reached at a port of its host: that of SSH before others.
    pub fn way_in(&self) -> Option<&Port> {
        let all = || self.ports.iter().flatten().filter(|port| port.is_tcp());
        all().find(|port| port.guest == 22).or_else(|| all().next())
    }

    /// A row with nothing known but its address; `name` is the ID's key.
    pub fn new(
        id: InstanceId,
        backend: Kind,
        kind: InstanceKind,
        state: State,
        at: Timestamp,
    ) -> Self {
        Self {
            name: id.key().to_owned(),
            context: id.context().to_owned(),
            namespace: id.namespace(),
            id,
            uid: None,
            backend,
            kind,
            state,
            reason: None,
            last_state: None,
            stale: false,
            native_state: None,
            host: None,
            cpus: None,
            memory_bytes: None,
            disk_bytes: None,
            addresses: None,
            ports: None,
            macs: None,
            os: None,
            agent: None,
            tags: Vec::new(),
            template: false,
            autostart: None,
            protected: false,
            locked: None,
            note: None,
            usage: None,
            uptime_seconds: None,
            created_at: None,
            observed_at: at,
        }
    }

    /// A row for an item that could not be read.
    pub fn broken(id: InstanceId, backend: Kind, reason: impl Into<String>, at: Timestamp) -> Self {
        let mut row = Self::new(id, backend, InstanceKind::Vm, State::Broken, at);
        row.reason = Some(reason.into());
        row
    }

    /// What marks, selection, pending state and history hang on: uid, else ID.
    pub fn identity(&self) -> String {
        match &self.uid {
            Some(uid) => format!("{}#{uid}", self.context),
            None => self.id.to_string(),
        }
    }

    /// The same row when its context no longer answers: `unknown`, with what it was.
    #[must_use]
    pub fn as_stale(&self) -> Self {
        let mut row = self.clone();
        if row.state != State::Unknown {
            row.last_state = Some(row.state);
            row.state = State::Unknown;
        }
        row.stale = true;
        row.usage = None;
        row
    }
}
