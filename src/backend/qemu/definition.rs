//! What a VM is made of, as its `vm.toml` has it.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::slots::Slot;
use crate::model::{Bytes, Error, Result, encode_segment, shown};

/// The newest format of `vm.toml` that this corral writes.
pub const FORMAT: u32 = 1;

/// More need an interrupt remapping unit, which these machines do not have.
pub const MOST_CPUS: u32 = 255;
/// The largest memory of a machine.
pub const MOST_MEMORY: Bytes = Bytes(1 << 43);

/// Whether a machine can have so much.
///
/// # Errors
/// The key of what it cannot have, and why.
pub fn sizes_fit(cpus: u32, memory: Bytes) -> Result<(), (&'static str, Error)> {
    if !(1..=MOST_CPUS).contains(&cpus) {
        let why = format!("{cpus} CPUs are not possible: 1 to {MOST_CPUS}");
        return Err(("cpus", Error::invalid(why)));
    }
    if memory < Bytes::mib(16) || memory > MOST_MEMORY {
        let why = format!("{memory} of memory is not possible: 16 MiB to 8 TiB");
        let remedy = "Give a size within that, with its unit: --memory 2G";
        return Err(("memory", Error::invalid(why).remedy(remedy)));
    }
    Ok(())
}

/// Longest encoded name: with `vm.toml.new` and the like beside it, file systems take 255 bytes.
const LONGEST_NAME: usize = 200;

/// One VM. In memory every path is absolute; the file has those below the VM's folder relative.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// Format of the file; a newer one than [`FORMAT`] is read and never written.
    pub format: u32,
    /// Identity. A process is this VM's only if it answers with it.
    pub uuid: uuid::Uuid,
    /// Name, byte for byte.
    pub name: String,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Up to so many CPUs are added while it runs; `None`: those it starts with are all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cpus: Option<u32>,
    /// Memory, with what [`Definition::dimms`] holds of it.
    #[serde(with = "size")]
    pub memory: Bytes,
    /// Up to so much memory is plugged in while it runs; `None`: none is.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "size::maybe")]
    pub max_memory: Option<Bytes>,
    /// The part of the memory that was plugged in while it ran, module by module: a start puts it
    /// where it was, so that saved RAM still fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "size::list")]
    pub dimms: Vec<Bytes>,
    /// Versioned machine type: `pc-q35-7.2`.
    pub machine: String,
    /// CPU model that the guest sees, pinned when it was made.
    pub cpu_model: String,
    /// Firmware.
    pub firmware: FirmwareDef,
    /// Virtual TPM 2.0.
    #[serde(default)]
    pub tpm: bool,
    /// Guest family: `linux`, `windows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// Tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The user's note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Starts with its host.
    #[serde(default)]
    pub autostart: bool,
    /// A master that refuses start.
    #[serde(default)]
    pub template: bool,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// Disks in boot order; `disk0` first.
    #[serde(default)]
    pub disks: Vec<DiskDef>,
    /// CD-ROM drives in order.
    #[serde(default)]
    pub cdroms: Vec<MediumDef>,
    /// Network interfaces.
    #[serde(default)]
    pub nics: Vec<NicDef>,
}

/// Firmware of a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirmwareDef {
    /// UEFI or BIOS.
    pub kind: FirmwareKind,
    /// Read-only code image; UEFI only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<PathBuf>,
    /// Format of the code image: `raw` unless the distribution says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_format: Option<String>,
    /// This VM's own variables, qcow2 so that snapshots hold them; UEFI only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vars: Option<PathBuf>,
    /// Secure Boot.
    #[serde(default)]
    pub secure_boot: bool,
}

/// The kinds of firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirmwareKind {
    /// UEFI.
    Uefi,
    /// BIOS.
    Bios,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskDef {
    /// Slot and node name: `disk0`.
    pub name: String,
    /// The image file.
    pub path: PathBuf,
    /// `qcow2` or `raw`.
    pub format: String,
    /// `virtio`, `scsi`, `sata`.
    pub bus: String,
    /// Size the guest sees.
    #[serde(with = "size")]
    pub size: Bytes,
    /// The image it is an overlay of, which must stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing: Option<PathBuf>,
    /// corral made the file for this VM: a delete may remove it.
    #[serde(default)]
    pub owned: bool,
    /// Serial number that the guest sees.
    #[serde(default)]
    pub serial: String,
    /// The guest cannot write: the first-boot seed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub readonly: bool,
    /// Its place on the board; written down at the first change of the VM's devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
}

/// A CD-ROM drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediumDef {
    /// Slot and node name: `cdrom0`.
    pub name: String,
    /// The image in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Its place on the board, on SATA unless it says SCSI; written down at the first change of the
    /// VM's devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicDef {
    /// Slot and netdev name: `net0`.
    pub name: String,
    /// MAC, lower case.
    pub mac: String,
    /// `virtio`, `e1000e`, `e1000`.
    pub model: String,
    /// `user`.
    pub network: String,
    /// Its place on the board; written down at the first change of the VM's devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// Published ports.
    #[serde(default)]
    pub forwards: Vec<Forward>,
}

