//! `op.json` beside a definition: the change under way, phase by phase, so that a corral that was
//! killed leaves nothing that cannot be completed or rolled back.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::definition::{DiskDef, Forward, NicDef};
use super::disks::moves::How;
use super::hibernate::Saved;
use super::rename::Overlay;
use super::resize::Sizes;
use super::snapshots::record::Record;
use super::store::{Store, is_there};
use crate::link::files::{fault, write_atomically};
use crate::model::{Bytes, Error, Result, shown};

/// The newest format of the file that this corral writes.
pub const FORMAT: u32 = 1;

/// The file's name.
pub const FILE: &str = "op.json";

/// A change of several steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "op")]
pub enum Change {
    /// A VM is made. Everything is below its folder.
    Create,
    /// A VM is deleted.
    Delete {
        /// Files outside of its folder that go too.
        files: Vec<PathBuf>,
        /// Files in its folder that stay.
        keep: Vec<PathBuf>,
    },
    /// A VM is made from files. Everything is below its folder.
    Import,
    /// Disks are replaced by those of a backup.
    BackupRestore {
        /// The new files and their places.
        files: Vec<super::transfer::restore::Swap>,
    },
    /// A VM is written out.
    Export {
        /// What is half-written.
        partial: PathBuf,
        /// From the running QEMU, which keeps what the disks were.
        live: Option<super::transfer::live::Held>,
        /// What interrupted exports to other places left, which this one leaves alone.
        #[serde(default)]
        others: Vec<PathBuf>,
    },
    /// A VM gets another name: its folder moves.
    Rename {
        /// The old name.
        from: String,
        /// The new one.
        to: String,
        /// Images whose base moves.
        overlays: Vec<Overlay>,
    },
    /// A disk is attached.
    DiskAdd {
        /// As the definition gets it.
        disk: DiskDef,
        /// Its file is made by this change.
        made: bool,
    },
    /// A disk is detached.
    DiskRemove {
        /// As the definition had it.
        disk: DiskDef,
        /// Its file goes too.
        delete: bool,
    },
    /// A disk becomes larger.
    DiskGrow {
        /// Its name.
        disk: String,
        /// The new size.
        to: Bytes,
    },
    /// A disk goes to another place.
    DiskMove {
        /// Its name.
        disk: String,
        /// Where it was.
        from: PathBuf,
        /// Where it goes.
        to: PathBuf,
        /// How.
        how: How,
        /// The old file goes.
        own: bool,
    },
    /// Another medium in a CD-ROM drive.
    Media {
        /// The drive's name.
        drive: String,
        /// The image; `None` takes it out.
        #[serde(default)]
        image: Option<PathBuf>,
    },
    /// A snapshot is taken.
    SnapshotCreate {
        /// What is noted of it: its consistency as far as it holds no RAM.
        record: Box<Record>,
        /// The guest's file systems may be frozen.
        #[serde(default)]
        frozen: bool,
    },
    /// The disks go back to a snapshot.
    SnapshotRestore {
        /// Its name.
        tag: String,
    },
    /// A snapshot is deleted.
    SnapshotDelete {
        /// Its name.
        tag: String,
    },
    /// A running VM gets other CPUs or memory.
    Resize {
        /// As it is to be.
        to: Sizes,
    },
    /// A network interface is plugged into a running VM.
    NicAdd {
        /// The interface.
        nic: NicDef,
    },
    /// A network interface is taken from a running VM.
    NicRemove {
        /// Its name.
        nic: String,
    },
    /// A port of the guest is published while it runs.
    Publish {
        /// The NIC it goes through.
        nic: String,
        /// The port.
        forward: Forward,
    },
    /// A port of the guest is no longer published.
    Unpublish {
        /// The NIC it goes through.
        nic: String,
        /// The port.
        forward: Forward,
    },
    /// RAM is saved, and the process ends.
    Hibernate {
        /// What is saved.
        saved: Box<Saved>,
        /// It ran before.
        running: bool,
    },
    /// A saved state is loaded or given up: in the phase `recording` the guest may have gone on.
    Wake,
}

