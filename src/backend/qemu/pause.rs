//! Pause and resume.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::time::Instant;

use super::change::Seen;
use super::ctx::Ctx;
use super::{events, locks, process};
use crate::backend::contract::{Changes, PauseRequest, Prepared, ReadCx, TaskCx};
use crate::model::{Error, Instance, InstanceId, Outcome, Result, State, Step};

/// A disk that still fails halts the guest again within this: the writes that waited are tried first.
const RETRY: Duration = Duration::from_secs(1);
/// For one that was not halted by a disk.
const SETTLE: Duration = Duration::from_millis(50);

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
        let answer = self.tell(&seen, word, plan.request).await;
        watch.end().await;
        answer?;
        let after = Seen::now(ctx, &plan.id, process::MONITOR).await?;
        if after.live.state == wanted {
            return Ok(Outcome::changed(format!("{} is {wanted}", seen.id)));
        }
        let why = after.live.reason;
        if plan.request == PauseRequest::Resume && after.live.state == State::Paused {
            let why = why.unwrap_or_else(|| "QEMU does not say why".to_owned());
            return Err(Error::backend(format!(
                "{} was resumed and halted again at once: {why}",
                seen.id
            ))
            .remedy(format!("Mend that, then: corral resume {}", seen.id)));
        }
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        Err(Error::backend(format!(
            "{} is {} after {title}{why}",
            seen.id, after.live.state
        )))
    }
}

impl Pause {
    /// Tells its monitor, and after a `cont` waits whether QEMU halts it again: what failed before
    /// is tried at once.
    async fn tell(&self, seen: &Seen, word: &str, request: PauseRequest) -> Result<()> {
        let Some(mut qmp) = process::connect(&self.0, &seen.vm).await? else {
            return Err(Error::not_found(format!("{} does not run", seen.id)));
        };
        qmp.execute(word, Value::Null, process::MONITOR).await?;
        if request == PauseRequest::Pause {
            return Ok(());
        }
        // One that was paused by its user has nothing to try again.
        let failed = seen.live.native.as_deref() == Some("io-error");
        let limit = if failed { RETRY } else { SETTLE };
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match qmp.event(left).await? {
                Some(event) if event.name == "STOP" => return Ok(()),
                Some(_) => {}
                None => return Ok(()),
            }
        }
    }
}
