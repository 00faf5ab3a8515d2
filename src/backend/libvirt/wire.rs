//! What corral and its helper `corral-libvirt` say to each other: frames of a length (u32, big endian) and JSON.
//! The helper is the only part that is linked with libvirt's C library, and knows nothing but this.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::link::frames::MOST;

/// Version of what is said; another one is not talked to.
pub const PROTOCOL: u32 = 1;

/// The build of one side, for messages.
pub const BUILD: &str = env!("CARGO_PKG_VERSION");

/// Bytes of a stream come in pieces of at most this.
pub const PIECE: usize = 256 * 1024;

/// The first frame of each side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of this side.
    pub protocol: u32,
    /// [`BUILD`] of this side.
    pub build: String,
}

impl Hello {
    /// Of this side.
    pub fn own() -> Self {
        Self {
            protocol: PROTOCOL,
            build: BUILD.to_owned(),
        }
    }
}

/// Corral's second frame: what to connect to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Open {
    /// libvirt's connection URI.
    pub uri: String,
    /// Without the right to change anything.
    pub readonly: bool,
    /// Tell what happens to domains.
    pub events: bool,
}

/// A question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ask {
    /// Comes back with the answer.
    pub id: u64,
    /// What is asked.
    pub call: Call,
}

/// What the helper says once it is connected.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "told", rename_all = "kebab-case")]
pub enum Told {
    /// The connection stands, or not.
    Opened {
        /// Why not.
        fault: Option<Fault>,
    },
    /// An answer.
    Answer {
        /// The question's.
        id: u64,
        /// What libvirt gave.
        value: Option<Value>,
        /// Or why it did not.
        fault: Option<Fault>,
    },
    /// Something happened to a domain.
    Happened(Happened),
    /// The connection is gone; the helper ends.
    Closed {
        /// In words.
        why: String,
    },
}

/// An error of libvirt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// `virErrorNumber`.
    pub code: u32,
    /// In its words.
    pub message: String,
}

/// An event of a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happened {
    /// libvirt's word: `lifecycle`, `io-error`, `agent-lifecycle`, `device-added` …
    pub kind: String,
    /// The domain.
    pub uuid: String,
    /// Its name.
    pub name: String,
    /// The first number of the event, where it has one.
    pub what: i32,
    /// The second.
    pub detail: i32,
    /// Texts of the event: source path, alias, reason.
    pub texts: Vec<String>,
}

/// One line of the list.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Listed {
    /// UUID.
    pub uuid: String,
    /// Name.
    pub name: String,
    /// Number while it is active.
    pub id: Option<u32>,
    /// What libvirt measured, by its own names: `state.state`, `cpu.time` …
    pub stats: BTreeMap<String, Value>,
    /// Has a definition that outlives it.
    pub persistent: bool,
    /// Starts with its host; `None`: cannot be told.
    pub autostart: Option<bool>,
    /// Its memory is saved to disk.
    pub saved: bool,
}

/// One domain as it is now.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Looked {
    /// As in the list, with all that is measured.
    pub listed: Listed,
    /// The definition it runs with, or has.
    pub live: String,
    /// The definition of its next start, passwords included where one may see them.
    pub config: String,
}

/// Names a domain: by UUID, and for people by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dom {
    /// UUID.
    pub uuid: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for Dom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::model::shown(&self.name))
    }
}

/// A snapshot as libvirt knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snap {
    /// Name.
    pub name: String,
    /// Its XML, or why there is none.
    pub xml: Result<String, Fault>,
    /// The present descends from it.
    pub current: bool,
}

/// A thing with XML: pool, volume, network.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Thing {
    /// Name.
    pub name: String,
    /// Its XML, or why there is none.
    pub xml: Result<String, Fault>,
    /// In use; `None` where that means nothing.
    pub active: Option<bool>,
}

/// A server and the machine it is on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Server {
    /// `virConnectGetHostname`.
    pub hostname: Option<String>,
    /// `virConnectGetType`.
    pub driver: String,
    /// Version of its libvirt, as `major * 1000000 + minor * 1000 + release`.
    pub version: u32,
    /// Version of the hypervisor, alike.
    pub hypervisor: Option<u32>,
    /// CPU model, CPUs, memory in bytes.
    pub cpu: Option<(String, u32, u64)>,
    /// Free memory in bytes, caches included where that is known.
    pub free: Option<u64>,
    /// `virConnectGetCapabilities`.
    pub capabilities: Option<String>,
}

