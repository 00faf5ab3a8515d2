//! The calls of XAPI.

use super::super::act::Act;
use super::super::guest::Guest;
use super::{mac, source};

pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
    let live = guest.state().is_active();
    match act {
        Act::Start => format!("VM.start {key}"),
        Act::ShutDown => format!("VM.clean_shutdown {key}"),
        Act::PowerOff | Act::PowerOffAfter(_) => format!("VM.hard_shutdown {key}"),
        Act::Reboot => format!("VM.clean_reboot {key}"),
        Act::Reset | Act::Cycle { .. } => format!("VM.hard_reboot {key}"),
        Act::Pause => format!("VM.pause {key}"),
        Act::Resume => format!("VM.unpause {key}"),
        Act::TakeSnapshot {
            name, memory: true, ..
        } => format!("VM.checkpoint {key} {name}"),
        Act::TakeSnapshot { name, .. } => format!("VM.snapshot {key} {name}"),
        Act::Revert { name } => format!("VM.revert {key} {name}"),
        Act::DropSnapshot { name } => format!("VM.destroy {key} {name}"),
        Act::Define => format!("VM.clone and VM.provision {}", guest.base.name),
        Act::FillDisk { source, .. } if source.is_empty() => format!("VDI.create {key}"),
        Act::FillDisk { source, .. } => format!("VDI.copy {source}"),
        Act::RemoveDisk { source } => format!("VDI.destroy {source}"),
        Act::Undefine { .. } => format!("VM.destroy {key}"),
        Act::Hibernate => format!("VM.suspend {key}"),
        Act::Rename { to, .. } => format!("VM.set_name_label {key} {to}"),
        Act::Clone {
            name, linked: true, ..
        } => format!("VM.clone {key} {name}"),
        Act::Clone { name, .. } => format!("VM.copy {key} {name}"),
        Act::MarkTemplate { on } => format!("VM.set_is_a_template {key} {on}"),
        Act::SetTags { tags } => format!("VM.set_tags {key} {}", tags.join(",")),
        Act::SetNote { text } => format!(
            "VM.set_name_description {key} {:?}",
            text.as_deref().unwrap_or("")
        ),
        Act::SetAutostart { on } => format!("VM.add_to_other_config {key} auto_poweron {on}"),
        Act::Reconfigure(sizes) => match (sizes.cpus, sizes.memory) {
            (Some(cpus), None) if live => format!("VM.set_VCPUs_number_live {key} {cpus}"),
            (Some(cpus), None) => format!("VM.set_VCPUs_at_startup {key} {cpus}"),
            (None, Some(memory)) => format!("VM.set_memory_dynamic_range {key} {0} {0}", memory.0),
            _ => format!("VM.set_VCPUs_max and VM.set_memory_limits {key} {sizes}"),
        },
        Act::AddDisk { disk } => format!(
            "VBD.create {key} {} {} and VBD.plug",
            disk.name,
            source(disk)
        ),
        Act::DetachDisk { slot } => format!("VBD.unplug and VBD.destroy {key} {slot}"),
        Act::GrowDisk { slot, to } => format!("VDI.resize {key} {slot} {}", to.0),
        Act::MoveDisk { slot, pool, .. } if live => format!("VDI.pool_migrate {key} {slot} {pool}"),
        Act::MoveDisk { slot, pool, .. } => format!("VDI.copy {key} {slot} {pool}"),
        Act::AddNic { nic } => format!(
            "VIF.create {key} {} network={:?} MAC={} and VIF.plug",
            nic.name,
            nic.network.as_deref().unwrap_or("Pool-wide network 0"),
            mac(nic)
        ),
        Act::RemoveNic { slot, .. } => format!("VIF.unplug and VIF.destroy {key} {slot}"),
        Act::Insert { drive, image } => format!("VBD.insert {key} {drive} {image}"),
        Act::Eject { drive, .. } => format!("VBD.eject {key} {drive}"),
        Act::Publish { .. } | Act::Unpublish { .. } | Act::Rewrite { .. } | Act::Unlock => {
            "none".into()
        }
        Act::Export { to, .. } => format!("GET /export?uuid={key} to {to}"),
        Act::Backup { name, place } => format!("GET /export?uuid={key} to {place}/{name}.xva"),
        Act::RestoreBackup { name } => format!("PUT /import?restore=true from {name}.xva"),
        Act::DropBackup { name } => format!("remove backups/{name}.xva"),
        Act::Push { from, to } => format!("SFTP put {from} {to}"),
        Act::Pull { from, .. } => format!("SFTP get {from}"),
        Act::Press { chord } => format!("GET /console?uuid={key} KeyEvent {}", chord.join("+")),
    }
}
