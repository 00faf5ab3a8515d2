//! What can be done with a domain.

use crate::model::{Instance, Operation, State, Support};

/// The cell of the matrix.
pub fn cell(operation: Operation) -> Support {
    let when = |why: &str| Support::Conditional(why.to_owned());
    let emulated = |how: &str| Support::Emulated(how.to_owned());
    match operation {
        Operation::Start
        | Operation::Stop
        | Operation::ForceStop
        | Operation::Reset
        | Operation::Pause
        | Operation::Resume
        | Operation::Create
        | Operation::Delete
        | Operation::Note
        | Operation::Edit
        | Operation::Media
        | Operation::NicAdd
        | Operation::NicRemove
        | Operation::SendKey
        | Operation::Screenshot
        | Operation::Metrics
        | Operation::Hosts
        | Operation::Storage
        | Operation::Networks => Support::Native,
        Operation::Restart => {
            emulated("by the guest agent; without one the guest is shut down and started")
        }
        Operation::ColdRestart => emulated("shut down, then start"),
        Operation::Hibernate => when("it uses no device of its host"),
        Operation::Rename => when("it is off, without snapshots"),
        Operation::Clone => when("it is off, or from a snapshot outside of its disks"),
        Operation::LinkedClone => when("the original is off, and stays so"),
        Operation::Template => emulated("a mark of corral's own in the domain's metadata"),
        Operation::Tag => emulated("corral's own element in the domain's metadata"),
        Operation::Autostart => when("it has a definition"),
        Operation::SnapshotCreate => {
            emulated("inside of qcow2 disks while it is off, else new files beside them")
        }
        Operation::SnapshotMemory => when("all writable disks are qcow2"),
        Operation::SnapshotRestore => {
            when("the snapshot is inside of the disks, or libvirt is 9.9 or newer")
        }
        Operation::SnapshotDelete => when("no chain would break"),
        Operation::Resize => when("live within its maximum, else a restart"),
        Operation::DiskAdd => when("of a running domain: virtio or SCSI"),
        Operation::DiskRemove => when("no snapshot holds it, and the guest lets go of it"),
        Operation::DiskGrow => when("it runs, or the disk is in a pool"),
        Operation::DiskMove => when("the disk is in a pool, without snapshots"),
        Operation::Migrate => when("it runs, without snapshots and devices of its host"),
        Operation::Route => when("an address is known: by lease, agent or ARP"),
        Operation::Logs => when("the server is this machine, and lets you read QEMU's log"),
        Operation::Publish => Support::No(
            "guests have addresses of their own: reach them there, or by ssh -L through the host"
                .to_owned(),
        ),
        Operation::Unlock => Support::No("corral keeps no locks of libvirt's domains".to_owned()),
        Operation::Events => Support::No(
            "libvirt records none: those that came while corral watched are in its own record"
                .to_owned(),
        ),
        Operation::Export
        | Operation::Import
        | Operation::Backup
        | Operation::Files
        | Operation::Images
        | Operation::ImagePull => {
            Support::No("not yet: virsh vol-download, virsh dumpxml".to_owned())
        }
    }
}

/// The cell, and what the domain's state says to it.
pub fn on(operation: Operation, vm: &Instance) -> Support {
    let id = &vm.id;
    let cell = cell(operation);
    if !cell.is_possible() {
        return cell;
    }
    let mends = matches!(operation, Operation::Edit | Operation::Delete);
    if vm.state == State::Broken && !mends && !operation.reads() {
        return Support::Conditional(format!(
            "its definition cannot be read: {}",
            vm.reason.as_deref().unwrap_or("no reason known")
        ));
    }
    let active = vm.state.is_active() || vm.state == State::Unknown;
    let stopped = || Support::Conditional(format!("{id} is off; start it first"));
    match operation {
        Operation::Start if vm.template => {
            Support::Conditional(format!("{id} is a template; clone it"))
        }
        Operation::Start if vm.state == State::Paused && !sleeps(vm) => {
            Support::Conditional(format!("{id} is paused; resume it"))
        }
        Operation::Stop if vm.state == State::Paused => Support::Conditional(format!(
            "{id} is paused and cannot react; resume it, or force it off"
        )),
        Operation::Pause
        | Operation::Resume
        | Operation::Reset
        | Operation::Hibernate
        | Operation::SnapshotMemory
        | Operation::Metrics
        | Operation::SendKey
        | Operation::Screenshot
        | Operation::Route
        | Operation::Migrate
        | Operation::Files
            if !active =>
        {
            stopped()
        }
        Operation::Rename | Operation::LinkedClone if vm.state.is_active() => {
            Support::Conditional(format!("{id} runs; stop it first"))
        }
        Operation::Template if !vm.template && vm.state.is_active() => {
            Support::Conditional(format!("{id} runs; stop it first"))
        }
        Operation::Delete if vm.state.is_active() => {
            Support::Conditional(format!("{id} runs; stop it first, or add --force"))
        }
        _ => match cell {
            // The condition is looked at by `prepare`; the state does not speak against it.
            Support::Conditional(_) => Support::Native,
            other => other,
        },
    }
}

fn sleeps(vm: &Instance) -> bool {
    vm.native_state.as_deref() == Some("pmsuspended")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::ctx::KIND;
    use super::*;
    use crate::model::{InstanceId, InstanceKind};

    #[test]
    fn every_no_has_a_reason_and_states_speak() {
        let id = InstanceId::new("hv", None, "web");
        for state in State::ALL {
            let at = Timestamp::UNIX_EPOCH;
            let vm = Instance::new(id.clone(), KIND, InstanceKind::Vm, state, at);
            for operation in Operation::ALL {
                let support = on(operation, &vm);
                assert!(support.is_ready() || support.reason().is_some_and(|r| !r.is_empty()));
            }
        }
        let at = Timestamp::UNIX_EPOCH;
        let mut vm = Instance::new(id, KIND, InstanceKind::Vm, State::Paused, at);
        assert!(
            on(Operation::Start, &vm)
                .reason()
                .is_some_and(|r| r.contains("resume it"))
        );
        vm.native_state = Some("pmsuspended".to_owned());
        assert!(on(Operation::Start, &vm).is_ready());
    }
}
