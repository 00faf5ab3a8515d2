//! The calls of the Prism v4 API.

use super::super::act::Act;
use super::super::guest::Guest;

pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
    let vms = "/api/vmm/v4.0/ahv/config/vms";
    let points = "/api/dataprotection/v4.0/config/recovery-points";
    let action = |what: &str| format!("POST {vms}/{key}/$actions/{what}");
    match act {
        Act::Start => action("power-on"),
        Act::ShutDown => action("guest-shutdown"),
        Act::PowerOff | Act::PowerOffAfter(_) => action("power-off"),
        Act::Reboot => action("guest-reboot"),
        Act::Reset => action("reset"),
        Act::Cycle { .. } => action("power-cycle"),
        Act::Pause | Act::Resume => action("none"),
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
    }
}
