//! The calls of the Proxmox VE API.

use super::super::act::Act;
use super::super::guest::Guest;
use super::size;
use crate::model::InstanceKind;

pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
    let node = guest.base.host.as_deref().unwrap_or("pve1");
    let sort = match guest.base.kind {
        InstanceKind::Vm => "qemu",
        InstanceKind::Ct => "lxc",
    };
    let at = format!("/nodes/{node}/{sort}/{key}");
    match act {
        Act::Start => format!("POST {at}/status/start"),
        Act::ShutDown => format!("POST {at}/status/shutdown"),
        Act::PowerOff | Act::PowerOffAfter(_) => format!("POST {at}/status/stop"),
        Act::Reboot | Act::Cycle { .. } => format!("POST {at}/status/reboot"),
        Act::Reset => format!("POST {at}/status/reset"),
        Act::Pause => format!("POST {at}/status/suspend"),
        Act::Resume => format!("POST {at}/status/resume"),
        Act::TakeSnapshot { name, memory, .. } => format!(
            "POST {at}/snapshot snapname={name}{}",
            if *memory { " vmstate=1" } else { "" }
        ),
        Act::Revert { name } => format!("POST {at}/snapshot/{name}/rollback"),
        Act::DropSnapshot { name } => format!("DELETE {at}/snapshot/{name}"),
        Act::Define => format!("POST /nodes/{node}/{sort} vmid={key}"),
        Act::FillDisk { n, source } if source.is_empty() => {
            format!("PUT {at}/config scsi{n}=local-lvm:{}", size(guest, *n))
        }
        Act::FillDisk { n, source } => {
            format!("PUT {at}/config scsi{n}=local-lvm:0,import-from={source}")
        }
        Act::RemoveDisk { source } => {
            format!("DELETE /nodes/{node}/storage/local-lvm/content/{source}")
        }
        Act::Undefine { keep_disks: true } => format!("DELETE {at}?purge=1"),
        Act::Undefine { keep_disks: false } => {
            format!("DELETE {at}?purge=1&destroy-unreferenced-disks=1")
        }
    }
}
