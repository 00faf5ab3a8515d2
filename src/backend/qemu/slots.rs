//! Where each device sits on the board. A guest knows a disk or a NIC by its place, so a place
//! stays with its device: what comes or goes moves no other, and what was plugged in while the VM
//! ran sits at the same place after the next start.
//!
//! The definition names the place (`slot`) from the first change on; without it, a device has the
//! place that its number in its list gives it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::definition::Definition;
use crate::model::{Error, Result, shown};

/// Places of disks on the root bus.
pub const BOARD_DISKS: u8 = 14;
/// Places of NICs on the root bus.
pub const BOARD_NICS: u8 = 8;
/// Root ports that wait for what is plugged in.
pub const SPARE: u8 = 8;
/// Ports of the board's SATA controller.
pub const SATA: u8 = 6;
/// Targets of the SCSI controller.
pub const SCSI: u8 = 255;

/// A place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Slot {
    /// On the root bus, which takes and gives nothing while the VM runs. Disks and NICs count apart.
    Board(u8),
    /// A root port of its own: can be plugged in and out.
    Spare(u8),
    /// A target of the SCSI controller: can be plugged in and out.
    Scsi(u8),
    /// A port of the SATA controller, which takes and gives nothing while the VM runs.
    Sata(u8),
}

impl Slot {
    /// The guest can be asked to let go of what is there.
    pub fn can_be_plugged(self) -> bool {
        matches!(self, Self::Spare(_) | Self::Scsi(_))
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Board(n) => write!(f, "board{n}"),
            Self::Spare(n) => write!(f, "spare{n}"),
            Self::Scsi(n) => write!(f, "scsi{n}"),
            Self::Sata(n) => write!(f, "sata{n}"),
        }
    }
}

impl From<Slot> for String {
    fn from(slot: Slot) -> Self {
        slot.to_string()
    }
}

impl TryFrom<String> for Slot {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Slot {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let digits = text
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(text.len());
        let (word, number) = text.split_at(digits);
        let slot = number.parse::<u8>().ok().and_then(|n| match word {
            "board" => Some(Self::Board(n)),
            "spare" => Some(Self::Spare(n)),
            "scsi" => Some(Self::Scsi(n)),
            "sata" => Some(Self::Sata(n)),
            _ => None,
        });
        // One place has one name.
        slot.filter(|slot| slot.to_string() == text).ok_or_else(|| {
            format!(
                "slot \"{}\" is none of board0, spare0, scsi0, sata0",
                shown(text)
            )
        })
    }
}

/// The place of every device of a definition, in the order of its lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Of its disks.
    pub disks: Vec<Slot>,
    /// Of its CD-ROM drives.
    pub cdroms: Vec<Slot>,
    /// Of its NICs.
    pub nics: Vec<Slot>,
}

fn full(what: &str, most: u8) -> Error {
    Error::invalid(format!("more {what} than the board has room for ({most})"))
}

/// The kinds of places that a disk's bus has, first the one it gets by its number.
fn of_bus(bus: &str, n: u8) -> Option<Slot> {
    match bus {
        "virtio" => Some(Slot::Board(n)),
        "scsi" => Some(Slot::Scsi(n)),
        "sata" => Some(Slot::Sata(n)),
        _ => None,
    }
}

/// Whether a place is one of a bus, and there at all.
fn fits(slot: Slot, bus: &str) -> bool {
    match slot {
        Slot::Board(n) => bus == "virtio" && n < BOARD_DISKS,
        Slot::Spare(n) => bus == "virtio" && n < SPARE,
        Slot::Scsi(n) => bus == "scsi" && n < SCSI,
        Slot::Sata(n) => bus == "sata" && n < SATA,
    }
}

