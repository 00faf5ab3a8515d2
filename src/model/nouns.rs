//! What stands around instances: storage, networks, images, logs, pictures.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bytes::Bytes;
use super::detail::{Consistency, NativeFormat};
use super::id::InstanceId;

/// Where disks are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoragePool {
    /// The context.
    pub context: String,
    /// Its name.
    pub name: String,
    /// The backend's word for its kind: `folder`, `dir`, `zfs`, `lvmthin`.
    pub kind: String,
    /// Where it is: a path, a URL.
    pub place: Option<String>,
    /// The host it belongs to; `None` is all or the only one.
    pub host: Option<String>,
    /// Space in all.
    pub size_bytes: Option<Bytes>,
    /// Space that is taken.
    pub used_bytes: Option<Bytes>,
    /// Why it cannot be used now; `None`: it can.
    pub fault: Option<String>,
}

/// A pool and what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StorageDetail {
    /// The pool.
    #[serde(flatten)]
    pub pool: StoragePool,
    /// What is in it.
    pub volumes: Vec<Volume>,
}

/// A disk image or volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Volume {
    /// The pool.
    pub pool: String,
    /// Its name or path.
    pub name: String,
    /// `qcow2`, `raw`, `iso` …
    pub format: Option<String>,
    /// Size a guest sees.
    pub size_bytes: Option<Bytes>,
    /// Space it takes.
    pub used_bytes: Option<Bytes>,
    /// Who uses it; empty: nobody that is known.
    pub used_by: Vec<InstanceId>,
    /// No instance needs it, and nothing else that is known does: it could be deleted.
    pub orphan: bool,
}

/// What NICs connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Network {
    /// The context.
    pub context: String,
    /// Its name.
    pub name: String,
    /// The backend's word for its kind: `user`, `bridge`, `nat`.
    pub kind: String,
    /// Up; `None` where that means nothing.
    pub active: Option<bool>,
    /// Its addresses, as CIDR.
    pub addresses: Vec<String>,
    /// The host it belongs to; `None` is all or the only one.
    pub host: Option<String>,
    /// Instances with a NIC on it, where known.
    pub used_by: Option<Vec<InstanceId>>,
    /// Why no instance can be put on it now; `None`: it can.
    pub fault: Option<String>,
    /// What it is, in words: what guests see, who reaches them.
    pub note: Option<String>,
}

/// What instances are made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Image {
    /// The context.
    pub context: String,
    /// Its name.
    pub name: String,
    /// What it is, in words.
    pub title: Option<String>,
    /// CPU architecture.
    pub arch: Option<String>,
    /// Where it comes from.
    pub url: Option<String>,
    /// Where it is, once it is here.
    pub path: Option<String>,
    /// Size of the file.
    pub size_bytes: Option<Bytes>,
    /// `sha256:…` or `sha512:…`, where known.
    pub checksum: Option<String>,
    /// When it came here.
    pub pulled_at: Option<Timestamp>,
    /// Instances that need it to stay; `None`: not asked.
    pub used_by: Option<Vec<InstanceId>>,
}

/// A copy of an instance that was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Backup {
    /// The instance, as it was called then.
    pub instance: InstanceId,
    /// Its name: `INSTANCE@NAME` names it everywhere.
    pub name: String,
    /// When its disks were as they are in it.
    pub taken_at: Option<Timestamp>,
    /// What its disks hold of a guest that ran.
    pub consistency: Option<Consistency>,
    /// Disks in it.
    pub disks: Option<u64>,
    /// Space it takes.
    pub size_bytes: Option<Bytes>,
    /// Where it is.
    pub place: String,
    /// Why it cannot be restored, where it cannot.
    pub broken: Option<String>,
}

/// A log that can be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogSource {
    /// Its word: `serial`, `qemu`.
    pub name: String,
    /// What writes it.
    pub title: String,
    /// Its size, where it is a file.
    pub size_bytes: Option<Bytes>,
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogLine {
    /// Whose log.
    pub instance: InstanceId,
    /// Which of its logs.
    pub source: String,
    /// The line without its end. What is no UTF-8 is replaced.
    pub line: String,
}

/// Lines of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct LogText {
    /// The lines, oldest first.
    pub lines: Vec<LogLine>,
    /// Control characters go to whoever reads, who has to be no terminal.
    #[serde(skip)]
    pub raw: bool,
}

/// A picture that was taken of a screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Screenshot {
    /// Whose screen.
    pub instance: InstanceId,
    /// `image/png` …
    pub media_type: String,
    /// Size of the file.
    pub size_bytes: Bytes,
    /// The file it was written to; `None`: standard output.
    pub path: Option<String>,
    /// What goes to standard output.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

/// A picture.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    /// `image/png` …
    pub media_type: String,
    /// The file's bytes.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} bytes", self.media_type, self.bytes.len())
    }
}

/// A native definition to be edited, secrets in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeText {
    /// How to highlight it.
    pub format: NativeFormat,
    /// The text.
    pub text: String,
    /// Says which text this is.
    pub token: String,
}
