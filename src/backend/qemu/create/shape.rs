//! Small decisions about a new VM: limits, devices, ports.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::definition::{Forward, NicDef, Protocol, mac, sizes_fit};
use super::super::publish::address_of;
use super::super::slots::{SPARE, Slot};
use crate::backend::contract::CreateRequest;
use crate::model::{Bytes, Error, Field, FieldKind, Result, shown};

/// What `create` takes by `--set`.
pub const CREATE_FIELDS: &[Field] = &[
    Field::new(
        "bus",
        FieldKind::Choice(&BUSES),
        "Disk bus: virtio, scsi or sata [virtio; Windows: sata]",
    ),
    Field::new(
        "nic",
        FieldKind::Choice(&NICS),
        "Network card: virtio, e1000e or e1000 [virtio; Windows: e1000e]",
    ),
    Field::new(
        "machine",
        FieldKind::Text,
        "Machine type, a versioned q35 [the newest there is]",
    ),
    Field::new(
        "cpu-model",
        FieldKind::Text,
        "CPU model that the guest sees",
    ),
    Field::new(
        "max-cpus",
        FieldKind::Count,
        "Up to so many CPUs can be added while it runs [none]",
    ),
    Field::new(
        "max-memory",
        FieldKind::Bytes,
        "Up to so much memory can be added while it runs [none]",
    ),
];

const BUSES: [&str; 3] = ["virtio", "scsi", "sata"];
const NICS: [&str; 3] = ["virtio", "e1000e", "e1000"];

/// The kind's own fields, read.
#[derive(Clone, Debug, Default)]
pub(super) struct Set {
    pub(super) bus: Option<String>,
    pub(super) nic: Option<String>,
    pub(super) machine: Option<String>,
    pub(super) cpu_model: Option<String>,
    pub(super) max_cpus: Option<u32>,
    pub(super) max_memory: Option<Bytes>,
}

impl Set {
    pub(super) fn read(pairs: &[(String, String)]) -> Result<Self> {
        let mut set = Self::default();
        for (key, value) in pairs {
            let twice = || {
                Error::invalid(format!("--set {key} is given twice"))
                    .remedy("Leave one of them out.")
            };
            if key == "max-cpus" {
                let n = value.parse().map_err(|_| {
                    Error::invalid(format!("--set {key}: \"{}\" is no number", shown(value)))
                })?;
                if set.max_cpus.replace(n).is_some() {
                    return Err(twice());
                }
                continue;
            }
            if key == "max-memory" {
                let size = value.parse().map_err(|e: Error| Error {
                    message: format!("--set {key}: {}", e.message),
                    ..e
                })?;
                if set.max_memory.replace(size).is_some() {
                    return Err(twice());
                }
                continue;
            }
            let (slot, allowed): (_, &[&str]) = match key.as_str() {
                "bus" => (&mut set.bus, &BUSES),
                "nic" => (&mut set.nic, &NICS),
                "machine" => (&mut set.machine, &[]),
                "cpu-model" => (&mut set.cpu_model, &[]),
                _ => {
                    return Err(Error::invalid(format!(
                        "--set: there is no field \"{}\"",
                        shown(key)
                    ))
                    .remedy("List them: corral create --fields"));
                }
            };
            // Both become parts of a QEMU option, where a comma begins the next property.
            let plain = !value.is_empty()
                && value
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c));
            let possible = (allowed.is_empty() && plain) || allowed.contains(&value.as_str());
            if !possible {
                let remedy = if allowed.is_empty() {
                    "Use letters, digits and - _ .".to_owned()
                } else {
                    format!("One of: {}", allowed.join(", "))
                };
                return Err(Error::invalid(format!(
                    "--set {key}: \"{}\" is not possible",
                    shown(value)
                ))
                .remedy(remedy));
            }
            if slot.replace(value.clone()).is_some() {
                return Err(twice());
            }
        }
        Ok(set)
    }
}

pub(super) fn limits(request: &CreateRequest) -> Result<()> {
    sizes_fit(request.cpus, request.memory).map_err(|(_, error)| error)?;
    // A q35 has six SATA ports; one may be the disk's, one the seed's.
    if request.cdroms.len() > 4 {
        return Err(Error::invalid("at most 4 CD-ROMs are possible"));
    }
    let os = request.os.as_deref().unwrap_or("linux");
    if !["linux", "windows", "other"].contains(&os) {
        return Err(Error::invalid(format!("--os {}: not known", shown(os)))
            .remedy("One of: linux, windows, other"));
    }
    Ok(())
}

pub(in super::super) fn comma_free(dir: &Path) -> Result<()> {
    if dir.to_string_lossy().contains(',') {
        return Err(
            Error::invalid("a VM with a TPM cannot have a comma in its name or path")
                .remedy("Choose another name: swtpm takes no comma in paths."),
        );
    }
    Ok(())
}

/// Whole sectors, and not nothing.
pub(in super::super) fn disk_size(wanted: Bytes) -> Result<Bytes> {
    if wanted < Bytes::mib(1) || wanted > Bytes(1 << 56) {
        return Err(Error::invalid(format!(
            "a disk of {wanted} is not possible: 1 MiB to {}",
            Bytes(1 << 56)
        ))
        .remedy("Give a size within that, with its unit: 20G"));
    }
    Ok(Bytes(wanted.0.next_multiple_of(512)))
}

/// The serial number that a guest sees; QEMU takes 20 characters.
pub fn serial(uuid: &uuid::Uuid, disk: u8) -> String {
    let hex = uuid.simple().to_string();
    format!("{}-{disk}", &hex[..16])
}

pub(super) fn tags(wanted: &[String]) -> Vec<String> {
    wanted
        .iter()
        .cloned()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// Checks the published ports and says which of them others can reach.
pub(super) fn forwards(request: &CreateRequest) -> Result<Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut notes = Vec::new();
    for (host, port, guest) in &request.publish {
        let address = address_of(host)?;
        if *guest == 0 {
            return Err(Error::invalid("port 0 of the guest cannot be published"));
        }
        if *port != 0 && !seen.insert((address, *port)) {
            return Err(Error::invalid(format!(
                "port {port} of {host} is published twice"
            )));
        }
        if !address.is_loopback() {
            notes.push(format!(
                "Port {guest} can be reached from other machines at {host}:{port}"
            ));
        }
    }
    Ok(notes)
}

/// The first NIC. The login port is always published, on loopback, at a port that is free.
pub(super) fn nic(
    request: &CreateRequest,
    uuid: &uuid::Uuid,
    model: Option<&str>,
    windows: bool,
) -> NicDef {
    let mut forwards: Vec<Forward> = request
        .publish
        .iter()
        .map(|(host, port, guest)| Forward {
            host: host.clone(),
            port: *port,
            guest: *guest,
            protocol: Protocol::Tcp,
            picked: *port == 0,
        })
        .collect();
    let login = if windows { 3389 } else { 22 };
    if !forwards.iter().any(|forward| forward.guest == login) {
        forwards.push(Forward {
            host: "127.0.0.1".to_owned(),
            port: 0,
            guest: login,
            protocol: Protocol::Tcp,
            picked: true,
        });
    }
    NicDef {
        name: "net0".to_owned(),
        mac: mac(uuid, 0),
        model: model
            .unwrap_or(if windows { "e1000e" } else { "virtio" })
            .to_owned(),
        network: "user".to_owned(),
        // In a root port, so that it can be taken from a running VM.
        slot: Some(Slot::Spare(SPARE - 1)),
        forwards,
    }
}
