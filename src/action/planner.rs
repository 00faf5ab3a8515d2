//! From an action to a plan: who, what exactly, what is lost, what forbids it.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;

use super::engine::Engine;
use super::grammar;
use super::guard;
use super::row::Risk;
use crate::backend::contract::Request;
use crate::backend::contract::{Backend, Prepared, TaskCx};
use crate::fleet::selector::{self, Purpose, Resolved};
use crate::model::{Action, Error, Instance, Outcome, Plan, Refusal, Result, Support, TargetPlan};

/// Prepares at most this many targets at a time: enough to hide latency, few enough for one daemon.
const PREPARING: usize = 16;

/// A plan and what carries it out.
pub struct Planned {
    /// What people see.
    pub plan: Plan,
    /// One job per target, same order.
    pub jobs: Vec<Job>,
    /// One at a time per host.
    pub heavy: bool,
}

/// What carries out one target.
pub struct Job {
    /// The instance as it was when planned.
    pub instance: Arc<Instance>,
    /// How.
    pub work: Work,
    /// What `prepare` gave; `None` where it was refused.
    pub prepared: Option<Prepared>,
    /// Support of the operation for this instance.
    pub support: Support,
    /// Why nothing may be changed there.
    pub readonly: Option<Refusal>,
}

/// How a job is done.
pub enum Work {
    /// By a backend.
    Backend(Arc<dyn Backend>, Box<Request>),
    /// In corral's own state.
    Local(Arc<dyn LocalWork>),
}

/// A change of corral's own state: protection, contexts, tasks.
#[async_trait]
pub trait LocalWork: Send + Sync {
    /// Does it.
    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome>;
}

/// What a row may decide anew for one action.
pub struct Shape {
    /// What it asks.
    pub risk: Risk,
    /// In danger style.
    pub danger: bool,
    /// One at a time per host.
    pub heavy: bool,
    /// `Stop`, `Force off`, `Delete`: the question's verb.
    pub ask: String,
    /// Added to the question: `for good`, `back to s1`.
    pub tail: String,
    /// What several are: `instances`.
    pub noun: String,
}

impl Shape {
    /// As the row says.
    pub fn of(action: &Action) -> Result<Self> {
        let row = grammar::row_of(action)?;
        let mut ask = row.name.to_owned();
        if let Some(first) = ask.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        Ok(Self {
            risk: row.risk,
            danger: row.danger,
            heavy: row.heavy,
            ask,
            tail: String::new(),
            noun: "instances".to_owned(),
        })
    }
}

/// Finds the instances an action names. Waits only for the contexts it needs.
pub async fn resolve(engine: &Engine, action: &Action, purpose: Purpose) -> Result<Resolved> {
    let fleet = engine.fleet();
    let mut scope = action.scope.clone();
    let known = fleet.view();
    if scope.contexts.is_empty()
        && let Some(own) = selector::contexts_of(&known, &action.targets)
            .or_else(|| selector::contexts_in(&known, &action.scope))
    {
        scope.contexts = own;
    }
    let view = fleet.settle(&scope).await;
    selector::resolve(&view, &action.targets, &action.scope, purpose)
}

/// Plans a backend change of every instance the action names.
pub async fn plan_instances(
    engine: &Arc<Engine>,
    action: Action,
    shape: Shape,
    request: impl Fn(&Instance) -> Result<Request>,
) -> Result<Planned> {
    let resolved = resolve(engine, &action, Purpose::Change).await?;
    let mut wanted = Vec::new();
    for instance in resolved.targets {
        let request = request(&instance)?;
        wanted.push((instance, request));
    }
    let jobs = prepare_all(engine, wanted).await?;
    finish(engine, action, shape, jobs, resolved.left_out)
}

/// Asks each backend what it would do.
pub async fn prepare_all(
    engine: &Arc<Engine>,
    wanted: Vec<(Arc<Instance>, Request)>,
) -> Result<Vec<(TargetPlan, Job)>> {
    let results: Vec<Result<(TargetPlan, Job)>> = futures::stream::iter(wanted)
        .map(|(instance, request)| prepare_one(Arc::clone(engine), instance, request))
        .buffered(PREPARING)
        .collect()
        .await;
    results.into_iter().collect()
}

