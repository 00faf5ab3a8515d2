//! Single acts on a guest: in words, and as the impersonated kind's own call.

use std::time::Duration;

use super::dialect::Dialect;
use super::guest::Guest;
use crate::model::{InstanceKind, State, Step, print_duration, shown};

/// One act on one guest; a change is a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Start,
    /// Ask the guest to shut down and wait.
    ShutDown,
    PowerOff,
    /// Power off if it still runs after this long.
    PowerOffAfter(Duration),
    /// Ask the guest to reboot.
    Reboot,
    Reset,
    /// The server stops and starts it in one call.
    Cycle {
        now: bool,
    },
    Pause,
    Resume,
    TakeSnapshot {
        name: String,
        note: Option<String>,
        memory: bool,
    },
    Revert {
        name: String,
    },
    DropSnapshot {
        name: String,
    },
    /// Write the definition of a new guest.
    Define,
    /// Fill disk number `0` from `source`.
    FillDisk {
        n: usize,
        source: String,
    },
    /// Remove the disk with this source.
    RemoveDisk {
        source: String,
    },
    Undefine {
        keep_disks: bool,
    },
}

impl Act {
    /// As a step of a plan.
    pub(crate) fn step(&self, dialect: Dialect, guest: &Guest) -> Step {
        let step = Step::new(self.title(), self.native(dialect, guest));
        let id = guest.id();
        match self {
            Self::Start => step.undo(format!("corral stop {id}")),
            Self::ShutDown | Self::PowerOff => step.undo(format!("corral start {id}")),
            Self::Pause => step.undo(format!("corral resume {id}")),
            Self::Resume => step.undo(format!("corral pause {id}")),
            Self::TakeSnapshot { name, .. } => step.undo(format!(
                "corral snapshot delete {id}@{}",
                crate::model::encode_segment(name)
            )),
            Self::Define => step.undo(format!("corral delete {id}")),
            _ => step,
        }
    }

