//! The calls of the vSphere API.

use super::super::act::Act;
use super::super::guest::Guest;

pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
    match act {
        Act::Start => format!("PowerOnVM_Task {key}"),
        Act::ShutDown => format!("ShutdownGuest {key}"),
        Act::PowerOff | Act::PowerOffAfter(_) => format!("PowerOffVM_Task {key}"),
        Act::Reboot => format!("RebootGuest {key}"),
        Act::Reset | Act::Cycle { .. } => format!("ResetVM_Task {key}"),
        Act::Pause => format!("SuspendVM_Task {key}"),
        Act::Resume => format!("PowerOnVM_Task {key} (from suspended)"),
        Act::TakeSnapshot { name, memory, .. } => {
            format!("CreateSnapshotEx_Task {key} name={name} memory={memory}")
        }
        Act::Revert { name } => format!("RevertToSnapshot_Task {key} {name}"),
        Act::DropSnapshot { name } => {
            format!("RemoveSnapshot_Task {key} {name} removeChildren=false")
        }
        Act::Define => format!("CreateVM_Task name={}", guest.base.name),
        Act::FillDisk { n, source } if source.is_empty() => {
            format!("CreateVirtualDisk_Task {key}_{n}.vmdk")
        }
        Act::FillDisk { n, source } => {
            format!("CopyVirtualDisk_Task {source} {key}_{n}.vmdk")
        }
        Act::RemoveDisk { source } => format!("DeleteVirtualDisk_Task {source}"),
        Act::Undefine { keep_disks: true } => format!("UnregisterVM {key}"),
        Act::Undefine { keep_disks: false } => format!("Destroy_Task {key}"),
    }
}
