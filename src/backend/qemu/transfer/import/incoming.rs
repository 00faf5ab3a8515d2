//! A machine from anywhere: a bare image, a folder with `portable.json`, an OVF with its files, an
//! OVA. Only looked at here.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::super::super::image;
use super::guard::{self, Content, LARGEST, Slice};
use super::read::{Patience, Source};
use crate::backend::contract::Env;
use crate::backend::contract::check_tag;
use crate::backend::portable::folder::{self, open_plain};
use crate::backend::portable::ovf_read::{self, Described, DescribedDisk};
use crate::backend::portable::tarball::{self, Member};
use crate::link::files::fault;
use crate::model::{Bytes, DiskRole, Error, FirmwareKind, Portable, Result, counted, shown};

/// Longest descriptor.
const TEXT: u64 = 4 << 20;

/// A machine to be.
#[derive(Clone, Debug, Default)]
pub struct Incoming {
    /// Virtual CPUs.
    pub cpus: Option<u32>,
    /// Memory.
    pub memory: Option<Bytes>,
    /// Firmware.
    pub firmware: Option<FirmwareKind>,
    /// Secure Boot.
    pub secure_boot: bool,
    /// Virtual TPM.
    pub tpm: bool,
    /// Guest family.
    pub os: Option<String>,
    /// Models of its network interfaces; `None`: it does not say how many.
    pub nics: Option<Vec<Option<String>>>,
    /// Tags.
    pub tags: Vec<String>,
    /// Note.
    pub note: Option<String>,
    /// Disks in order.
    pub disks: Vec<InDisk>,
    /// Parts of files whose SHA-256 is known.
    pub sums: Vec<(Slice, String)>,
    /// Worth knowing.
    pub notes: Vec<String>,
    /// What it has and the new one has not.
    pub not_carried: Vec<String>,
    /// Everything that is read.
    pub files: Vec<PathBuf>,
}

/// A disk to be.
#[derive(Clone, Debug)]
pub struct InDisk {
    /// Where it comes from.
    pub reading: Reading,
    /// What it is for.
    pub role: DiskRole,
    /// Bus, where it says.
    pub bus: Option<String>,
    /// Size a guest sees; 0 is not known before it is unpacked.
    pub size: Bytes,
}

/// Where a disk comes from.
#[derive(Clone, Debug)]
pub enum Reading {
    /// An image.
    Image(Source),
    /// A packed image, and the most it may become.
    Gzip(Slice, Bytes),
    /// Nothing is in it.
    Blank,
}

/// Looks at it, not much longer than `until`: what there is no time for is checked when it is taken in.
///
/// # Errors
/// One message each for what is wrong with it.
pub async fn look(env: &Env, from: &Path, until: Instant) -> Result<Incoming> {
    sized(env, find(from)?, until).await
}

fn find(from: &Path) -> Result<Incoming> {
    let name = shown(&from.to_string_lossy()).into_owned();
    let meta = std::fs::metadata(from).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::not_found(format!("there is no {name}")),
        _ => fault("read", from, e),
    })?;
    if meta.is_dir() {
        return if folder::is_one(from) {
            portable(from)
        } else {
            match only_ovf(from)? {
                Some(file) => beside(&file),
                None => Err(Error::invalid(format!(
                    "{name} holds neither portable.json nor one descriptor (.ovf)"
                ))
                .remedy("Name a folder that corral export wrote, or an image file.")),
            }
        };
    }
    // A link that a person names is what they mean; what a package names is never followed.
    let path = std::fs::canonicalize(from).map_err(|e| fault("read", from, e))?;
    let file = open_plain(&path)?;
    let slice = whole(&path, &file)?;
    let mut head = vec![0; 512];
    let n = {
        use std::io::Read as _;
        (&file)
            .take(512)
            .read(&mut head)
            .map_err(|e| fault("read", &path, e))?
    };
    head.truncate(n);
    if tarball::is_tar(&head) {
        return packed(&path, &file);
    }
    let text = String::from_utf8_lossy(&head);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if ["<?xml", "<Envelope", "<ovf:", "<!--", "<!DOCTYPE"]
        .iter()
        .any(|begin| text.starts_with(begin))
    {
        return beside(&path);
    }
    let reading = match guard::identify(&slice, &file)? {
        Content::Gzip => Reading::Gzip(slice, LARGEST),
        Content::Image(driver) => {
            if driver == "raw" {
                image::recognise(&path, false)?;
            }
            Reading::Image(Source {
                slice,
                driver: driver.to_owned(),
            })
        }
    };
    let mut found = Incoming {
        files: vec![path.clone()],
        ..Incoming::default()
    };
    if let Reading::Image(source) = &reading
        && let Some(ending) = path.extension().and_then(|e| e.to_str())
        && !matches!(ending, "img" | "image" | "bin")
        && differs(ending, &source.driver)
    {
        found.notes.push(format!(
            "it is called .{}, but is {}",
            shown(ending),
            source.driver
        ));
    }
    found.disks.push(InDisk {
        reading,
        role: DiskRole::Disk,
        bus: None,
        size: Bytes(0),
    });
    Ok(found)
}

