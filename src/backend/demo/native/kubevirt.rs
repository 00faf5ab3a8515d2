//! The calls of the KubeVirt and Kubernetes API.

use super::super::act::Act;
use super::super::guest::Guest;

pub(super) fn call(act: &Act, guest: &Guest) -> String {
    let key = guest.id().key();
    let ns = guest.id().namespace().unwrap_or_else(|| "default".into());
    let sub = format!("/apis/subresources.kubevirt.io/v1/namespaces/{ns}");
    let vm = format!("{sub}/virtualmachines/{key}");
    let vmi = format!("{sub}/virtualmachineinstances/{key}");
    let snap = format!("/apis/snapshot.kubevirt.io/v1beta1/namespaces/{ns}");
    let own = format!("/apis/kubevirt.io/v1/namespaces/{ns}/virtualmachines");
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
    }
}
