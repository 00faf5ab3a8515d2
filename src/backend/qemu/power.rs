//! Start, stop, restart.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::change::Seen;
use super::ctx::Ctx;
use super::definition::Definition;
use super::{events, locks, op, process};
use crate::backend::contract::{Changes, PowerRequest, Prepared, ReadCx, RestartMode, TaskCx};
use crate::link::qga::Agent;
use crate::link::signal;
use crate::model::{
    Error, ErrorKind, Instance, InstanceId, Outcome, Result, State, Step, print_duration,
};

/// How long a guest may take to shut down, where the user does not say.
const PATIENCE: Duration = Duration::from_secs(120);
/// A guest that has not booted loses the request: it is sent again this often.
const AGAIN: Duration = Duration::from_secs(5);
/// A process that was told to quit is gone within this.
const QUIT: Duration = Duration::from_secs(10);
/// An agent that is there answers within this.
const AGENT: Duration = Duration::from_secs(2);

/// The power family.
#[derive(Clone, Debug)]
pub struct Power(pub Arc<Ctx>);

/// What `run` needs.
struct Plan {
    id: InstanceId,
    request: PowerRequest,
    /// The guest agent answered when the plan was made.
    agent: bool,
}

#[async_trait]
impl Changes<PowerRequest> for Power {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: PowerRequest) -> Result<Prepared> {
        let ctx = &self.0;
        let seen = match Seen::for_plan(ctx, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let mut agent = false;
        let mut prepared = match request {
            PowerRequest::Start => start_plan(ctx, &seen).await?,
            PowerRequest::Stop { force: true, .. } => force_plan(&seen),
            PowerRequest::Stop { force_after, .. } => stop_plan(&seen, force_after),
            PowerRequest::Restart(RestartMode::Force) => reset_plan(&seen),
            PowerRequest::Restart(RestartMode::Cold) => cold_plan(ctx, &seen).await?,
            PowerRequest::Restart(RestartMode::Guest) => {
                agent = seen.live.state == State::Running && answers(ctx, &seen.vm).await;
                if agent {
                    Prepared::new(
                        seen.token(),
                        vec![Step::new(
                            "Ask the guest agent to reboot",
                            "agent guest-shutdown {\"mode\": \"reboot\"}",
                        )],
                    )
                } else {
                    let mut plan = cold_plan(ctx, &seen).await?;
                    if !plan.unchanged && plan.refusals.is_empty() {
                        plan.notes.push(
                            "no guest agent answers: the guest is shut down and started".to_owned(),
                        );
                    }
                    plan
                }
            }
        };
        prepared.detachable = false;
        Ok(prepared.with(Plan {
            id: on.id.clone(),
            request,
            agent,
        }))
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let plan: Plan = prepared.take()?;
        let ctx = &self.0;
        let vm = super::inventory::load(ctx, &plan.id)?;
        let lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
        let seen = Seen::now(ctx, &plan.id, process::MONITOR).await?;
        if plan.request == PowerRequest::Start && seen.live.state == State::Running {
            return Ok(Outcome::unchanged(format!("{} runs already", plan.id)));
        }
        seen.still(&prepared.token)?;
        match plan.request {
            PowerRequest::Start => self.start(cx, &seen).await,
            PowerRequest::Stop { force: true, .. } => {
                cx.step(format!("Power off {}", seen.id));
                self.off(cx, &seen).await?;
                Ok(Outcome::changed(format!("{} is off", seen.id)))
            }
            PowerRequest::Stop { force_after, .. } => {
                // Not held while waiting: a `stop --force` from elsewhere must get through.
                drop(lock);
                self.stop(cx, &seen, force_after).await?;
                Ok(Outcome::changed(format!("{} is off", seen.id)))
            }
            PowerRequest::Restart(RestartMode::Force) => {
                cx.step(format!("Reset {}", seen.id));
                command(ctx, &seen, "system_reset").await?;
                if seen.live.state == State::Paused {
                    command(ctx, &seen, "cont").await?;
                }
                Ok(Outcome::changed(format!("{} was reset", seen.id)))
            }
            PowerRequest::Restart(RestartMode::Guest) if plan.agent => {
                drop(lock);
                self.reboot(cx, &seen).await
            }
            PowerRequest::Restart(_) => {
                drop(lock);
                if seen.live.is_active() {
                    self.stop(cx, &seen, None).await?;
                }
                let _lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
                let again = Seen::now(ctx, &plan.id, process::MONITOR).await?;
                if again.vm.uuid != seen.vm.uuid {
                    return Err(Error::conflict(format!(
                        "{} is another machine now; it is not started",
                        plan.id
                    )));
                }
                self.start(cx, &again).await
            }
        }
    }
}

