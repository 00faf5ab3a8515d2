//! The calls of QEMU's monitor and tools.

use super::super::act::Act;
use super::super::guest::Guest;
use super::{bus, mac, size};

#[allow(clippy::match_same_arms, reason = "one line per act")]
pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
    let live = guest.state().is_active();
    let write = |what: &str| format!("write vms/{key}/vm.toml {what}");
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
        Act::Hibernate => "QMP snapshot-save tag=corral-hibernated, then quit".into(),
        Act::Rename { to, .. } => format!("rename vms/{key} to vms/{to}"),
        Act::Clone {
            to,
            linked,
            snapshot,
            ..
        } => {
            let (to, from) = (to.key(), format!("vms/{key}/disk0.qcow2"));
            let l = snapshot
                .as_ref()
                .map_or_else(String::new, |s| format!(" -l {s}"));
            if *linked {
                format!("qemu-img create -f qcow2 -b {from} -F qcow2 vms/{to}/disk0.qcow2")
            } else {
                format!("qemu-img convert -O qcow2{l} {from} vms/{to}/disk0.qcow2")
            }
        }
        Act::MarkTemplate { on } => write(&format!("template = {on}")),
        Act::SetTags { tags } => write(&format!("tags = {tags:?}")),
        Act::SetNote { text } => write(&format!("note = {:?}", text.as_deref().unwrap_or(""))),
        Act::SetAutostart { on } => write(&format!("autostart = {on}")),
        Act::Reconfigure(sizes) if live => match (sizes.cpus, sizes.memory) {
            (Some(cpus), None) => format!("QMP device_add host-x86_64-cpu up to {cpus}"),
            (_, Some(memory)) => format!("QMP balloon value={}", memory.0),
            (None, None) => write(&sizes.to_string()),
        },
        Act::Reconfigure(sizes) => write(&sizes.to_string()),
        Act::AddDisk { disk } if live => {
            format!(
                "QMP blockdev-add {0} and device_add {1} id={0}",
                disk.name,
                bus(disk)
            )
        }
        Act::AddDisk { disk } => write(&format!("disk {}", disk.name)),
        Act::DetachDisk { slot } if live => {
            format!("QMP device_del {slot} and blockdev-del {slot}")
        }
        Act::DetachDisk { slot } => write(&format!("no disk {slot}")),
        Act::GrowDisk { slot, to } if live => format!("QMP block_resize {slot} size={}", to.0),
        Act::GrowDisk { slot, to } => format!("qemu-img resize {slot}.qcow2 {}", to.0),
        Act::MoveDisk { slot, to, .. } if live => {
            format!("QMP blockdev-mirror device={slot} target={to}, then job-complete")
        }
        Act::MoveDisk { to, .. } => format!("qemu-img convert -O qcow2 {to}"),
        Act::AddNic { nic } if live => format!(
            "QMP netdev_add user id={0} and device_add virtio-net-pci id={0} mac={1}",
            nic.name,
            mac(nic)
        ),
        Act::AddNic { nic } => write(&format!("nic {} mac = {}", nic.name, mac(nic))),
        Act::RemoveNic { slot, .. } if live => {
            format!("QMP device_del {slot} and netdev_del {slot}")
        }
        Act::RemoveNic { slot, .. } => write(&format!("no nic {slot}")),
        Act::Insert { drive, image } if live => {
            format!("QMP blockdev-change-medium id={drive} filename={image}")
        }
        Act::Insert { drive, image } => write(&format!("cdrom {drive} file = {image}")),
        Act::Eject { drive, force } if live => format!("QMP eject id={drive} force={force}"),
        Act::Eject { drive, .. } => write(&format!("cdrom {drive} empty")),
        Act::Publish {
            host,
            guest: port,
            protocol,
        } if live => {
            format!("QMP hostfwd_add {protocol}:{host}-:{port}")
        }
        Act::Publish {
            host, guest: port, ..
        } => write(&format!("publish {host} -> {port}")),
        Act::Unpublish { host, protocol, .. } if live => {
            format!("QMP hostfwd_remove {protocol}:{host}")
        }
        Act::Unpublish { host, .. } => write(&format!("no publish {host}")),
        Act::Export {
            to,
            format,
            snapshot,
        } => format!(
            "qemu-img convert{} -O {format} disk0.qcow2 {to}",
            snapshot
                .as_ref()
                .map_or_else(String::new, |s| format!(" -l {s}"))
        ),
        Act::Backup { name, place } => {
            format!("qemu-img convert -O qcow2 disk0.qcow2 {place}/{name}/disk0.qcow2")
        }
        Act::RestoreBackup { name } => {
            format!("qemu-img convert -O qcow2 {name}/disk0.qcow2 disk0.qcow2")
        }
        Act::DropBackup { name } => format!("remove backups/{name}"),
        Act::Rewrite { .. } => format!("write vms/{key}/vm.toml"),
        Act::Unlock => format!("remove vms/{key}/lock"),
        Act::Push { from, to } => {
            format!("guest-agent guest-file-open {to} mode=w, guest-file-write of {from}")
        }
        Act::Pull { from, .. } => {
            format!("guest-agent guest-file-open {from} mode=r, guest-file-read")
        }
        Act::Press { chord } => format!("QMP send-key keys={}", chord.join("+")),
    }
}