async fn prepare_one(
    engine: Arc<Engine>,
    instance: Arc<Instance>,
    request: Request,
) -> Result<(TargetPlan, Job)> {
    let context = instance.context.clone();
    let member = engine.fleet().member(&context).ok_or_else(|| {
        Error::not_found(format!("there is no context {context:?}"))
            .remedy("See corral context list")
    })?;
    let backend = Arc::clone(&member.backend);
    let operation = request.operation();
    let readonly = engine.readonly_reason(&context);
    let support = backend.support(operation, Some(&instance));
    let mut target = target_of(&instance);
    target.protected |= member.spec.protected;
    if let Some(why) = &readonly {
        target.refusals.push(why.clone());
    }
    if let Support::No(why) = &support {
        target.refusals.push(Refusal::new(why.clone(), None));
    }
    let mut prepared = None;
    if target.refusals.is_empty() {
        let cx = engine.fleet().read_cx(&context);
        let what = format!("{context} (asked what {} would do)", operation.title());
        match cx
            .within(&what, request.prepare(backend.as_ref(), &cx, &instance))
            .await
        {
            Ok(found) => {
                fill(&mut target, &found);
                if target.refusals.is_empty() {
                    prepared = Some(found);
                }
            }
            Err(error) => target
                .refusals
                .push(Refusal::from(&error.in_context(&context))),
        }
    }
    Ok((
        target,
        Job {
            instance,
            work: Work::Backend(backend, Box::new(request)),
            prepared,
            support,
            readonly,
        },
    ))
}

/// A target's plan before anything is known of the change.
pub fn target_of(instance: &Instance) -> TargetPlan {
    TargetPlan {
        id: instance.id.clone(),
        uid: instance.uid.clone(),
        name: instance.name.clone(),
        backend: instance.backend.clone(),
        state: instance.state,
        host: instance.host.clone(),
        observed_at: instance.observed_at,
        protected: instance.protected,
        unchanged: false,
        steps: Vec::new(),
        losses: Vec::new(),
        notes: Vec::new(),
        refusals: Vec::new(),
        token: String::new(),
        detachable: false,
    }
}

/// Copies what `prepare` found into the plan.
pub fn fill(target: &mut TargetPlan, found: &Prepared) {
    target.unchanged = found.unchanged;
    target.steps.clone_from(&found.steps);
    target.losses.clone_from(&found.losses);
    target.notes.clone_from(&found.notes);
    target.refusals.extend(found.refusals.iter().cloned());
    target.token.clone_from(&found.token);
    target.detachable = found.detachable;
}

/// Plans a change of corral's own state on one thing.
pub fn plan_local(
    engine: &Arc<Engine>,
    action: Action,
    shape: Shape,
    works: Vec<(Arc<Instance>, Prepared, Arc<dyn LocalWork>)>,
) -> Result<Planned> {
    let jobs = works
        .into_iter()
        .map(|(instance, found, work)| {
            let mut target = target_of(&instance);
            let readonly = engine.readonly_reason(&instance.context);
            if let Some(why) = &readonly {
                target.refusals.push(why.clone());
            }
            fill(&mut target, &found);
            let prepared = target.refusals.is_empty().then_some(found);
            let job = Job {
                instance,
                work: Work::Local(work),
                prepared,
                support: Support::Native,
                readonly,
            };
            (target, job)
        })
        .collect();
    finish(engine, action, shape, jobs, Vec::new())
}

/// Puts question and gate on a set of targets.
pub fn finish(
    engine: &Arc<Engine>,
    action: Action,
    shape: Shape,
    prepared: Vec<(TargetPlan, Job)>,
    left_out: Vec<crate::model::LeftOut>,
) -> Result<Planned> {
    let relaxed = prepared.iter().all(|(t, _)| {
        engine
            .fleet()
            .member(t.id.context())
            .is_some_and(|m| m.spec.relaxed)
    });
    // What is deleted on the way is a delete to whoever protected it.
    let deletes = prepared
        .iter()
        .any(|(t, job)| t.protected && job.prepared.as_ref().is_some_and(|found| found.deletes));
    let (targets, jobs): (Vec<TargetPlan>, Vec<Job>) = prepared.into_iter().unzip();
    let risk = if deletes {
        shape.risk.max(Risk::Confirm)
    } else {
        shape.risk
    };
    let gate = guard::gate(risk, &action.verb, &targets, relaxed && !targets.is_empty());
    // Of several the question counts only those that would change, as the gate does.
    let changing: Vec<&TargetPlan> = targets.iter().filter(|t| t.changes()).collect();
    let what = match (changing.as_slice(), targets.as_slice()) {
        ([one], _) => one.name.clone(),
        ([], [one]) => one.name.clone(),
        ([], all) => format!("{} {}", all.len(), shape.noun),
        (many, _) => format!("{} {}", many.len(), shape.noun),
    };
    let tail = if shape.tail.is_empty() {
        String::new()
    } else {
        format!(" {}", shape.tail)
    };
    let question = format!("{} {what}{tail}?", shape.ask);
    let plan = Plan {
        command: format!("corral {}", grammar::print(&action)),
        action,
        question,
        gate,
        danger: shape.danger,
        targets,
        left_out,
        concurrency: engine.concurrency(),
    };
    Ok(Planned {
        plan,
        jobs,
        heavy: shape.heavy,
    })
}