fn differs(ending: &str, driver: &str) -> bool {
    let known = match ending.to_ascii_lowercase().as_str() {
        "qcow2" => "qcow2",
        "raw" => "raw",
        "vmdk" => "vmdk",
        "vdi" => "vdi",
        "vhd" | "vpc" => "vpc",
        "vhdx" => "vhdx",
        _ => return false,
    };
    known != driver
}

fn whole(path: &Path, file: &File) -> Result<Slice> {
    let size = file.metadata().map_err(|e| fault("read", path, e))?.len();
    Ok(Slice {
        path: path.to_owned(),
        offset: 0,
        size,
        inner: false,
        name: path.to_string_lossy().into_owned(),
    })
}

impl Incoming {
    /// Drops what no VM here can have, and says so.
    pub fn leave_odd_out(&mut self) {
        let before = self.tags.len();
        self.tags.retain(|tag| check_tag(tag).is_ok());
        let odd = before - self.tags.len();
        if odd > 0 {
            self.notes.push(format!(
                "{} left out: too long, or with characters that no tag has",
                counted(odd, "tag")
            ));
        }
        for disk in &mut self.disks {
            let unknown = |bus: &String| !["virtio", "scsi", "sata"].contains(&bus.as_str());
            if let Some(bus) = disk.bus.take_if(|bus| unknown(bus)) {
                self.notes.push(format!(
                    "the bus \"{}\" is not known here: its disk gets the usual one",
                    shown(&bus)
                ));
            }
        }
    }
}

/// Sizes and a first check of every image.
async fn sized(env: &Env, mut found: Incoming, until: Instant) -> Result<Incoming> {
    if !found.disks.iter().any(|disk| disk.role == DiskRole::Disk) {
        return Err(Error::invalid("there is no disk in it"));
    }
    let mut left = found.disks.len() as u32;
    for disk in &mut found.disks {
        if let Reading::Image(source) = &disk.reading {
            let size = source.size(env).await?;
            if disk.size.0 > 0 && size > disk.size {
                return Err(Error::invalid(format!(
                    "{} is {size} large, but {} were said to be",
                    shown(&source.slice.name),
                    disk.size
                ))
                .remedy("The package is damaged or lies: get it again."));
            }
            disk.size = size;
            let share = until.saturating_duration_since(Instant::now()) / left;
            source.check(env, &Patience::at_most(share)).await?;
        }
        left -= 1;
    }
    Ok(found)
}