/// An address that libvirt knows of a domain, or a lease of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Located {
    /// The interface inside, where known.
    pub interface: Option<String>,
    /// MAC.
    pub mac: Option<String>,
    /// Address.
    pub ip: String,
}

/// How a job goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Bytes moved.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
    /// Passes over the memory.
    pub iteration: Option<u64>,
}

/// How a domain moves to another server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// URI of the server it goes to, as the helper (direct) or the source's daemon (peer to peer) reaches it.
    pub to: String,
    /// The source's daemon connects to the other.
    pub peer: bool,
    /// The bytes go through the daemons' connection.
    pub tunnelled: bool,
    /// Copy the disks: there is no shared storage.
    pub copy_disks: bool,
    /// Although the disks' caching or storage makes libvirt doubt.
    pub unsafe_too: bool,
    /// Allow the switch to post-copy.
    pub postcopy: bool,
    /// `tcp://HOST`: where the hypervisors meet; `None` is the other's host name.
    pub meet: Option<String>,
    /// Address the other's hypervisor listens on.
    pub listen: Option<String>,
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* } $(= |$($used:ident),*| $native:expr)?;)*) => {
        /// One call of libvirt.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "call", rename_all = "kebab-case")]
        #[allow(missing_docs, reason = "the arguments are those of libvirt's function")]
        pub enum Call {
            $($(#[$doc])* $name { $($field: $type),* },)*
        }

        impl Call {
            /// As libvirt names it, for plans; `None` for what only reads.
            #[allow(unused_variables)]
            pub fn native(&self) -> Option<String> {
                match self {
                    $(Self::$name { $($field),* } => { calls!(@native $($($used),* => $native)?) })*
                }
            }
        }
    };
    (@native) => { None };
    (@native $($used:ident),* => $native:expr) => { Some($native) };
}

/// `A|B`, of those that are set.
fn flags(all: &[(bool, &str)]) -> String {
    let set: Vec<&str> = all.iter().filter(|(on, _)| *on).map(|(_, f)| *f).collect();
    if set.is_empty() {
        String::new()
    } else {
        format!(" {}", set.join("|"))
    }
}

/// What kind of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meta {
    /// `<description>`.
    Description,
    /// corral's own element in `<metadata>`.
    Own,
}

/// The namespace of corral's own element in a domain's metadata.
pub const NAMESPACE: &str = "urn:corral:1";