impl Change {
    /// In words, for messages.
    pub fn title(&self) -> String {
        match self {
            Self::Create => "create".to_owned(),
            Self::Delete { .. } => "delete".to_owned(),
            Self::Import => "import".to_owned(),
            Self::BackupRestore { .. } => "backup restore".to_owned(),
            Self::Export { .. } => "export".to_owned(),
            Self::SnapshotCreate { record, .. } => {
                format!("snapshot create {}", shown(&record.name))
            }
            Self::Rename { to, .. } => format!("rename to {}", shown(to)),
            Self::DiskAdd { disk, .. } => format!("disk add ({})", shown(&disk.name)),
            Self::DiskRemove { disk, .. } => format!("disk remove {}", shown(&disk.name)),
            Self::DiskGrow { disk, .. } => format!("disk grow {}", shown(disk)),
            Self::DiskMove { disk, .. } => format!("disk move {}", shown(disk)),
            Self::Media { drive, .. } => format!("media of {}", shown(drive)),
            Self::SnapshotRestore { tag } => format!("snapshot restore {}", shown(tag)),
            Self::SnapshotDelete { tag } => format!("snapshot delete {}", shown(tag)),
            Self::Resize { .. } => "resize".to_owned(),
            Self::NicAdd { nic } => format!("nic add ({})", shown(&nic.name)),
            Self::NicRemove { nic } => format!("nic remove {}", shown(nic)),
            Self::Publish { forward, .. } => format!("ports publish {}", forward.guest),
            Self::Unpublish { forward, .. } => format!("ports unpublish {}", forward.guest),
            Self::Hibernate { .. } => "hibernate".to_owned(),
            Self::Wake => "start from a saved state".to_owned(),
        }
    }
}

/// How far a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Written down; nothing else was done.
    Begun,
    /// Something may have been done.
    Working,
    /// All was done but for the records.
    Recording,
}

/// The content of `op.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op {
    /// Format of the file; a newer one than [`FORMAT`] is left to the corral that knows it.
    #[serde(default)]
    pub format: u32,
    /// What.
    #[serde(flatten)]
    pub change: Change,
    /// How far.
    pub phase: Phase,
    /// The corral that does it.
    pub pid: u32,
    /// When that process began, in the kernel's ticks: a PID is used again, the pair is not.
    pub pid_start: u64,
    /// When the change began.
    pub at: Timestamp,
}

impl Change {
    /// Files that this change takes, or is about to delete: nobody else may begin to use them.
    pub fn claims(&self) -> impl Iterator<Item = &Path> {
        let (files, disk): (&[PathBuf], Option<&DiskDef>) = match self {
            Self::Delete { files, .. } => (files, None),
            Self::DiskAdd { disk, .. } | Self::DiskRemove { disk, delete: true } => {
                (&[], Some(disk))
            }
            _ => (&[], None),
        };
        let disk = disk
            .into_iter()
            .flat_map(|disk| std::iter::once(&disk.path).chain(&disk.backing));
        files.iter().chain(disk).map(PathBuf::as_path)
    }
}

/// A change under way, written down. Dropped without `finish`, the file stays for doctor: as that
/// of a process that is gone, since this one does nothing more about it, however long it lives.
#[derive(Debug)]
pub struct Journal {
    file: PathBuf,
    op: Op,
    done: bool,
}

impl Journal {
    /// Writes the change down before anything of it is done.
    ///
    /// # Errors
    /// `Conflict` while another change of the VM is under way or was left unfinished.
    pub fn begin(dir: &Path, change: Change) -> Result<Self> {
        Self::begin_at(dir, change, Phase::Begun)
    }

    /// [`Journal::begin`] of what works from its first step on: one record less on the disk.
    ///
    /// # Errors
    /// As [`Journal::begin`].
    pub fn working(dir: &Path, change: Change) -> Result<Self> {
        Self::begin_at(dir, change, Phase::Working)
    }

