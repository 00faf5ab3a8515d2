//! Runs a plan: checks each target, runs so many at a time, folds what happens into the task.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::by_hand;
use super::engine::Engine;
use super::grammar::RunOptions;
use super::guard::as_asked;
use super::journal::without_secrets;
use super::planner::{Job, Planned, Work};
use super::rows;
use super::task::TaskHandle;
use super::task::WARNING;
use super::waiting::{self, Wanted};
use crate::backend::contract::{Permit, PermitRequest, TaskCx};
use crate::model::{
    Consent, Error, ErrorKind, Gate, InstanceId, Outcome, Plan, Result, TargetState, Task,
    TaskEvent, TaskState, TaskTarget,
};

/// Log lines kept with a task.
const LOG: usize = 200;

/// Checks a plan and starts it.
pub(super) fn submit(
    engine: &Arc<Engine>,
    planned: Planned,
    consent: &Consent,
    options: &RunOptions,
) -> Result<TaskHandle> {
    let Planned { plan, jobs, heavy } = planned;
    refuse_whole(engine, &plan, options)?;
    let nothing_to_ask = plan.runnable().all(|t| t.unchanged);
    let gate = if nothing_to_ask {
        Gate::Free
    } else {
        plan.gate.clone()
    };
    let consent = &as_asked(&gate, &plan.targets, consent);
    let wanted = options
        .wait_for
        .as_deref()
        .map(str::parse::<Wanted>)
        .transpose()?;
    if let (Some(wanted), Some(row)) = (wanted, rows::find(&plan.action.verb))
        && row.leads_to.is_empty()
    {
        for (target, job) in plan.targets.iter().zip(&jobs) {
            if target.refusals.is_empty() {
                waiting::within_reach(wanted, &job.instance)?;
            }
        }
    }
    let mut ready = Vec::new();
    for (target, job) in plan.targets.iter().zip(jobs) {
        if target.refusals.is_empty() {
            let permit = Permit::issue(&PermitRequest {
                readonly: job.readonly.as_ref().map(|why| why.message.clone()),
                gate: &gate,
                consent,
                support: &job.support,
                command: &plan.command,
            })
            .map_err(|error| error.in_context(target.id.context()))?;
            ready.push((target.id.clone(), Some((permit, job)), target.unchanged));
        } else {
            ready.push((target.id.clone(), None, false));
        }
    }
    let cancel = CancellationToken::new();
    let mut task = new_task(&plan);
    // Whoever acts on a full disk must be able to; that it leaves no trace is told.
    if let Err(error) = engine.journal().start(&task) {
        task.log
            .push(format!("{WARNING}this is missing in the history: {error}"));
    }
    let handle = engine.board().add(task, cancel.clone());
    tokio::spawn(run(
        Arc::clone(engine),
        handle.id.clone(),
        ready,
        Running {
            plan,
            heavy,
            wanted,
            options: options.clone(),
            cancel,
        },
    ));
    Ok(handle)
}

struct Running {
    plan: Plan,
    heavy: bool,
    wanted: Option<Wanted>,
    options: RunOptions,
    cancel: CancellationToken,
}

type Ready = (InstanceId, Option<(Permit, Job)>, bool);

fn refuse_whole(engine: &Engine, plan: &Plan, options: &RunOptions) -> Result<()> {
    if engine.board().queue().is_cancelled() {
        return Err(Error::refused("corral is about to leave. Nothing was done"));
    }
    if plan.targets.is_empty() {
        return Err(Error::not_found("nothing matches. Nothing was done"));
    }
    if let [only] = plan.targets.as_slice()
        && let Some(refusal) = only.refusals.first()
    {
        let error = refusal.error().in_context(only.id.context());
        return Err(error);
    }
    if plan.runnable().next().is_none() {
        let first = plan.refused().next().and_then(|t| t.refusals.first());
        return Err(Error::refused(format!(
            "all {} targets are refused, the first because: {}",
            plan.targets.len(),
            first.map_or("", |r| r.message.as_str())
        )));
    }
    if options.no_wait
        && let Some(bound) = plan.changing().find(|t| !t.detachable)
    {
        return Err(Error::refused(format!(
            "--no-wait is not possible: the work on {} lives in this corral and would end with it",
            bound.id
        ))
        .remedy("Leave --no-wait out"));
    }
    Ok(())
}

