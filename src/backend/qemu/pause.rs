//! Pause and resume.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::change::Seen;
use super::ctx::Ctx;
use super::power::command;
use super::{events, locks, process};
use crate::backend::contract::{Changes, PauseRequest, Prepared, ReadCx, TaskCx};
use crate::model::{Error, Instance, InstanceId, Outcome, Result, State, Step};

/// The pause family.
#[derive(Clone, Debug)]
pub struct Pause(pub Arc<Ctx>);

struct Plan {
    id: InstanceId,
    request: PauseRequest,
}

#[async_trait]
impl Changes<PauseRequest> for Pause {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: PauseRequest) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let (id, token, state) = (&seen.id, seen.token(), seen.live.state);
        if let Some(refused) = seen.unclear(&token) {
            return Ok(refused);
        }
        if !seen.live.is_active() {
            return Ok(Prepared::refused(
                token,
                format!("{id} does not run"),
                Some(format!("Start it: corral start {id}")),
            ));
        }
        let plan = match request {
            PauseRequest::Pause if state == State::Paused => {
                Prepared::unchanged(token, format!("{id} is paused already"))
            }
            PauseRequest::Resume if state == State::Running => {
                Prepared::unchanged(token, format!("{id} runs already"))
            }
            PauseRequest::Pause => Prepared::new(
                token,
                vec![
                    Step::new(format!("Halt the CPUs of {id}"), "QMP stop")
                        .undo(format!("corral resume {id}")),
                ],
            ),
            PauseRequest::Resume => {
                let step = Step::new(format!("Let the CPUs of {id} go on"), "QMP cont");
                let mut plan = Prepared::new(token, vec![step.undo(format!("corral pause {id}"))]);
                if let Some(why) = &seen.live.reason {
                    plan.notes.push(format!(
                        "it is paused because of this, and will be again unless it is mended: {why}"
                    ));
                }
                plan
            }
        };
        let id = on.id.clone();
        Ok(plan.with(Plan { id, request }))
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let plan: Plan = prepared.take()?;
        let ctx = &self.0;
        let vm = super::inventory::load(ctx, &plan.id)?;
        let _lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
        let seen = Seen::now(ctx, &plan.id, process::MONITOR).await?;
        seen.still(&prepared.token)?;
        cx.checkpoint()?;
        let (word, wanted, title) = match plan.request {
            PauseRequest::Pause => ("stop", State::Paused, "Pause"),
            PauseRequest::Resume => ("cont", State::Running, "Resume"),
        };
        cx.step(format!("{title} {}", seen.id));
        let watch = events::during(ctx, &seen.vm).await;
        let answer = command(ctx, &seen, word).await;
        watch.end().await;
        answer?;
        // QEMU may fall back at once: a disk that is still full halts the guest again.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let after = Seen::now(ctx, &plan.id, process::MONITOR).await?;
        if after.live.state == wanted {
            return Ok(Outcome::changed(format!("{} is {wanted}", seen.id)));
        }
        let why = after.live.reason.unwrap_or_default();
        Err(Error::backend(format!(
            "{} is {} after {title}: {why}",
            seen.id, after.live.state
        )))
    }
}
