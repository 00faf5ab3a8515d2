//! Start, stop, restart, pause, resume, hibernate.

use super::change::{persistent, scripted, settled};
use super::ctx::{Ctx, Seen};
use super::script::{Act, Script};
use super::state::sleeps;
use super::wire::Call;
use crate::backend::contract::{
    HibernateRequest, PauseRequest, PowerRequest, Prepared, ReadCx, RestartMode,
};
use crate::model::{Error, Instance, Result, State, print_duration};

scripted!(PowerRequest, power);
scripted!(PauseRequest, pause);
scripted!(HibernateRequest, hibernate);

const UNWRITTEN: &str = "what the guest has not written to its disks";

async fn power(ctx: &Ctx, cx: &ReadCx, on: &Instance, request: PowerRequest) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    match request {
        PowerRequest::Start => start(ctx, cx, &seen, false).await,
        PowerRequest::StartFresh => start(ctx, cx, &seen, true).await,
        PowerRequest::Stop { force: true, .. } => force_off(ctx, cx, &seen).await,
        PowerRequest::Stop { force_after, .. } => stop(ctx, cx, &seen, force_after).await,
        PowerRequest::Restart(mode) => restart(ctx, cx, &seen, mode).await,
    }
}

/// Another machine under the same ID is not the one that was meant.
///
/// # Errors
/// `Conflict`.
pub fn same(seen: &Seen, on: &Instance) -> Result<()> {
    match &on.uid {
        Some(uid) if *uid != seen.listed.uuid => Err(Error::conflict(format!(
            "{} is another machine by now. Nothing was done",
            seen.id
        ))),
        _ => Ok(()),
    }
}

/// Why it cannot be started.
///
/// # Errors
/// `Refused`.
pub fn startable(seen: &Seen) -> Result<()> {
    let id = &seen.id;
    if seen.live.marks.template {
        return Err(
            Error::refused(format!("{id} is a template and is not started")).remedy(format!(
                "Clone it and start that: corral clone {id} --name NAME --start"
            )),
        );
    }
    Ok(())
}

/// The act of a start.
pub fn start_act(seen: &Seen, fresh: bool) -> Act {
    let id = &seen.id;
    let call = Call::Start {
        dom: seen.dom(),
        paused: false,
        fresh,
    };
    Act::call(format!("Start {id}"), call).undo(format!("corral stop {id}"))
}

async fn start(ctx: &Ctx, cx: &ReadCx, seen: &Seen, fresh: bool) -> Result<Prepared> {
    let (id, is) = (&seen.id, seen.is());
    let said = format!("{id} runs");
    if sleeps(&seen.listed) {
        let wake = Act::call(
            format!("Wake the guest of {id}"),
            Call::Wakeup { dom: seen.dom() },
        );
        return Script::on(seen, said).act(wake).prepared(ctx, cx).await;
    }
    match is.state {
        State::Running => {
            return Ok(Prepared::unchanged(
                seen.token(),
                format!("{id} runs already"),
            ));
        }
        State::Paused => {
            return Err(Error::refused(format!("{id} is paused, not stopped"))
                .remedy(format!("Resume it: corral resume {id}")));
        }
        _ => settled(seen)?,
    }
    if seen.is_active() {
        return Err(Error::refused(format!("{id} is {}", is.state))
            .remedy(format!("Power it off first: corral stop --force {id}")));
    }
    startable(seen)?;
    let script = Script::on(seen, said).act(start_act(seen, fresh && seen.listed.saved));
    let mut plan = script.prepared(ctx, cx).await?;
    if seen.listed.saved {
        if fresh {
            plan.losses
                .push("its saved memory: it starts from its disks".to_owned());
        } else {
            plan.notes
                .push("it goes on from its saved memory".to_owned());
        }
    }
    if seen.config.virt.as_deref() == Some("qemu") {
        plan.notes
            .push("runs without KVM, slowly: it is defined so".to_owned());
    }
    Ok(plan)
}

fn off_already(seen: &Seen) -> Option<Prepared> {
    let off = !seen.is_active() && seen.is().state != State::Unknown;
    off.then(|| Prepared::unchanged(seen.token(), format!("{} is off already", seen.id)))
}

/// The act of a power-off.
pub fn off_act(seen: &Seen) -> Act {
    Act::call(
        format!("Power off {}", seen.id),
        Call::Destroy { dom: seen.dom() },
    )
}

fn transient_note(seen: &Seen, plan: &mut Prepared) {
    if !seen.listed.persistent {
        let note = "it is transient: once off it is gone from the list; its disks stay";
        plan.losses.push(note.to_owned());
    }
}

async fn force_off(ctx: &Ctx, cx: &ReadCx, seen: &Seen) -> Result<Prepared> {
    if let Some(done) = off_already(seen) {
        return Ok(done);
    }
    let script = Script::on(seen, format!("{} is off", seen.id)).act(off_act(seen));
    let mut plan = script.prepared(ctx, cx).await?;
    plan.losses.push(UNWRITTEN.to_owned());
    transient_note(seen, &mut plan);
    Ok(plan)
}

/// The guest can react to a request.
fn awake(seen: &Seen) -> Result<()> {
    let (id, is) = (&seen.id, seen.is());
    let why = is.reason.unwrap_or_else(|| "by a user".to_owned());
    match is.state {
        State::Crashed => Err(Error::refused(format!(
            "{id} has crashed ({why}): its guest cannot shut down"
        ))
        .remedy(format!("Power it off: corral stop --force {id}"))),
        State::Paused => Err(Error::refused(format!(
            "{id} is paused ({why}): its guest cannot shut down"
        ))
        .remedy(format!(
            "Resume it first: corral resume {id}. Or power it off: corral stop --force {id}"
        ))),
        _ => settled(seen),
    }
}

