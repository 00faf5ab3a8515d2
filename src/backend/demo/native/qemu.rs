//! The calls of QEMU's monitor and tools.

use super::super::act::Act;
use super::super::guest::Guest;
use super::size;

pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
    let live = guest.state().is_active();
    match act {
        Act::Start => format!("qemu-system-x86_64 -name {key} -daemonize"),
        Act::ShutDown => "QMP system_powerdown".into(),
        Act::PowerOff | Act::PowerOffAfter(_) => "QMP quit".into(),
        Act::Reboot => "guest-agent guest-shutdown mode=reboot".into(),
        Act::Reset | Act::Cycle { .. } => "QMP system_reset".into(),
        Act::Pause => "QMP stop".into(),
        Act::Resume => "QMP cont".into(),
        Act::TakeSnapshot { name, .. } if live => format!("QMP snapshot-save tag={name}"),
        Act::TakeSnapshot { name, .. } => format!("qemu-img snapshot -c {name} disk0.qcow2"),
        Act::Revert { name } => format!("qemu-img snapshot -a {name} disk0.qcow2"),
        Act::DropSnapshot { name } if live => format!("QMP snapshot-delete tag={name}"),
        Act::DropSnapshot { name } => format!("qemu-img snapshot -d {name} disk0.qcow2"),
        Act::Define => format!("write vms/{key}/vm.toml"),
        Act::FillDisk { n, source } if source.is_empty() => {
            format!("qemu-img create -f qcow2 disk{n}.qcow2 {}", size(guest, *n))
        }
        Act::FillDisk { n, source } => {
            format!("qemu-img convert -O qcow2 {source} disk{n}.qcow2")
        }
        Act::RemoveDisk { source } => format!("remove {source}"),
        Act::Undefine { .. } => format!("remove vms/{key}/vm.toml"),
    }
}
