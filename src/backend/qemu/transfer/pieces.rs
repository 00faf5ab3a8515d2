//! The images of a VM that are written out, and the VM without its backend.

use std::path::PathBuf;

use jiff::Timestamp;

use super::super::ctx::{Ctx, KIND};
use super::super::definition::{self, Definition, VARS_NODE};
use crate::backend::portable::folder::is_plain_name;
use crate::model::{
    Bytes, Consistency, DiskRole, FirmwareKind, Hardware, Origin, PORTABLE, Portable, PortableDisk,
    PortableNic, encode_segment, shown,
};

/// An image of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Slot and node.
    pub name: String,
    /// What it is for.
    pub role: DiskRole,
    /// The file.
    pub path: PathBuf,
    /// Its format.
    pub format: String,
    /// Bus; `None` for what is no disk to the guest.
    pub bus: Option<String>,
    /// Size the guest sees; 0 where the definition does not say.
    pub size: Bytes,
    /// The guest cannot write.
    pub readonly: bool,
}

impl Piece {
    /// Its file's name in a folder.
    pub fn file(&self) -> String {
        // A name from a definition edited by hand may be anything.
        let name = if is_plain_name(&self.name) && !self.name.starts_with('.') {
            self.name.clone()
        } else {
            encode_segment(&self.name)
        };
        format!("{name}.qcow2")
    }
}

/// All of them: disks in boot order, then the UEFI's variables.
pub fn pieces(vm: &Definition) -> Vec<Piece> {
    let disks = vm.disks.iter().map(|disk| Piece {
        name: disk.name.clone(),
        role: if disk.readonly && disk.serial == "cidata" {
            DiskRole::Seed
        } else {
            DiskRole::Disk
        },
        path: disk.path.clone(),
        format: disk.format.clone(),
        bus: Some(disk.bus.clone()),
        size: disk.size,
        readonly: disk.readonly,
    });
    let vars = vm.firmware.vars.iter().map(|path| Piece {
        name: VARS_NODE.to_owned(),
        role: DiskRole::Firmware,
        path: path.clone(),
        format: "qcow2".to_owned(),
        bus: None,
        size: Bytes(0),
        readonly: false,
    });
    disks.chain(vars).collect()
}

/// The VM as any backend could make it anew, before a disk is written.
pub fn portable(
    ctx: &Ctx,
    vm: &Definition,
    consistency: Consistency,
    snapshot: Option<&str>,
) -> Portable {
    Portable {
        schema: PORTABLE.to_owned(),
        name: vm.name.clone(),
        origin: Origin {
            backend: KIND,
            id: ctx.id(&vm.name).to_string(),
            uid: Some(vm.uuid.to_string()),
        },
        taken_at: Timestamp::now(),
        consistency,
        snapshot: snapshot.map(str::to_owned),
        hardware: Hardware {
            cpus: vm.cpus,
            memory_bytes: vm.memory,
            firmware: match vm.firmware.kind {
                definition::FirmwareKind::Uefi => FirmwareKind::Uefi,
                definition::FirmwareKind::Bios => FirmwareKind::Bios,
            },
            secure_boot: vm.firmware.secure_boot,
            tpm: vm.tpm,
            os: vm.os.clone(),
            nics: vm
                .nics
                .iter()
                .map(|nic| PortableNic {
                    model: Some(nic.model.clone()),
                    mac: Some(nic.mac.clone()),
                })
                .collect(),
            tags: vm.tags.clone(),
            note: vm.note.clone(),
        },
        disks: Vec::new(),
        not_carried: not_carried(vm),
    }
}

/// A piece as a disk of a description.
pub fn disk(piece: &Piece, size: Bytes) -> PortableDisk {
    PortableDisk {
        name: piece.name.clone(),
        role: piece.role,
        file: piece.file(),
        format: "qcow2".to_owned(),
        size_bytes: size,
        file_bytes: Bytes(0),
        sha256: String::new(),
        bus: piece.bus.clone(),
        readonly: piece.readonly,
    }
}

/// What no export holds.
pub fn not_carried(vm: &Definition) -> Vec<String> {
    let mut list = vec!["snapshots".to_owned()];
    if vm.tpm {
        list.push("what its TPM holds".to_owned());
    }
    for medium in vm.cdroms.iter().filter_map(|medium| medium.path.as_ref()) {
        list.push(format!("CD-ROM {}", shown(&medium.to_string_lossy())));
    }
    let ports = vm.nics.iter().flat_map(|nic| &nic.forwards).count();
    if ports > 0 {
        list.push("published ports".to_owned());
    }
    list
}

/// What one file holds less than a folder.
pub fn not_in_one_file(vm: &Definition, package: bool) -> Vec<String> {
    let mut list = Vec::new();
    if !package {
        list.push("CPUs, memory and devices".to_owned());
    }
    for piece in pieces(vm) {
        if piece.role != DiskRole::Disk {
            list.push(piece.role.as_str().to_owned());
        }
    }
    if package && (vm.note.is_some() || !vm.tags.is_empty()) {
        list.push("tags and note".to_owned());
    }
    list
}