/// A guest port published on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forward {
    /// Address to listen on.
    pub host: String,
    /// Port to listen on; 0 picks one at start.
    pub port: u16,
    /// Port inside the guest.
    pub guest: u16,
    /// TCP or UDP.
    #[serde(default, skip_serializing_if = "Protocol::is_tcp")]
    pub protocol: Protocol,
    /// corral picked the port: where it is taken at a start, another one does as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub picked: bool,
}

/// What a published port carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    /// What stands behind a port that is not TCP's.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Tcp => "",
            Self::Udp => "/udp",
        }
    }

    // serde hands over a reference.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    fn is_tcp(&self) -> bool {
        *self == Self::Tcp
    }
}

impl Forward {
    /// As QEMU takes it: `tcp:127.0.0.1:2201-:22`.
    pub fn rule(&self) -> String {
        format!("{}-:{}", self.listener(), self.guest)
    }

    /// Where it listens: `tcp:127.0.0.1:2201`.
    pub fn listener(&self) -> String {
        format!("{}:{}:{}", self.protocol.as_str(), self.host, self.port)
    }
}

impl Definition {
    /// Memory that is there at power-on beside the modules of [`Self::dimms`]. A definition whose
    /// modules would be all of it, or more, starts without modules.
    pub fn base_memory(&self) -> (Bytes, &[Bytes]) {
        let modules = self
            .dimms
            .iter()
            .fold(0, |sum: u64, dimm| sum.saturating_add(dimm.0));
        match self.memory.0.checked_sub(modules) {
            Some(base) if base > 0 && self.max_memory.is_some() => (Bytes(base), &self.dimms),
            _ => (self.memory, &[]),
        }
    }

    /// Why this definition must not be changed, when a newer corral wrote it.
    pub fn readonly_reason(&self) -> Option<String> {
        (self.format > FORMAT).then(|| {
            format!(
                "{} was written by a newer corral (format {}, this one knows {FORMAT}): it can be looked at, not changed",
                shown(&self.name),
                self.format
            )
        })
    }

    /// Windows expects another clock, other devices and hints of its hypervisor.
    pub fn is_windows(&self) -> bool {
        self.os.as_deref() == Some("windows")
    }

    /// Every image file that the guest writes and that can hold internal snapshots: qcow2 disks,
    /// then the UEFI variables. With the node name that QEMU gets for each.
    pub fn snapshot_nodes(&self) -> Vec<(String, PathBuf)> {
        self.disks
            .iter()
            .filter(|disk| !disk.readonly && disk.format == "qcow2")
            .map(|disk| (disk.name.clone(), disk.path.clone()))
            .chain(
                self.firmware
                    .vars
                    .iter()
                    .map(|vars| (VARS_NODE.to_owned(), vars.clone())),
            )
            .collect()
    }

    /// All paths below `dir` made relative (`true`) or absolute (`false`).
    #[must_use]
    pub(super) fn rebased(mut self, dir: &Path, relative: bool) -> Self {
        let turn = |path: &mut PathBuf| {
            if relative {
                if let Ok(inner) = path.strip_prefix(dir) {
                    *path = inner.to_owned();
                }
            } else if path.is_relative() {
                *path = dir.join(&*path);
            }
        };
        for disk in &mut self.disks {
            turn(&mut disk.path);
            disk.backing.iter_mut().for_each(turn);
        }
        self.cdroms
            .iter_mut()
            .flat_map(|medium| &mut medium.path)
            .for_each(turn);
        self.firmware.code.iter_mut().for_each(turn);
        self.firmware.vars.iter_mut().for_each(turn);
        self
    }

    /// The whole definition as TOML.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string_pretty(self).map_err(|e| {
            Error::backend(format!("the definition cannot be written: {e}")).because(e)
        })
    }
}

/// Node name of the UEFI variables in every QEMU that corral starts.
pub const VARS_NODE: &str = "efivars";

/// The folder of a VM called `name`: never an unescaped name, never `.` or `..`.
///
/// # Errors
/// `Invalid` for names that are empty, too long, or hold characters that cannot be shown.
pub fn folder_name(name: &str) -> Result<String> {
    if name.is_empty() {
        return Err(Error::invalid("the name is empty").remedy("Name it, for example: web"));
    }
    if shown(name) != name {
        return Err(Error::invalid(format!(
            "the name \"{}\" holds characters that cannot be seen",
            shown(name)
        ))
        .remedy("Use letters, digits, spaces and signs."));
    }
    if name.trim() != name {
        return Err(
            Error::invalid(format!("the name \"{name}\" begins or ends with a space"))
                .remedy("Leave that space out."),
        );
    }
    let mut folder = encode_segment(name);
    if let Some(rest) = folder.strip_prefix('.') {
        folder = format!("%2E{rest}");
    }
    if folder.len() > LONGEST_NAME {
        return Err(Error::invalid(format!(
            "the name is too long: {} bytes as a file name, {LONGEST_NAME} at most",
            folder.len()
        ))
        .remedy("Letters, digits and . _ - + count one byte, others three for each of theirs."));
    }
    Ok(folder)
}

