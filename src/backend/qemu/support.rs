//! What can be done with a VM of this context.

use crate::model::{Instance, Operation, State, Support};

/// The cell of the matrix.
pub fn cell(operation: Operation) -> Support {
    match operation {
        Operation::Start
        | Operation::Stop
        | Operation::ForceStop
        | Operation::Reset
        | Operation::Resize
        | Operation::NicAdd
        | Operation::NicRemove
        | Operation::Pause
        | Operation::Resume
        | Operation::Create
        | Operation::DiskGrow
        | Operation::Delete
        | Operation::Rename
        | Operation::Clone
        | Operation::Edit
        | Operation::Unlock
        | Operation::Tag
        | Operation::Note
        | Operation::Template
        | Operation::Export
        | Operation::Import
        | Operation::Backup
        | Operation::Metrics
        | Operation::Events
        | Operation::SendKey
        | Operation::Screenshot
        | Operation::Logs
        | Operation::Hosts
        | Operation::Storage
        | Operation::Networks
        | Operation::Images
        | Operation::ImagePull => Support::Native,
        Operation::Restart => Support::Emulated(
            "by the guest agent; without one the guest is shut down and started".to_owned(),
        ),
        Operation::LinkedClone => {
            Support::Conditional("the original is off, and stays so".to_owned())
        }
        Operation::Autostart => {
            Support::Emulated("by a systemd user unit that doctor offers".to_owned())
        }
        Operation::ColdRestart => Support::Emulated("shut down, then start".to_owned()),
        Operation::Hibernate
        | Operation::SnapshotCreate
        | Operation::SnapshotMemory
        | Operation::SnapshotRestore
        | Operation::SnapshotDelete => {
            Support::Conditional("all writable disks are qcow2".to_owned())
        }
        Operation::Migrate => {
            Support::No("local QEMU has one host: export it, and import it elsewhere".to_owned())
        }
        Operation::Publish => {
            Support::Conditional("a network interface is on the network \"user\"".to_owned())
        }
        Operation::Files => Support::Conditional("its guest agent answers".to_owned()),
        Operation::DiskAdd => Support::Conditional(
            "of a running VM: virtio with a root port free, or SCSI with its controller".to_owned(),
        ),
        Operation::DiskRemove => Support::Conditional(
            "of a running VM: what was added to it, once its guest lets go".to_owned(),
        ),
        Operation::DiskMove => Support::Conditional(
            "of a running VM: a writable disk without snapshots inside".to_owned(),
        ),
        Operation::Media => Support::Conditional("it has a CD-ROM drive".to_owned()),
        Operation::Route => Support::Conditional("the port is forwarded".to_owned()),
    }
}

/// The cell, and what the VM's state says to it.
pub fn on(operation: Operation, vm: &Instance) -> Support {
    let id = &vm.id;
    // To mend a definition, and what was left half-done, is what these are for.
    let mends = matches!(operation, Operation::Edit | Operation::Unlock);
    if vm.state == State::Broken && !mends {
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
        Operation::Start if vm.state == State::Paused => {
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
        Operation::Route if vm.ports.is_some() && vm.way_in().is_none() => {
            Support::Conditional(format!("{id} publishes no port"))
        }
        _ => match cell(operation) {
            // The condition is looked at by `prepare`; the state does not speak against it.
            Support::Conditional(_) => Support::Native,
            other => other,
        },
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::ctx::KIND;
    use super::*;
    use crate::model::{InstanceId, InstanceKind};

    #[test]
    fn every_no_has_a_reason_and_states_speak() {
        let id = InstanceId::new("local", None, "web");
        for state in State::ALL {
            let vm = Instance::new(
                id.clone(),
                KIND,
                InstanceKind::Vm,
                state,
                Timestamp::UNIX_EPOCH,
            );
            for operation in Operation::ALL {
                let support = on(operation, &vm);
                assert!(support.is_ready() || support.reason().is_some_and(|r| !r.is_empty()));
            }
        }
        let paused = Instance::new(
            id,
            KIND,
            InstanceKind::Vm,
            State::Paused,
            Timestamp::UNIX_EPOCH,
        );
        let start = on(Operation::Start, &paused);
        assert!(start.reason().is_some_and(|r| r.contains("resume it")));
    }
}
