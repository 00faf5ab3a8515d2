//! Start, stop, restart, pause, hibernate: `PUT /1.0/instances/NAME/state`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::call::Call;
use super::ctx::Ctx;
use super::seen::Seen;
use super::support;
use super::work::{self, Act, LOOK, Todo, plan};
use crate::backend::contract::{
    Changes, HibernateRequest, PauseRequest, PowerRequest, Prepared, ReadCx, RestartMode, TaskCx,
};
use crate::model::{Error, ErrorKind, Instance, Outcome, Result, State, Support, print_duration};

/// How long a guest may take to shut down, where the user does not say.
const PATIENCE: Duration = Duration::from_secs(120);
/// A guest that has not booted loses the request: it is sent again this often, seconds.
const AGAIN: u64 = 10;

/// The power, pause and hibernate families.
#[derive(Clone, Debug)]
pub struct Power(pub Arc<Ctx>);

/// A change of state.
pub fn call(path: &str, action: &str, more: Value) -> Call {
    let mut body = Map::new();
    body.insert("action".to_owned(), json!(action));
    if let Value::Object(more) = more {
        body.extend(more);
    }
    let (place, query) = path.split_once('?').unwrap_or((path, ""));
    Call::new("PUT", format!("{place}/state?{query}"), Value::Object(body))
}

fn state(seen: &Seen, title: impl Into<String>, action: &str, more: Value) -> Todo {
    Todo::call(title, call(&seen.path(&[]), action, more))
}

#[async_trait]
impl Changes<PowerRequest> for Power {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: PowerRequest) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        Ok(match request {
            PowerRequest::Start => start(&seen, false),
            PowerRequest::StartFresh => start(&seen, true),
            PowerRequest::Stop { force: true, .. } => force(&seen),
            PowerRequest::Stop { force_after, .. } => stop(&seen, force_after),
            PowerRequest::Restart(mode) => restart(&seen, mode),
        })
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        work::run(&self.0, cx, prepared).await
    }
}

/// The step that starts it.
pub fn start_todo(seen: &Seen, fresh: bool) -> Todo {
    let more = if seen.state() == State::Hibernated {
        json!({"stateful": !fresh})
    } else {
        json!({})
    };
    let id = &seen.id;
    state(seen, format!("Start {id}"), "start", more).undo(format!("corral stop {id}"))
}

fn start(seen: &Seen, fresh: bool) -> Prepared {
    let (id, token) = (&seen.id, seen.token());
    match seen.state() {
        State::Running => return Prepared::unchanged(token, format!("{id} runs already")),
        State::Paused => {
            return Prepared::refused(
                token,
                format!("{id} is paused, not stopped"),
                Some(format!("Resume it: corral resume {id}")),
            );
        }
        State::Stopped | State::Hibernated => {}
        other => {
            return seen.unclear().unwrap_or_else(|| {
                Prepared::refused(
                    token,
                    format!("{id} is {other}"),
                    Some(format!("Power it off first: corral stop --force {id}")),
                )
            });
        }
    }
    if let Some(refused) = template(seen) {
        return refused;
    }
    let mut prepared = plan(seen, vec![start_todo(seen, fresh)], format!("{id} runs"));
    if seen.state() == State::Hibernated {
        if fresh {
            prepared
                .losses
                .push("the saved state it would go on from".to_owned());
        } else {
            prepared
                .notes
                .push("it goes on from its saved state".to_owned());
        }
    }
    prepared
}

/// A template is not started.
pub fn template(seen: &Seen) -> Option<Prepared> {
    seen.row.template.then(|| {
        Prepared::refused(
            seen.token(),
            format!("{} is a template and is not started", seen.id),
            Some(format!(
                "Clone it and start that: corral clone {} --name NAME --start",
                seen.id
            )),
        )
    })
}

fn off_already(seen: &Seen) -> Option<Prepared> {
    matches!(seen.state(), State::Stopped | State::Hibernated)
        .then(|| Prepared::unchanged(seen.token(), format!("{} is off already", seen.id)))
}

