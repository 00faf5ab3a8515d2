//! Acts as the calls of the kinds that are impersonated, one file each.

mod incus;
mod kubevirt;
mod libvirt;
mod nutanix;
mod peer;
mod proxmox;
mod qemu;
mod virtualbox;
mod vsphere;
mod xen;

use super::act::Act;
use super::dialect::Dialect;
use super::guest::Guest;
use crate::model::{Disk, Nic, shown};

/// The call of `dialect` that does `act` to `guest`, as a dry run prints it.
pub(super) fn call(dialect: Dialect, act: &Act, guest: &Guest) -> String {
    let call = match dialect {
        Dialect::Qemu => qemu::call(act, guest),
        Dialect::Libvirt => libvirt::call(act, guest),
        Dialect::Incus => incus::call(act, guest),
        Dialect::Kubevirt => kubevirt::call(act, guest),
        Dialect::Proxmox => proxmox::call(act, guest),
        Dialect::Virtualbox => virtualbox::call(act, guest),
        Dialect::Vsphere => vsphere::call(act, guest),
        Dialect::Xen => xen::call(act, guest),
        Dialect::Nutanix => nutanix::call(act, guest),
        Dialect::Peer => peer::call(act, guest),
    };
    shown(&call).into_owned()
}

/// The size of disk `n` in whole GiB.
fn size(guest: &Guest, n: usize) -> String {
    let bytes = guest
        .disks
        .get(n)
        .and_then(|d| d.size_bytes)
        .unwrap_or_default();
    format!("{}G", bytes.0 >> 30)
}

/// Where a disk's data is.
fn source(disk: &Disk) -> &str {
    disk.source.as_deref().unwrap_or("new")
}

/// What a disk is attached to.
fn bus(disk: &Disk) -> &'static str {
    match disk.bus.as_deref() {
        Some("scsi") => "scsi-hd",
        Some("sata") => "ide-hd",
        _ => "virtio-blk-pci",
    }
}

/// The MAC of a NIC.
fn mac(nic: &Nic) -> &str {
    nic.mac.as_deref().unwrap_or("auto")
}