impl Power {
    async fn start(&self, cx: &TaskCx, seen: &Seen) -> Result<Outcome> {
        cx.checkpoint()?;
        cx.step(format!("Start {}", seen.id));
        let launch = process::spawn(&self.0, &seen.vm).await?;
        cx.log(format!("process {}; {}", launch.pid, launch.accel.why));
        let with = if launch.accel.kvm {
            "with KVM".to_owned()
        } else {
            format!("without KVM, slowly: {}", launch.accel.why)
        };
        Ok(Outcome::changed(format!("{} runs, {with}", seen.id)))
    }

    /// Asks the guest until it is off. Never kills, unless `force_after` says when.
    async fn stop(&self, cx: &TaskCx, seen: &Seen, force_after: Option<Duration>) -> Result<()> {
        let ctx = &self.0;
        let paths = ctx.paths(&seen.vm.uuid)?;
        cx.step(format!("Ask {} to shut down", seen.id));
        let patience = cx.timeout.unwrap_or(PATIENCE);
        let began = Instant::now();
        let mut asked: Option<Instant> = None;
        loop {
            if asked.is_none_or(|at| at.elapsed() >= AGAIN) {
                match command(ctx, seen, "system_powerdown").await {
                    Ok(_) => {}
                    // It went off while it was asked, or another corral talks to it right now.
                    Err(error)
                        if asked.is_some()
                            || matches!(
                                error.kind,
                                ErrorKind::NotFound | ErrorKind::Unreachable
                            ) => {}
                    Err(error) => return Err(error),
                }
                asked = Some(Instant::now());
            }
            let slice = Duration::from_millis(250);
            if process::ended(&paths, &seen.vm, seen.live.pid, slice).await {
                return Ok(());
            }
            if cx.cancel.is_cancelled() {
                return Err(Error::refused(format!(
                    "cancelled; {} was asked to shut down and may still do so",
                    seen.id
                )));
            }
            let waited = began.elapsed();
            if force_after.is_some_and(|after| waited >= after) {
                cx.step(format!("Power off {}", seen.id));
                return self.off(cx, seen).await;
            }
            if waited >= patience {
                let span = print_duration(Duration::from_secs(patience.as_secs()));
                let id = &seen.id;
                return Err(Error::timed_out(format!(
                    "{id} is still running {span} after the shutdown request; the guest has not reacted"
                ))
                .remedy(format!(
                    "Wait: corral wait {id} --for stopped. Force: corral stop --force {id}"
                )));
            }
            let done = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
            cx.progress(done / 1000, patience.as_secs());
        }
    }

    /// Off, now: `quit`, and the process is killed when it does not take even that.
    async fn off(&self, cx: &TaskCx, seen: &Seen) -> Result<()> {
        let ctx = &self.0;
        let paths = ctx.paths(&seen.vm.uuid)?;
        let pid = seen.live.pid.or_else(|| process::owner(&paths, &seen.vm));
        match command(ctx, seen, "quit").await {
            // It may be gone before it has answered.
            Ok(_) => {}
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Unreachable) => {}
            Err(error) => {
                let Some(pid) = pid else { return Err(error) };
                cx.log(format!(
                    "its monitor does not answer ({}): process {pid} is killed",
                    error.message
                ));
                kill(&paths, &seen.vm, pid)?;
            }
        }
        if process::ended(&paths, &seen.vm, pid, QUIT).await {
            settle(&paths);
            return Ok(());
        }
        if let Some(pid) = pid {
            cx.log(format!("process {pid} did not quit and is killed"));
            kill(&paths, &seen.vm, pid)?;
            if process::ended(&paths, &seen.vm, Some(pid), QUIT).await {
                settle(&paths);
                return Ok(());
            }
        }
        Err(Error::timed_out(format!(
            "the process of {} does not end",
            seen.id
        )))
    }

    async fn reboot(&self, cx: &TaskCx, seen: &Seen) -> Result<Outcome> {
        let ctx = &self.0;
        let paths = ctx.paths(&seen.vm.uuid)?;
        let since = jiff::Timestamp::now();
        // Whoever holds the event socket writes the journal; without one we hold it ourselves.
        let mut own = events::follow(ctx, &seen.vm).await?;
        cx.step(format!("Ask the guest agent of {} to reboot", seen.id));
        {
            let _lock = locks::agent(ctx, &seen.vm.uuid).await?;
            let mut agent = Agent::connect(&paths.agent, AGENT).await?;
            agent
                .tell("guest-shutdown", &json!({"mode": "reboot"}), AGENT)
                .await?;
        }
        let until = Instant::now() + cx.timeout.unwrap_or(PATIENCE);
        loop {
            if let Some(qmp) = &mut own {
                let event = qmp.event(Duration::from_millis(500)).await?;
                if let Some(event) =
                    event.and_then(|event| events::translate(ctx, &seen.vm, &event))
                {
                    events::record(&paths, &event);
                }
            } else {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            let seen_reset = events::journal(&paths)
                .iter()
                .rev()
                .take_while(|event| event.at >= since)
                .any(|event| event.kind == "RESET");
            if seen_reset {
                return Ok(Outcome::changed(format!("{} reboots", seen.id)));
            }
            cx.checkpoint()?;
            if Instant::now() >= until {
                return Err(Error::timed_out(format!(
                    "{} has not rebooted; the agent took the request",
                    seen.id
                ))
                .remedy(format!("Force: corral restart --force {}", seen.id)));
            }
        }
    }
}