/// The name that a folder stands for; `None` when no corral would have made it.
pub fn name_of_folder(folder: &str) -> Option<String> {
    let id: crate::model::InstanceId = format!("x/{folder}").parse().ok()?;
    let name = id.key().to_owned();
    (folder_name(&name).ok()? == folder).then_some(name)
}

/// A MAC of QEMU's own range that follows from `uuid` and the NIC's number.
pub fn mac(uuid: &uuid::Uuid, nic: u8) -> String {
    let b = uuid.as_bytes();
    format!(
        "52:54:00:{:02x}:{:02x}:{:02x}",
        b[13],
        b[14],
        b[15].wrapping_add(nic)
    )
}

/// Sizes in files: `"2G"` or a number of bytes.
mod size {
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    use crate::model::Bytes;

    // serde hands over a reference.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(super) fn serialize<S: Serializer>(size: &Bytes, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&size.exact())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Bytes, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged, expecting = "a size like \"2G\" or a number of bytes")]
        enum Size {
            Number(u64),
            Text(String),
        }
        match Size::deserialize(d)? {
            Size::Number(n) => Ok(Bytes(n)),
            Size::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }

    /// One size as an element.
    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(transparent)]
    struct One(#[serde(with = "super::size")] Bytes);

    /// A size that may be absent.
    pub(super) mod maybe {
        use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

        use super::{Bytes, One};

        #[allow(clippy::ref_option, reason = "serde hands over a reference")]
        pub(in super::super) fn serialize<S: Serializer>(
            size: &Option<Bytes>,
            s: S,
        ) -> Result<S::Ok, S::Error> {
            size.map(One).serialize(s)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            d: D,
        ) -> Result<Option<Bytes>, D::Error> {
            Ok(Option::<One>::deserialize(d)?.map(|one| one.0))
        }
    }

    /// Several sizes.
    pub(super) mod list {
        use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

        use super::{Bytes, One};

        pub(in super::super) fn serialize<S: Serializer>(
            sizes: &[Bytes],
            s: S,
        ) -> Result<S::Ok, S::Error> {
            sizes
                .iter()
                .copied()
                .map(One)
                .collect::<Vec<_>>()
                .serialize(s)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            d: D,
        ) -> Result<Vec<Bytes>, D::Error> {
            let all = Vec::<One>::deserialize(d)?;
            Ok(all.into_iter().map(|one| one.0).collect())
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A small VM for tests of this folder.
    pub(crate) fn sample(name: &str, dir: &Path) -> Definition {
        let uuid = uuid::Uuid::new_v4();
        Definition {
            format: FORMAT,
            uuid,
            name: name.to_owned(),
            cpus: 1,
            max_cpus: None,
            memory: Bytes::mib(256),
            max_memory: None,
            dimms: Vec::new(),
            machine: "pc-q35-7.2".into(),
            cpu_model: "qemu64".into(),
            firmware: FirmwareDef {
                kind: FirmwareKind::Bios,
                code: None,
                code_format: None,
                vars: None,
                secure_boot: false,
            },
            tpm: false,
            os: None,
            tags: vec!["a".into()],
            note: None,
            autostart: false,
            template: false,
            created_at: None,
            disks: vec![DiskDef {
                name: "disk0".into(),
                path: dir.join("disk0.qcow2"),
                format: "qcow2".into(),
                bus: "virtio".into(),
                size: Bytes::mib(64),
                backing: None,
                owned: true,
                serial: String::new(),
                readonly: false,
                slot: None,
            }],
            cdroms: Vec::new(),
            nics: vec![NicDef {
                name: "net0".into(),
                mac: mac(&uuid, 0),
                model: "virtio".into(),
                network: "user".into(),
                slot: None,
                forwards: Vec::new(),
            }],
        }
    }

    #[test]
    fn req_40_names_become_safe_folders() {
        for name in [
            "web", "my vm", "-x", "a/b", "..", ".", "🐄", "web@x", "漢字",
        ] {
            let folder = folder_name(name).unwrap();
            assert!(
                !folder.contains('/') && !folder.starts_with(['.', '-']),
                "{folder}"
            );
            assert_eq!(name_of_folder(&folder).as_deref(), Some(name));
        }
        for name in [
            "",
            "a\u{1b}[2Jb",
            "x\ny",
            " x",
            &"n".repeat(300),
            &"🐄".repeat(40),
        ] {
            let error = folder_name(name).unwrap_err();
            assert!(!error.message.contains('\u{1b}'), "{error}");
        }
        assert_eq!(name_of_folder("a b"), None);
        assert_eq!(name_of_folder("%zz"), None);
    }

    proptest! {
        #[test]
        fn req_40_folders_round_trip(name in "\\PC{1,30}") {
            if let Ok(folder) = folder_name(&name) {
                prop_assert_eq!(name_of_folder(&folder), Some(name));
            }
        }
    }
}
