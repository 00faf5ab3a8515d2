//! What is known of one instance beyond its row, and what one refresh brings.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bytes::Bytes;
use super::id::InstanceId;
use super::instance::Instance;

/// How much of a running guest's data a snapshot holds.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Consistency {
    /// As after a power cut.
    Crash,
    /// File systems were frozen.
    Filesystem,
    /// Taken while stopped.
    Offline,
    /// With RAM.
    Memory,
}

impl Consistency {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Filesystem => "filesystem",
            Self::Offline => "offline",
            Self::Memory => "memory",
        }
    }
}

/// A snapshot of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// The instance.
    pub instance: InstanceId,
    /// Name as the backend has it.
    pub name: String,
    /// The snapshot it was taken on top of.
    pub parent: Option<String>,
    /// The instance's present state descends from this one.
    pub current: bool,
    /// When it was taken.
    pub created_at: Option<Timestamp>,
    /// Read back from the backend, not from what was asked for.
    pub consistency: Option<Consistency>,
    /// Space it takes.
    pub size_bytes: Option<Bytes>,
    /// Free text.
    pub note: Option<String>,
    /// Why it cannot be restored, where it cannot.
    pub broken: Option<String>,
    /// When it may be removed.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// The rule that named it, where one did.
    #[serde(default)]
    pub policy: Option<String>,
}

/// A disk or a medium.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Disk {
    /// The backend's name for the slot: `disk0`, `scsi0`, `root`.
    pub name: String,
    /// `disk` or `cdrom`.
    pub device: String,
    /// `virtio`, `scsi`, `sata` …
    pub bus: Option<String>,
    /// File, volume or URL.
    pub source: Option<String>,
    /// `qcow2`, `raw` …
    pub format: Option<String>,
    /// Size the guest sees.
    pub size_bytes: Option<Bytes>,
    /// Space it takes.
    pub used_bytes: Option<Bytes>,
    /// The file it is an overlay of.
    pub backing: Option<String>,
    /// Only this instance uses it, so a delete may remove it.
    pub owned: bool,
    /// Read-only.
    pub readonly: bool,
    /// Snapshots that are inside of it; `None`: it holds none, or that is not known.
    pub snapshots: Option<u64>,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nic {
    /// The backend's name for the slot.
    pub name: String,
    /// MAC, lower case.
    pub mac: Option<String>,
    /// Network, bridge or `user`.
    pub network: Option<String>,
    /// Model: `virtio`, `e1000` …
    pub model: Option<String>,
    /// Addresses.
    pub addresses: Vec<String>,
}

/// Format of a [`Native`] text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NativeFormat {
    /// TOML.
    Toml,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// XML.
    Xml,
    /// Key and value lines.
    Text,
}

/// The definition as the backend has it, secrets masked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Native {
    /// How to highlight it.
    pub format: NativeFormat,
    /// The text.
    pub text: String,
}

/// Everything about one instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Detail {
    /// The row.
    #[serde(flatten)]
    pub instance: Instance,
    /// Disks and media.
    pub disks: Vec<Disk>,
    /// Network interfaces.
    pub nics: Vec<Nic>,
    /// Snapshots, in any order; parents make the tree.
    pub snapshots: Vec<Snapshot>,
    /// `uefi` or `bios`.
    pub firmware: Option<String>,
    /// Hardware acceleration and other facts worth a line, in order: label, value.
    pub facts: Vec<(String, String)>,
    /// Changes that wait for a restart.
    pub pending: Vec<String>,
    /// What could not be read.
    pub problems: Vec<String>,
    /// The definition.
    pub native: Option<Native>,
}

/// Something wrong that is not one instance's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The instance it concerns, if one.
    pub instance: Option<InstanceId>,
    /// What.
    pub message: String,
    /// What to do.
    pub remedy: Option<String>,
}

/// A machine that runs instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The context.
    pub context: String,
    /// Logical CPUs.
    pub cpus: Option<u32>,
    /// Memory in all.
    pub memory_bytes: Option<Bytes>,
    /// Memory that is taken: what programs could not get if they asked.
    pub memory_used_bytes: Option<Bytes>,
    /// Processes that wanted a CPU, averaged over 1, 5 and 15 minutes.
    pub load: Option<[f64; 3]>,
    /// Kernel or hypervisor and its version.
    pub kernel: Option<String>,
    /// How guests are run: `kvm`, or why slower.
    pub acceleration: Option<String>,
    /// Instances that run on it.
    pub running: Option<u64>,
    /// Since it was started, seconds.
    pub uptime_seconds: Option<u64>,
    /// Answers its manager.
    pub online: bool,
    /// More that is worth a line, in order: label, value.
    pub facts: Vec<(String, String)>,
}

impl Host {
    /// A host that answers, of which nothing else is known.
    pub fn new(context: &str, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            context: context.to_owned(),
            cpus: None,
            memory_bytes: None,
            memory_used_bytes: None,
            load: None,
            kernel: None,
            acceleration: None,
            running: None,
            uptime_seconds: None,
            online: true,
            facts: Vec::new(),
        }
    }
}

/// One full answer of a context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// Instances, each exactly once.
    pub instances: Vec<Instance>,
    /// Hosts.
    pub hosts: Vec<Host>,
    /// Nothing was cut off by paging, rights or a silent node.
    pub complete: bool,
    /// Instances known to exist that the credentials do not show, where the backend says so.
    pub hidden: Option<u64>,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// When it was asked.
    pub observed_at: Timestamp,
}

impl Inventory {
    /// An empty, complete answer.
    pub fn empty(at: Timestamp) -> Self {
        Self {
            instances: Vec::new(),
            hosts: Vec::new(),
            complete: true,
            hidden: None,
            problems: Vec::new(),
            observed_at: at,
        }
    }
}

/// What a probe learnt of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// Identity of the server: two contexts with the same one are the same server twice.
    pub server: Option<String>,
    /// Version, as it says.
    pub version: Option<String>,
    /// Extensions, features and rights by name.
    pub features: std::collections::BTreeMap<String, String>,
    /// One line for the first screen: `qemu 10.0, KVM usable, UEFI firmware found`.
    pub summary: Option<String>,
}

/// One reading of an instance's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// When.
    pub at: Timestamp,
    /// Percent of all its CPUs.
    pub cpu_percent: Option<f64>,
    /// Memory in use at the host.
    pub memory_bytes: Option<Bytes>,
    /// Bytes a second read from disks.
    pub disk_read_bps: Option<u64>,
    /// Bytes a second written to disks.
    pub disk_write_bps: Option<u64>,
    /// Bytes a second received.
    pub net_rx_bps: Option<u64>,
    /// Bytes a second sent.
    pub net_tx_bps: Option<u64>,
}
