//! The calls of another corral.

use super::super::act::Act;
use super::super::guest::Guest;
use super::mac;

pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let there = guest.id().within();
    let relay = |verb: &str, more: &str| {
        format!("POST /v1/actions {{\"verb\":{verb:?},\"targets\":[{there:?}]{more}}}")
    };
    match act {
        Act::Start => relay("start", ""),
        Act::ShutDown => relay("stop", ""),
        Act::PowerOff | Act::PowerOffAfter(_) => relay("stop", ",\"force\":true"),
        Act::Reboot => relay("restart", ""),
        Act::Reset => relay("restart", ",\"force\":true"),
        Act::Cycle { .. } => relay("restart", ",\"cold\":true"),
        Act::Pause => relay("pause", ""),
        Act::Resume => relay("resume", ""),
        Act::TakeSnapshot { name, memory, .. } => relay(
            "snapshot create",
            &format!(",\"name\":{name:?},\"with-memory\":{memory}"),
        ),
        Act::Revert { name } => relay("snapshot restore", &format!(",\"name\":{name:?}")),
        Act::DropSnapshot { name } => relay("snapshot delete", &format!(",\"name\":{name:?}")),
        Act::Define => relay("create", ""),
        Act::FillDisk { n, source } => {
            relay("create", &format!(",\"disk\":{n},\"source\":{source:?}"))
        }
        Act::RemoveDisk { source } => relay("delete", &format!(",\"disk\":{source:?}")),
        Act::Undefine { keep_disks } => relay("delete", &format!(",\"keep-disks\":{keep_disks}")),
        Act::Hibernate => relay("hibernate", ""),
        Act::Rename { to, .. } => relay("rename", &format!(",\"to\":{to:?}")),
        Act::Clone { name, linked, .. } => {
            relay("clone", &format!(",\"name\":{name:?},\"linked\":{linked}"))
        }
        Act::MarkTemplate { on } => relay("template", &format!(",\"on\":{on}")),
        Act::SetTags { tags } => relay("tag", &format!(",\"tags\":{tags:?}")),
        Act::SetNote { text } => relay(
            "note",
            &format!(",\"text\":{:?}", text.as_deref().unwrap_or("")),
        ),
        Act::SetAutostart { on } => relay("autostart", &format!(",\"on\":{on}")),
        Act::Reconfigure(sizes) => relay("resize", &format!(",\"to\":\"{sizes}\"")),
        Act::AddDisk { disk } => relay("disk add", &format!(",\"disk\":{:?}", disk.name)),
        Act::DetachDisk { slot } => relay("disk remove", &format!(",\"disk\":{slot:?}")),
        Act::GrowDisk { slot, to } => {
            relay("disk grow", &format!(",\"disk\":{slot:?},\"to\":{}", to.0))
        }
        Act::MoveDisk { slot, pool, .. } => {
            relay("disk move", &format!(",\"disk\":{slot:?},\"to\":{pool:?}"))
        }
        Act::AddNic { nic } => relay("nic add", &format!(",\"mac\":{:?}", mac(nic))),
        Act::RemoveNic { slot, .. } => relay("nic remove", &format!(",\"nic\":{slot:?}")),
        Act::Insert { drive, image } => relay(
            "media insert",
            &format!(",\"drive\":{drive:?},\"image\":{image:?}"),
        ),
        Act::Eject { drive, .. } => relay("media eject", &format!(",\"drive\":{drive:?}")),
        Act::Publish {
            host, guest: port, ..
        } => relay(
            "ports publish",
            &format!(",\"at\":{host:?},\"port\":{port}"),
        ),
        Act::Unpublish { guest: port, .. } => {
            relay("ports unpublish", &format!(",\"port\":{port}"))
        }
        Act::Export { to, .. } => format!("GET /v1/streams/export/{there} to {to}"),
        Act::Backup { name, .. } => relay("backup create", &format!(",\"name\":{name:?}")),
        Act::RestoreBackup { name } => relay("backup restore", &format!(",\"backup\":{name:?}")),
        Act::DropBackup { name } => relay("backup delete", &format!(",\"backup\":{name:?}")),
        Act::Rewrite { .. } => relay("edit", ""),
        Act::Unlock => relay("unlock", ""),
        Act::Push { from, to } => format!("PUT /v1/streams/files/{there}{to} from {from}"),
        Act::Pull { from, .. } => format!("GET /v1/streams/files/{there}{from}"),
        Act::Press { chord } => relay("sendkey", &format!(",\"keys\":\"{}\"", chord.join("-"))),
    }
}
