//! A disk or CD-ROM drive as QEMU has it: the same on its command line and through its monitor.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::definition::{DiskDef, MediumDef};
use super::slots::Slot;
use crate::model::{Error, Result, shown};

/// The first place of a disk on the root bus.
const FIRST: u8 = 0x10;

/// A device: its driver and properties, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Device(Vec<(&'static str, Value)>);

impl Device {
    /// As the value of `-device`. A comma ends a property; a doubled one is a comma.
    pub fn option(&self) -> String {
        let mut words = Vec::new();
        for (key, value) in &self.0 {
            let text = match value {
                Value::String(text) => text.replace(',', ",,"),
                other => other.to_string(),
            };
            words.push(match *key {
                "driver" => text,
                key => format!("{key}={text}"),
            });
        }
        words.join(",")
    }

    /// As the arguments of `device_add`.
    pub fn arguments(&self) -> Value {
        let map: Map<String, Value> = self
            .0
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect();
        Value::Object(map)
    }
}

/// The name of the device that a drive called `name` is.
pub fn device_id(name: &str) -> String {
    format!("{name}-dev")
}

/// The name of the node that is the file below the format.
pub fn file_node(name: &str) -> String {
    format!("{name}-file")
}

/// The block node of a disk.
///
/// # Errors
/// `Invalid` for a format that is not used as it is.
pub fn node(disk: &DiskDef) -> Result<Value> {
    if !matches!(disk.format.as_str(), "qcow2" | "raw") {
        return Err(Error::invalid(format!(
            "{}: format \"{}\" is neither qcow2 nor raw",
            shown(&disk.name),
            shown(&disk.format)
        )));
    }
    Ok(node_as(disk, &disk.name, &disk.path))
}

/// The block node of a disk under another name and in another file.
pub fn node_as(disk: &DiskDef, name: &str, path: &Path) -> Value {
    json!({
        "driver": disk.format, "node-name": name, "read-only": disk.readonly, "discard": "unmap",
        "file": {"driver": driver(path), "node-name": file_node(name),
            "filename": path.to_string_lossy(), "read-only": disk.readonly, "discard": "unmap"},
    })
}

/// A block device is opened by another driver than a file.
fn driver(path: &Path) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    let device = std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_block_device());
    if device { "host_device" } else { "file" }
}

/// The device of a disk at its place; `bootindex` where the firmware may boot from it.
pub fn disk(disk: &DiskDef, slot: Slot, bootindex: Option<usize>) -> Device {
    let mut device: Vec<(&'static str, Value)> = match slot {
        Slot::Board(n) => vec![
            ("driver", json!("virtio-blk-pci")),
            ("bus", json!("pcie.0")),
            ("addr", json!(format!("{:#x}", FIRST.saturating_add(n)))),
        ],
        Slot::Spare(n) => vec![
            ("driver", json!("virtio-blk-pci")),
            ("bus", json!(format!("spare{n}"))),
            ("addr", json!("0x0")),
        ],
        Slot::Scsi(n) => vec![
            ("driver", json!("scsi-hd")),
            ("bus", json!("scsi0.0")),
            ("scsi-id", json!(n)),
        ],
        Slot::Sata(n) => vec![
            ("driver", json!("ide-hd")),
            ("bus", json!(format!("ide.{n}"))),
        ],
    };
    device.push(("drive", json!(disk.name)));
    device.push(("id", json!(device_id(&disk.name))));
    if let Some(n) = bootindex {
        device.push(("bootindex", json!(n)));
    }
    if !disk.readonly {
        // A write that fails halts the guest until that is mended, so that it loses nothing; a bad
        // sector is told to the guest, which may know another way.
        device.push(("werror", json!("stop")));
        device.push(("rerror", json!("report")));
    }
    if !disk.serial.is_empty() {
        device.push(("serial", json!(disk.serial)));
    }
    Device(device)
}

/// The block node of a medium.
pub fn medium_node(name: &str, path: &Path) -> Value {
    json!({"driver": "raw", "node-name": name, "read-only": true,
        "file": {"driver": driver(path), "node-name": file_node(name),
            "filename": path.to_string_lossy(), "read-only": true}})
}

/// A CD-ROM drive at its place.
pub fn cdrom(medium: &MediumDef, slot: Slot, bootindex: usize) -> Device {
    let mut device: Vec<(&'static str, Value)> = match slot {
        Slot::Scsi(n) => vec![
            ("driver", json!("scsi-cd")),
            ("bus", json!("scsi0.0")),
            ("scsi-id", json!(n)),
        ],
        Slot::Board(n) | Slot::Spare(n) | Slot::Sata(n) => vec![
            ("driver", json!("ide-cd")),
            ("bus", json!(format!("ide.{n}"))),
        ],
    };
    device.push(("id", json!(device_id(&medium.name))));
    device.push(("bootindex", json!(bootindex)));
    if medium.path.is_some() {
        device.push(("drive", json!(medium.name)));
    }
    Device(device)
}
