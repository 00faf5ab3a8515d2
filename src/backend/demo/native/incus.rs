//! The calls of the Incus REST API.

use super::super::act::Act;
use super::super::guest::Guest;

pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
    let project = guest.id().namespace().unwrap_or_else(|| "default".into());
    let at = format!("/1.0/instances/{key}");
    let in_project = format!("?project={project}");
    let state = |what: &str| format!("PUT {at}/state{in_project} {{{what}}}");
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
    }
}