/// The act that asks a guest to shut down, and waits.
pub fn stop_act(seen: &Seen, force_after: Option<std::time::Duration>) -> Act {
    let agent = seen.live.agent == Some(true);
    Act::until_off(
        format!("Ask {} to shut down, and wait", seen.id),
        seen.dom(),
        agent,
        force_after,
    )
}

async fn stop(
    ctx: &Ctx,
    cx: &ReadCx,
    seen: &Seen,
    force_after: Option<std::time::Duration>,
) -> Result<Prepared> {
    if let Some(done) = off_already(seen) {
        return Ok(done);
    }
    awake(seen)?;
    let script = Script::on(seen, format!("{} is off", seen.id)).act(stop_act(seen, force_after));
    let mut plan = script.prepared(ctx, cx).await?;
    match force_after {
        None => plan
            .notes
            .push("Never kills: a guest that does not react runs on".to_owned()),
        Some(after) => plan.notes.push(format!(
            "Powers it off if it still runs after {}",
            print_duration(after)
        )),
    }
    transient_note(seen, &mut plan);
    Ok(plan)
}

async fn restart(ctx: &Ctx, cx: &ReadCx, seen: &Seen, mode: RestartMode) -> Result<Prepared> {
    let id = &seen.id;
    if !seen.is_active() {
        if mode == RestartMode::Cold {
            return start(ctx, cx, seen, false).await;
        }
        return Err(Error::refused(format!("{id} does not run"))
            .remedy(format!("Start it: corral start {id}")));
    }
    let script = Script::on(seen, format!("{id} restarted"));
    match mode {
        RestartMode::Force => {
            let reset = Act::call(format!("Reset {id}"), Call::Reset { dom: seen.dom() });
            let go_on = (seen.is().state == State::Paused)
                .then(|| Act::call("Let its CPUs go on", Call::Resume { dom: seen.dom() }));
            let script = script.act(reset).acts(go_on);
            let mut plan = script.prepared(ctx, cx).await?;
            plan.losses.push(UNWRITTEN.to_owned());
            Ok(plan)
        }
        RestartMode::Guest => {
            awake(seen)?;
            if seen.live.agent == Some(true) {
                let title = format!("Ask the guest agent of {id} to reboot, and wait");
                let reboot = Act::until_rebooted(title, seen.dom());
                return script.act(reboot).prepared(ctx, cx).await;
            }
            cold(ctx, cx, seen, script).await
        }
        RestartMode::Cold => {
            awake(seen)?;
            cold(ctx, cx, seen, script).await
        }
    }
}

async fn cold(ctx: &Ctx, cx: &ReadCx, seen: &Seen, script: Script) -> Result<Prepared> {
    persistent(seen)?;
    startable(seen)?;
    let script = script.act(stop_act(seen, None)).act(start_act(seen, false));
    script.prepared(ctx, cx).await
}

async fn pause(ctx: &Ctx, cx: &ReadCx, on: &Instance, request: PauseRequest) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    let (id, is) = (&seen.id, seen.is());
    let unchanged = |said: &str| Ok(Prepared::unchanged(seen.token(), format!("{id} {said}")));
    let does_not_run = || {
        Err(Error::refused(format!("{id} does not run"))
            .remedy(format!("Start it: corral start {id}")))
    };
    if sleeps(&seen.listed) {
        return Err(Error::refused(format!("the guest of {id} sleeps"))
            .remedy(format!("Wake it: corral start {id}")));
    }
    match (request, is.state) {
        (PauseRequest::Pause, State::Paused) => unchanged("is paused already"),
        (PauseRequest::Resume, State::Running) => unchanged("runs already"),
        (PauseRequest::Pause, State::Running) => {
            let act = Act::call(format!("Pause {id}"), Call::Suspend { dom: seen.dom() })
                .undo(format!("corral resume {id}"));
            let script = Script::on(&seen, format!("{id} is paused")).act(act);
            script.prepared(ctx, cx).await
        }
        (PauseRequest::Resume, State::Paused) => {
            let act = Act::call(format!("Resume {id}"), Call::Resume { dom: seen.dom() })
                .undo(format!("corral pause {id}"));
            let script = Script::on(&seen, format!("{id} runs")).act(act);
            let mut plan = script.prepared(ctx, cx).await?;
            if super::state::numbers(&seen.listed).1 == super::state::IO_ERROR {
                plan.notes.push(
                    "it pauses again where the cause of the I/O error is still there".to_owned(),
                );
            }
            Ok(plan)
        }
        _ => {
            settled(&seen)?;
            does_not_run()
        }
    }
}

async fn hibernate(ctx: &Ctx, cx: &ReadCx, on: &Instance, _: HibernateRequest) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    let (id, is) = (&seen.id, seen.is());
    match is.state {
        State::Hibernated => {
            return Ok(Prepared::unchanged(
                seen.token(),
                format!("{id} is hibernated already"),
            ));
        }
        State::Running | State::Paused => {}
        _ => {
            settled(&seen)?;
            return Err(Error::refused(format!("{id} does not run"))
                .remedy(format!("Start it: corral start {id}")));
        }
    }
    persistent(&seen)?;
    if seen.live.hostdevs > 0 {
        return Err(Error::refused(format!(
            "{id} uses a device of its host: its state cannot be saved"
        ))
        .remedy(format!("Shut it down instead: corral stop {id}")));
    }
    let act = Act::call(
        format!("Save the memory of {id} to disk, and power it off"),
        Call::ManagedSave { dom: seen.dom() },
    )
    .undo(format!("corral start {id}"));
    let script = Script::on(&seen, format!("{id} is hibernated")).act(act);
    script.prepared(ctx, cx).await
}
