//! The calls of the vSphere API.

use super::super::act::Act;
use super::super::guest::Guest;
use super::{mac, source};

#[allow(clippy::match_same_arms, reason = "one line per act")]
pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
    let reconfigure = |what: &str| format!("ReconfigVM_Task {key} {what}");
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
        Act::Hibernate => format!("SuspendVM_Task {key}"),
        Act::Rename { to, .. } => format!("Rename_Task {key} newName={to}"),
        Act::Clone {
            name,
            linked,
            snapshot,
            ..
        } => format!(
            "CloneVM_Task {key} name={name}{}{}",
            snapshot
                .as_ref()
                .map_or_else(String::new, |s| format!(" snapshot={s}")),
            if *linked {
                " diskMoveType=createNewChildDiskBacking"
            } else {
                ""
            }
        ),
        Act::MarkTemplate { on: true } => format!("MarkAsTemplate {key}"),
        Act::MarkTemplate { on: false } => format!("MarkAsVirtualMachine {key}"),
        Act::SetTags { tags } => format!(
            "POST /api/cis/tagging/tag-association/{} attach {key}",
            tags.join(",")
        ),
        Act::SetNote { text } => {
            reconfigure(&format!("annotation={:?}", text.as_deref().unwrap_or("")))
        }
        Act::SetAutostart { on } => format!(
            "ReconfigureAutostart {key} startAction={}",
            if *on { "powerOn" } else { "none" }
        ),
        Act::Reconfigure(sizes) => {
            let cpus = sizes.cpus.map(|n| format!("numCPUs={n}"));
            let memory = sizes.memory.map(|m| format!("memoryMB={}", m.0 >> 20));
            let all: Vec<String> = cpus.into_iter().chain(memory).collect();
            reconfigure(&all.join(" "))
        }
        Act::AddDisk { disk } => reconfigure(&format!(
            "deviceChange add {:?} {}",
            disk.name,
            source(disk)
        )),
        Act::DetachDisk { slot } => reconfigure(&format!("deviceChange remove {slot:?}")),
        Act::GrowDisk { slot, to } => reconfigure(&format!(
            "deviceChange edit {slot:?} capacityInBytes={}",
            to.0
        )),
        Act::MoveDisk { slot, pool, .. } => {
            format!("RelocateVM_Task {key} disk={slot:?} datastore={pool}")
        }
        Act::AddNic { nic } => reconfigure(&format!(
            "deviceChange add {:?} network={:?} mac={}",
            nic.name,
            nic.network.as_deref().unwrap_or("VM Network"),
            mac(nic)
        )),
        Act::RemoveNic { slot, .. } => reconfigure(&format!("deviceChange remove {slot:?}")),
        Act::Insert { drive, image } => {
            reconfigure(&format!("deviceChange edit {drive:?} iso={image}"))
        }
        Act::Eject { drive, .. } => reconfigure(&format!("deviceChange edit {drive:?} empty")),
        Act::Publish { .. } | Act::Unpublish { .. } | Act::Rewrite { .. } | Act::Unlock => {
            "none".into()
        }
        Act::Export { to, .. } => format!("ExportVm {key}, HttpNfcLease to {to}"),
        Act::Backup { name, place } => format!("ExportVm {key}, HttpNfcLease to {place}/{name}"),
        Act::RestoreBackup { name } => format!("ImportVApp {key}, HttpNfcLease from {name}"),
        Act::DropBackup { name } => format!("remove backups/{name}"),
        Act::Push { from, to } => format!("InitiateFileTransferToGuest {key} {to} from {from}"),
        Act::Pull { from, .. } => format!("InitiateFileTransferFromGuest {key} {from}"),
        Act::Press { chord } => format!("PutUsbScanCodes {key} {}", chord.join("+")),
    }
}
