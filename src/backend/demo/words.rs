//! Native calls in the words of the impersonated kind.

use crate::model::{Instance, Kind};

/// What is done, as far as words differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed<'a> {
    /// Power on.
    Start,
    /// Ask to shut down.
    Shutdown,
    /// Power off.
    Off,
    /// Ask to reboot.
    Reboot,
    /// Reset.
    Reset,
    /// Halt.
    Pause,
    /// Go on.
    Resume,
    /// Make.
    Create,
    /// Delete.
    Delete,
    /// Take a snapshot.
    Snapshot(&'a str),
    /// Go back.
    Revert(&'a str),
    /// Delete a snapshot.
    Unsnapshot(&'a str),
}

/// The call that the kind's own API has for it.
pub fn native(kind: &Kind, row: &Instance, deed: Deed<'_>) -> String {
    let name = &row.name;
    let key = row.id.key();
    let ns = row.namespace.as_deref().unwrap_or("default");
    let node = row.host.as_deref().unwrap_or("node");
    match kind.as_str() {
        "qemu" => match deed {
            Deed::Start => format!("qemu-system-x86_64 … -name {name}"),
            Deed::Shutdown => "QMP system_powerdown".to_owned(),
            Deed::Off => "QMP quit".to_owned(),
            Deed::Reboot => "QGA guest-shutdown {mode: reboot}".to_owned(),
            Deed::Reset => "QMP system_reset".to_owned(),
            Deed::Pause => "QMP stop".to_owned(),
            Deed::Resume => "QMP cont".to_owned(),
            Deed::Create => format!("qemu-img create disk0.qcow2; write {name}/vm.toml"),
            Deed::Delete => format!("rm -r {name}"),
            Deed::Snapshot(s) => format!("QMP snapshot-save {s}"),
            Deed::Revert(s) => format!("qemu-img snapshot -a {s}"),
            Deed::Unsnapshot(s) => format!("QMP snapshot-delete {s}"),
        },
        "libvirt" => match deed {
            Deed::Start => format!("virDomainCreate({name})"),
            Deed::Shutdown => format!("virDomainShutdown({name})"),
            Deed::Off => format!("virDomainDestroy({name})"),
            Deed::Reboot => format!("virDomainReboot({name})"),
            Deed::Reset => format!("virDomainReset({name})"),
            Deed::Pause => format!("virDomainSuspend({name})"),
            Deed::Resume => format!("virDomainResume({name})"),
            Deed::Create => format!("virDomainDefineXML({name})"),
            Deed::Delete => format!("virDomainUndefineFlags({name})"),
            Deed::Snapshot(s) => format!("virDomainSnapshotCreateXML({name}, {s})"),
            Deed::Revert(s) => format!("virDomainRevertToSnapshot({name}, {s})"),
            Deed::Unsnapshot(s) => format!("virDomainSnapshotDelete({name}, {s})"),
        },
        "incus" => {
            let state = |word: &str| {
                format!("PUT /1.0/instances/{name}/state?project={ns} {{action: {word}}}")
            };
            match deed {
                Deed::Start => state("start"),
                Deed::Shutdown => state("stop"),
                Deed::Off => state("stop, force: true"),
                Deed::Reboot => state("restart"),
                Deed::Reset => state("restart, force: true"),
                Deed::Pause => state("freeze"),
                Deed::Resume => state("unfreeze"),
                Deed::Create => format!("POST /1.0/instances?project={ns} {{name: {name}}}"),
                Deed::Delete => format!("DELETE /1.0/instances/{name}?project={ns}"),
                Deed::Snapshot(s) => format!("POST /1.0/instances/{name}/snapshots {{name: {s}}}"),
                Deed::Revert(s) => format!("PUT /1.0/instances/{name} {{restore: {s}}}"),
                Deed::Unsnapshot(s) => format!("DELETE /1.0/instances/{name}/snapshots/{s}"),
            }
        }
        "proxmox" => {
            let post = |path: &str| format!("POST /nodes/{node}/qemu/{key}/{path}");
            match deed {
                Deed::Start => post("status/start"),
                Deed::Shutdown => post("status/shutdown"),
                Deed::Off => post("status/stop"),
                Deed::Reboot => post("status/reboot"),
                Deed::Reset => post("status/reset"),
                Deed::Pause => post("status/suspend"),
                Deed::Resume => post("status/resume"),
                Deed::Create => format!("POST /nodes/{node}/qemu {{name: {name}}}"),
                Deed::Delete => format!("DELETE /nodes/{node}/qemu/{key}?purge=1"),
                Deed::Snapshot(s) => format!("{} {{snapname: {s}}}", post("snapshot")),
                Deed::Revert(s) => post(&format!("snapshot/{s}/rollback")),
                Deed::Unsnapshot(s) => format!("DELETE /nodes/{node}/qemu/{key}/snapshot/{s}"),
            }
        }
        "kubevirt" => {
            let put = |path: &str| {
                format!(
                    "PUT /apis/subresources.kubevirt.io/v1/namespaces/{ns}/virtualmachines/{name}/{path}"
                )
            };
            match deed {
                Deed::Start => put("start"),
                Deed::Shutdown => put("stop"),
                Deed::Off => put("stop {gracePeriod: 0}"),
                Deed::Reboot => put("restart"),
                Deed::Reset => put("restart {gracePeriodSeconds: 0}"),
                Deed::Pause => put("pause"),
                Deed::Resume => put("unpause"),
                Deed::Create => format!("POST virtualmachines {ns}/{name}"),
                Deed::Delete => format!("DELETE virtualmachines {ns}/{name}"),
                Deed::Snapshot(s) => format!("POST virtualmachinesnapshots {ns}/{s}"),
                Deed::Revert(s) => format!("POST virtualmachinerestores {ns}/{s}"),
                Deed::Unsnapshot(s) => format!("DELETE virtualmachinesnapshots {ns}/{s}"),
            }
        }
        other => {
            let (verb, tail) = generic(deed);
            format!("{}{verb}({key}{tail})", prefix(other))
        }
    }
}

fn prefix(kind: &str) -> &'static str {
    match kind {
        "virtualbox" => "VBoxManage ",
        "vsphere" => "VirtualMachine.",
        "xen" => "VM.",
        "nutanix" => "Prism vms.",
        _ => "relay ",
    }
}

fn generic(deed: Deed<'_>) -> (&'static str, String) {
    match deed {
        Deed::Start => ("start", String::new()),
        Deed::Shutdown => ("clean_shutdown", String::new()),
        Deed::Off => ("hard_shutdown", String::new()),
        Deed::Reboot => ("clean_reboot", String::new()),
        Deed::Reset => ("hard_reboot", String::new()),
        Deed::Pause => ("pause", String::new()),
        Deed::Resume => ("unpause", String::new()),
        Deed::Create => ("create", String::new()),
        Deed::Delete => ("destroy", String::new()),
        Deed::Snapshot(s) => ("snapshot", format!(", {s}")),
        Deed::Revert(s) => ("revert", format!(", {s}")),
        Deed::Unsnapshot(s) => ("delete_snapshot", format!(", {s}")),
    }
}