impl Slots {
    /// Finds the places.
    ///
    /// # Errors
    /// `Invalid` for a bus that is not known, a place that is not there or is given twice, and more
    /// devices than the board has room for.
    pub fn of(vm: &Definition) -> Result<Self> {
        let mut taken = BTreeSet::new();
        let mut nics_taken = BTreeSet::new();
        let twice = |name: &str, slot: Slot| {
            Error::invalid(format!(
                "{}: {slot} has another device already",
                shown(name)
            ))
        };
        let wrong = |name: &str, slot: Slot| {
            Error::invalid(format!("{}: there is no place {slot} for it", shown(name)))
        };
        for disk in &vm.disks {
            if of_bus(&disk.bus, 0).is_none() {
                return Err(Error::invalid(format!(
                    "{}: bus \"{}\" is none of virtio, scsi, sata",
                    shown(&disk.name),
                    shown(&disk.bus)
                )));
            }
            if let Some(slot) = disk.slot {
                if !fits(slot, &disk.bus) {
                    return Err(wrong(&disk.name, slot));
                }
                if !taken.insert(slot) {
                    return Err(twice(&disk.name, slot));
                }
            }
        }
        for medium in &vm.cdroms {
            if let Some(slot) = medium.slot {
                if !fits(slot, "sata") && !fits(slot, "scsi") {
                    return Err(wrong(&medium.name, slot));
                }
                if !taken.insert(slot) {
                    return Err(twice(&medium.name, slot));
                }
            }
        }
        for nic in &vm.nics {
            let Some(slot) = nic.slot else { continue };
            let free = match slot {
                Slot::Board(n) if n < BOARD_NICS => nics_taken.insert(slot),
                Slot::Spare(n) if n < SPARE => taken.insert(slot),
                _ => return Err(wrong(&nic.name, slot)),
            };
            if !free {
                return Err(twice(&nic.name, slot));
            }
        }
        let mut slots = Self::default();
        let (mut sata, mut scsi) = (0, 0);
        for (n, disk) in vm.disks.iter().enumerate() {
            let number = match disk.bus.as_str() {
                "sata" => next(&mut sata),
                "scsi" => next(&mut scsi),
                _ => u8::try_from(n).unwrap_or(u8::MAX),
            };
            let slot = match disk.slot {
                Some(slot) => slot,
                None => settle(&mut taken, number, &disk.bus)?,
            };
            slots.disks.push(slot);
        }
        for medium in &vm.cdroms {
            let number = next(&mut sata);
            slots.cdroms.push(match medium.slot {
                Some(slot) => slot,
                None => settle(&mut taken, number, "sata")?,
            });
        }
        for (n, nic) in vm.nics.iter().enumerate() {
            let n = u8::try_from(n).unwrap_or(u8::MAX);
            let slot = nic.slot.or_else(|| {
                (n..BOARD_NICS)
                    .chain(0..BOARD_NICS.min(n))
                    .map(Slot::Board)
                    .find(|slot| nics_taken.insert(*slot))
            });
            slots
                .nics
                .push(slot.ok_or_else(|| full("network interfaces", BOARD_NICS))?);
        }
        Ok(slots)
    }

    /// A root port that nothing is plugged into.
    pub fn free_spare(&self) -> Option<Slot> {
        (0..SPARE).map(Slot::Spare).find(|slot| self.is_free(*slot))
    }

    /// A free place for a new disk: one that it can be plugged out of again, where there is one.
    /// With `plugged`, no other.
    pub fn free_for(&self, bus: &str, plugged: bool) -> Option<Slot> {
        let on_bus = |most: u8| {
            (0..most)
                .filter_map(|n| of_bus(bus, n))
                .find(|slot| self.is_free(*slot))
        };
        match bus {
            "virtio" if plugged => self.free_spare(),
            "virtio" => self.free_spare().or_else(|| on_bus(BOARD_DISKS)),
            "scsi" => on_bus(SCSI),
            "sata" if !plugged => on_bus(SATA),
            _ => None,
        }
    }

    fn is_free(&self, slot: Slot) -> bool {
        let mut others = self.disks.iter().chain(&self.cdroms);
        // Board places of NICs are others than those of disks.
        let nic = !matches!(slot, Slot::Board(_)) && self.nics.contains(&slot);
        !nic && !others.any(|other| *other == slot)
    }
}

fn next(counter: &mut u8) -> u8 {
    let n = *counter;
    *counter = n.saturating_add(1);
    n
}

/// The place of this number, or the next one that is free.
fn settle(taken: &mut BTreeSet<Slot>, number: u8, bus: &str) -> Result<Slot> {
    let (what, most) = match bus {
        "virtio" => ("virtio disks", BOARD_DISKS),
        "scsi" => ("SCSI disks", SCSI),
        _ => ("SATA drives", SATA),
    };
    (number..most)
        .chain(0..number.min(most))
        .filter_map(|n| of_bus(bus, n))
        .find(|slot| taken.insert(*slot))
        .ok_or_else(|| full(what, most))
}

