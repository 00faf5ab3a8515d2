//! The calls of the Prism v4 API.

use super::super::act::Act;
use super::super::guest::Guest;
use super::{mac, source};

pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
    let vms = "/api/vmm/v4.0/ahv/config/vms";
    let points = "/api/dataprotection/v4.0/config/recovery-points";
    let action = |what: &str| format!("POST {vms}/{key}/$actions/{what}");
    let put = |what: &str| format!("PUT {vms}/{key} {what}");
    match act {
        Act::Start => action("power-on"),
        Act::ShutDown => action("guest-shutdown"),
        Act::PowerOff | Act::PowerOffAfter(_) => action("power-off"),
        Act::Reboot => action("guest-reboot"),
        Act::Reset => action("reset"),
        Act::Cycle { .. } => action("power-cycle"),
        Act::TakeSnapshot { name, .. } => format!("POST {points} {name}"),
        Act::Revert { name } => format!("{} {name}", action("revert")),
        Act::DropSnapshot { name } => format!("DELETE {points}/{name}"),
        Act::Define => format!("POST {vms} {}", guest.base.name),
        Act::FillDisk { source, .. } => format!(
            "POST {vms}/{key}/disks {}",
            if source.is_empty() { "empty" } else { source }
        ),
        Act::RemoveDisk { source } => format!("DELETE {vms}/{key}/disks/{source}"),
        Act::Undefine { .. } => format!("DELETE {vms}/{key}"),
        Act::Pause
        | Act::Resume
        | Act::Hibernate
        | Act::SetAutostart { .. }
        | Act::Publish { .. }
        | Act::Unpublish { .. }
        | Act::Unlock => action("none"),
        Act::Rename { to, .. } => put(&format!("name={to}")),
        Act::Clone { name, .. } => format!("{} name={name}", action("clone")),
        Act::MarkTemplate { on: true } => format!("POST /api/vmm/v4.0/content/templates {key}"),
        Act::MarkTemplate { on: false } => format!("DELETE /api/vmm/v4.0/content/templates/{key}"),
        Act::SetTags { tags } => format!("{} {}", action("associate-categories"), tags.join(",")),
        Act::SetNote { text } => put(&format!("description={:?}", text.as_deref().unwrap_or(""))),
        Act::Reconfigure(sizes) => {
            let cpus = sizes.cpus.map(|n| format!("numSockets={n}"));
            let memory = sizes.memory.map(|m| format!("memorySizeBytes={}", m.0));
            let all: Vec<String> = cpus.into_iter().chain(memory).collect();
            put(&all.join(" "))
        }
        Act::AddDisk { disk } => format!("POST {vms}/{key}/disks {} {}", disk.name, source(disk)),
        Act::DetachDisk { slot } => format!("DELETE {vms}/{key}/disks/{slot}"),
        Act::GrowDisk { slot, to } => {
            format!("PUT {vms}/{key}/disks/{slot} diskSizeBytes={}", to.0)
        }
        Act::MoveDisk { slot, pool, .. } => format!("{} {slot} {pool}", action("migrate-vdisks")),
        Act::AddNic { nic } => format!(
            "POST {vms}/{key}/nics subnet={} mac={}",
            nic.network.as_deref().unwrap_or("vlan10"),
            mac(nic)
        ),
        Act::RemoveNic { slot, .. } => format!("DELETE {vms}/{key}/nics/{slot}"),
        Act::Insert { drive, image } => {
            format!("POST {vms}/{key}/cd-roms/{drive}/$actions/insert {image}")
        }
        Act::Eject { drive, .. } => format!("POST {vms}/{key}/cd-roms/{drive}/$actions/eject"),
        Act::Export { to, .. } => {
            format!("POST /api/vmm/v4.1/content/ovas {key}, download to {to}")
        }
        Act::Backup { name, place } => {
            format!("POST /api/vmm/v4.1/content/ovas {key}, download to {place}/{name}")
        }
        Act::RestoreBackup { name } => {
            format!("POST /api/vmm/v4.1/content/ovas/{name}/$actions/deploy")
        }
        Act::DropBackup { name } => format!("remove backups/{name}"),
        Act::Rewrite { .. } => put("the whole spec If-Match"),
        Act::Push { from, to } => format!("SFTP put {from} {to}"),
        Act::Pull { from, .. } => format!("SFTP get {from}"),
        Act::Press { chord } => format!("GET /vnc/vm/{key} KeyEvent {}", chord.join("+")),
    }
}
