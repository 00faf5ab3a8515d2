//! What the impersonated kinds can do, with their own reasons.

use crate::model::{Instance, Kind, Operation, State, Support};

/// The cell of one kind; with an instance, what holds for it now.
pub fn support(kind: &Kind, operation: Operation, on: Option<&Instance>) -> Support {
    let general = of_kind(kind.as_str(), operation);
    match on {
        Some(row) if general.is_possible() => of_row(row, operation).unwrap_or(general),
        _ => general,
    }
}

fn of_kind(kind: &str, operation: Operation) -> Support {
    let emulated = |why: &str| Support::Emulated(why.to_owned());
    match (kind, operation) {
        ("kubevirt", Operation::Restart) => {
            emulated("always cold: the guest is stopped and started")
        }
        ("proxmox", Operation::Restart) => emulated("always cold: shutdown and start"),
        ("qemu", Operation::Restart) => emulated("agent reboot, else shutdown and start"),
        (_, Operation::ColdRestart) => emulated("stop, then start"),
        ("nutanix", Operation::Pause | Operation::Resume) => {
            Support::No("AHV has no pause; corral stop is the nearest".to_owned())
        }
        ("kubevirt", Operation::SnapshotMemory) => {
            Support::No("KubeVirt snapshots never hold RAM".to_owned())
        }
        ("nutanix", Operation::SnapshotMemory) => {
            Support::No("recovery points never hold RAM".to_owned())
        }
        ("peer", _) => Support::Relayed,
        _ => Support::Native,
    }
}

fn of_row(row: &Instance, operation: Operation) -> Option<Support> {
    let not_now = |why: &str| Some(Support::Conditional(why.to_owned()));
    if row.state == State::Broken {
        return Some(Support::No("its item cannot be read".to_owned()));
    }
    if row.template && operation == Operation::Start {
        return Some(Support::No(
            "it is a template: corral clone it, or unmark it first".to_owned(),
        ));
    }
    match (operation, row.state) {
        (Operation::Start, State::Paused) => not_now("it is paused: resume it"),
        (
            Operation::Stop
            | Operation::ForceStop
            | Operation::Restart
            | Operation::Reset
            | Operation::Pause,
            State::Stopped,
        ) => not_now("it is not running"),
        (Operation::Resume, State::Running | State::Stopped) => not_now("it is not paused"),
        (Operation::SnapshotMemory, State::Stopped) => {
            not_now("it is not running: there is no RAM to keep")
        }
        _ => None,
    }
}
