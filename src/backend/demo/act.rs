//! Single acts on a guest, in words; [`native`](super::native) has them as calls, and
//! [`effect`](super::effect) has what they change.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::dialect::Dialect;
use super::guest::Guest;
use crate::model::{
    Bytes, Disk, InstanceId, Nic, State, Step, encode_segment, print_duration, shown,
};

/// One act on one guest; a change is a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Start,
    /// Ask the guest to shut down and wait.
    ShutDown,
    PowerOff,
    /// Power off if it still runs after this long.
    PowerOffAfter(Duration),
    /// Ask the guest to reboot.
    Reboot,
    Reset,
    /// The server stops and starts it in one call.
    Cycle {
        now: bool,
    },
    Pause,
    Resume,
    /// Memory to disk, and off.
    Hibernate,
    TakeSnapshot {
        name: String,
        note: Option<String>,
        memory: bool,
        /// File systems are frozen meanwhile.
        quiesce: bool,
        expires_at: Option<Timestamp>,
        /// The rule that names it.
        policy: Option<String>,
    },
    Revert {
        name: String,
    },
    DropSnapshot {
        name: String,
    },
    /// Write the definition of a new guest.
    Define,
    /// Fill disk number `0` from `source`.
    FillDisk {
        n: usize,
        source: String,
    },
    /// Remove the disk with this source.
    RemoveDisk {
        source: String,
    },
    Undefine {
        keep_disks: bool,
    },
    Rename {
        to: String,
        id: InstanceId,
    },
    /// Another guest like this one.
    Clone {
        to: InstanceId,
        name: String,
        linked: bool,
        snapshot: Option<String>,
    },
    MarkTemplate {
        on: bool,
    },
    SetTags {
        tags: Vec<String>,
    },
    SetNote {
        text: Option<String>,
    },
    SetAutostart {
        on: bool,
    },
    Reconfigure(Sizes),
    AddDisk {
        disk: Box<Disk>,
    },
    /// Take a disk out; its data stays.
    DetachDisk {
        slot: String,
    },
    GrowDisk {
        slot: String,
        to: Bytes,
    },
    MoveDisk {
        slot: String,
        pool: String,
        /// What its source is afterwards.
        to: String,
    },
    AddNic {
        nic: Box<Nic>,
    },
    RemoveNic {
        slot: String,
        mac: String,
    },
    Insert {
        drive: String,
        image: String,
    },
    Eject {
        drive: String,
        force: bool,
    },
    Publish {
        host: String,
        guest: u16,
        protocol: String,
    },
    Unpublish {
        host: String,
        guest: u16,
        protocol: String,
    },
    Export {
        to: String,
        format: &'static str,
        snapshot: Option<String>,
    },
    Backup {
        name: String,
        place: String,
    },
    RestoreBackup {
        name: String,
    },
    DropBackup {
        name: String,
    },
    /// Replace the native definition.
    Rewrite {
        text: String,
    },
    Unlock,
    Push {
        from: String,
        to: String,
    },
    Pull {
        from: String,
        to: String,
    },
    /// Keys held together.
    Press {
        chord: Vec<String>,
    },
}

/// What a resize asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) cpus: Option<u32>,
    pub(crate) memory: Option<Bytes>,
    pub(crate) max_cpus: Option<u32>,
    pub(crate) max_memory: Option<Bytes>,
    /// Written down now, true from the next start on.
    pub(crate) later: bool,
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            self.cpus.map(|n| format!("cpus={n}")),
            self.memory.map(|n| format!("memory={n}")),
            self.max_cpus.map(|n| format!("max-cpus={n}")),
            self.max_memory.map(|n| format!("max-memory={n}")),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        f.write_str(&words.join(" "))
    }
}

impl Act {
    /// As a step of a plan.
    pub(crate) fn step(&self, dialect: Dialect, guest: &Guest) -> Step {
        let step = Step::new(self.title(), self.native(dialect, guest));
        match self.undo(guest) {
            Some(undo) => step.undo(undo),
            None => step,
        }
    }

    /// The command that takes it back, where one does.
    fn undo(&self, guest: &Guest) -> Option<String> {
        let id = guest.id();
        Some(match self {
            Self::Start => format!("corral stop {id}"),
            Self::ShutDown | Self::PowerOff | Self::Hibernate => format!("corral start {id}"),
            Self::Pause => format!("corral resume {id}"),
            Self::Resume => format!("corral pause {id}"),
            Self::TakeSnapshot { name, .. } => {
                format!("corral snapshot delete {id}@{}", encode_segment(name))
            }
            Self::Define => format!("corral delete {id}"),
            Self::Clone { to, .. } => format!("corral delete {to}"),
            Self::Rename { id: new, .. } => {
                format!("corral rename {new} --to {}", word(&guest.base.name))
            }
            Self::MarkTemplate { on: true } => format!("corral template {id} --off"),
            Self::MarkTemplate { on: false } => format!("corral template {id}"),
            Self::SetAutostart { on: true } => format!("corral autostart {id} off"),
            Self::SetAutostart { on: false } => format!("corral autostart {id} on"),
            Self::Reconfigure(sizes) => {
                let cpus = guest.base.cpus.filter(|_| sizes.cpus.is_some());
                let memory = guest.base.memory_bytes.filter(|_| sizes.memory.is_some());
                let mut words = format!("corral resize {id}");
                if let Some(cpus) = cpus {
                    words += &format!(" --cpus {cpus}");
                }
                if let Some(memory) = memory {
                    words += &format!(" --memory {}M", memory.0 >> 20);
                }
                words
            }
            Self::AddDisk { disk } => {
                format!("corral disk remove {id} --disk {}", word(&disk.name))
            }
            Self::AddNic { nic } => format!("corral nic remove {id} --nic {}", word(&nic.name)),
            Self::Insert { .. } => format!("corral media eject {id}"),
            _ => return None,
        })
    }

