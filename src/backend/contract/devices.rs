//! Requests that change what an instance is made of.

use crate::model::Bytes;

/// Request of the resize family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResizeRequest {
    /// Virtual CPUs.
    pub cpus: Option<u32>,
    /// Memory.
    pub memory: Option<Bytes>,
    /// Up to so many CPUs without a restart, from the next start on.
    pub max_cpus: Option<u32>,
    /// Up to so much memory without a restart, from the next start on.
    pub max_memory: Option<Bytes>,
    /// Restart a running instance where the change needs it.
    pub restart: bool,
}

/// Requests of the disk family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskRequest {
    /// Attach a new or an existing disk.
    Add {
        /// Size of a new one; `None` with `image`: as that is.
        size: Option<Bytes>,
        /// Attach this image or volume, or with `copy` a copy of it.
        image: Option<String>,
        /// Copy `image` instead of using it.
        copy: bool,
        /// `virtio`, `scsi`, `sata`; `None` is the backend's default.
        bus: Option<String>,
        /// `qcow2`, `raw`; `None` is the backend's default.
        format: Option<String>,
        /// The guest cannot write.
        readonly: bool,
        /// Where a new one is kept: pool, storage or folder; `None` is the backend's default.
        storage: Option<String>,
    },
    /// Detach one.
    Remove {
        /// Its slot's name.
        disk: String,
        /// Destroy its data too.
        delete_data: bool,
    },
    /// Make one larger.
    Grow {
        /// Its slot's name.
        disk: String,
        /// How much.
        size: Growth,
    },
}

/// How much larger a disk becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// To this size in all.
    To(Bytes),
    /// By this much.
    By(Bytes),
}

/// Request of the disk-move family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskMoveRequest {
    /// Its slot's name.
    pub disk: String,
    /// Pool, storage or folder.
    pub to: String,
}

/// Requests of the NIC family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NicRequest {
    /// Attach one.
    Add {
        /// Network, bridge or `user`; `None` is the backend's default.
        network: Option<String>,
        /// `virtio`, `e1000e` …; `None` is the backend's default.
        model: Option<String>,
        /// MAC; `None` makes one.
        mac: Option<String>,
    },
    /// Detach one.
    Remove {
        /// Its slot's name or its MAC.
        nic: String,
    },
}

/// Requests of the media family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaRequest {
    /// Put an image in.
    Insert {
        /// The drive; `None` where there is only one.
        drive: Option<String>,
        /// The image.
        image: String,
        /// Even if the guest has locked the tray.
        force: bool,
    },
    /// Take it out.
    Eject {
        /// The drive; `None` where there is only one.
        drive: Option<String>,
        /// Even if the guest has locked the tray.
        force: bool,
    },
}

/// Requests of the publish family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishRequest {
    /// Make a port of the guest reachable at its host.
    Publish {
        /// Address to listen on.
        address: String,
        /// Port to listen on; 0 picks one.
        port: u16,
        /// Port inside the guest.
        guest: u16,
        /// `tcp` or `udp`.
        protocol: String,
    },
    /// No longer.
    Unpublish {
        /// Only where it is published at this address.
        address: Option<String>,
        /// Port inside the guest.
        guest: u16,
        /// Only where it is published here.
        port: Option<u16>,
        /// `tcp` or `udp`.
        protocol: String,
    },
}

/// Request of the keyboard family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendKeyRequest {
    /// Chords in order, each a set of keys held together: `ctrl-alt-delete`. Keys are named as QEMU's
    /// `QKeyCode` has them.
    pub chords: Vec<Vec<String>>,
    /// So many of the first type a text, which is never shown: it may be a password.
    pub typed: usize,
}
