//! What each impersonated kind can do, and what an instance's state forbids just now.

use super::dialect::Dialect;
use crate::model::{Instance, InstanceKind, Operation, State, Support};

impl Dialect {
    /// The static cell.
    pub(crate) fn cell(self, operation: Operation) -> Support {
        if let Some(why) = self.lacks(operation.family()) {
            return Support::No(why.to_owned());
        }
        if self == Self::Peer {
            return Support::Relayed;
        }
        if let Some(how) = self.emulates(operation) {
            return Support::Emulated(how.to_owned());
        }
        match self.condition(operation) {
            Some(condition) => Support::Conditional(condition.to_owned()),
            None => Support::Native,
        }
    }

    /// By what other means than a call of its own.
    #[allow(clippy::match_same_arms, reason = "one line per kind and operation")]
    fn emulates(self, operation: Operation) -> Option<&'static str> {
        use Operation as O;
        Some(match (self, operation) {
            (Self::Qemu, O::Restart) => "reboot by the guest agent, else shutdown and start",
            (Self::Kubevirt, O::Restart) => "always cold: the VM is shut down and started anew",
            (Self::Kubevirt, O::Reset) => {
                "restart with gracePeriodSeconds 0: a new start, not a reset"
            }
            (Self::Proxmox, O::Restart) => {
                "always cold: shutdown and start, pending settings apply"
            }
            (Self::Incus, O::Reset) => "restart with force: stop and start",
            (Self::Vsphere, O::Pause) => {
                "vSphere suspends to disk and frees the memory: SuspendVM_Task"
            }
            (Self::Vsphere, O::Resume) => "power on from the suspended state",
            (Self::Qemu | Self::Virtualbox, O::SnapshotCreate) => {
                "a running VM's snapshot always holds its memory"
            }
            (Self::Proxmox | Self::Kubevirt, O::ColdRestart) => return None,
            (_, O::ColdRestart) => "stop, then start",
            (Self::Kubevirt, O::Route) => "by the API server's port-forward",
            (Self::Qemu, O::Hibernate) => "a snapshot with memory",
            (Self::Libvirt, O::Template) => "a mark of corral's own in the domain's metadata",
            (Self::Incus, O::Template) => "a mark of corral's own in user.corral.template",
            (Self::Kubevirt, O::Template) => "a label of corral's own",
            (Self::Virtualbox, O::Template) => "a mark of corral's own in the extra data",
            (Self::Libvirt, O::Tag) => "corral's own element in the domain's metadata",
            (Self::Incus, O::Tag) => "user.corral.tags",
            (Self::Virtualbox, O::Tag) => "the extra data",
            (Self::Kubevirt, O::Note) => "an annotation",
            (Self::Kubevirt, O::Autostart) => "runStrategy Always or Manual",
            (Self::Xen, O::Autostart) => "auto_poweron of the VM and of its pool",
            (Self::Kubevirt, O::Publish) => "a Service of type NodePort",
            (Self::Kubevirt, O::NicAdd | O::NicRemove) => {
                "hotplug by a live migration of the VM to another node"
            }
            (Self::Libvirt, O::Import | O::Export) => "volumes as streams, and the domain's XML",
            (Self::Libvirt | Self::Qemu, O::Backup) => "export into dated folders",
            (Self::Kubevirt, O::Backup) => "VirtualMachineExport into dated folders",
            (Self::Virtualbox | Self::Vsphere | Self::Xen | Self::Nutanix, O::Backup) => {
                "export into dated folders"
            }
            (Self::Incus, O::SendKey | O::Screenshot) => "by SPICE, as a viewer does it",
            (Self::Kubevirt | Self::Xen | Self::Nutanix, O::SendKey | O::Screenshot)
            | (Self::Proxmox, O::Screenshot) => "by VNC, as a viewer does it",
            (Self::Libvirt, O::ImagePull) => "fetched by corral into a volume",
            (Self::Kubevirt, O::ImagePull) => "a DataVolume that imports it",
            (_, _) => return None,
        })
    }

    /// What has to hold.
    #[allow(clippy::match_same_arms, reason = "one line per kind and operation")]
    fn condition(self, operation: Operation) -> Option<&'static str> {
        use Operation as O;
        Some(match (self, operation) {
            (Self::Proxmox, O::Reset | O::Pause | O::Resume | O::SnapshotMemory) => {
                "VMs; LXC has no such thing"
            }
            (Self::Proxmox, O::Hibernate | O::Media | O::SendKey) => "VMs; LXC has no such thing",
            (Self::Incus, O::SnapshotMemory | O::Hibernate) => "VMs with migration.stateful",
            (Self::Incus, O::Media) => "VMs; a container has no drive",
            (Self::Kubevirt | Self::Nutanix, O::SnapshotMemory) => {
                "never while it runs: snapshots here hold no memory"
            }
            (Self::Nutanix, O::Stop | O::Restart) => "ACPI or guest tools in the VM",
            (Self::Vsphere, O::Stop | O::Restart) => "VMware Tools run in the VM",
            (Self::Qemu | Self::Virtualbox | Self::Libvirt, O::Rename) => "it is off",
            (Self::Incus, O::Rename) => "it is off",
            (Self::Qemu | Self::Libvirt | Self::Xen, O::Clone | O::LinkedClone) => {
                "it is off, or from a snapshot"
            }
            (Self::Virtualbox, O::Clone) => "it is off, or from a snapshot",
            (Self::Virtualbox | Self::Vsphere, O::LinkedClone) => "from a snapshot",
            (Self::Proxmox, O::LinkedClone) => "from a template",
            (Self::Kubevirt | Self::Nutanix | Self::Incus, O::LinkedClone) => {
                "never: every clone here shares blocks by itself and stands alone"
            }
            (_, O::Template) => "it is off",
            (Self::Qemu | Self::Kubevirt, O::Resize) => "live within its headroom, else a restart",
            (Self::Libvirt, O::Resize) => "live within its maximum, else a restart",
            (Self::Virtualbox, O::Resize) => "it is off, or with a restart",
            (Self::Vsphere | Self::Nutanix, O::Resize) => "live upwards, else a restart",
            (Self::Xen, O::Resize) => "live within its dynamic range, else a restart",
            (Self::Virtualbox | Self::Xen, O::DiskGrow) => "it is off",
            (Self::Virtualbox, O::NicAdd | O::NicRemove) => "it is off",
            (Self::Virtualbox | Self::Incus, O::DiskMove) => "it is off",
            (Self::Virtualbox | Self::Xen | Self::Vsphere, O::Export) => "it is off",
            (Self::Qemu | Self::Libvirt, O::Export | O::Backup) => "it is off, or from a snapshot",
            (Self::Kubevirt, O::Export) => "it is off, or from a snapshot",
            (Self::Proxmox, O::Unlock) => "root@pam alone",
            (Self::Qemu, O::Unlock) => "its holder is dead",
            (Self::Qemu | Self::Libvirt, O::Files) => "the guest agent answers, else SFTP",
            (Self::Kubevirt | Self::Proxmox | Self::Xen | Self::Nutanix, O::Files) => {
                "SFTP: its SSH can be reached"
            }
            (Self::Virtualbox, O::Files) => "Guest Additions and a login inside",
            (Self::Vsphere, O::Files) => "VMware Tools and a login inside",
            (Self::Proxmox, O::Logs) => "the log of its tasks; the guest's own: no call",
            (_, _) => return None,
        })
    }

    /// The cell for `on`, as it is now.
    pub(crate) fn support(self, operation: Operation, on: Option<&Instance>) -> Support {
        let cell = self.cell(operation);
        let (Some(on), true) = (on, cell.is_possible()) else {
            return cell;
        };
        if let Some(why) = self.not_now(operation, on) {
            return Support::Conditional(why);
        }
        // A condition of the static cell that this instance meets is no condition any more.
        match cell {
            Support::Conditional(_) => Support::Native,
            other => other,
        }
    }

    fn not_now(self, operation: Operation, on: &Instance) -> Option<String> {
        use Operation as O;
        let state = on.state;
        let changes = !operation.reads()
            && !matches!(operation, O::Create | O::Import | O::ImagePull | O::Unlock);
        if state == State::Broken && changes && operation != O::Delete {
            return Some("its definition cannot be read".into());
        }
        if changes && let Some(lock) = &on.locked {
            return Some(format!("it is locked: {lock}"));
        }
        if changes
            && matches!(
                state,
                State::Provisioning | State::Migrating | State::Unknown
            )
        {
            return Some(format!("it is {state}"));
        }
        self.power_not_now(operation, on)
            .or_else(|| self.rest_not_now(operation, on))
            .map(str::to_owned)
    }

    fn power_not_now(self, operation: Operation, on: &Instance) -> Option<&'static str> {
        use Operation as O;
        let state = on.state;
        let container = on.kind == InstanceKind::Ct;
        let no_agent = self == Self::Vsphere && on.agent == Some(false);
        Some(match operation {
            O::Start if on.template => "a template is not started; clone it",
            O::Start if state == State::Paused => "it is paused: resume it",
            O::Start if state.is_active() => "it is on already",
            O::Stop | O::ForceStop if !state.is_active() => "it is off already",
            O::Stop | O::Restart if state == State::Paused => "it is paused: resume it first",
            O::Stop | O::Restart if no_agent => "VMware Tools do not run in it",
            O::Restart | O::Reset | O::ColdRestart if !state.is_active() => "it is off: start it",
            O::Reset | O::Pause | O::Resume | O::SnapshotMemory
                if self == Self::Proxmox && container =>
            {
                "LXC has no such thing"
            }
            O::SnapshotMemory if self == Self::Incus && container => {
                "a container's memory is not kept"
            }
            O::SnapshotMemory if !state.is_active() => "it is off: there is no memory to keep",
            O::SnapshotMemory if matches!(self, Self::Kubevirt | Self::Nutanix) => {
                "snapshots here hold no memory"
            }
            O::Pause if state == State::Paused => "it is paused already",
            O::Pause if state != State::Running => "it does not run",
            O::Resume if state != State::Paused => "it is not paused",
            O::Hibernate if container => "a container's memory is not kept",
            O::Hibernate if state == State::Hibernated => "it is hibernated already",
            O::Hibernate if !matches!(state, State::Running | State::Paused) => "it does not run",
            _ => return None,
        })
    }

    #[allow(clippy::match_same_arms, reason = "one line per operation")]
    fn rest_not_now(self, operation: Operation, on: &Instance) -> Option<&'static str> {
        use Operation as O;
        let state = on.state;
        let up = state.is_active();
        let container = on.kind == InstanceKind::Ct;
        Some(match operation {
            O::Delete if up => "it runs: stop it first, or add --force",
            O::SnapshotRestore if up => "it runs: stop it first, or add --stop",
            O::Route if !matches!(state, State::Running) => "it does not run",
            O::Metrics if !up => "it does not run",
            O::Rename | O::Template if up && self.needs_off(operation) => "it runs: stop it first",
            O::NicAdd | O::NicRemove | O::DiskGrow | O::DiskMove
                if up && self.needs_off(operation) =>
            {
                "it runs: stop it first"
            }
            O::Clone | O::Export if up && self.needs_off(operation) => {
                "it runs: stop it first, or take a snapshot of it"
            }
            O::Backup if up && self.needs_off(operation) => "it runs: stop it first",
            O::LinkedClone if matches!(self, Self::Incus | Self::Kubevirt | Self::Nutanix) => {
                "every clone here shares blocks by itself and stands alone"
            }
            O::LinkedClone if self == Self::Proxmox && !on.template => "it is no template",
            O::Media if container => "a container has no drive",
            O::SendKey | O::Screenshot if container => "a container has no screen",
            O::SendKey | O::Screenshot if state != State::Running => "it does not run",
            O::Files if state != State::Running => "it does not run",
            O::Unlock if on.locked.is_none() => "it is not locked",
            _ => return None,
        })
    }

    /// Only a stopped instance takes it.
    pub(crate) fn needs_off(self, operation: Operation) -> bool {
        use Operation as O;
        match operation {
            O::Template => true,
            O::Rename => matches!(
                self,
                Self::Qemu | Self::Libvirt | Self::Incus | Self::Virtualbox
            ),
            O::NicAdd | O::NicRemove => self == Self::Virtualbox,
            O::DiskGrow => matches!(self, Self::Virtualbox | Self::Xen),
            O::DiskMove => matches!(self, Self::Virtualbox | Self::Incus),
            O::Clone | O::LinkedClone => matches!(
                self,
                Self::Qemu | Self::Libvirt | Self::Virtualbox | Self::Xen
            ),
            O::Export | O::Backup => matches!(
                self,
                Self::Qemu
                    | Self::Libvirt
                    | Self::Kubevirt
                    | Self::Virtualbox
                    | Self::Vsphere
                    | Self::Xen
            ),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_is_said_exactly_where_the_family_is_absent() {
        for dialect in Dialect::ALL {
            for operation in Operation::ALL {
                let cell = dialect.support(operation, None);
                let absent = !dialect.has(operation.family());
                assert_eq!(!cell.is_possible(), absent, "{dialect:?} {operation}");
                assert!(cell.reason().is_none_or(|why| why.len() > 3));
            }
        }
    }

    #[test]
    fn what_needs_a_stopped_instance_says_so() {
        for dialect in Dialect::ALL {
            for operation in Operation::ALL {
                let cell = dialect.cell(operation);
                if dialect.needs_off(operation) && dialect != Dialect::Peer && cell.is_possible() {
                    assert!(
                        cell.reason().is_some(),
                        "{dialect:?} {operation}: nothing said"
                    );
                }
            }
        }
    }
}
