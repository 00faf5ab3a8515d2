//! The calls of `VBoxManage`.

use super::super::act::Act;
use super::super::guest::Guest;
use super::size;

pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
    let control = |what: &str| format!("VBoxManage controlvm {key} {what}");
    let snapshot = |what: &str, name: &str| format!("VBoxManage snapshot {key} {what} {name}");
    match act {
        Act::Start => format!("VBoxManage startvm {key} --type headless"),
        Act::ShutDown => control("acpipowerbutton"),
        Act::PowerOff | Act::PowerOffAfter(_) => control("poweroff"),
        Act::Reboot => control("reboot"),
        Act::Reset | Act::Cycle { .. } => control("reset"),
        Act::Pause => control("pause"),
        Act::Resume => control("resume"),
        Act::TakeSnapshot { name, .. } => snapshot("take", name),
        Act::Revert { name } => snapshot("restore", name),
        Act::DropSnapshot { name } => snapshot("delete", name),
        Act::Define => format!(
            "VBoxManage createvm --name {} --uuid {key} --register",
            guest.base.name
        ),
        Act::FillDisk { n, source } if source.is_empty() => {
            format!("VBoxManage createmedium disk --size {}", size(guest, *n))
        }
        Act::FillDisk { n, source } => {
            format!("VBoxManage clonemedium disk {source} disk{n}.vdi")
        }
        Act::RemoveDisk { source } => format!("VBoxManage closemedium disk {source} --delete"),
        Act::Undefine { .. } => format!("VBoxManage unregistervm {key}"),
    }
}
