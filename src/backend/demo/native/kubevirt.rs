//! The calls of the `KubeVirt` and Kubernetes API.

use super::super::act::Act;
use super::super::guest::Guest;
use super::{mac, source};

pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
    let ns = guest.id().namespace().unwrap_or_else(|| "default".into());
    let sub = format!("/apis/subresources.kubevirt.io/v1/namespaces/{ns}");
    let vm = format!("{sub}/virtualmachines/{key}");
    let vmi = format!("{sub}/virtualmachineinstances/{key}");
    let snap = format!("/apis/snapshot.kubevirt.io/v1beta1/namespaces/{ns}");
    let own = format!("/apis/kubevirt.io/v1/namespaces/{ns}/virtualmachines");
    let patch = |what: &str| format!("PATCH {own}/{key} {what}");
    match act {
        Act::Start => format!("PUT {vm}/start"),
        Act::ShutDown => format!("PUT {vm}/stop"),
        Act::PowerOff | Act::PowerOffAfter(_) => {
            format!("PUT {vm}/stop {{\"gracePeriod\":0}}")
        }
        Act::Reboot | Act::Cycle { now: false } => format!("PUT {vm}/restart"),
        Act::Reset | Act::Cycle { now: true } => {
            format!("PUT {vm}/restart {{\"gracePeriodSeconds\":0}}")
        }
        Act::Pause => format!("PUT {vmi}/pause"),
        Act::Resume => format!("PUT {vmi}/unpause"),
        Act::TakeSnapshot { name, .. } => {
            format!("POST {snap}/virtualmachinesnapshots {name}")
        }
        Act::Revert { name } => format!("POST {snap}/virtualmachinerestores {key} {name}"),
        Act::DropSnapshot { name } => format!("DELETE {snap}/virtualmachinesnapshots/{name}"),
        Act::Define => format!("POST {own} {key}"),
        Act::FillDisk { n, source } => format!(
            "POST /apis/cdi.kubevirt.io/v1beta1/namespaces/{ns}/datavolumes {key}-disk{n} {}",
            if source.is_empty() { "blank" } else { source }
        ),
        Act::RemoveDisk { source } => format!(
            "DELETE /api/v1/namespaces/{ns}/persistentvolumeclaims/{}",
            source.trim_start_matches("pvc/")
        ),
        Act::Undefine { .. } => format!("DELETE {own}/{key}"),
        Act::Hibernate
        | Act::Rename { .. }
        | Act::MoveDisk { .. }
        | Act::Unlock
        | Act::Insert { .. }
        | Act::Eject { .. } => "none".into(),
        Act::Clone { to, snapshot, .. } => format!(
            "POST /apis/clone.kubevirt.io/v1beta1/namespaces/{ns}/virtualmachineclones {}{key} to {}",
            snapshot
                .as_ref()
                .map_or_else(String::new, |s| format!("{s} of ")),
            to.key()
        ),
        Act::MarkTemplate { on } => patch(&format!("metadata.labels corral/template={on}")),
        Act::SetTags { tags } => patch(&format!(
            "metadata.labels corral.tag/{{{}}}",
            tags.join(",")
        )),
        Act::SetNote { text } => patch(&format!(
            "metadata.annotations corral/note={:?}",
            text.as_deref().unwrap_or("")
        )),
        Act::SetAutostart { on } => patch(&format!(
            "spec.runStrategy={}",
            if *on { "Always" } else { "Manual" }
        )),
        Act::Reconfigure(sizes) => {
            let cpus = sizes.cpus.map(|n| format!("cpu.sockets={n}"));
            let memory = sizes
                .memory
                .map(|m| format!("memory.guest={}Mi", m.0 >> 20));
            let all: Vec<String> = cpus.into_iter().chain(memory).collect();
            patch(&format!("spec.template.spec.domain {}", all.join(" ")))
        }
        Act::AddDisk { disk } => format!("PUT {vm}/addvolume {} {}", disk.name, source(disk)),
        Act::DetachDisk { slot } => format!("PUT {vm}/removevolume {slot}"),
        Act::GrowDisk { slot, to } => format!(
            "PATCH /api/v1/namespaces/{ns}/persistentvolumeclaims/{key}-{slot} requests.storage={}",
            to.0
        ),
        Act::AddNic { nic } => patch(&format!(
            "spec.template.spec interface {} network {} mac {}",
            nic.name,
            nic.network.as_deref().unwrap_or("pod"),
            mac(nic)
        )),
        Act::RemoveNic { slot, .. } => {
            patch(&format!("spec.template.spec interface {slot} state=absent"))
        }
        Act::Publish {
            host,
            guest: port,
            protocol,
        } => format!(
            "POST /api/v1/namespaces/{ns}/services {key}-{port} NodePort {protocol} {host} to {port}"
        ),
        Act::Unpublish { guest: port, .. } => {
            format!("DELETE /api/v1/namespaces/{ns}/services/{key}-{port}")
        }
        Act::Export { to, .. } => format!(
            "POST /apis/export.kubevirt.io/v1beta1/namespaces/{ns}/virtualmachineexports {key} to {to}"
        ),
        Act::Backup { name, place } => format!(
            "POST /apis/export.kubevirt.io/v1beta1/namespaces/{ns}/virtualmachineexports {key} to {place}/{name}"
        ),
        Act::RestoreBackup { name } => format!(
            "POST /apis/upload.cdi.kubevirt.io/v1beta1/namespaces/{ns}/uploadtokenrequests {key} from {name}"
        ),
        Act::DropBackup { name } => format!("remove backups/{name}"),
        Act::Rewrite { .. } => format!("PUT {own}/{key} resourceVersion"),
        Act::Push { from, to } => format!("GET {vmi}/portforward/22, SFTP put {from} {to}"),
        Act::Pull { from, .. } => format!("GET {vmi}/portforward/22, SFTP get {from}"),
        Act::Press { chord } => format!("GET {vmi}/vnc KeyEvent {}", chord.join("+")),
    }
}
