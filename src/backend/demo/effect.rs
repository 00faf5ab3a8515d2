//! What acts change in a guest that stays as it is otherwise, and how long that takes.

use jiff::Timestamp;

use super::act::{Act, Sizes};
use super::dialect::Dialect;
use super::guest::Guest;
use crate::model::{Bytes, Port, shown};

/// A change of a guest in one go.
pub(crate) struct Effect {
    /// As in life.
    pub(crate) millis: u64,
    /// Bytes that are moved, where that takes its time.
    pub(crate) bytes: Option<Bytes>,
    /// The event's word and text.
    pub(crate) word: &'static str,
    pub(crate) said: String,
}

impl Act {
    /// What it does to `guest`; `None` for acts that go through states or concern other guests.
    pub(crate) fn effect(&self, guest: &Guest) -> Option<Effect> {
        let disk = |slot: &str| {
            guest
                .disks
                .iter()
                .find(|d| d.name == slot)
                .and_then(|d| d.size_bytes)
        };
        let all = guest.base.disk_bytes;
        let (millis, bytes, word, said) = match self {
            Self::MarkTemplate { on: true } => (300, None, "template", "is a template".into()),
            Self::MarkTemplate { on: false } => {
                (300, None, "template", "is no template any more".into())
            }
            Self::SetTags { .. } => (80, None, "tagged", "has other tags".into()),
            Self::SetNote { .. } => (80, None, "noted", "has another note".into()),
            Self::SetAutostart { .. } => (80, None, "autostart", "starts otherwise".into()),
            Self::Reconfigure(sizes) => (300, None, "resized", format!("has {sizes}")),
            Self::AddDisk { disk } => (
                400,
                disk.size_bytes.filter(|_| disk.owned),
                "disk-added",
                format!("has disk {}", shown(&disk.name)),
            ),
            Self::DetachDisk { slot } => (
                300,
                None,
                "disk-removed",
                format!("lost disk {}", shown(slot)),
            ),
            Self::GrowDisk { slot, to } => (
                300,
                None,
                "disk-grown",
                format!("has {to} in disk {}", shown(slot)),
            ),
            Self::MoveDisk { slot, pool, .. } => (
                400,
                disk(slot),
                "disk-moved",
                format!("has disk {} in {}", shown(slot), shown(pool)),
            ),
            Self::AddNic { nic } => (
                300,
                None,
                "nic-added",
                format!("has NIC {}", shown(&nic.name)),
            ),
            Self::RemoveNic { slot, .. } => (
                300,
                None,
                "nic-removed",
                format!("lost NIC {}", shown(slot)),
            ),
            Self::Insert { image, .. } => (100, None, "media", format!("has {} in", shown(image))),
            Self::Eject { .. } => (100, None, "media", "has an empty drive".into()),
            Self::Publish { host, guest, .. } => (
                100,
                None,
                "published",
                format!("has port {guest} at {}", shown(host)),
            ),
            Self::Unpublish { host, .. } => (
                100,
                None,
                "unpublished",
                format!("no longer is at {}", shown(host)),
            ),
            Self::Export { to, .. } => (
                400,
                all,
                "exported",
                format!("was written to {}", shown(to)),
            ),
            Self::Backup { name, .. } => {
                (400, all, "backed-up", format!("has backup {}", shown(name)))
            }
            Self::DropBackup { name } => (
                200,
                None,
                "backup-deleted",
                format!("lost backup {}", shown(name)),
            ),
            Self::RestoreBackup { name } => (
                400,
                all,
                "restored",
                format!("is back at backup {}", shown(name)),
            ),
            Self::Rewrite { .. } => (200, None, "edited", "has another definition".into()),
            Self::Unlock => (100, None, "unlocked", "was unlocked".into()),
            Self::Push { to, .. } => (200, None, "pushed", format!("got {}", shown(to))),
            Self::Pull { from, .. } => (200, None, "pulled", format!("gave {}", shown(from))),
            Self::Press { .. } => (60, None, "keys", "got keys".into()),
            _ => return None,
        };
        Some(Effect {
            millis,
            bytes,
            word,
            said,
        })
    }

    /// Does it.
    pub(crate) fn apply(&self, dialect: Dialect, guest: &mut Guest, at: Timestamp) {
        guest.revision += 1;
        match self {
            Self::MarkTemplate { on } => guest.base.template = *on,
            Self::SetTags { tags } => guest.base.tags.clone_from(tags),
            Self::SetNote { text } => guest.base.note.clone_from(text),
            Self::SetAutostart { on } => guest.base.autostart = Some(*on),
            Self::Reconfigure(sizes) => reconfigure(guest, sizes),
            Self::AddDisk { disk } => guest.disks.push((**disk).clone()),
            Self::DetachDisk { slot } => guest.disks.retain(|d| d.name != *slot),
            Self::GrowDisk { slot, to } => {
                if let Some(disk) = guest.disks.iter_mut().find(|d| d.name == *slot) {
                    disk.size_bytes = Some(*to);
                }
            }
            Self::MoveDisk { slot, to, .. } => {
                if let Some(disk) = guest.disks.iter_mut().find(|d| d.name == *slot) {
                    disk.source = Some(to.clone());
                }
            }
            Self::AddNic { nic } => guest.nics.push((**nic).clone()),
            Self::RemoveNic { slot, .. } => {
                guest.nics.retain(|n| n.name != *slot);
                guest.addresses.retain(|a| a.nic.as_ref() != Some(slot));
            }
            Self::Insert { drive, image } => guest.set_medium(dialect, drive, Some(image)),
            Self::Eject { drive, .. } => guest.set_medium(dialect, drive, None),
            Self::Publish {
                host,
                guest: port,
                protocol,
            } => guest.base.ports.get_or_insert_default().push(Port {
                guest: *port,
                host: host.clone(),
                protocol: protocol.clone(),
            }),
            Self::Unpublish {
                host,
                guest: port,
                protocol,
            } => {
                if let Some(ports) = &mut guest.base.ports {
                    ports
                        .retain(|p| p.host != *host || p.guest != *port || p.protocol != *protocol);
                }
            }
            Self::Rewrite { text } => super::edit::adopt(guest, text),
            Self::Unlock => guest.base.locked = None,
            Self::Push { to, .. } => {
                guest.files.insert(to.clone(), at);
            }
            _ => {}
        }
        guest.sum_up();
    }
}

fn reconfigure(guest: &mut Guest, sizes: &Sizes) {
    let headroom = [
        sizes.max_cpus.map(|n| format!("up to {n} CPUs")),
        sizes.max_memory.map(|n| format!("up to {n}")),
    ];
    let up = guest.state().is_active();
    guest.room.cpus = sizes.max_cpus.or(guest.room.cpus);
    guest.room.memory = sizes.max_memory.or(guest.room.memory);
    if up {
        guest.pending.extend(headroom.into_iter().flatten());
    }
    if up && sizes.later {
        let changes = [
            sizes.cpus.map(|n| format!("{n} CPUs")),
            sizes.memory.map(|n| format!("memory {n}")),
        ];
        guest.pending.extend(changes.into_iter().flatten());
        guest.next = Some(Sizes {
            cpus: sizes.cpus.or(guest.next.and_then(|n| n.cpus)),
            memory: sizes.memory.or(guest.next.and_then(|n| n.memory)),
            ..*sizes
        });
    } else {
        guest.base.cpus = sizes.cpus.or(guest.base.cpus);
        guest.base.memory_bytes = sizes.memory.or(guest.base.memory_bytes);
    }
}
