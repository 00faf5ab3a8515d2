//! Requests of the life of an instance: power, creation, names, deletion.

use std::time::Duration;

use crate::model::{Bytes, SecretText};

/// Requests of the power family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PowerRequest {
    /// Power on; what is hibernated goes on from its saved state.
    Start,
    /// Power on from the disks: the saved state of what is hibernated is given up.
    StartFresh,
    /// Ask the guest to shut down and wait.
    Stop {
        /// Power off now instead.
        force: bool,
        /// Ask first, power off after this long.
        force_after: Option<Duration>,
    },
    /// Ask the guest to reboot, reset, or stop and start.
    Restart(RestartMode),
}

/// How to restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartMode {
    /// Ask the guest.
    Guest,
    /// Reset.
    Force,
    /// Stop and start.
    Cold,
}

/// Requests of the pause family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseRequest {
    /// Halt the CPUs.
    Pause,
    /// Go on.
    Resume,
}

/// What a new instance is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskSource {
    /// An empty disk.
    Blank,
    /// A copy of an image file: an absolute path, or the bare name of an image of the context.
    Copy(String),
    /// An overlay that needs the image file to stay; named alike.
    Backed(String),
}

/// Firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firmware {
    /// UEFI.
    Uefi,
    /// BIOS.
    Bios,
}

/// First-boot configuration of a cloud image.
#[derive(Clone, Debug, Default)]
pub struct CloudInit {
    /// Extra user-data, YAML with a `#cloud-config` line; may hold secrets.
    pub user_data: Option<SecretText>,
    /// SSH public keys.
    pub ssh_keys: Vec<String>,
    /// Login user.
    pub user: Option<String>,
    /// Password of that user.
    pub password: Option<SecretText>,
    /// Host name; `None` is the instance's name.
    pub hostname: Option<String>,
}

/// Request of the create family.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    /// Name.
    pub name: String,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory.
    pub memory: Bytes,
    /// Size of the first disk; `None` is the image's, or the backend's default.
    pub disk_size: Option<Bytes>,
    /// The first disk.
    pub source: DiskSource,
    /// CD-ROM images in drive order, named as for [`DiskSource`]; the first boots when the disk is blank.
    pub cdroms: Vec<String>,
    /// Firmware; `None` is the backend's default.
    pub firmware: Option<Firmware>,
    /// Guest family for defaults: `linux`, `windows`.
    pub os: Option<String>,
    /// Virtual TPM 2.0.
    pub tpm: bool,
    /// Secure Boot.
    pub secure_boot: bool,
    /// `NoCloud` seed or the backend's equivalent.
    pub cloud_init: Option<CloudInit>,
    /// Published ports: host address and port (0 picks one), guest port.
    pub publish: Vec<(String, u16, u16)>,
    /// Tags.
    pub tags: Vec<String>,
    /// Note.
    pub note: Option<String>,
    /// Start it once it is made.
    pub start: bool,
    /// The kind's own fields, validated against `KindInfo::create_fields`.
    pub set: Vec<(String, String)>,
}

/// Request of the remove family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveRequest {
    /// Leave every disk where it is.
    pub keep_disks: bool,
    /// Power off a running instance first.
    pub force: bool,
}

/// Request of the hibernate family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HibernateRequest;

/// Request of the rename family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenameRequest {
    /// The new name.
    pub to: String,
}

/// Request of the clone family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloneRequest {
    /// Name of the new instance, in the same context and namespace.
    pub name: String,
    /// Disks that need the original's to stay, instead of copies.
    pub linked: bool,
    /// From this snapshot instead of the present.
    pub snapshot: Option<String>,
    /// Keep machine ID, SSH host keys and host name of the guest.
    pub keep_identity: bool,
    /// Start it once it is made.
    pub start: bool,
}

/// Request of the template family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemplateRequest {
    /// Make it one, or an ordinary instance again.
    pub on: bool,
}

/// Request of the unlock family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnlockRequest;