calls! {
    /// The server.
    Server {};
    /// All domains with what is measured.
    List { all: bool };
    /// One domain, by UUID or name.
    Look { key: String };
    /// Definitions of many; `config`: of the next start.
    Xml { uuids: Vec<String>, config: bool };
    /// Addresses by `lease` or `arp`.
    Addresses { dom: Dom, source: String };
    /// Disks that stopped the guest, each with why.
    DiskErrors { dom: Dom };
    /// A command of the guest agent, as JSON; it has so many seconds.
    Agent { dom: Dom, command: String, seconds: i32 };
    /// Snapshots of a domain.
    Snapshots { dom: Dom };
    /// Pools.
    Pools {};
    /// Volumes of a pool.
    Volumes { pool: String };
    /// The volume at a path: its pool and itself.
    VolumeAt { path: String };
    /// A volume by its name.
    VolumeIn { pool: String, name: String };
    /// Networks.
    Networks {};
    /// How the job of a domain goes.
    JobOf { dom: Dom };
    /// How a job on a disk goes: done and total; `None`: there is none.
    BlockJobOf { dom: Dom, disk: String };
    /// `virConnectGetDomainCapabilities`.
    DomainCaps { arch: Option<String>, machine: Option<String>, virt: Option<String> };
    /// Whether the host's CPU has all that is asked for.
    CompareCpu { xml: String };

    /// Start.
    Start { dom: Dom, paused: bool, fresh: bool } = |dom, paused, fresh| format!("virDomainCreateWithFlags {dom}{}", flags(&[(*paused, "PAUSED"), (*fresh, "FORCE_BOOT")]));
    /// Ask the guest to shut down.
    Shutdown { dom: Dom, agent: bool } = |dom, agent| format!("virDomainShutdownFlags {dom} {}", if *agent { "GUEST_AGENT" } else { "ACPI_POWER_BTN" });
    /// Power off.
    Destroy { dom: Dom } = |dom| format!("virDomainDestroy {dom}");
    /// Ask the guest to reboot.
    Reboot { dom: Dom, agent: bool } = |dom, agent| format!("virDomainReboot {dom} {}", if *agent { "GUEST_AGENT" } else { "ACPI_POWER_BTN" });
    /// Reset.
    Reset { dom: Dom } = |dom| format!("virDomainReset {dom}");
    /// Halt the CPUs.
    Suspend { dom: Dom } = |dom| format!("virDomainSuspend {dom}");
    /// Go on.
    Resume { dom: Dom } = |dom| format!("virDomainResume {dom}");
    /// Wake a guest that sleeps.
    Wakeup { dom: Dom } = |dom| format!("virDomainPMWakeup {dom}");
    /// Memory to disk.
    ManagedSave { dom: Dom } = |dom| format!("virDomainManagedSave {dom}");
    /// Give that up.
    ManagedSaveRemove { dom: Dom } = |dom| format!("virDomainManagedSaveRemove {dom}");
    /// Define, or define anew.
    Define { name: String, xml: String } = |name| format!("virDomainDefineXMLFlags {} VALIDATE", crate::model::shown(name));
    /// Take the definition away with all that hangs on it.
    Undefine { dom: Dom, keep_nvram: bool } = |dom, keep_nvram| format!("virDomainUndefineFlags {dom} MANAGED_SAVE|SNAPSHOTS_METADATA|CHECKPOINTS_METADATA|{}", if *keep_nvram { "KEEP_NVRAM" } else { "NVRAM" });
    /// Another name.
    Rename { dom: Dom, to: String } = |dom, to| format!("virDomainRename {dom} {}", crate::model::shown(to));
    /// Start with the host.
    Autostart { dom: Dom, on: bool } = |dom, on| format!("virDomainSetAutostart {dom} {}", u8::from(*on));
    /// A piece of metadata; `None` removes it.
    SetMeta { dom: Dom, meta: Meta, text: Option<String>, live: bool, config: bool } = |dom, meta, text, live, config| format!(
        "virDomainSetMetadata {dom} {}{}{}", match meta { Meta::Description => "DESCRIPTION", Meta::Own => "ELEMENT corral" },
        if text.is_some() { "" } else { " NULL" }, flags(&[(*live, "LIVE"), (*config, "CONFIG")]));
    /// Virtual CPUs.
    SetVcpus { dom: Dom, count: u32, maximum: bool, live: bool, config: bool } = |dom, count, maximum, live, config| format!(
        "virDomainSetVcpusFlags {dom} {count}{}", flags(&[(*live, "LIVE"), (*config, "CONFIG"), (*maximum, "MAXIMUM")]));
    /// Memory.
    SetMemory { dom: Dom, kib: u64, maximum: bool, live: bool, config: bool } = |dom, kib, maximum, live, config| format!(
        "virDomainSetMemoryFlags {dom} {kib}{}", flags(&[(*live, "LIVE"), (*config, "CONFIG"), (*maximum, "MAXIMUM")]));
    /// A device more.
    Attach { dom: Dom, what: String, xml: String, live: bool, config: bool } = |dom, what, live, config| format!(
        "virDomainAttachDeviceFlags {dom} {what}{}", flags(&[(*live, "LIVE"), (*config, "CONFIG")]));
    /// A device less.
    Detach { dom: Dom, what: String, xml: String, live: bool, config: bool } = |dom, what, live, config| format!(
        "virDomainDetachDeviceFlags {dom} {what}{}", flags(&[(*live, "LIVE"), (*config, "CONFIG")]));
    /// A device that is otherwise now.
    Update { dom: Dom, what: String, xml: String, live: bool, config: bool, force: bool } = |dom, what, live, config, force| format!(
        "virDomainUpdateDeviceFlags {dom} {what}{}", flags(&[(*live, "LIVE"), (*config, "CONFIG"), (*force, "FORCE")]));
    /// A larger disk under a running guest; bytes.
    BlockResize { dom: Dom, disk: String, size: u64 } = |dom, disk, size| format!("virDomainBlockResize {dom} {disk} {size} BYTES");
    /// Copy a disk of a running guest elsewhere.
    BlockCopy { dom: Dom, disk: String, xml: String, to: String } = |dom, disk, to| format!("virDomainBlockCopy {dom} {disk} {} REUSE_EXT|TRANSIENT_JOB", crate::model::shown(to));
    /// End such a copy: go over to it, or give it up.
    BlockJobAbort { dom: Dom, disk: String, pivot: bool } = |dom, disk, pivot| format!("virDomainBlockJobAbort {dom} {disk}{}", flags(&[(*pivot, "PIVOT")]));
    /// Take a snapshot.
    SnapshotCreate { dom: Dom, name: String, xml: String, disk_only: bool, quiesce: bool } = |dom, name, disk_only, quiesce| format!(
        "virDomainSnapshotCreateXML {dom} {}{}", crate::model::shown(name),
        flags(&[(*disk_only, "DISK_ONLY"), (*disk_only, "ATOMIC"), (*quiesce, "QUIESCE")]));
    /// Go back to one.
    SnapshotRevert { dom: Dom, name: String } = |dom, name| format!("virDomainRevertToSnapshot {dom} {}", crate::model::shown(name));
    /// Delete one.
    SnapshotDelete { dom: Dom, name: String, metadata_only: bool } = |dom, name, metadata_only| format!(
        "virDomainSnapshotDelete {dom} {}{}", crate::model::shown(name), flags(&[(*metadata_only, "METADATA_ONLY")]));
    /// A new volume; gives its path.
    VolCreate { pool: String, name: String, xml: String } = |pool, name| format!("virStorageVolCreateXML {} {}", crate::model::shown(pool), crate::model::shown(name));
    /// A copy of another; gives its path.
    VolClone { pool: String, name: String, xml: String, from_pool: String, from: String } = |pool, name, from_pool, from| format!(
        "virStorageVolCreateXMLFrom {} {} {}/{}", crate::model::shown(pool), crate::model::shown(name), crate::model::shown(from_pool), crate::model::shown(from));
    /// A larger volume; bytes.
    VolResize { pool: String, name: String, size: u64 } = |pool, name, size| format!("virStorageVolResize {} {} {size}", crate::model::shown(pool), crate::model::shown(name));
    /// Destroy a volume.
    VolDelete { pool: String, name: String } = |pool, name| format!("virStorageVolDelete {} {}", crate::model::shown(pool), crate::model::shown(name));
    /// Look again what is in a pool.
    PoolRefresh { pool: String };
    /// Chords in order, each of keys that are held together, as Linux numbers them.
    SendKey { dom: Dom, chords: Vec<Vec<u32>>, shown: String } = |dom, shown| format!("virDomainSendKey {dom} LINUX {shown}");
    /// Move to another server.
    Migrate { dom: Dom, by: Move } = |dom, by| format!("virDomainMigrate{} {dom} {}{}", if by.peer { "ToURI3" } else { "3" }, by.to,
        flags(&[(true, "LIVE"), (true, "PERSIST_DEST"), (true, "UNDEFINE_SOURCE"), (by.peer, "PEER2PEER"), (by.tunnelled, "TUNNELLED"),
            (by.copy_disks, "NON_SHARED_DISK"), (by.unsafe_too, "UNSAFE"), (by.postcopy, "POSTCOPY")]));
    /// Stop the job of a domain.
    AbortJob { dom: Dom } = |dom| format!("virDomainAbortJob {dom}");
    /// Let a migration that may, go on there.
    StartPostCopy { dom: Dom } = |dom| format!("virDomainMigrateStartPostCopy {dom}");

    /// The bytes of a volume, from here on in this stream.
    Upload { pool: String, name: String, from: String } = |pool, name, from| format!("virStorageVolUpload {} {} from {}", crate::model::shown(pool), crate::model::shown(name), crate::model::shown(from));
    /// The bytes of a volume.
    Download { pool: String, name: String };
    /// A picture of the screen: the answer has its type, then its bytes.
    Screenshot { dom: Dom };
}

/// Reads one frame; `None` at the end.
///
/// # Errors
/// As reading does, and for a frame that is too long.
pub fn read(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > MOST {
        return Err(io::Error::other("a frame is too long"));
    }
    let mut frame = vec![0; length];
    from.read_exact(&mut frame)?;
    Ok(Some(frame))
}

/// Writes one frame.
///
/// # Errors
/// As writing does, and for a frame that is too long.
pub fn write(to: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
    if frame.len() > MOST {
        return Err(io::Error::other("a frame is too long"));
    }
    to.write_all(&length.to_be_bytes())?;
    to.write_all(frame)?;
    to.flush()
}
