//! The calls of the Proxmox VE API.

use super::super::act::Act;
use super::super::guest::Guest;
use super::{mac, size, source};
use crate::model::InstanceKind;

#[allow(clippy::match_same_arms, reason = "one line per act")]
pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
    let node = guest.base.host.as_deref().unwrap_or("pve1");
    let sort = match guest.base.kind {
        InstanceKind::Vm => "qemu",
        InstanceKind::Ct => "lxc",
    };
    let at = format!("/nodes/{node}/{sort}/{key}");
    let config = |what: &str| format!("PUT {at}/config {what}");
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
        Act::Hibernate => format!("POST {at}/status/suspend todisk=1"),
        Act::Rename { to, .. } => {
            let field = if sort == "lxc" { "hostname" } else { "name" };
            config(&format!("{field}={to}"))
        }
        Act::Clone {
            to,
            name,
            linked,
            snapshot,
        } => format!(
            "POST {at}/clone newid={} name={name} full={}{}",
            to.key(),
            u8::from(!linked),
            snapshot
                .as_ref()
                .map_or_else(String::new, |s| format!(" snapname={s}"))
        ),
        Act::MarkTemplate { .. } => format!("POST {at}/template"),
        Act::SetTags { tags } => config(&format!("tags={}", tags.join(";"))),
        Act::SetNote { text } => {
            config(&format!("description={:?}", text.as_deref().unwrap_or("")))
        }
        Act::SetAutostart { on } => config(&format!("onboot={}", u8::from(*on))),
        Act::Reconfigure(sizes) => {
            let cpus = sizes.cpus.map(|n| format!("cores={n}"));
            let memory = sizes.memory.map(|m| format!("memory={}", m.0 >> 20));
            let all: Vec<String> = cpus.into_iter().chain(memory).collect();
            config(&all.join(" "))
        }
        Act::AddDisk { disk } => config(&format!("{}={}", disk.name, source(disk))),
        Act::DetachDisk { slot } => config(&format!("delete={slot}")),
        Act::GrowDisk { slot, to } => format!("PUT {at}/resize disk={slot} size={}", to.0),
        Act::MoveDisk { slot, pool, .. } => {
            let call = if sort == "lxc" {
                "move_volume volume"
            } else {
                "move_disk disk"
            };
            format!("POST {at}/{call}={slot} storage={pool} delete=1")
        }
        Act::AddNic { nic } => config(&format!(
            "{}={}={},bridge={}",
            nic.name,
            nic.model.as_deref().unwrap_or("virtio"),
            mac(nic),
            nic.network.as_deref().unwrap_or("vmbr0")
        )),
        Act::RemoveNic { slot, .. } => config(&format!("delete={slot}")),
        Act::Insert { drive, image } => config(&format!("{drive}={image},media=cdrom")),
        Act::Eject { drive, .. } => config(&format!("{drive}=none,media=cdrom")),
        Act::Publish { .. } | Act::Unpublish { .. } => "none".into(),
        Act::Export { to, .. } => {
            format!("POST /nodes/{node}/vzdump vmid={key} mode=snapshot, download to {to}")
        }
        Act::Backup { place, .. } => {
            format!("POST /nodes/{node}/vzdump vmid={key} storage={place} mode=snapshot")
        }
        Act::RestoreBackup { name } => {
            format!("POST /nodes/{node}/{sort} vmid={key} archive={name} force=1")
        }
        Act::DropBackup { name } => {
            format!("DELETE /nodes/{node}/storage/local/content/backup/{name}")
        }
        Act::Rewrite { .. } => format!("PUT {at}/config digest"),
        Act::Unlock => config("delete=lock skiplock=1"),
        Act::Push { from, to } => format!("SFTP put {from} {to}"),
        Act::Pull { from, .. } => format!("SFTP get {from}"),
        Act::Press { chord } => format!("PUT {at}/sendkey key={}", chord.join("-")),
    }
}
