//! What can be done with an instance of this context.

use super::ctx::Ctx;
use super::json::{entry, is_true};
use super::seen::Seen;
use crate::model::{Instance, InstanceKind, Operation, State, Support};

/// The key that lets a VM's RAM be kept.
const STATEFUL: &str = "migration.stateful";

/// The cell of the matrix.
pub fn cell(operation: Operation) -> Support {
    use Operation as O;
    let emulated = |how: &str| Support::Emulated(how.to_owned());
    let when = |condition: &str| Support::Conditional(condition.to_owned());
    let no = |why: &str| Support::No(why.to_owned());
    match operation {
        O::Start
        | O::Stop
        | O::ForceStop
        | O::Pause
        | O::Resume
        | O::Create
        | O::Delete
        | O::Clone
        | O::Note
        | O::Autostart
        | O::SnapshotCreate
        | O::SnapshotRestore
        | O::SnapshotDelete
        | O::Resize
        | O::DiskAdd
        | O::DiskRemove
        | O::DiskGrow
        | O::NicAdd
        | O::NicRemove
        | O::Export
        | O::Import
        | O::Backup
        | O::Edit
        | O::Metrics
        | O::Events
        | O::Logs
        | O::Hosts
        | O::Storage
        | O::Networks
        | O::Images
        | O::ImagePull => Support::Native,
        O::Restart | O::ColdRestart => emulated("shut down, then start"),
        O::Reset => emulated("restart with force: power off and on"),
        O::Template => emulated("a mark of corral's own in user.corral.template"),
        O::Tag => emulated("user.corral.tags"),
        O::Rename | O::DiskMove => when("it is off"),
        O::Hibernate | O::SnapshotMemory => when("VMs with migration.stateful"),
        O::LinkedClone => when(
            "never: every clone here shares blocks by itself where the pool can, and stands alone",
        ),
        O::Media => when("VMs; a container has no drive"),
        O::Publish => when("of a VM: it has a static address, and nat"),
        O::Files => when("of a VM: its agent runs"),
        O::Route => when("it has an address that is reached from here, or publishes the port"),
        O::Screenshot => when("VMs, on Incus 6.8 and later (instance_console_screenshot)"),
        O::SendKey => {
            no("the API takes no keys; a SPICE viewer does: incus console NAME --type=vga")
        }
        O::Migrate => Support::No(
            "not yet: incus move NAME --target MEMBER, or incus move NAME REMOTE:".to_owned(),
        ),
        O::Unlock => {
            no("there are no locks: an operation ends or is cancelled (incus operation delete)")
        }
    }
}

/// The cell, and what the state of the instance and the server say to it.
pub fn on(ctx: &Ctx, operation: Operation, row: &Instance) -> Support {
    use Operation as O;
    let cell = cell(operation);
    if !cell.is_possible() {
        return cell;
    }
    let id = &row.id;
    let not_now = |why: String| Support::Conditional(why);
    let looks = operation.reads() || matches!(operation, O::Edit | O::Delete);
    if row.state == State::Broken && !looks {
        let why = row.reason.as_deref().unwrap_or("no reason known");
        return not_now(format!("it cannot be read: {why}"));
    }
    let active = row.state.is_active();
    let container = row.kind == InstanceKind::Ct;
    match operation {
        O::Start if row.template => return not_now(format!("{id} is a template; clone it")),
        O::Start if row.state == State::Paused => {
            return not_now(format!("{id} is paused; resume it"));
        }
        O::Stop if row.state == State::Paused => {
            return not_now(format!(
                "{id} is paused and cannot react; resume it, or force it off"
            ));
        }
        O::Hibernate | O::SnapshotMemory if container => {
            return not_now("a container's memory is not kept".to_owned());
        }
        O::Media if container => return not_now("a container has no drive".to_owned()),
        O::Screenshot if container => return not_now("a container has no screen".to_owned()),
        O::Screenshot
            if ctx
                .known()
                .is_some_and(|server| !server.can("instance_console_screenshot")) =>
        {
            return not_now("its server is older than Incus 6.8 and takes no pictures".to_owned());
        }
        O::Pause
        | O::Resume
        | O::Reset
        | O::Hibernate
        | O::SnapshotMemory
        | O::Metrics
        | O::Screenshot
        | O::Route
            if !active && row.state != State::Unknown =>
        {
            return not_now(format!("{id} is off; start it first"));
        }
        O::Files if !container && row.agent == Some(false) => {
            return not_now(format!("the agent of {id} does not run"));
        }
        O::Rename | O::Template | O::DiskMove
            if active && !(operation == O::Template && row.template) =>
        {
            return not_now(format!("{id} runs; stop it first"));
        }
        O::Delete if active => {
            return not_now(format!("{id} runs; stop it first, or add --force"));
        }
        _ => {}
    }
    match cell {
        cell if operation == O::LinkedClone => cell,
        // The condition is looked at by `prepare`; the state does not speak against it.
        Support::Conditional(_) => Support::Native,
        other => other,
    }
}

/// Whether the RAM of this one can be kept.
pub fn memory(seen: &Seen) -> Support {
    if seen.row.kind == InstanceKind::Ct {
        return Support::Conditional(format!("{}: a container's memory is not kept", seen.id));
    }
    if is_true(entry(seen.all_config(), STATEFUL)) {
        return Support::Native;
    }
    Support::Conditional(format!(
        "{} was not made for it: {STATEFUL} is not set",
        seen.id
    ))
}

/// What helps where it cannot.
pub fn memory_remedy(seen: &Seen) -> String {
    let id = &seen.id;
    match seen.row.kind {
        InstanceKind::Ct => format!("Stop it: corral stop {id}"),
        InstanceKind::Vm => {
            format!("Stop it, set {STATEFUL}: \"true\" with corral edit {id}, and start it")
        }
    }
}
