//! Requests of the snapshot family.

/// Requests of the snapshot family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotRequest {
    /// Take one.
    Create {
        /// Its name.
        name: String,
        /// Free text.
        note: Option<String>,
        /// With RAM.
        memory: bool,
    },
    /// Go back to one.
    Restore {
        /// Its name.
        name: String,
        /// Stop a running instance first.
        stop: bool,
        /// Start it afterwards.
        start: bool,
        /// Take a snapshot of the present first, with this name.
        keep_present: Option<String>,
    },
    /// Delete one. A missing one is success, unchanged.
    Delete {
        /// Its name.
        name: String,
    },
}
