//! Requests that move data in and out.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::io::AsyncRead;

use super::cx::{ReadCx, TaskCx};
use super::life::Firmware;
use crate::model::{Backup, Bytes, Instance, Portable, Result};

/// Request of the export family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportRequest {
    /// A folder, or a file whose name says the format.
    pub to: PathBuf,
    /// `qcow2`, `raw`, `gz`, `ova`; `None` goes by the name.
    pub format: Option<String>,
    /// From this snapshot instead of the present.
    pub snapshot: Option<String>,
    /// Replace what is there.
    pub overwrite: bool,
}

/// Request of the import family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportRequest {
    /// Name of the new instance.
    pub name: String,
    /// File or folder.
    pub from: PathBuf,
    /// Virtual CPUs; `None` is what the source says, else the default.
    pub cpus: Option<u32>,
    /// Memory; `None` is what the source says, else the default.
    pub memory: Option<Bytes>,
    /// UEFI or BIOS; `None` is what the source says, else the default.
    pub firmware: Option<Firmware>,
    /// Start it once it is made.
    pub start: bool,
    /// The kind's own fields, as for create.
    pub set: Vec<(String, String)>,
}

/// Requests of the backup family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupRequest {
    /// Make one.
    Create {
        /// The moment it is named by: the same for the plan that was shown and the one that runs.
        at: Timestamp,
        /// Where backups are kept: folder or storage; `None` is the backend's default.
        to: Option<String>,
        /// Keep only so many of this instance.
        keep: Option<NonZeroU32>,
    },
    /// Bring an instance back from one.
    Restore {
        /// Which.
        backup: String,
        /// Where backups are kept: folder or storage; `None` is the backend's default.
        from: Option<String>,
        /// As this new instance instead of over the old one. The instance given to `prepare` is
        /// then a stub with the wanted ID.
        name: Option<String>,
        /// Of this instance; only where `name` makes another one.
        of: Option<String>,
        /// Start it once it is restored.
        start: bool,
    },
    /// Delete one.
    Delete {
        /// Which.
        backup: String,
        /// Where backups are kept: folder or storage; `None` is the backend's default.
        from: Option<String>,
    },
}

/// Backups that are there.
#[async_trait]
pub trait Backups: Send + Sync {
    /// Those of one instance, or all; oldest first. A damaged one is listed as broken. With
    /// `verify` every checksum is computed anew.
    async fn backups(
        &self,
        cx: &ReadCx,
        on: Option<&Instance>,
        from: Option<&str>,
        verify: bool,
    ) -> Result<Vec<Backup>>;
}

/// Instances as data that any backend can take in: what a move between kinds reads from.
#[async_trait]
pub trait PortableSource: Send + Sync {
    /// Describes an instance at one moment: the present, or a snapshot. The disks stay as
    /// described until what is returned is dropped.
    async fn portable(
        &self,
        cx: &TaskCx,
        on: &Instance,
        snapshot: Option<&str>,
    ) -> Result<Box<dyn DiskBytes>>;
}

/// The disks of one described instance.
#[async_trait]
pub trait DiskBytes: Send + Sync {
    /// What they are disks of.
    fn portable(&self) -> &Portable;

    /// Opens a disk by its name in [`Portable::disks`].
    async fn open(&self, cx: &TaskCx, disk: &str) -> Result<DiskStream>;
}

/// The bytes of a disk in the order the guest sees them, holes as zeros.
pub struct DiskStream {
    /// How many there are.
    pub size: Bytes,
    /// Where they come from. Reading fails where not all of them came, or where they were not true.
    pub bytes: Box<dyn AsyncRead + Send + Unpin>,
    /// SHA-256 of all of them, lower-case hex: there once the end was read.
    pub sum: Arc<OnceLock<String>>,
}

/// Requests of the files family. Paths inside the guest are absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilesRequest {
    /// From here into the guest.
    Push {
        /// Here.
        from: PathBuf,
        /// There; a folder that is there gets a file of the same name.
        to: String,
        /// Replace what is there.
        overwrite: bool,
    },
    /// From the guest to here.
    Pull {
        /// There.
        from: String,
        /// Here; a folder that is there gets a file of the same name.
        to: PathBuf,
        /// Replace what is there.
        overwrite: bool,
    },
}

/// Requests of the image-pull family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageRequest {
    /// Fetch one.
    Pull {
        /// A name of the catalogue, a URL or a file.
        source: String,
        /// Expected SHA-256 or SHA-512, hex, or the URL of a list with it; `None` is the catalogue's.
        checksum: Option<String>,
        /// Name to keep it under.
        name: Option<String>,
    },
    /// Delete one.
    Delete {
        /// Its name.
        image: String,
    },
}
