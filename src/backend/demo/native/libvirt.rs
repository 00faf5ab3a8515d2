//! The calls of libvirt's API.

use super::super::act::Act;
use super::super::guest::Guest;

pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
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
    }
}
