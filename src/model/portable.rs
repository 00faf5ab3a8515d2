//! One instance without its backend: what it is made of, and which files hold its disks.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bytes::Bytes;
use super::detail::Consistency;
use super::kind::Kind;

/// Version of [`Portable`]. Within it only additions.
pub const PORTABLE: &str = "corral-portable/1";

/// An instance as any backend could make it anew. Sizes are in bytes, times in UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Portable {
    /// Always [`PORTABLE`].
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub origin: Origin,
    /// When its disks were as they are here.
    pub taken_at: Timestamp,
    /// What its disks hold of a guest that ran.
    pub consistency: Consistency,
    /// The snapshot they were taken from; `None` is the present.
    #[serde(default)]
    pub snapshot: Option<String>,
    /// What it is made of.
    pub hardware: Hardware,
    /// Its disks in boot order.
    pub disks: Vec<PortableDisk>,
    /// What it has besides, and is not in here: one phrase each.
    #[serde(default)]
    pub not_carried: Vec<String>,
}

/// The instance that was written out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// The backend's kind.
    pub backend: Kind,
    /// Its address there.
    pub id: String,
    /// Its incarnation there.
    #[serde(default)]
    pub uid: Option<String>,
}

/// What a machine is made of, apart from its disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hardware {
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: Bytes,
    /// `uefi` or `bios`.
    pub firmware: FirmwareKind,
    /// UEFI with Secure Boot.
    #[serde(default)]
    pub secure_boot: bool,
    /// Virtual TPM 2.0.
    #[serde(default)]
    pub tpm: bool,
    /// Guest family: `linux`, `windows`, `other`.
    #[serde(default)]
    pub os: Option<String>,
    /// Network interfaces in order.
    #[serde(default)]
    pub nics: Vec<PortableNic>,
    /// Tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The user's note.
    #[serde(default)]
    pub note: Option<String>,
}

/// The kinds of firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FirmwareKind {
    /// UEFI.
    Uefi,
    /// BIOS.
    Bios,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortableNic {
    /// `virtio`, `e1000e` …
    #[serde(default)]
    pub model: Option<String>,
    /// MAC, lower case. Whoever makes another instance of it gives that one its own.
    #[serde(default)]
    pub mac: Option<String>,
}

/// A disk, and the file that holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortableDisk {
    /// Slot where it comes from: `disk0`.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub role: DiskRole,
    /// The file's name beside `portable.json`; empty while it is only a stream.
    #[serde(default)]
    pub file: String,
    /// `qcow2`, `raw`.
    pub format: String,
    /// Size the guest sees, in bytes.
    pub size_bytes: Bytes,
    /// Size of the file in bytes.
    #[serde(default)]
    pub file_bytes: Bytes,
    /// SHA-256 of the file, lower-case hex.
    #[serde(default)]
    pub sha256: String,
    /// `virtio`, `scsi`, `sata`.
    #[serde(default)]
    pub bus: Option<String>,
    /// The guest cannot write.
    #[serde(default)]
    pub readonly: bool,
}

/// What a disk is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskRole {
    /// The guest's data.
    #[default]
    Disk,
    /// The variables of its UEFI.
    Firmware,
    /// The seed of its first boot.
    Seed,
}

impl DiskRole {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Firmware => "UEFI variables",
            Self::Seed => "first-boot seed",
        }
    }
}

impl Portable {
    /// The disks with the guest's data, without firmware and seed.
    pub fn data(&self) -> impl Iterator<Item = &PortableDisk> {
        self.disks.iter().filter(|disk| disk.role == DiskRole::Disk)
    }
}
