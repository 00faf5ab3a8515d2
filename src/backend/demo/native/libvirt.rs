//! The calls of libvirt's API.

use super::super::act::Act;
use super::super::guest::Guest;
use super::mac;

pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
    let live = guest.state().is_active();
    let flags = if live { "LIVE|CONFIG" } else { "CONFIG" };
    let metadata = |what: &str| format!("virDomainSetMetadata {key} ELEMENT corral {what}");
    match act {
        Act::Start => format!("virDomainCreate {key}"),
        Act::ShutDown => format!("virDomainShutdown {key}"),
        Act::PowerOff | Act::PowerOffAfter(_) => format!("virDomainDestroy {key}"),
        Act::Reboot => format!("virDomainReboot {key}"),
        Act::Reset | Act::Cycle { .. } => format!("virDomainReset {key}"),
        Act::Pause => format!("virDomainSuspend {key}"),
        Act::Resume => format!("virDomainResume {key}"),
        Act::TakeSnapshot { name, memory, .. } => format!(
            "virDomainSnapshotCreateXML {key} {name}{}",
            if *memory { "" } else { " DISK_ONLY|ATOMIC" }
        ),
        Act::Revert { name } => format!("virDomainRevertToSnapshot {key} {name}"),
        Act::DropSnapshot { name } => format!("virDomainSnapshotDelete {key} {name}"),
        Act::Define => format!("virDomainDefineXML {key}"),
        Act::FillDisk { n, source } if source.is_empty() => {
            format!("virStorageVolCreateXML default {key}-{n}.qcow2")
        }
        Act::FillDisk { n, source } => {
            format!("virStorageVolCreateXMLFrom default {key}-{n}.qcow2 {source}")
        }
        Act::RemoveDisk { source } => format!("virStorageVolDelete {source}"),
        Act::Undefine { .. } => {
            format!("virDomainUndefineFlags {key} NVRAM|TPM|MANAGED_SAVE|SNAPSHOTS_METADATA")
        }
        Act::Hibernate => format!("virDomainManagedSave {key}"),
        Act::Rename { to, .. } => format!("virDomainRename {key} {to}"),
        Act::Clone {
            to, linked: true, ..
        } => {
            format!(
                "virStorageVolCreateXML default {}-0.qcow2 backingStore={key}-0.qcow2, virDomainDefineXML {}",
                to.key(),
                to.key()
            )
        }
        Act::Clone { to, .. } => format!(
            "virStorageVolCreateXMLFrom default {0}-0.qcow2 {key}-0.qcow2, virDomainDefineXML {0}",
            to.key()
        ),
        Act::MarkTemplate { on } => metadata(&format!("template={on}")),
        Act::SetTags { tags } => metadata(&format!("tags={}", tags.join(","))),
        Act::SetNote { text } => format!(
            "virDomainSetMetadata {key} DESCRIPTION {:?}",
            text.as_deref().unwrap_or("")
        ),
        Act::SetAutostart { on } => format!("virDomainSetAutostart {key} {}", u8::from(*on)),
        Act::Reconfigure(sizes) => match (sizes.cpus, sizes.memory) {
            (Some(cpus), None) => format!("virDomainSetVcpusFlags {key} {cpus} {flags}"),
            (None, Some(memory)) => {
                format!("virDomainSetMemoryFlags {key} {} {flags}", memory.0 >> 10)
            }
            _ => format!("virDomainDefineXML {key} {sizes}"),
        },
        Act::AddDisk { disk } => format!(
            "virDomainAttachDeviceFlags {key} disk {} {flags}",
            disk.name
        ),
        Act::DetachDisk { slot } => format!("virDomainDetachDeviceFlags {key} disk {slot} {flags}"),
        Act::GrowDisk { slot, to } if live => {
            format!("virDomainBlockResize {key} {slot} {} BYTES", to.0)
        }
        Act::GrowDisk { slot, to } => format!("virStorageVolResize {key} {slot} {}", to.0),
        Act::MoveDisk { slot, to, .. } if live => {
            format!("virDomainBlockCopy {key} {slot} {to} and virDomainBlockJobAbort PIVOT")
        }
        Act::MoveDisk { to, .. } => {
            format!("virStorageVolCreateXMLFrom {to}, virDomainDefineXML {key}")
        }
        Act::AddNic { nic } => format!(
            "virDomainAttachDeviceFlags {key} interface {} network={} {flags}",
            mac(nic),
            nic.network.as_deref().unwrap_or("default")
        ),
        Act::RemoveNic { mac, .. } => {
            format!("virDomainDetachDeviceFlags {key} interface {mac} {flags}")
        }
        Act::Insert { drive, image } => {
            format!("virDomainUpdateDeviceFlags {key} cdrom {drive} {image}")
        }
        Act::Eject { drive, force } => format!(
            "virDomainUpdateDeviceFlags {key} cdrom {drive} empty{}",
            if *force { " FORCE" } else { "" }
        ),
        Act::Publish { .. } | Act::Unpublish { .. } | Act::Unlock => "none".into(),
        Act::Export { to, .. } => format!("virStorageVolDownload {key}-0.qcow2 to {to}"),
        Act::Backup { name, place } => {
            format!("virDomainGetXMLDesc and virStorageVolDownload {key}-0.qcow2 to {place}/{name}")
        }
        Act::RestoreBackup { name } => format!("virStorageVolUpload {key}-0.qcow2 from {name}"),
        Act::DropBackup { name } => format!("remove backups/{name}"),
        Act::Rewrite { .. } => format!("virDomainDefineXMLFlags {key} VALIDATE"),
        Act::Push { from, to } => {
            format!("virDomainQemuAgentCommand {key} guest-file-write {to} of {from}")
        }
        Act::Pull { from, .. } => format!("virDomainQemuAgentCommand {key} guest-file-read {from}"),
        Act::Press { chord } => format!("virDomainSendKey {key} LINUX {}", chord.join("+")),
    }
}
