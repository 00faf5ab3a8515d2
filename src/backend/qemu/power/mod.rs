//! Start, stop, restart.

mod plan;
mod reboot;
mod stop;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::change::Seen;
use super::clone::identity;
use super::ctx::Ctx;
use super::{events, hibernate, locks, ports, process};
use crate::backend::contract::{Changes, PowerRequest, Prepared, ReadCx, RestartMode, TaskCx};
use crate::model::{Error, Instance, InstanceId, Outcome, Result, State, Step};
pub(super) use plan::cold_plan;
use plan::{force_plan, reset_plan, start_plan, stop_plan};
use reboot::answers;

/// How long a guest may take to shut down, where the user does not say.
const PATIENCE: Duration = Duration::from_secs(120);

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
            PowerRequest::Start => start_plan(ctx, &seen, false).await?,
            PowerRequest::StartFresh => start_plan(ctx, &seen, true).await?,
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
                        let note = if seen.live.is_active() {
                            "no guest agent answers: the guest is shut down and started"
                        } else {
                            "it does not run: it is only started"
                        };
                        plan.notes.push(note.to_owned());
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
        let watch = events::during(ctx, &seen.vm).await;
        let done = self.act(cx, plan, &seen, lock).await;
        watch.end().await;
        done
    }
}

impl Power {
    async fn act(
        &self,
        cx: &TaskCx,
        plan: Plan,
        seen: &Seen,
        lock: locks::Lock,
    ) -> Result<Outcome> {
        let ctx = &self.0;
        match plan.request {
            PowerRequest::Start => self.start(cx, seen, lock).await,
            PowerRequest::StartFresh => {
                if seen.live.state == State::Hibernated {
                    cx.checkpoint()?;
                    cx.step("Delete the saved state");
                    hibernate::discard(ctx, seen).await?;
                }
                self.fresh(cx, seen, lock).await
            }
            PowerRequest::Stop { force: true, .. } => {
                cx.step(format!("Power off {}", seen.id));
                self.off(cx, seen).await?;
                Ok(Outcome::changed(format!("{} is off", seen.id)))
            }
            PowerRequest::Stop { force_after, .. } => {
                // Not held while waiting: a `stop --force` from elsewhere must get through.
                drop(lock);
                self.stop(cx, seen, force_after).await?;
                Ok(Outcome::changed(format!("{} is off", seen.id)))
            }
            PowerRequest::Restart(RestartMode::Force) => {
                cx.step(format!("Reset {}", seen.id));
                command(ctx, seen, "system_reset").await?;
                if seen.live.state == State::Paused {
                    command(ctx, seen, "cont").await?;
                }
                Ok(Outcome::changed(format!("{} was reset", seen.id)))
            }
            PowerRequest::Restart(RestartMode::Guest) if plan.agent => {
                drop(lock);
                self.reboot(cx, seen).await
            }
            PowerRequest::Restart(_) => {
                drop(lock);
                self.cold(cx, seen).await
            }
        }
    }

    /// Stops it by its guest, and starts it as its definition is then. The caller does not hold
    /// the VM's lock.
    pub(super) async fn cold(&self, cx: &TaskCx, seen: &Seen) -> Result<Outcome> {
        let (ctx, id) = (&self.0, &seen.id);
        if seen.live.is_active() {
            self.stop(cx, seen, None).await?;
            if cx.cancel.is_cancelled() {
                return Err(Error::refused(format!(
                    "cancelled; {id} is off and was not started again"
                ))
                .remedy(format!("Start it: corral start {id}")));
            }
        }
        let lock = locks::vm(ctx, &seen.vm.uuid, &seen.vm.name).await?;
        let again = Seen::now(ctx, id, process::MONITOR).await?;
        if again.vm.uuid != seen.vm.uuid {
            return Err(Error::conflict(format!(
                "{id} is another machine now; it is not started"
            )));
        }
        self.start(cx, &again, lock).await
    }

    async fn start(&self, cx: &TaskCx, seen: &Seen, lock: locks::Lock) -> Result<Outcome> {
        if seen.live.state != State::Hibernated {
            return self.fresh(cx, seen, lock).await;
        }
        cx.checkpoint()?;
        cx.step(format!("Start {} halted", seen.id));
        let launch = hibernate::wake(&self.0, cx, seen).await?;
        self.started(cx, seen, &launch, " again from where it was", lock)
            .await
    }

    async fn fresh(&self, cx: &TaskCx, seen: &Seen, lock: locks::Lock) -> Result<Outcome> {
        cx.checkpoint()?;
        cx.step(format!("Start {}", seen.id));
        let launch = process::spawn(&self.0, &seen.vm).await?;
        self.started(cx, seen, &launch, "", lock).await
    }

    async fn started(
        &self,
        cx: &TaskCx,
        seen: &Seen,
        launch: &process::Launch,
        how: &str,
        lock: locks::Lock,
    ) -> Result<Outcome> {
        cx.log(format!("process {}; {}", launch.pid, launch.accel.why));
        let with = if launch.accel.kvm {
            "with KVM".to_owned()
        } else {
            format!("without KVM, slowly: {}", launch.accel.why)
        };
        let mut said = vec![format!("{} runs{how}, {with}", seen.id)];
        said.extend(ports::moved(&seen.vm, &self.0.store.load(&seen.vm.name)?));
        // Not held while a guest boots: a stop must get through.
        drop(lock);
        said.extend(identity::settle(&self.0, cx, &seen.vm).await);
        Ok(Outcome::changed(said.join("; ")))
    }
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