    fn begin_at(dir: &Path, change: Change, phase: Phase) -> Result<Self> {
        let file = dir.join(FILE);
        if let Some(op) = read(&file)? {
            let who = op.change.title();
            return Err(if op.is_alive() {
                Error::conflict(format!("\"{who}\" is under way by process {}", op.pid))
                    .remedy("Wait for it: corral tasks")
            } else {
                Error::conflict(format!(
                    "\"{who}\" was interrupted and left things half-done"
                ))
                .remedy("Mend it first: corral doctor --fix")
            });
        }
        let pid = std::process::id();
        let op = Op {
            format: FORMAT,
            change,
            phase,
            pid,
            pid_start: process_start(pid).unwrap_or_default(),
            at: Timestamp::now(),
        };
        let journal = Self {
            file,
            op,
            done: false,
        };
        journal.write()?;
        Ok(journal)
    }

    /// The change reaches a phase.
    pub fn phase(&mut self, phase: Phase) -> Result<()> {
        self.op.phase = phase;
        self.write()
    }

    /// How far it is.
    pub fn at(&self) -> Phase {
        self.op.phase
    }

    /// The change is done, or all of it was taken back.
    pub fn finish(mut self) -> Result<()> {
        remove(&self.file)?;
        self.done = true;
        Ok(())
    }

    /// The record is in this folder from now on.
    pub fn moved(&mut self, dir: &Path) {
        self.file = dir.join(FILE);
    }

    /// The change is done, and its record went with everything else.
    pub fn gone(mut self) {
        self.done = true;
    }

    /// Ends it; what others left stays for doctor.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn finish_but(mut self, left: Option<Change>) -> Result<()> {
        let Some(change) = left else {
            return self.finish();
        };
        self.op.change = change;
        self.op.phase = Phase::Working;
        self.op.pid = 0;
        self.write()?;
        self.done = true;
        Ok(())
    }

    fn write(&self) -> Result<()> {
        let text = serde_json::to_vec(&self.op)
            .map_err(|e| Error::backend(format!("the change cannot be written down: {e}")))?;
        write_atomically(&self.file, &text)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Without a folder there is nothing to mend.
        if !self.done && self.file.exists() {
            self.op.pid = 0;
            let _ = self.write();
        }
    }
}

impl Op {
    /// Whether the corral that does it is still there.
    pub fn is_alive(&self) -> bool {
        process_start(self.pid).is_some_and(|start| start == self.pid_start)
    }
}

/// Something that a killed corral left.
#[derive(Clone, Debug)]
pub struct Leftover {
    /// The VM's name.
    pub name: String,
    /// The change, or why its record cannot be read; `None`: a folder without a definition and
    /// without a record.
    pub op: Option<Result<Op>>,
}

impl Leftover {
    /// One line for doctor.
    pub fn message(&self) -> String {
        let name = shown(&self.name);
        match &self.op {
            Some(Ok(op)) => format!(
                "{name}: \"{}\" was interrupted at {:.0}",
                op.change.title(),
                op.at
            ),
            Some(Err(e)) => format!("{name}: {}", e.message),
            None => format!("{name}: a folder without a definition"),
        }
    }
}