/// A folder that an export wrote.
fn portable(dir: &Path) -> Result<Incoming> {
    let described: Portable = folder::read(dir)?;
    let hardware = described.hardware.clone();
    let mut found = Incoming {
        cpus: Some(hardware.cpus),
        memory: Some(hardware.memory_bytes),
        firmware: Some(hardware.firmware),
        secure_boot: hardware.secure_boot,
        tpm: hardware.tpm,
        os: hardware.os,
        nics: Some(hardware.nics.into_iter().map(|nic| nic.model).collect()),
        tags: hardware.tags,
        note: hardware.note,
        not_carried: described.not_carried.clone(),
        files: vec![dir.join(folder::FILE)],
        ..Incoming::default()
    };
    for disk in &described.disks {
        let path = dir.join(&disk.file);
        let file = open_plain(&path)?;
        let slice = whole(&path, &file)?;
        let driver = disk.format.clone();
        if driver == "raw" {
            if !slice.size.is_multiple_of(512) {
                return Err(guard::cut(&shown(&slice.name)));
            }
        } else if guard::identify(&slice, &file)? != Content::Image(known(&driver)) {
            return Err(Error::invalid(format!(
                "{} is not {}, as portable.json says",
                shown(&slice.name),
                shown(&driver)
            ))
            .remedy("It is damaged or was changed: get it again."));
        }
        found.files.push(path);
        found.sums.push((slice.clone(), disk.sha256.clone()));
        found.disks.push(InDisk {
            reading: Reading::Image(Source { slice, driver }),
            role: disk.role,
            bus: disk.bus.clone(),
            size: disk.size_bytes,
        });
    }
    Ok(found)
}

/// QEMU's word where it is one that is taken in; else one that nothing is.
fn known(format: &str) -> &'static str {
    ["qcow2", "vmdk", "vdi", "vpc", "vhdx", "qed", "qcow"]
        .into_iter()
        .find(|known| *known == format)
        .unwrap_or("")
}

fn only_ovf(dir: &Path) -> Result<Option<PathBuf>> {
    let entries = std::fs::read_dir(dir).map_err(|e| fault("read", dir, e))?;
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|e| e.eq_ignore_ascii_case("ovf"))
        })
        .collect();
    Ok((found.len() == 1).then(|| found.swap_remove(0)))
}

/// A descriptor with its files beside it.
fn beside(ovf: &Path) -> Result<Incoming> {
    let file = open_plain(ovf)?;
    let member = Member {
        name: ovf
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        offset: 0,
        size: whole(ovf, &file)?.size.min(TEXT + 1),
    };
    let described = ovf_read::read(&tarball::text(ovf, &file, &member)?)?;
    let dir = ovf.parent().unwrap_or(Path::new("/")).to_owned();
    let sums = match open_plain(&ovf.with_extension("mf")) {
        Ok(file) => {
            let path = ovf.with_extension("mf");
            let size = whole(&path, &file)?.size;
            let member = Member {
                name: path.to_string_lossy().into_owned(),
                offset: 0,
                size,
            };
            Some(tarball::manifest(&tarball::text(&path, &file, &member)?))
        }
        Err(_) => None,
    };
    let mut found = begin(&described);
    found.files.push(ovf.to_owned());
    let own = whole(ovf, &file)?;
    summed(&mut found, own, sums.as_deref(), &member.name);
    for disk in &described.disks {
        let opened = match &disk.file {
            Some(name) => {
                let path = dir.join(name);
                let file = open_plain(&path)?;
                let slice = whole(&path, &file)?;
                found.files.push(path);
                summed(&mut found, slice.clone(), sums.as_deref(), name);
                Some((slice, file))
            }
            None => None,
        };
        found.disks.push(disk_of(disk, opened)?);
    }
    notes(&mut found, sums.as_deref());
    Ok(found)
}

/// A package.
fn packed(path: &Path, file: &File) -> Result<Incoming> {
    let members = tarball::index(path, file)?;
    let ending = |wanted: &str| {
        members.iter().find(|m| {
            Path::new(&m.name)
                .extension()
                .is_some_and(|e| e.eq_ignore_ascii_case(wanted))
        })
    };
    let Some(ovf) = ending("ovf") else {
        return Err(Error::invalid(format!(
            "{} is a tar without a descriptor (.ovf)",
            shown(&path.to_string_lossy())
        ))
        .remedy("Unpack it, and import the image in it."));
    };
    let described = ovf_read::read(&tarball::text(path, file, ovf)?)?;
    let sums = match ending("mf") {
        Some(member) => Some(tarball::manifest(&tarball::text(path, file, member)?)),
        None => None,
    };
    let slice = |member: &Member| Slice {
        path: path.to_owned(),
        offset: member.offset,
        size: member.size,
        inner: true,
        name: format!("{} in {}", member.name, path.to_string_lossy()),
    };
    let mut found = begin(&described);
    found.files.push(path.to_owned());
    summed(&mut found, slice(ovf), sums.as_deref(), &ovf.name);
    for disk in &described.disks {
        let opened = match &disk.file {
            Some(name) => {
                let member = members.iter().find(|m| m.name == *name).ok_or_else(|| {
                    Error::invalid(format!(
                        "{} is named by the descriptor, but is not in {}",
                        shown(name),
                        shown(&path.to_string_lossy())
                    ))
                })?;
                let slice = slice(member);
                summed(&mut found, slice.clone(), sums.as_deref(), name);
                Some((slice, file.try_clone().map_err(|e| fault("read", path, e))?))
            }
            None => None,
        };
        found.disks.push(disk_of(disk, opened)?);
    }
    notes(&mut found, sums.as_deref());
    Ok(found)
}