impl Definition {
    /// Writes every device's place down, so that none moves when another one comes or goes.
    ///
    /// # Errors
    /// As [`Slots::of`].
    pub fn pin_slots(&mut self) -> Result<()> {
        let slots = Slots::of(self)?;
        for (disk, slot) in self.disks.iter_mut().zip(slots.disks) {
            disk.slot = Some(slot);
        }
        for (medium, slot) in self.cdroms.iter_mut().zip(slots.cdroms) {
            medium.slot = Some(slot);
        }
        for (nic, slot) in self.nics.iter_mut().zip(slots.nics) {
            nic.slot = Some(slot);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::definition::tests::sample;
    use super::super::definition::{DiskDef, MediumDef};
    use super::*;

    fn with(disks: &[(&str, Option<Slot>)], cdroms: usize) -> Definition {
        let mut vm = sample("a", Path::new("/d"));
        let first = vm.disks.remove(0);
        vm.disks = disks
            .iter()
            .enumerate()
            .map(|(n, (bus, slot))| DiskDef {
                name: format!("disk{n}"),
                bus: (*bus).to_owned(),
                slot: *slot,
                ..first.clone()
            })
            .collect();
        vm.cdroms = (0..cdroms)
            .map(|n| MediumDef {
                name: format!("cdrom{n}"),
                path: None,
                slot: None,
            })
            .collect();
        vm
    }

    #[test]
    fn what_goes_moves_no_other() {
        let mut vm = with(&[("virtio", None), ("sata", None), ("virtio", None)], 2);
        let before = Slots::of(&vm).unwrap();
        assert_eq!(
            before.disks,
            [Slot::Board(0), Slot::Sata(0), Slot::Board(2)]
        );
        assert_eq!(before.cdroms, [Slot::Sata(1), Slot::Sata(2)]);
        vm.pin_slots().unwrap();
        vm.disks.remove(1);
        let after = Slots::of(&vm).unwrap();
        assert_eq!(after.disks, [Slot::Board(0), Slot::Board(2)]);
        assert_eq!(after.cdroms, before.cdroms);
        assert_eq!(after.free_for("sata", false), Some(Slot::Sata(0)));
        assert_eq!(after.free_for("sata", true), None);
        assert_eq!(after.free_for("virtio", true), Some(Slot::Spare(0)));
    }

    #[test]
    fn places_are_shared_out_once() {
        let spare = Some(Slot::Spare(0));
        let vm = with(
            &[
                ("virtio", spare),
                ("virtio", Some(Slot::Board(2))),
                ("virtio", None),
            ],
            0,
        );
        // Its own number is taken by another.
        assert_eq!(Slots::of(&vm).unwrap().disks[2], Slot::Board(3));
        for (disks, word) in [
            (vec![("virtio", spare), ("virtio", spare)], "spare0 has"),
            (vec![("scsi", spare)], "no place spare0"),
            (vec![("virtio", Some(Slot::Board(14)))], "no place board14"),
            (vec![("mfm", None)], "mfm"),
            (vec![("virtio", None); 15], "14"),
            (vec![("sata", None); 7], "6"),
        ] {
            let error = Slots::of(&with(&disks, 0)).unwrap_err();
            assert!(error.message.contains(word), "{error}");
        }
        let mut vm = with(&[("virtio", spare)], 0);
        vm.nics[0].slot = spare;
        assert!(Slots::of(&vm).is_err());
        vm.nics[0].slot = None;
        assert_eq!(Slots::of(&vm).unwrap().free_spare(), Some(Slot::Spare(1)));
    }

    #[test]
    fn names_of_places() {
        for slot in [
            Slot::Board(3),
            Slot::Spare(0),
            Slot::Scsi(254),
            Slot::Sata(5),
        ] {
            assert_eq!(slot.to_string().parse(), Ok(slot));
        }
        for odd in ["", "board", "board03", "spare-1", "sata256", "\u{1b}0", "3"] {
            let said = odd.parse::<Slot>().unwrap_err();
            assert!(!said.contains('\u{1b}'), "{said}");
        }
    }
}