/// What is left of changes whose corral is gone.
pub fn leftovers(store: &Store) -> Result<Vec<Leftover>> {
    let mut found = Vec::new();
    for name in store.folders()? {
        let dir = store.dir(&name)?;
        let op = read(&dir.join(FILE)).transpose();
        match op {
            Some(Ok(op)) if op.is_alive() => {}
            // Its row is broken, and says that its folder cannot be read.
            Some(Err(_)) if !is_open(&dir) => {}
            Some(op) => found.push(Leftover { name, op: Some(op) }),
            None if !is_there(&dir.join(super::store::DEFINITION))
                && !is_there(&dir.join(super::remove::KEPT)) =>
            {
                found.push(Leftover { name, op: None });
            }
            None => {}
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn is_open(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok() && fs::metadata(dir.join(".")).is_ok()
}

/// The record in a VM's folder, if there is one.
pub fn read(file: &Path) -> Result<Option<Op>> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(e)
            if matches!(
                e.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(None);
        }
        Err(e) => return Err(fault("read", file, e)),
    };
    let format = serde_json::from_slice::<Format>(&bytes).map_or(0, |it| it.format);
    if format > FORMAT {
        let message = format!(
            "a newer corral is changing it, or was interrupted ({}, format {format})",
            file.display()
        );
        return Err(Error::conflict(message).remedy("Use the newer corral: it knows what is left"));
    }
    serde_json::from_slice(&bytes).map(Some).map_err(|e| {
        Error::invalid(format!("{} cannot be read: {e}", file.display()))
            .remedy("Look at the VM's disks, then remove that file.")
    })
}

/// Whether a VM is whole: nothing was interrupted halfway.
///
/// # Errors
/// `Refused` for what a killed corral left, and for a record that cannot be read.
pub fn unfinished(dir: &Path) -> Result<()> {
    match read(&dir.join(FILE))? {
        // What an export left is none of the disks.
        Some(op) if !op.is_alive() && !matches!(op.change, Change::Export { .. }) => {
            Err(Error::refused(format!(
                "\"{}\" was interrupted and left things half-done",
                op.change.title()
            ))
            .remedy("Mend it first: corral doctor --fix"))
        }
        _ => Ok(()),
    }
}

/// The part of the file that stays what it is.
#[derive(Deserialize)]
struct Format {
    #[serde(default)]
    format: u32,
}

/// The remedy of a change that failed and left its record.
pub fn remedied(dir: &Path, error: Error) -> Error {
    if error.remedy.is_none() && dir.join(FILE).exists() {
        return error.remedy("It is left half-done. Mend it: corral doctor --fix");
    }
    error
}

/// Removes a file; one that is gone already is fine.
pub(super) fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(fault("remove", file, e)),
        _ => Ok(()),
    }
}

/// When a process began, in ticks since boot; `None` when it is gone.
fn process_start(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets and may hold anything.
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(19)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dirs;

    #[test]
    fn a_change_of_a_living_corral_is_no_leftover() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::open(&Dirs::under(root.path()));
        let dir = store.dir("a b").unwrap();
        fs::create_dir_all(&dir).unwrap();
        let mut journal = Journal::begin(&dir, Change::Create).unwrap();
        journal.phase(Phase::Working).unwrap();
        assert!(leftovers(&store).unwrap().is_empty());
        let again = Journal::begin(&dir, Change::Create).unwrap_err();
        assert!(again.message.contains("under way"), "{again}");
        // The same file as a process that is gone would have left it.
        let mut op = read(&dir.join(FILE)).unwrap().unwrap();
        op.pid_start += 1;
        fs::write(dir.join(FILE), serde_json::to_vec(&op).unwrap()).unwrap();
        assert!(
            leftovers(&store).unwrap()[0]
                .message()
                .contains("a b: \"create\"")
        );
        let again = Journal::begin(&dir, Change::Create).unwrap_err();
        assert!(again.to_string().contains("doctor --fix"), "{again}");
        journal.finish().unwrap();
        assert!(leftovers(&store).unwrap()[0].op.is_none());

        // One that gave up leaves it to doctor, even while its process lives on.
        drop(Journal::begin(&dir, Change::Create).unwrap());
        assert!(matches!(&leftovers(&store).unwrap()[0].op, Some(Ok(op)) if !op.is_alive()));
    }

    #[test]
    fn a_newer_record_is_left_to_the_newer_corral() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::open(&Dirs::under(root.path()));
        let dir = store.dir("x").unwrap();
        fs::create_dir_all(&dir).unwrap();
        let text = format!("{{\"format\": {}, \"op\": \"teleport\"}}", FORMAT + 1);
        fs::write(dir.join(FILE), &text).unwrap();
        let error = Journal::begin(&dir, Change::Create).unwrap_err();
        assert!(error.message.contains("newer corral"), "{error}");
        assert!(leftovers(&store).unwrap()[0].message().contains("newer"));
        // One of the same words and another meaning too.
        let text = text.replace("teleport", "create");
        fs::write(dir.join(FILE), &text).unwrap();
        assert!(Journal::begin(&dir, Change::Create).is_err());
        assert_eq!(fs::read_to_string(dir.join(FILE)).unwrap(), text);
    }

    #[test]
    fn a_torn_record_is_reported() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::open(&Dirs::under(root.path()));
        let dir = store.dir("x").unwrap();
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(FILE), "{\"op\": \"cre").unwrap();
        assert!(matches!(leftovers(&store).unwrap()[0].op, Some(Err(_))));
    }
}