fn force(seen: &Seen) -> Prepared {
    off_already(seen).unwrap_or_else(|| {
        let id = &seen.id;
        let todo = state(
            seen,
            format!("Power off {id}"),
            "stop",
            json!({"force": true}),
        );
        let mut prepared = plan(seen, vec![todo], format!("{id} is off"));
        prepared
            .losses
            .push("what the guest has not written to its disks".to_owned());
        prepared
    })
}

fn stop(seen: &Seen, force_after: Option<Duration>) -> Prepared {
    if let Some(done) = off_already(seen).or_else(|| seen.unclear()) {
        return done;
    }
    let id = &seen.id;
    if seen.state() == State::Paused {
        return Prepared::refused(
            seen.token(),
            format!("{id} is paused: its guest cannot shut down"),
            Some(format!(
                "Resume it first: corral resume {id}. Or power it off: corral stop --force {id}"
            )),
        );
    }
    let mut todos = vec![Todo::new(
        format!("Ask {id} to shut down, and wait"),
        Act::ShutDown(force_after),
    )];
    if let Some(after) = force_after {
        let after = print_duration(after);
        todos.push(Todo::new(
            format!("Power off if it still runs after {after}"),
            Act::PowerOff,
        ));
    }
    let mut prepared = plan(seen, todos, format!("{id} is off"));
    if force_after.is_none() {
        let note = "Never kills: a guest that does not react runs on";
        prepared.notes.push(note.to_owned());
    }
    prepared
}

fn restart(seen: &Seen, mode: RestartMode) -> Prepared {
    let id = &seen.id;
    if let Some(refused) = seen.unclear() {
        return refused;
    }
    if !seen.state().is_active() {
        if mode == RestartMode::Force {
            return Prepared::refused(
                seen.token(),
                format!("{id} does not run"),
                Some(format!("Start it: corral start {id}")),
            );
        }
        let mut prepared = start(seen, false);
        if prepared.refusals.is_empty() {
            prepared
                .notes
                .push("it does not run: it is only started".to_owned());
        }
        return prepared;
    }
    if seen.state() == State::Paused && mode != RestartMode::Force {
        return stop(seen, None);
    }
    let said = format!("{id} runs again");
    match mode {
        RestartMode::Guest => {
            let mut prepared = plan(
                seen,
                vec![
                    Todo::new(
                        format!("Ask {id} to shut down, and wait"),
                        Act::ShutDown(None),
                    ),
                    start_todo(seen, false),
                ],
                said,
            );
            prepared
                .notes
                .push("The guest shuts down and is started: pending settings apply".to_owned());
            prepared
        }
        RestartMode::Cold => plan(
            seen,
            vec![
                Todo::new(
                    format!("Ask {id} to shut down, and wait"),
                    Act::ShutDown(None),
                ),
                start_todo(seen, false),
            ],
            said,
        ),
        RestartMode::Force => {
            let todo = state(
                seen,
                format!("Power {id} off and on"),
                "restart",
                json!({"force": true}),
            );
            let mut prepared = plan(seen, vec![todo], said);
            prepared
                .losses
                .push("what the guest has not written to its disks".to_owned());
            prepared
        }
    }
}

