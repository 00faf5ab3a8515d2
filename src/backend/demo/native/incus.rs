//! The calls of the Incus REST API.

use super::super::act::Act;
use super::super::guest::Guest;
use super::{mac, source};

pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
    let project = guest.id().namespace().unwrap_or_else(|| "default".into());
    let at = format!("/1.0/instances/{key}");
    let in_project = format!("?project={project}");
    let state = |what: &str| format!("PUT {at}/state{in_project} {{{what}}}");
    let patch = |what: &str| format!("PATCH {at}{in_project} {{{what}}}");
    let device = |name: &str, what: &str| patch(&format!("\"devices\":{{{name:?}:{{{what}}}}}"));
    match act {
        Act::Start => state("\"action\":\"start\""),
        Act::ShutDown => state("\"action\":\"stop\""),
        Act::PowerOff | Act::PowerOffAfter(_) => state("\"action\":\"stop\",\"force\":true"),
        Act::Reboot => state("\"action\":\"restart\""),
        Act::Reset | Act::Cycle { .. } => state("\"action\":\"restart\",\"force\":true"),
        Act::Pause => state("\"action\":\"freeze\""),
        Act::Resume => state("\"action\":\"unfreeze\""),
        Act::TakeSnapshot { name, memory, .. } => {
            format!("POST {at}/snapshots{in_project} {{\"name\":{name:?},\"stateful\":{memory}}}")
        }
        Act::Revert { name } => format!("PUT {at}{in_project} {{\"restore\":{name:?}}}"),
        Act::DropSnapshot { name } => format!("DELETE {at}/snapshots/{name}{in_project}"),
        Act::Define => format!("POST /1.0/instances{in_project} {{\"name\":{key:?}}}"),
        Act::FillDisk { source, .. } if source.is_empty() => {
            format!("POST /1.0/storage-pools/default/volumes{in_project}")
        }
        Act::FillDisk { source, .. } => format!("POST /1.0/images {{\"alias\":{source:?}}}"),
        Act::RemoveDisk { source } => {
            format!("DELETE /1.0/storage-pools/{source}{in_project}")
        }
        Act::Undefine { .. } => format!("DELETE {at}{in_project}"),
        Act::Hibernate => state("\"action\":\"stop\",\"stateful\":true"),
        Act::Rename { to, .. } => format!("POST {at}{in_project} {{\"name\":{to:?}}}"),
        Act::Clone { to, snapshot, .. } => format!(
            "POST /1.0/instances{in_project} {{\"name\":{:?},\"source\":{{\"type\":\"copy\",\"source\":\"{key}{}\"}}}}",
            to.key(),
            snapshot
                .as_ref()
                .map_or_else(String::new, |s| format!("/{s}"))
        ),
        Act::MarkTemplate { on } => {
            patch(&format!("\"config\":{{\"user.corral.template\":\"{on}\"}}"))
        }
        Act::SetTags { tags } => patch(&format!(
            "\"config\":{{\"user.corral.tags\":{:?}}}",
            tags.join(",")
        )),
        Act::SetNote { text } => patch(&format!(
            "\"description\":{:?}",
            text.as_deref().unwrap_or("")
        )),
        Act::SetAutostart { on } => patch(&format!("\"config\":{{\"boot.autostart\":\"{on}\"}}")),
        Act::Reconfigure(sizes) => {
            let cpus = sizes.cpus.map(|n| format!("\"limits.cpu\":\"{n}\""));
            let memory = sizes
                .memory
                .map(|m| format!("\"limits.memory\":\"{}MiB\"", m.0 >> 20));
            let all: Vec<String> = cpus.into_iter().chain(memory).collect();
            patch(&format!("\"config\":{{{}}}", all.join(",")))
        }
        Act::AddDisk { disk } => device(
            &disk.name,
            &format!("\"type\":\"disk\",\"source\":{:?}", source(disk)),
        ),
        Act::DetachDisk { slot } | Act::RemoveNic { slot, .. } => {
            patch(&format!("\"devices\":{{{slot:?}:null}}"))
        }
        Act::GrowDisk { slot, to } => device(slot, &format!("\"size\":\"{}\"", to.0)),
        Act::MoveDisk { slot, pool, .. } => format!(
            "POST {at}{in_project} {{\"migration\":true,\"devices\":{{{slot:?}:{{\"pool\":{pool:?}}}}}}}"
        ),
        Act::AddNic { nic } => device(
            &nic.name,
            &format!(
                "\"type\":\"nic\",\"network\":{:?},\"hwaddr\":{:?}",
                nic.network.as_deref().unwrap_or("incusbr0"),
                mac(nic)
            ),
        ),
        Act::Insert { drive, image } => {
            device(drive, &format!("\"type\":\"disk\",\"source\":{image:?}"))
        }
        Act::Eject { drive, .. } => device(drive, "\"source\":\"\""),
        Act::Publish {
            host,
            guest: port,
            protocol,
        } => device(
            &format!("corral-{protocol}-{port}"),
            &format!(
                "\"type\":\"proxy\",\"listen\":\"{protocol}:{host}\",\"connect\":\"{protocol}:127.0.0.1:{port}\""
            ),
        ),
        Act::Unpublish {
            guest: port,
            protocol,
            ..
        } => patch(&format!(
            "\"devices\":{{\"corral-{protocol}-{port}\":null}}"
        )),
        Act::Export { to, .. } => format!("GET {at}/backups/export/export{in_project} to {to}"),
        Act::Backup { name, .. } => format!("POST {at}/backups{in_project} {{\"name\":{name:?}}}"),
        Act::RestoreBackup { name } => format!("POST /1.0/instances{in_project} backup {name}"),
        Act::DropBackup { name } => format!("DELETE {at}/backups/{name}{in_project}"),
        Act::Rewrite { .. } => format!("PUT {at}{in_project} If-Match"),
        Act::Unlock => "none".into(),
        Act::Push { from, to } => format!("POST {at}/files{in_project}&path={to} from {from}"),
        Act::Pull { from, .. } => format!("GET {at}/files{in_project}&path={from}"),
        Act::Press { chord } => format!(
            "POST {at}/console{in_project} SPICE keys {}",
            chord.join("+")
        ),
    }
}