fn kill(paths: &super::ctx::Paths, vm: &Definition, pid: u32) -> Result<()> {
    match signal::kill(pid, |argv| process::is_ours(argv, paths, vm)) {
        Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A process that was killed on purpose is no crash.
fn settle(paths: &super::ctx::Paths) {
    let _ = std::fs::remove_file(&paths.pid);
}

/// One command on the running VM's monitor.
///
/// # Errors
/// `NotFound` when it does not run, besides those of the monitor.
pub async fn command(ctx: &Ctx, seen: &Seen, command: &str) -> Result<Value> {
    let Some(mut qmp) = process::connect(ctx, &seen.vm).await? else {
        return Err(Error::not_found(format!("{} does not run", seen.id)));
    };
    qmp.execute(command, Value::Null, process::MONITOR).await
}

/// Whether the guest agent answers now.
async fn answers(ctx: &Ctx, vm: &Definition) -> bool {
    let Ok(paths) = ctx.paths(&vm.uuid) else {
        return false;
    };
    let Ok(_lock) = locks::agent(ctx, &vm.uuid).await else {
        return false;
    };
    Agent::connect(&paths.agent, AGENT).await.is_ok()
}

async fn start_plan(ctx: &Ctx, seen: &Seen) -> Result<Prepared> {
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
    if seen.live.is_active() {
        return Ok(seen.unclear(&token).unwrap_or_else(|| {
            Prepared::refused(
                &token,
                format!("{id} is {}", seen.live.state),
                Some(format!("Power it off first: corral stop --force {id}")),
            )
        }));
    }
    if seen.vm.template {
        return refuse(
            format!("{id} is a template and is not started"),
            "Make a copy of it and start that.".to_owned(),
        );
    }
    if let Some(why) = unready(ctx, &seen.vm)? {
        return Ok(Prepared::refused(token, why.message, why.remedy));
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
    Ok(prepared)
}

/// Why a start would fail or do harm, as far as files tell.
fn unready(ctx: &Ctx, vm: &Definition) -> Result<Option<Error>> {
    let dir = ctx.store.dir(&vm.name)?;
    if let Some(op) = op::read(&dir.join(op::FILE))?
        && !op.is_alive()
    {
        return Ok(Some(
            Error::refused(format!(
                "\"{}\" was interrupted and left things half-done",
                op.change.title()
            ))
            .remedy("Mend it first: corral doctor --fix"),
        ));
    }
    let code = vm.firmware.code.as_deref();
    for file in super::store::files(vm).chain(code) {
        if let Err(error) = std::fs::metadata(file) {
            return Ok(Some(
                Error::refused(format!("{} is missing: {error}", file.display()))
                    .remedy("Put it back, or change the definition."),
            ));
        }
    }
    Ok(None)
}

fn off_already(seen: &Seen) -> Option<Prepared> {
    let off = !seen.live.is_active();
    off.then(|| Prepared::unchanged(seen.token(), format!("{} is off already", seen.id)))
}

fn force_plan(seen: &Seen) -> Prepared {
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

fn stop_plan(seen: &Seen, force_after: Option<Duration>) -> Prepared {
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
    Prepared::new(token, steps)
}

fn reset_plan(seen: &Seen) -> Prepared {
    let token = seen.token();
    if !seen.live.is_active() {
        return Prepared::refused(
            token,
            format!("{} does not run", seen.id),
            Some(format!("Start it: corral start {}", seen.id)),
        );
    }
    if let Some(refused) = seen.unclear(&token) {
        return refused;
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

async fn cold_plan(ctx: &Ctx, seen: &Seen) -> Result<Prepared> {
    if !seen.live.is_active() {
        return start_plan(ctx, seen).await;
    }
    let mut plan = stop_plan(seen, None);
    if !plan.refusals.is_empty() {
        return Ok(plan);
    }
    let accel = process::accel_for(ctx, &seen.vm).await?;
    let cmd = process::command(ctx, &seen.vm, &accel)?;
    plan.steps
        .push(Step::new(format!("Start {}", seen.id), cmd.shown()));
    Ok(plan)
}
