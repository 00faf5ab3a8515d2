//! What each impersonated kind can do, and what an instance's state forbids just now.

use super::dialect::Dialect;
use crate::model::{Family, Instance, InstanceKind, Operation, State, Support};

impl Dialect {
    /// The static cell.
    pub(crate) fn cell(self, operation: Operation) -> Support {
        use Operation as O;
        let emulated = |how: &str| Support::Emulated(how.to_owned());
        let when = |condition: &str| Support::Conditional(condition.to_owned());
        if self == Self::Nutanix && matches!(operation, O::Pause | O::Resume) {
            return Support::No("AHV has no pause; corral stop is the nearest".to_owned());
        }
        if !self.has(operation.family()) {
            return Support::No("the simulation does not do that".to_owned());
        }
        match (self, operation) {
            (Self::Peer, _) => Support::Relayed,
            (Self::Qemu, O::Restart) => {
                emulated("reboot by the guest agent, else shutdown and start")
            }
            (Self::Kubevirt, O::Restart) => {
                emulated("always cold: the VM is shut down and started anew")
            }
            (Self::Kubevirt, O::Reset) => {
                emulated("restart with gracePeriodSeconds 0: a new start, not a reset")
            }
            (Self::Proxmox, O::Restart) => {
                emulated("always cold: shutdown and start, pending settings apply")
            }
            (Self::Proxmox, O::Reset | O::Pause | O::Resume | O::SnapshotMemory) => {
                when("VMs; LXC has no such thing")
            }
            (Self::Incus, O::Reset) => emulated("restart with force: stop and start"),
            (Self::Incus, O::SnapshotMemory) => when("VMs with migration.stateful"),
            (Self::Vsphere, O::Pause) => {
                emulated("vSphere suspends to disk and frees the memory: SuspendVM_Task")
            }
            (Self::Vsphere, O::Resume) => emulated("power on from the suspended state"),
            (Self::Kubevirt | Self::Nutanix, O::SnapshotMemory) => {
                when("never while it runs: snapshots here hold no memory")
            }
            (Self::Qemu | Self::Virtualbox, O::SnapshotCreate) => {
                emulated("a running VM's snapshot always holds its memory")
            }
            (Self::Proxmox | Self::Kubevirt, O::ColdRestart) => Support::Native,
            (_, O::ColdRestart) => emulated("stop, then start"),
            (Self::Kubevirt, O::Route) => emulated("by the API server's port-forward"),
            (Self::Nutanix, O::Stop | O::Restart) => when("ACPI or guest tools in the VM"),
            (Self::Vsphere, O::Stop | O::Restart) => when("VMware Tools run in the VM"),
            _ => Support::Native,
        }
    }

    /// The families that the simulation has.
    fn has(self, family: Family) -> bool {
        match family {
            Family::Power
            | Family::Create
            | Family::Remove
            | Family::Snapshots
            | Family::Routes
            | Family::Metrics
            | Family::Events => true,
            Family::Pause => self.has_pause(),
            _ => false,
        }
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
        let changes = !operation.reads() && operation != O::Create;
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
        let container = on.kind == InstanceKind::Ct;
        let no_agent = self == Self::Vsphere && on.agent == Some(false);
        let why = match operation {
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
            O::Delete if state.is_active() => "it runs: stop it first, or add --force",
            O::SnapshotRestore if state.is_active() => "it runs: stop it first, or add --stop",
            O::Route if !matches!(state, State::Running) => "it does not run",
            O::Metrics if !state.is_active() => "it does not run",
            _ => return None,
        };
        Some(why.to_owned())
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
}