fn new_task(plan: &Plan) -> Task {
    let now = Timestamp::now();
    let stamp = now.strftime("%Y%m%d-%H%M%S");
    Task {
        id: format!("{stamp}-{:04x}", rand::random::<u16>()),
        command: plan.command.clone(),
        verb: plan.action.verb.clone(),
        action: without_secrets(&plan.action),
        state: TaskState::Running,
        started_at: now,
        ended_at: None,
        targets: plan
            .targets
            .iter()
            .map(|t| TaskTarget {
                id: t.id.clone(),
                uid: t.uid.clone(),
                state: match t.refusals.first() {
                    None => TargetState::Queued,
                    Some(refusal) => {
                        TargetState::Failed(refusal.error().in_context(t.id.context()))
                    }
                },
                step: None,
                progress: None,
                native_task: None,
            })
            .collect(),
        log: Vec::new(),
        pid: std::process::id(),
        detachable: plan.runnable().all(|t| t.detachable),
    }
}

async fn run(engine: Arc<Engine>, id: String, ready: Vec<Ready>, running: Running) {
    let (events, mut receiver) = mpsc::unbounded_channel();
    let per_context: HashMap<String, Arc<Semaphore>> = ready
        .iter()
        .map(|(target, ..)| {
            let n = running.options.jobs.unwrap_or_else(|| engine.concurrency());
            (target.context().to_owned(), Arc::new(Semaphore::new(n)))
        })
        .collect();
    let mut per_host: HashMap<String, Arc<Semaphore>> = HashMap::new();
    // Cancelled at the first failure with `--on-error stop`, and with the whole task.
    let queue = running.cancel.child_token();
    let mut targets = tokio::task::JoinSet::new();
    for (target, job, unchanged) in ready {
        let Some((permit, job)) = job else { continue };
        let context = per_context.get(target.context()).cloned();
        let host = running.heavy.then(|| {
            let key = format!(
                "{}/{}",
                target.context(),
                job.instance.host.as_deref().unwrap_or("")
            );
            Arc::clone(
                per_host
                    .entry(key)
                    .or_insert_with(|| Arc::new(Semaphore::new(1))),
            )
        });
        let one = One {
            engine: Arc::clone(&engine),
            events: events.clone(),
            queue: queue.clone(),
            cancel: running.cancel.clone(),
            wanted: running.wanted,
            timeout: running.options.timeout,
            verb: running.plan.action.verb.clone(),
            stop_on_error: running.options.stop_on_error,
        };
        targets.spawn(async move {
            let _context = match &context {
                Some(semaphore) => semaphore.acquire().await.ok(),
                None => None,
            };
            let _host = match &host {
                Some(semaphore) => semaphore.acquire().await.ok(),
                None => None,
            };
            one.run(target, permit, job, unchanged).await;
        });
    }
    drop(events);
    let mut ask = tokio::time::interval(Duration::from_millis(500));
    loop {
        tokio::select! {
            event = receiver.recv() => match event {
                Some(event) => {
                    let durable = matches!(event, TaskEvent::Started { .. } | TaskEvent::Native { .. } | TaskEvent::Done { .. } | TaskEvent::Failed { .. });
                    engine.board().update(&id, durable, |task| fold(task, event));
                }
                None => break,
            },
            _ = ask.tick() => {
                if engine.board().asked_to_cancel(&id) {
                    running.cancel.cancel();
                }
            }
        }
    }
    while targets.join_next().await.is_some() {}
    finish(&engine, &id, &running);
}

fn finish(engine: &Engine, id: &str, running: &Running) {
    engine.board().update(id, true, |task| {
        if task.state.is_final() {
            return;
        }
        for target in &mut task.targets {
            match target.state {
                TargetState::Queued => target.state = TargetState::Skipped,
                // Its future ended without a word: it panicked.
                TargetState::Running => {
                    target.state =
                        TargetState::Failed(Error::backend("corral failed inside; see its log"));
                }
                _ => {}
            }
        }
        task.state = overall(task, running.cancel.is_cancelled());
        task.ended_at = Some(Timestamp::now());
        engine.journal().end(task);
        if task.state == TaskState::Done {
            by_hand::taken(engine, &task.action);
        }
    });
}