    /// In words.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Start => "Power on".into(),
            Self::ShutDown => "Ask the guest to shut down".into(),
            Self::PowerOff => "Power off now".into(),
            Self::PowerOffAfter(wait) => {
                format!("Power off if it still runs after {}", print_duration(*wait))
            }
            Self::Reboot => "Ask the guest to reboot".into(),
            Self::Reset => "Reset now".into(),
            Self::Cycle { now: false } => "Shut down and start again".into(),
            Self::Cycle { now: true } => "Power off and start again".into(),
            Self::Pause => "Halt its CPUs".into(),
            Self::Resume => "Let its CPUs go on".into(),
            Self::TakeSnapshot {
                name, memory: true, ..
            } => format!("Take snapshot {name} with memory"),
            Self::TakeSnapshot { name, .. } => format!("Take snapshot {name}"),
            Self::Revert { name } => format!("Go back to snapshot {name}"),
            Self::DropSnapshot { name } => format!("Delete snapshot {name}"),
            Self::Define => "Write the definition".into(),
            Self::FillDisk { source, .. } if source.is_empty() => "Make an empty disk".into(),
            Self::FillDisk { source, .. } => format!("Make the disk from {source}"),
            Self::RemoveDisk { source } => format!("Remove disk {source}"),
            Self::Undefine { keep_disks: true } => "Remove the definition, keep disks".into(),
            Self::Undefine { keep_disks: false } => "Remove the definition".into(),
        }
    }

    /// The impersonated kind's own call.
    pub(crate) fn native(&self, dialect: Dialect, guest: &Guest) -> String {
        let call = match dialect {
            Dialect::Qemu => self.qemu(guest),
            Dialect::Libvirt => self.libvirt(guest),
            Dialect::Incus => self.incus(guest),
            Dialect::Kubevirt => self.kubevirt(guest),
            Dialect::Proxmox => self.proxmox(guest),
            Dialect::Virtualbox => self.virtualbox(guest),
            Dialect::Vsphere => self.vsphere(guest),
            Dialect::Xen => self.xen(guest),
            Dialect::Nutanix => self.nutanix(guest),
            Dialect::Peer => self.peer(guest),
        };
        shown(&call).into_owned()
    }

    /// The state a guest is in after it, where it changes the state.
    pub(crate) fn leads_to(&self) -> Option<State> {
        match self {
            Self::Start | Self::Reboot | Self::Reset | Self::Cycle { .. } | Self::Resume => {
                Some(State::Running)
            }
            Self::ShutDown | Self::PowerOff => Some(State::Stopped),
            Self::Pause => Some(State::Paused),
            _ => None,
        }
    }

    fn qemu(&self, guest: &Guest) -> String {
        let key = guest.id().key();
        let live = guest.state().is_active();
        match self {
            Self::Start => format!("qemu-system-x86_64 -name {key} -daemonize"),
            Self::ShutDown => "QMP system_powerdown".into(),
            Self::PowerOff | Self::PowerOffAfter(_) => "QMP quit".into(),
            Self::Reboot => "guest-agent guest-shutdown mode=reboot".into(),
            Self::Reset | Self::Cycle { .. } => "QMP system_reset".into(),
            Self::Pause => "QMP stop".into(),
            Self::Resume => "QMP cont".into(),
            Self::TakeSnapshot { name, .. } if live => format!("QMP snapshot-save tag={name}"),
            Self::TakeSnapshot { name, .. } => format!("qemu-img snapshot -c {name} disk0.qcow2"),
            Self::Revert { name } => format!("qemu-img snapshot -a {name} disk0.qcow2"),
            Self::DropSnapshot { name } if live => format!("QMP snapshot-delete tag={name}"),
            Self::DropSnapshot { name } => format!("qemu-img snapshot -d {name} disk0.qcow2"),
            Self::Define => format!("write vms/{key}/vm.toml"),
            Self::FillDisk { n, source } if source.is_empty() => {
                format!("qemu-img create -f qcow2 disk{n}.qcow2 {}", size(guest, *n))
            }
            Self::FillDisk { n, source } => {
                format!("qemu-img convert -O qcow2 {source} disk{n}.qcow2")
            }
            Self::RemoveDisk { source } => format!("remove {source}"),
            Self::Undefine { .. } => format!("remove vms/{key}/vm.toml"),
        }
    }

    fn libvirt(&self, guest: &Guest) -> String {
        let key = guest.id().key();
        match self {
            Self::Start => format!("virDomainCreate {key}"),
            Self::ShutDown => format!("virDomainShutdown {key}"),
            Self::PowerOff | Self::PowerOffAfter(_) => format!("virDomainDestroy {key}"),
            Self::Reboot => format!("virDomainReboot {key}"),
            Self::Reset | Self::Cycle { .. } => format!("virDomainReset {key}"),
            Self::Pause => format!("virDomainSuspend {key}"),
            Self::Resume => format!("virDomainResume {key}"),
            Self::TakeSnapshot { name, memory, .. } => format!(
                "virDomainSnapshotCreateXML {key} {name}{}",
                if *memory { "" } else { " DISK_ONLY|ATOMIC" }
            ),
            Self::Revert { name } => format!("virDomainRevertToSnapshot {key} {name}"),
            Self::DropSnapshot { name } => format!("virDomainSnapshotDelete {key} {name}"),
            Self::Define => format!("virDomainDefineXML {key}"),
            Self::FillDisk { n, source } if source.is_empty() => {
                format!("virStorageVolCreateXML default {key}-{n}.qcow2")
            }
            Self::FillDisk { n, source } => {
                format!("virStorageVolCreateXMLFrom default {key}-{n}.qcow2 {source}")
            }
            Self::RemoveDisk { source } => format!("virStorageVolDelete {source}"),
            Self::Undefine { .. } => {
                format!("virDomainUndefineFlags {key} NVRAM|TPM|MANAGED_SAVE|SNAPSHOTS_METADATA")
            }
        }
    }

    fn incus(&self, guest: &Guest) -> String {
        let key = guest.id().key();
        let project = guest.id().namespace().unwrap_or_else(|| "default".into());
        let at = format!("/1.0/instances/{key}");
        let in_project = format!("?project={project}");
        let state = |what: &str| format!("PUT {at}/state{in_project} {{{what}}}");
        match self {
            Self::Start => state("\"action\":\"start\""),
            Self::ShutDown => state("\"action\":\"stop\""),
            Self::PowerOff | Self::PowerOffAfter(_) => state("\"action\":\"stop\",\"force\":true"),
            Self::Reboot => state("\"action\":\"restart\""),
            Self::Reset | Self::Cycle { .. } => state("\"action\":\"restart\",\"force\":true"),
            Self::Pause => state("\"action\":\"freeze\""),
            Self::Resume => state("\"action\":\"unfreeze\""),
            Self::TakeSnapshot { name, memory, .. } => format!(
                "POST {at}/snapshots{in_project} {{\"name\":{name:?},\"stateful\":{memory}}}"
            ),
            Self::Revert { name } => format!("PUT {at}{in_project} {{\"restore\":{name:?}}}"),
            Self::DropSnapshot { name } => format!("DELETE {at}/snapshots/{name}{in_project}"),
            Self::Define => format!("POST /1.0/instances{in_project} {{\"name\":{key:?}}}"),
            Self::FillDisk { source, .. } if source.is_empty() => {
                format!("POST /1.0/storage-pools/default/volumes{in_project}")
            }
            Self::FillDisk { source, .. } => format!("POST /1.0/images {{\"alias\":{source:?}}}"),
            Self::RemoveDisk { source } => {
                format!("DELETE /1.0/storage-pools/{source}{in_project}")
            }
            Self::Undefine { .. } => format!("DELETE {at}{in_project}"),
        }
    }

    fn kubevirt(&self, guest: &Guest) -> String {
        let key = guest.id().key();
        let ns = guest.id().namespace().unwrap_or_else(|| "default".into());
        let sub = format!("/apis/subresources.kubevirt.io/v1/namespaces/{ns}");
        let vm = format!("{sub}/virtualmachines/{key}");
        let vmi = format!("{sub}/virtualmachineinstances/{key}");
        let snap = format!("/apis/snapshot.kubevirt.io/v1beta1/namespaces/{ns}");
        let own = format!("/apis/kubevirt.io/v1/namespaces/{ns}/virtualmachines");
        match self {
            Self::Start => format!("PUT {vm}/start"),
            Self::ShutDown => format!("PUT {vm}/stop"),
            Self::PowerOff | Self::PowerOffAfter(_) => {
                format!("PUT {vm}/stop {{\"gracePeriod\":0}}")
            }
            Self::Reboot | Self::Cycle { now: false } => format!("PUT {vm}/restart"),
            Self::Reset | Self::Cycle { now: true } => {
                format!("PUT {vm}/restart {{\"gracePeriodSeconds\":0}}")
            }
            Self::Pause => format!("PUT {vmi}/pause"),
            Self::Resume => format!("PUT {vmi}/unpause"),
            Self::TakeSnapshot { name, .. } => {
                format!("POST {snap}/virtualmachinesnapshots {name}")
            }
            Self::Revert { name } => format!("POST {snap}/virtualmachinerestores {key} {name}"),
            Self::DropSnapshot { name } => format!("DELETE {snap}/virtualmachinesnapshots/{name}"),
            Self::Define => format!("POST {own} {key}"),
            Self::FillDisk { n, source } => format!(
                "POST /apis/cdi.kubevirt.io/v1beta1/namespaces/{ns}/datavolumes {key}-disk{n} {}",
                if source.is_empty() { "blank" } else { source }
            ),
            Self::RemoveDisk { source } => format!(
                "DELETE /api/v1/namespaces/{ns}/persistentvolumeclaims/{}",
                source.trim_start_matches("pvc/")
            ),
            Self::Undefine { .. } => format!("DELETE {own}/{key}"),
        }
    }

    fn proxmox(&self, guest: &Guest) -> String {
        let key = guest.id().key();
        let node = guest.base.host.as_deref().unwrap_or("pve1");
        let sort = match guest.base.kind {
            InstanceKind::Vm => "qemu",
            InstanceKind::Ct => "lxc",
        };
        let at = format!("/nodes/{node}/{sort}/{key}");
        match self {
            Self::Start => format!("POST {at}/status/start"),
            Self::ShutDown => format!("POST {at}/status/shutdown"),
            Self::PowerOff | Self::PowerOffAfter(_) => format!("POST {at}/status/stop"),
            Self::Reboot | Self::Cycle { .. } => format!("POST {at}/status/reboot"),
            Self::Reset => format!("POST {at}/status/reset"),
            Self::Pause => format!("POST {at}/status/suspend"),
            Self::Resume => format!("POST {at}/status/resume"),
            Self::TakeSnapshot { name, memory, .. } => format!(
                "POST {at}/snapshot snapname={name}{}",
                if *memory { " vmstate=1" } else { "" }
            ),
            Self::Revert { name } => format!("POST {at}/snapshot/{name}/rollback"),
            Self::DropSnapshot { name } => format!("DELETE {at}/snapshot/{name}"),
            Self::Define => format!("POST /nodes/{node}/{sort} vmid={key}"),
            Self::FillDisk { n, source } if source.is_empty() => {
                format!("PUT {at}/config scsi{n}=local-lvm:{}", size(guest, *n))
            }
            Self::FillDisk { n, source } => {
                format!("PUT {at}/config scsi{n}=local-lvm:0,import-from={source}")
            }
            Self::RemoveDisk { source } => {
                format!("DELETE /nodes/{node}/storage/local-lvm/content/{source}")
            }
            Self::Undefine { keep_disks: true } => format!("DELETE {at}?purge=1"),
            Self::Undefine { keep_disks: false } => {
                format!("DELETE {at}?purge=1&destroy-unreferenced-disks=1")
            }
        }
    }

    fn virtualbox(&self, guest: &Guest) -> String {
        let key = guest.id().key();
        let control = |what: &str| format!("VBoxManage controlvm {key} {what}");
        let snapshot = |what: &str, name: &str| format!("VBoxManage snapshot {key} {what} {name}");
        match self {
            Self::Start => format!("VBoxManage startvm {key} --type headless"),
            Self::ShutDown => control("acpipowerbutton"),
            Self::PowerOff | Self::PowerOffAfter(_) => control("poweroff"),
            Self::Reboot => control("reboot"),
            Self::Reset | Self::Cycle { .. } => control("reset"),
            Self::Pause => control("pause"),
            Self::Resume => control("resume"),
            Self::TakeSnapshot { name, .. } => snapshot("take", name),
            Self::Revert { name } => snapshot("restore", name),
            Self::DropSnapshot { name } => snapshot("delete", name),
            Self::Define => format!(
                "VBoxManage createvm --name {} --uuid {key} --register",
                guest.base.name
            ),
            Self::FillDisk { n, source } if source.is_empty() => {
                format!("VBoxManage createmedium disk --size {}", size(guest, *n))
            }
            Self::FillDisk { n, source } => {
                format!("VBoxManage clonemedium disk {source} disk{n}.vdi")
            }
            Self::RemoveDisk { source } => format!("VBoxManage closemedium disk {source} --delete"),
            Self::Undefine { .. } => format!("VBoxManage unregistervm {key}"),
        }
    }

    fn vsphere(&self, guest: &Guest) -> String {
        let key = guest.id().key();
        match self {
            Self::Start => format!("PowerOnVM_Task {key}"),
            Self::ShutDown => format!("ShutdownGuest {key}"),
            Self::PowerOff | Self::PowerOffAfter(_) => format!("PowerOffVM_Task {key}"),
            Self::Reboot => format!("RebootGuest {key}"),
            Self::Reset | Self::Cycle { .. } => format!("ResetVM_Task {key}"),
            Self::Pause => format!("SuspendVM_Task {key}"),
            Self::Resume => format!("PowerOnVM_Task {key} (from suspended)"),
            Self::TakeSnapshot { name, memory, .. } => {
                format!("CreateSnapshotEx_Task {key} name={name} memory={memory}")
            }
            Self::Revert { name } => format!("RevertToSnapshot_Task {key} {name}"),
            Self::DropSnapshot { name } => {
                format!("RemoveSnapshot_Task {key} {name} removeChildren=false")
            }
            Self::Define => format!("CreateVM_Task name={}", guest.base.name),
            Self::FillDisk { n, source } if source.is_empty() => {
                format!("CreateVirtualDisk_Task {key}_{n}.vmdk")
            }
            Self::FillDisk { n, source } => {
                format!("CopyVirtualDisk_Task {source} {key}_{n}.vmdk")
            }
            Self::RemoveDisk { source } => format!("DeleteVirtualDisk_Task {source}"),
            Self::Undefine { keep_disks: true } => format!("UnregisterVM {key}"),
            Self::Undefine { keep_disks: false } => format!("Destroy_Task {key}"),
        }
    }

    fn xen(&self, guest: &Guest) -> String {
        let key = guest.id().key();
        match self {
            Self::Start => format!("VM.start {key}"),
            Self::ShutDown => format!("VM.clean_shutdown {key}"),
            Self::PowerOff | Self::PowerOffAfter(_) => format!("VM.hard_shutdown {key}"),
            Self::Reboot => format!("VM.clean_reboot {key}"),
            Self::Reset | Self::Cycle { .. } => format!("VM.hard_reboot {key}"),
            Self::Pause => format!("VM.pause {key}"),
            Self::Resume => format!("VM.unpause {key}"),
            Self::TakeSnapshot {
                name, memory: true, ..
            } => format!("VM.checkpoint {key} {name}"),
            Self::TakeSnapshot { name, .. } => format!("VM.snapshot {key} {name}"),
            Self::Revert { name } => format!("VM.revert {key} {name}"),
            Self::DropSnapshot { name } => format!("VM.destroy {key} {name}"),
            Self::Define => format!("VM.clone and VM.provision {}", guest.base.name),
            Self::FillDisk { source, .. } if source.is_empty() => format!("VDI.create {key}"),
            Self::FillDisk { source, .. } => format!("VDI.copy {source}"),
            Self::RemoveDisk { source } => format!("VDI.destroy {source}"),
            Self::Undefine { .. } => format!("VM.destroy {key}"),
        }
    }

    fn nutanix(&self, guest: &Guest) -> String {
        let key = guest.id().key();
        let vms = "/api/vmm/v4.0/ahv/config/vms";
        let points = "/api/dataprotection/v4.0/config/recovery-points";
        let act = |what: &str| format!("POST {vms}/{key}/$actions/{what}");
        match self {
            Self::Start => act("power-on"),
            Self::ShutDown => act("guest-shutdown"),
            Self::PowerOff | Self::PowerOffAfter(_) => act("power-off"),
            Self::Reboot => act("guest-reboot"),
            Self::Reset => act("reset"),
            Self::Cycle { .. } => act("power-cycle"),
            Self::Pause | Self::Resume => act("none"),
            Self::TakeSnapshot { name, .. } => format!("POST {points} {name}"),
            Self::Revert { name } => format!("{} {name}", act("revert")),
            Self::DropSnapshot { name } => format!("DELETE {points}/{name}"),
            Self::Define => format!("POST {vms} {}", guest.base.name),
            Self::FillDisk { source, .. } => format!(
                "POST {vms}/{key}/disks {}",
                if source.is_empty() { "empty" } else { source }
            ),
            Self::RemoveDisk { source } => format!("DELETE {vms}/{key}/disks/{source}"),
            Self::Undefine { .. } => format!("DELETE {vms}/{key}"),
        }
    }

    fn peer(&self, guest: &Guest) -> String {
        let there = guest.id().within();
        let act = |verb: &str, more: &str| {
            format!("POST /v1/actions {{\"verb\":{verb:?},\"targets\":[{there:?}]{more}}}")
        };
        match self {
            Self::Start => act("start", ""),
            Self::ShutDown => act("stop", ""),
            Self::PowerOff | Self::PowerOffAfter(_) => act("stop", ",\"force\":true"),
            Self::Reboot => act("restart", ""),
            Self::Reset => act("restart", ",\"force\":true"),
            Self::Cycle { .. } => act("restart", ",\"cold\":true"),
            Self::Pause => act("pause", ""),
            Self::Resume => act("resume", ""),
            Self::TakeSnapshot { name, memory, .. } => act(
                "snapshot create",
                &format!(",\"name\":{name:?},\"with-memory\":{memory}"),
            ),
            Self::Revert { name } => act("snapshot restore", &format!(",\"name\":{name:?}")),
            Self::DropSnapshot { name } => act("snapshot delete", &format!(",\"name\":{name:?}")),
            Self::Define => act("create", ""),
            Self::FillDisk { n, source } => {
                act("create", &format!(",\"disk\":{n},\"source\":{source:?}"))
            }
            Self::RemoveDisk { source } => act("delete", &format!(",\"disk\":{source:?}")),
            Self::Undefine { keep_disks } => {
                act("delete", &format!(",\"keep-disks\":{keep_disks}"))
            }
        }
    }
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