fn begin(described: &Described) -> Incoming {
    Incoming {
        cpus: described.cpus,
        memory: described.memory,
        // Descriptors are silent about what was there before UEFI.
        firmware: Some(described.firmware.unwrap_or(FirmwareKind::Bios)),
        secure_boot: described.secure_boot,
        os: described.os.clone(),
        nics: Some(vec![None; described.nics]),
        not_carried: described.not_carried.clone(),
        ..Incoming::default()
    }
}

fn summed(found: &mut Incoming, slice: Slice, sums: Option<&[(String, String)]>, name: &str) {
    let sum = sums
        .into_iter()
        .flatten()
        .find(|(known, _)| known == name)
        .map(|(_, sum)| sum.clone());
    found.sums.extend(sum.map(|sum| (slice, sum)));
}

fn notes(found: &mut Incoming, sums: Option<&[(String, String)]>) {
    if found.sums.is_empty() {
        found.notes.push(match sums {
            Some(_) => "its manifest has no SHA-256: its files are not checked by it".to_owned(),
            None => "it has no manifest: its files are not checked by checksums".to_owned(),
        });
    }
}

fn disk_of(disk: &DescribedDisk, opened: Option<(Slice, File)>) -> Result<InDisk> {
    let size = disk.capacity.unwrap_or(Bytes(0));
    let reading = match opened {
        None if size.0 == 0 || size > LARGEST => {
            return Err(Error::invalid(
                "the descriptor (OVF) has an empty disk of no size",
            ));
        }
        None => Reading::Blank,
        Some((slice, file)) => match guard::identify(&slice, &file)? {
            Content::Gzip => {
                // With the tables of whatever format it is.
                let most = if size.0 > 0 {
                    Bytes(size.0.saturating_add(size.0 / 8).saturating_add(64 << 20))
                } else {
                    LARGEST
                };
                Reading::Gzip(slice, most)
            }
            Content::Image(driver) => Reading::Image(Source {
                slice,
                driver: driver.to_owned(),
            }),
        },
    };
    Ok(InDisk {
        reading,
        role: DiskRole::Disk,
        bus: None,
        size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_vm_here_has_is_left_out_and_said() {
        let disk = |bus: &str| InDisk {
            reading: Reading::Image(Source {
                slice: Slice {
                    path: PathBuf::from("/x"),
                    offset: 0,
                    size: 512,
                    inner: false,
                    name: "x".to_owned(),
                },
                driver: "raw".to_owned(),
            }),
            role: DiskRole::Disk,
            bus: Some(bus.to_owned()),
            size: Bytes(512),
        };
        let mut found = Incoming {
            tags: vec!["prod".to_owned(), "a\u{1b}[2J".to_owned(), "x".repeat(5000)],
            disks: vec![disk("foo\u{1b}"), disk("scsi")],
            ..Incoming::default()
        };
        found.leave_odd_out();
        assert_eq!(found.tags, ["prod"]);
        let buses: Vec<_> = found.disks.iter().map(|disk| disk.bus.as_deref()).collect();
        assert_eq!(buses, [None, Some("scsi")]);
        let notes = found.notes.join("\n");
        assert!(
            notes.contains("2 tags left out") && notes.contains("\"foo\\x1b\" is not known"),
            "{notes}"
        );
        found.leave_odd_out();
        assert_eq!(found.notes.len(), 2);
    }
}