/// Asks the guest until it is off. Never kills, unless `force_after` says when.
///
/// # Errors
/// `TimedOut` when it does not react, `Refused` when cancelled.
pub async fn shut_down(
    ctx: &Ctx,
    cx: &TaskCx,
    seen: &Seen,
    force_after: Option<Duration>,
) -> Result<()> {
    let id = &seen.id;
    let patience = cx.timeout.unwrap_or(PATIENCE);
    let begun = Instant::now();
    loop {
        let left = force_after
            .unwrap_or(patience)
            .saturating_sub(begun.elapsed());
        let slice = left.as_secs().clamp(1, AGAIN);
        let ask = call(&seen.path(&[]), "stop", json!({"timeout": slice}));
        let asked = tokio::select! {
            asked = async { ctx.api()?.change(cx, &ask, None).await } => asked,
            () = cx.cancel.cancelled() => {
                return Err(Error::refused(format!(
                    "cancelled; {id} was asked to shut down and may still do so"
                ))
                .remedy(format!("See what it does: corral info {id}")));
            }
        };
        let off = match Seen::now(ctx, &cx.read(LOOK), id).await {
            Ok(now) => !now.state().is_active() && now.state() != State::Unknown,
            // Its server is away for a moment.
            Err(error) if error.is_temporary() => {
                tokio::time::sleep(Duration::from_millis(500)).await;
                false
            }
            Err(error) => return Err(error),
        };
        if off {
            return Ok(());
        }
        match asked {
            // It was asked, and did not react in time; or nobody was there to ask it.
            Err(error) if error.kind == ErrorKind::Backend || error.is_temporary() => {
                cx.log(error.message);
            }
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        let waited = begun.elapsed();
        if force_after.is_some_and(|after| waited >= after) {
            return Ok(());
        }
        if waited >= patience {
            let span = print_duration(Duration::from_secs(patience.as_secs()));
            return Err(Error::timed_out(format!(
                "{id} is still running {span} after the shutdown request; the guest has not reacted"
            ))
            .remedy(format!(
                "Wait: corral wait {id} --for stopped. Force: corral stop --force {id}"
            )));
        }
        cx.progress(waited.as_secs(), patience.as_secs());
    }
}

/// Off, now, if it still runs.
///
/// # Errors
/// What the server says.
pub async fn off(ctx: &Ctx, cx: &TaskCx, seen: &Seen) -> Result<()> {
    let now = Seen::now(ctx, &cx.read(LOOK), &seen.id).await?;
    if matches!(now.state(), State::Stopped | State::Hibernated) {
        return Ok(());
    }
    let stop = call(&seen.path(&[]), "stop", json!({"force": true}));
    ctx.api()?.change(cx, &stop, None).await.map(drop)
}

#[async_trait]
impl Changes<PauseRequest> for Power {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: PauseRequest) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let (id, token) = (&seen.id, seen.token());
        if let Some(refused) = seen.unclear() {
            return Ok(refused);
        }
        if !seen.state().is_active() {
            return Ok(Prepared::refused(
                token,
                format!("{id} does not run"),
                Some(format!("Start it: corral start {id}")),
            ));
        }
        Ok(match (request, seen.state()) {
            (PauseRequest::Pause, State::Paused) => {
                Prepared::unchanged(token, format!("{id} is paused already"))
            }
            (PauseRequest::Resume, State::Running) => {
                Prepared::unchanged(token, format!("{id} runs already"))
            }
            (PauseRequest::Pause, _) => plan(
                &seen,
                vec![
                    state(&seen, format!("Freeze {id}"), "freeze", json!({}))
                        .undo(format!("corral resume {id}")),
                ],
                format!("{id} is paused"),
            ),
            (PauseRequest::Resume, _) => plan(
                &seen,
                vec![
                    state(&seen, format!("Let {id} go on"), "unfreeze", json!({}))
                        .undo(format!("corral pause {id}")),
                ],
                format!("{id} runs"),
            ),
        })
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        work::run(&self.0, cx, prepared).await
    }
}

#[async_trait]
impl Changes<HibernateRequest> for Power {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, _: HibernateRequest) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let (id, token) = (&seen.id, seen.token());
        if seen.state() == State::Hibernated {
            return Ok(Prepared::unchanged(
                token,
                format!("{id} is hibernated already"),
            ));
        }
        if let Some(refused) = seen.unclear() {
            return Ok(refused);
        }
        if !seen.state().is_active() {
            return Ok(Prepared::refused(
                token,
                format!("{id} does not run: there is no RAM to save"),
                Some(format!("Start it: corral start {id}")),
            ));
        }
        if let Support::Conditional(why) = support::memory(&seen) {
            return Ok(Prepared::refused(
                token,
                why,
                Some(support::memory_remedy(&seen)),
            ));
        }
        let todo = state(
            &seen,
            format!("Save the RAM of {id}, and power it off"),
            "stop",
            json!({"stateful": true}),
        );
        Ok(plan(
            &seen,
            vec![todo.undo(format!("corral start {id}"))],
            format!("{id} is hibernated"),
        ))
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        work::run(&self.0, cx, prepared).await
    }
}
