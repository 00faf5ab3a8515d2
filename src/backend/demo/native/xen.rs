//! The calls of XAPI.

use super::super::act::Act;
use super::super::guest::Guest;

pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
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
    }
}