fn overall(task: &Task, cancelled: bool) -> TaskState {
    let done = task
        .targets
        .iter()
        .filter(|t| matches!(t.state, TargetState::Done(_)))
        .count();
    let skipped = task
        .targets
        .iter()
        .any(|t| matches!(t.state, TargetState::Skipped));
    let timed_out = task
        .targets
        .iter()
        .any(|t| matches!(&t.state, TargetState::Failed(e) if e.kind == ErrorKind::TimedOut));
    if done == task.targets.len() {
        TaskState::Done
    } else if cancelled {
        TaskState::Cancelled
    } else if done > 0 {
        TaskState::Partial
    } else if timed_out {
        TaskState::TimedOut
    } else if skipped
        && !task
            .targets
            .iter()
            .any(|t| matches!(t.state, TargetState::Failed(_)))
    {
        TaskState::Cancelled
    } else {
        TaskState::Failed
    }
}

fn fold(task: &mut Task, event: TaskEvent) {
    let find = |task: &mut Task, id: &InstanceId, change: &dyn Fn(&mut TaskTarget)| {
        if let Some(target) = task.targets.iter_mut().find(|t| t.id == *id) {
            change(target);
        }
    };
    match event {
        TaskEvent::Started { id } => find(task, &id, &|t| t.state = TargetState::Running),
        TaskEvent::Step { id, title } => {
            push_log(task, format!("{id}: {title}"));
            find(task, &id, &|t| {
                t.step = Some(title.clone());
                t.progress = None;
            });
        }
        TaskEvent::Progress { id, done, total } => {
            find(task, &id, &|t| t.progress = Some((done, total)));
        }
        TaskEvent::Log { id, line } => push_log(task, format!("{id}: {line}")),
        TaskEvent::Native { id, task: native } => {
            find(task, &id, &|t| t.native_task = Some(native.clone()));
        }
        TaskEvent::Done { id, outcome } => {
            find(task, &id, &|t| {
                t.state = TargetState::Done(outcome.clone());
                t.step = None;
                t.progress = None;
            });
        }
        TaskEvent::Failed { id, error } => {
            push_log(task, format!("{id}: {error}"));
            find(task, &id, &|t| {
                t.state = TargetState::Failed(error.clone());
                t.progress = None;
            });
        }
    }
}

fn push_log(task: &mut Task, line: String) {
    if task.log.len() >= LOG {
        task.log.remove(0);
    }
    task.log.push(line);
}

struct One {
    engine: Arc<Engine>,
    events: mpsc::UnboundedSender<TaskEvent>,
    queue: CancellationToken,
    cancel: CancellationToken,
    wanted: Option<Wanted>,
    timeout: Option<Duration>,
    verb: String,
    stop_on_error: bool,
}

impl One {
    async fn run(self, id: InstanceId, permit: Permit, job: Job, unchanged: bool) {
        if self.queue.is_cancelled() || self.engine.board().queue().is_cancelled() {
            return;
        }
        let _ = self.events.send(TaskEvent::Started { id: id.clone() });
        self.engine.fleet().set_pending(&id, &self.verb);
        let result = self.work(&id, permit, job, unchanged).await;
        self.engine.fleet().clear_pending(&id);
        self.engine.fleet().refresh(Some(id.context()));
        let event = match result {
            Ok(outcome) => TaskEvent::Done { id, outcome },
            Err(error) => {
                if self.stop_on_error {
                    self.queue.cancel();
                }
                TaskEvent::Failed {
                    error: error.in_context(id.context()),
                    id,
                }
            }
        };
        let _ = self.events.send(event);
    }

    async fn work(
        &self,
        id: &InstanceId,
        permit: Permit,
        job: Job,
        unchanged: bool,
    ) -> Result<Outcome> {
        let prepared = job
            .prepared
            .ok_or_else(|| Error::backend("internal: a refused target was run"))?;
        let outcome = if unchanged {
            Outcome::unchanged(prepared.notes.first().cloned().unwrap_or_default())
        } else {
            let cx = TaskCx::new(
                permit,
                id.clone(),
                self.events.clone(),
                self.cancel.clone(),
                self.engine.asker(),
                self.timeout,
            );
            match &job.work {
                Work::Backend(backend, request) => {
                    request.run(backend.as_ref(), &cx, prepared).await?
                }
                Work::Local(work) => work.run(&cx, prepared).await?,
            }
        };
        if let Some(wanted) = self.wanted {
            let id = outcome.id.as_ref().unwrap_or(id);
            let _ = self.events.send(TaskEvent::Step {
                id: id.clone(),
                title: format!("waits until it is {wanted}"),
            });
            let limit = self.timeout.unwrap_or(Duration::from_secs(600));
            waiting::until(&self.engine, id, wanted, limit, &self.cancel).await?;
        }
        Ok(outcome)
    }
}
