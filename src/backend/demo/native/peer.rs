//! The calls of another corral.

use super::super::act::Act;
use super::super::guest::Guest;

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
    }
}
