//! The operations of the support matrix, and the families that carry them out.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One line per operation, in the matrix's order: name, family, as printed.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident: $family:ident, $title:literal;)*) => {
        /// One operation of the support matrix. Enters with its first implementation.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(rename_all = "kebab-case")]
        pub enum Operation {
            $($(#[$doc])* $name,)*
        }

        impl Operation {
            /// All of them, in the matrix's order.
            pub const ALL: [Self; [$(Self::$name,)*].len()] = [$(Self::$name,)*];

            /// The family that carries it out.
            pub fn family(self) -> Family {
                match self {
                    $(Self::$name => Family::$family,)*
                }
            }

            /// As printed.
            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$name => $title,)*
                }
            }
        }
    };
}

operations! {
    /// Power on.
    Start: Power, "start";
    /// Ask the guest to shut down.
    Stop: Power, "stop";
    /// Power off now.
    ForceStop: Power, "stop --force";
    /// Ask the guest to reboot.
    Restart: Power, "restart";
    /// Reset now.
    Reset: Power, "restart --force";
    /// Stop and start, so that pending settings apply.
    ColdRestart: Power, "restart --cold";
    /// Halt the CPUs, stay in RAM.
    Pause: Pause, "pause";
    /// Go on after a pause.
    Resume: Pause, "resume";
    /// Save to disk, free the memory.
    Hibernate: Hibernate, "hibernate";
    /// Make a new instance.
    Create: Create, "create";
    /// Delete an instance.
    Delete: Remove, "delete";
    /// Give it another name.
    Rename: Rename, "rename";
    /// Another one like it, with disks of its own.
    Clone: Clone, "clone";
    /// Another one like it, on top of its disks.
    LinkedClone: Clone, "clone --linked";
    /// A master that refuses start.
    Template: Template, "template";
    /// Change its tags.
    Tag: Tags, "tag";
    /// Change its note.
    Note: Notes, "note";
    /// Start it with its host.
    Autostart: Autostart, "autostart";
    /// Take a snapshot, without RAM.
    SnapshotCreate: Snapshots, "snapshot create";
    /// Take a snapshot with RAM.
    SnapshotMemory: Snapshots, "snapshot create --with-memory";
    /// Go back to a snapshot.
    SnapshotRestore: Snapshots, "snapshot restore";
    /// Delete a snapshot.
    SnapshotDelete: Snapshots, "snapshot delete";
    /// Change CPUs and memory.
    Resize: Resize, "resize";
    /// Attach a disk.
    DiskAdd: Disks, "disk add";
    /// Detach a disk.
    DiskRemove: Disks, "disk remove";
    /// Make a disk larger.
    DiskGrow: Disks, "disk grow";
    /// Move a disk to another place.
    DiskMove: DiskMove, "disk move";
    /// Attach a network interface.
    NicAdd: Nics, "nic add";
    /// Detach a network interface.
    NicRemove: Nics, "nic remove";
    /// Put a medium in, take it out.
    Media: Media, "media insert";
    /// Move it to another host while it runs.
    Migrate: Migrate, "migrate";
    /// Publish a port of the guest at its host.
    Publish: Publish, "ports publish";
    /// Write it out into files.
    Export: Export, "export";
    /// Make an instance from files.
    Import: Import, "import";
    /// Make, restore and delete backups.
    Backup: Backup, "backup";
    /// Edit the native definition.
    Edit: EditNative, "edit";
    /// Remove a lock that nobody holds.
    Unlock: Unlock, "unlock";
    /// Copy files in and out.
    Files: Files, "cp";
    /// Press keys on its keyboard.
    SendKey: SendKey, "sendkey";
    /// A picture of its screen.
    Screenshot: Screenshot, "screenshot";
    /// A way to a guest's port.
    Route: Routes, "dial";
    /// Load over time.
    Metrics: Metrics, "metrics";
    /// What the backend reported.
    Events: Events, "events";
    /// What guest and launcher wrote.
    Logs: Logs, "logs";
    /// The machines that run instances.
    Hosts: Hosts, "host list";
    /// Where disks are kept.
    Storage: Storage, "storage list";
    /// What NICs connect to.
    Networks: Networks, "network list";
    /// What instances are made from.
    Images: Images, "image list";
    /// Fetch and delete images.
    ImagePull: ImagePull, "image pull";
}

impl Operation {
    /// Looks and changes nothing: read-only contexts allow it.
    pub fn reads(self) -> bool {
        matches!(
            self.family(),
            Family::Routes
                | Family::Metrics
                | Family::Events
                | Family::Logs
                | Family::Screenshot
                | Family::Hosts
                | Family::Storage
                | Family::Networks
                | Family::Images
        )
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.title())
    }
}

/// A group of operations that a backend has wholly or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Start, stop, restart.
    Power,
    /// Pause and resume.
    Pause,
    /// Save to disk.
    Hibernate,
    /// Create.
    Create,
    /// Delete.
    Remove,
    /// Rename.
    Rename,
    /// Clone.
    Clone,
    /// Templates.
    Template,
    /// Tags.
    Tags,
    /// Notes.
    Notes,
    /// Autostart.
    Autostart,
    /// Snapshots.
    Snapshots,
    /// CPUs and memory.
    Resize,
    /// Disks.
    Disks,
    /// Disks to another place.
    DiskMove,
    /// Network interfaces.
    Nics,
    /// Media.
    Media,
    /// To another host, running.
    Migrate,
    /// Published ports.
    Publish,
    /// Export.
    Export,
    /// Import.
    Import,
    /// Backups.
    Backup,
    /// The native definition.
    EditNative,
    /// Stale locks.
    Unlock,
    /// Files of the guest.
    Files,
    /// Keyboard.
    SendKey,
    /// Screen.
    Screenshot,
    /// Ways in.
    Routes,
    /// Load.
    Metrics,
    /// Recorded events.
    Events,
    /// Logs.
    Logs,
    /// Hosts.
    Hosts,
    /// Storage.
    Storage,
    /// Networks.
    Networks,
    /// Images.
    Images,
    /// Fetching images.
    ImagePull,
}
