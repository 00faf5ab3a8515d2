//! What a start, stop or restart would do, and why it may not.

use std::time::Duration;

use super::super::change::Seen;
use super::super::ctx::Ctx;
use super::super::{hibernate, op, ports, process, store};
use crate::backend::contract::Prepared;
use crate::model::{Error, Result, State, Step, print_duration};

pub(super) async fn start_plan(ctx: &Ctx, seen: &Seen, discard: bool) -> Result<Prepared> {
    let (id, token) = (&seen.id, seen.token());
    let refuse =
        |message: String, remedy: String| Ok(Prepared::refused(&token, message, Some(remedy)));
    match seen.live.state {
        State::Running => return Ok(Prepared::unchanged(token, format!("{id} runs already"))),
        State::Paused => {
            return refuse(
                format!("{id} is paused, not stopped"),
                format!("Resume it: corral resume {id}"),
            );
        }
        _ => {}
    }
    if let Some(refused) = seen.unclear(&token) {
        return Ok(refused);
    }
    if seen.live.is_active() {
        return refuse(
            format!("{id} is {}", seen.live.state),
            format!("Power it off first: corral stop --force {id}"),
        );
    }
    if let Some(why) = unready(ctx, seen)? {
        return Ok(Prepared::failed(token, &why));
    }
    let outlook = ports::outlook(ctx, &seen.vm);
    if let Some(why) = &outlook.blocked {
        return Ok(Prepared::failed(token, why));
    }
    let (accel, cmd) = match process::accel_for(ctx, &seen.vm).await {
        Ok(accel) => match process::command(ctx, &seen.vm, &accel) {
            Ok(cmd) => (accel, cmd),
            Err(error) => return Ok(Prepared::refused(token, error.message, error.remedy)),
        },
        Err(error) => return Ok(Prepared::refused(token, error.message, error.remedy)),
    };
    let mut prepared = Prepared::new(
        token,
        vec![Step::new(format!("Start {id}"), cmd.shown()).undo(format!("corral stop {id}"))],
    );
    if !accel.kvm {
        prepared
            .notes
            .push(format!("runs without KVM, slowly: {}", accel.why));
    }
    prepared.notes.extend(outlook.moves);
    if seen.live.state == State::Hibernated {
        hibernate::wake_plan(ctx, seen, accel.word(), discard, &mut prepared).await?;
    }
    prepared.notes.extend(accel.hintless);
    Ok(prepared)
}

/// Why a start would fail or do harm, as far as files tell.
fn unready(ctx: &Ctx, seen: &Seen) -> Result<Option<Error>> {
    let (id, vm) = (&seen.id, &seen.vm);
    if vm.template {
        return Ok(Some(
            Error::refused(format!("{id} is a template and is not started")).remedy(format!(
                "Clone it and start that: corral clone {id} --name NAME --start"
            )),
        ));
    }
    if let Some(why) = ctx.store.held_by_clones(vm, id)? {
        return Ok(Some(why));
    }
    if let Err(error) = op::unfinished(&ctx.store.dir(&vm.name)?) {
        return Ok(Some(error));
    }
    Ok(store::lost(vm))
}

fn off_already(seen: &Seen) -> Option<Prepared> {
    let off = !seen.live.is_active() && seen.live.state != State::Unknown;
    off.then(|| Prepared::unchanged(seen.token(), format!("{} is off already", seen.id)))
}

pub(super) fn force_plan(seen: &Seen) -> Prepared {
    if let Some(refused) = seen.unclear(&seen.token())
        && !seen.live.is_active()
    {
        return refused;
    }
    off_already(seen).unwrap_or_else(|| {
        let mut plan = Prepared::new(
            seen.token(),
            vec![Step::new(format!("Power off {}", seen.id), "QMP quit")],
        );
        plan.losses
            .push("what the guest has not written to its disks".to_owned());
        plan
    })
}

pub(super) fn stop_plan(seen: &Seen, force_after: Option<Duration>) -> Prepared {
    if let Some(done) = off_already(seen) {
        return done;
    }
    let token = seen.token();
    if let Some(refused) = seen.unclear(&token) {
        return refused;
    }
    if seen.live.state == State::Crashed {
        let why = seen.live.reason.as_deref().unwrap_or("no reason known");
        return Prepared::refused(
            token,
            format!(
                "{} has crashed ({why}): its guest cannot shut down",
                seen.id
            ),
            Some(format!("Power it off: corral stop --force {}", seen.id)),
        );
    }
    if seen.live.state == State::Paused {
        let why = seen.live.reason.as_deref().unwrap_or("by the user");
        let id = &seen.id;
        return Prepared::refused(
            token,
            format!("{id} is paused ({why}): its guest cannot shut down"),
            Some(format!(
                "Resume it first: corral resume {id}. Or power it off: corral stop --force {id}"
            )),
        );
    }
    let mut steps = vec![Step::new(
        format!("Ask {} to shut down, and wait", seen.id),
        "QMP system_powerdown",
    )];
    if let Some(after) = force_after {
        steps.push(Step::new(
            format!("Power off if it still runs after {}", print_duration(after)),
            "QMP quit",
        ));
    }
    let mut prepared = Prepared::new(token, steps);
    if force_after.is_none() {
        let note = "Never kills: a guest that does not react runs on";
        prepared.notes.push(note.to_owned());
    }
    prepared
}

pub(super) fn reset_plan(seen: &Seen) -> Prepared {
    let token = seen.token();
    if let Some(refused) = seen.unclear(&token) {
        return refused;
    }
    if !seen.live.is_active() {
        return Prepared::refused(
            token,
            format!("{} does not run", seen.id),
            Some(format!("Start it: corral start {}", seen.id)),
        );
    }
    let mut steps = vec![Step::new(format!("Reset {}", seen.id), "QMP system_reset")];
    if seen.live.state == State::Paused {
        steps.push(Step::new("Let its CPUs go on", "QMP cont"));
    }
    let mut plan = Prepared::new(token, steps);
    plan.losses
        .push("what the guest has not written to its disks".to_owned());
    plan
}

pub(in super::super) async fn cold_plan(ctx: &Ctx, seen: &Seen) -> Result<Prepared> {
    if !seen.live.is_active() {
        return start_plan(ctx, seen, false).await;
    }
    let mut plan = stop_plan(seen, None);
    if !plan.refusals.is_empty() {
        return Ok(plan);
    }
    // Before it is off: what cannot start again had better run on.
    if let Some(why) = unready(ctx, seen)? {
        return Ok(Prepared::failed(plan.token, &why));
    }
    let accel = process::accel_for(ctx, &seen.vm).await;
    let cmd = accel.and_then(|accel| process::command(ctx, &seen.vm, &accel));
    let cmd = match cmd {
        Ok(cmd) => cmd,
        Err(error) => return Ok(Prepared::failed(plan.token, &error)),
    };
    plan.steps
        .push(Step::new(format!("Start {}", seen.id), cmd.shown()));
    Ok(plan)
}
