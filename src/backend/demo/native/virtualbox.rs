//! The calls of `VBoxManage`.

use super::super::act::Act;
use super::super::guest::Guest;
use super::{mac, size, source};

pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
    let control = |what: &str| format!("VBoxManage controlvm {key} {what}");
    let snapshot = |what: &str, name: &str| format!("VBoxManage snapshot {key} {what} {name}");
    let live = guest.state().is_active();
    let modify = |what: &str| format!("VBoxManage modifyvm {key} {what}");
    let extra =
        |what: &str, value: &str| format!("VBoxManage setextradata {key} corral/{what} {value}");
    let attach =
        |slot: &str, what: &str| format!("VBoxManage storageattach {key} --slot {slot} {what}");
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
        Act::Hibernate => control("savestate"),
        Act::Rename { to, .. } => modify(&format!("--name {to:?}")),
        Act::Clone {
            to,
            name,
            linked,
            snapshot,
        } => format!(
            "VBoxManage clonevm {key} --name {name} --uuid {} --register{}{}",
            to.key(),
            snapshot
                .as_ref()
                .map_or_else(String::new, |s| format!(" --snapshot {s}")),
            if *linked { " --options link" } else { "" }
        ),
        Act::MarkTemplate { on } => extra("template", &on.to_string()),
        Act::SetTags { tags } => extra("tags", &tags.join(",")),
        Act::SetNote { text } => modify(&format!(
            "--description {:?}",
            text.as_deref().unwrap_or("")
        )),
        Act::SetAutostart { on } => modify(&format!(
            "--autostart-enabled {}",
            if *on { "on" } else { "off" }
        )),
        Act::Reconfigure(sizes) => {
            let cpus = sizes.cpus.map(|n| format!("--cpus {n}"));
            let memory = sizes.memory.map(|m| format!("--memory {}", m.0 >> 20));
            let all: Vec<String> = cpus.into_iter().chain(memory).collect();
            modify(&all.join(" "))
        }
        Act::AddDisk { disk } => {
            attach(&disk.name, &format!("--type hdd --medium {}", source(disk)))
        }
        Act::DetachDisk { slot } => attach(slot, "--medium none"),
        Act::GrowDisk { slot, to } => {
            format!("VBoxManage modifymedium {slot} --resizebyte {}", to.0)
        }
        Act::MoveDisk { slot, to, .. } => format!("VBoxManage modifymedium {slot} --move {to}"),
        Act::AddNic { nic } => modify(&format!(
            "--{}=bridged --macaddress{} {}",
            nic.name,
            nic.name.trim_start_matches("nic"),
            mac(nic)
        )),
        Act::RemoveNic { slot, .. } => modify(&format!("--{slot}=none")),
        Act::Insert { drive, image } => attach(drive, &format!("--type dvddrive --medium {image}")),
        Act::Eject { drive, force } => attach(
            drive,
            if *force {
                "--medium emptydrive --forceunmount"
            } else {
                "--medium emptydrive"
            },
        ),
        Act::Publish {
            host,
            guest: port,
            protocol,
        } => {
            let rule = format!(
                "corral-{protocol}-{port},{protocol},{},{port}",
                host.replace(':', ",")
            );
            if live {
                control(&format!("natpf1 {rule}"))
            } else {
                modify(&format!("--natpf1 {rule}"))
            }
        }
        Act::Unpublish {
            guest: port,
            protocol,
            ..
        } => {
            let rule = format!("delete corral-{protocol}-{port}");
            if live {
                control(&format!("natpf1 {rule}"))
            } else {
                modify(&format!("--natpf1 {rule}"))
            }
        }
        Act::Export { to, .. } => format!("VBoxManage export {key} --output {to}"),
        Act::Backup { name, place } => {
            format!("VBoxManage export {key} --output {place}/{name}.ova")
        }
        Act::RestoreBackup { name } => format!("VBoxManage import {name}.ova"),
        Act::DropBackup { name } => format!("remove backups/{name}.ova"),
        Act::Rewrite { .. } | Act::Unlock => "none".into(),
        Act::Push { from, to } => format!("VBoxManage guestcontrol {key} copyto {from} {to}"),
        Act::Pull { from, .. } => format!("VBoxManage guestcontrol {key} copyfrom {from}"),
        Act::Press { chord } => control(&format!("keyboardputscancode {}", chord.join("+"))),
    }
}