    /// In words.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Start => "Power on".into(),
            Self::ShutDown => "Ask the guest to shut down".into(),
            Self::PowerOff => "Power off now".into(),
            Self::PowerOffAfter(wait) => {
                format!("Power off if it still runs after {}", print_duration(*wait))
            }
            Self::Reboot => "Ask the guest to reboot".into(),
            Self::Reset => "Reset now".into(),
            Self::Cycle { now: false } => "Shut down and start again".into(),
            Self::Cycle { now: true } => "Power off and start again".into(),
            Self::Pause => "Halt its CPUs".into(),
            Self::Resume => "Let its CPUs go on".into(),
            Self::Hibernate => "Save its memory to disk and free it".into(),
            Self::TakeSnapshot {
                name, memory: true, ..
            } => format!("Take snapshot {name} with memory"),
            Self::TakeSnapshot { name, .. } => format!("Take snapshot {name}"),
            Self::Revert { name } => format!("Go back to snapshot {name}"),
            Self::DropSnapshot { name } => format!("Delete snapshot {name}"),
            Self::Define => "Write the definition".into(),
            Self::FillDisk { source, .. } if source.is_empty() => "Make an empty disk".into(),
            Self::FillDisk { source, .. } => format!("Make the disk from {source}"),
            Self::RemoveDisk { source } => format!("Remove disk {source}"),
            Self::Undefine { keep_disks: true } => "Remove the definition, keep disks".into(),
            Self::Undefine { keep_disks: false } => "Remove the definition".into(),
            other => other.title_of_edit(),
        }
    }

    /// What changes an instance that stays.
    fn title_of_edit(&self) -> String {
        match self {
            Self::Rename { to, .. } => format!("Rename it to {to}"),
            Self::Clone {
                name, linked: true, ..
            } => format!("Make {name} on top of its disks"),
            Self::Clone { name, .. } => format!("Copy it to {name}"),
            Self::MarkTemplate { on: true } => "Make it a template".into(),
            Self::MarkTemplate { on: false } => "Make it an ordinary instance".into(),
            Self::SetTags { tags } if tags.is_empty() => "Remove its tags".into(),
            Self::SetTags { tags } => format!("Set its tags to {}", tags.join(" ")),
            Self::SetNote { text: Some(_) } => "Write its note".into(),
            Self::SetNote { text: None } => "Remove its note".into(),
            Self::SetAutostart { on: true } => "Start it with its host".into(),
            Self::SetAutostart { on: false } => "No longer start it with its host".into(),
            Self::Reconfigure(sizes) if sizes.later => format!("Set {sizes} for the next start"),
            Self::Reconfigure(sizes) => format!("Set {sizes}"),
            Self::AddDisk { disk } => format!("Attach disk {}", disk.name),
            Self::DetachDisk { slot } => format!("Detach disk {slot}"),
            Self::GrowDisk { slot, to } => format!("Grow disk {slot} to {to}"),
            Self::MoveDisk { slot, pool, .. } => format!("Move disk {slot} to {pool}"),
            Self::AddNic { nic } => format!("Attach NIC {}", nic.name),
            Self::RemoveNic { slot, .. } => format!("Detach NIC {slot}"),
            Self::Insert { drive, image } => format!("Put {image} into {drive}"),
            Self::Eject { drive, .. } => format!("Empty {drive}"),
            Self::Publish { host, guest, .. } => format!("Publish port {guest} at {host}"),
            Self::Unpublish { host, guest, .. } => {
                format!("No longer publish port {guest} at {host}")
            }
            Self::Export { to, format, .. } => format!("Write it as {format} to {to}"),
            Self::Backup { name, .. } => format!("Make backup {name}"),
            Self::RestoreBackup { name } => format!("Bring it back from backup {name}"),
            Self::DropBackup { name } => format!("Delete backup {name}"),
            Self::Rewrite { .. } => "Replace its definition".into(),
            Self::Unlock => "Remove the lock".into(),
            Self::Push { from, to } => format!("Copy {from} to {to} inside"),
            Self::Pull { from, to } => format!("Copy {from} from inside to {to}"),
            Self::Press { chord } => format!("Press {}", chord.join("-")),
            _ => String::new(),
        }
    }

    /// The impersonated kind's own call.
    pub(crate) fn native(&self, dialect: Dialect, guest: &Guest) -> String {
        super::native::call(dialect, self, guest)
    }

    /// The state a guest is in after it, where it changes the state.
    pub(crate) fn leads_to(&self) -> Option<State> {
        match self {
            Self::Start | Self::Reboot | Self::Reset | Self::Cycle { .. } | Self::Resume => {
                Some(State::Running)
            }
            Self::ShutDown | Self::PowerOff => Some(State::Stopped),
            Self::Hibernate => Some(State::Hibernated),
            Self::Pause => Some(State::Paused),
            _ => None,
        }
    }
}

/// As one word of a command line.
fn word(text: &str) -> String {
    let text = shown(text);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
