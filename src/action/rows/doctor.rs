//! `doctor`, and `doctor --fix`.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::channel::mpsc;
use futures::stream::BoxStream;
use jiff::Timestamp;

use super::super::engine::Engine;
use super::super::health;
use super::super::in_parts::SoFar;
use super::super::planner::{LocalWork, Planned, Shape, plan_local};
use super::super::row::{Group, Risk, Row, Run, Targets};
use crate::backend::contract::{Backend, Prepared, TaskCx};
use crate::doctor::{self, Report};
use crate::fleet::selector;
use crate::model::{
    Action, Body, Check, CheckStatus, Data, Error, Field, FieldKind, GroupNoun, Instance,
    InstanceId, InstanceKind, Kind, Outcome, Result, State, Step, counted,
};

const DOCTOR: Row = Row {
    examples: &[
        "doctor",
        "doctor --context local -o json",
        "doctor --fix --dry-run",
    ],
    details: "Health is only said on positive evidence. Exit code 1 when a check failed, 0 with warnings.",
    noun: GroupNoun::None,
    fields: &[
        Field::flag("fix", "Repairs what can be repaired"),
        Field::new("check", FieldKind::Text, "Only this check"),
    ],
    risk: Risk::Confirm,
    shapes: &[("fix", Run::Change(|e, a| Box::pin(fix(e, a))))],
    targets: Targets::None,
    ..Row::new(
        "doctor",
        Group::Work,
        "Checks corral and every context",
        Run::Read(|e, a| Box::pin(check(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&DOCTOR];

/// What there is to say so far of a doctor's question.
type Told<'a> = &'a (dyn Fn(Vec<Check>) + Sync);

/// Asks like the row does; what has been checked is told at once, and everything at the end.
pub(in crate::action) fn in_parts(
    engine: Arc<Engine>,
    action: Action,
) -> BoxStream<'static, SoFar> {
    let (parts, so_far) = mpsc::unbounded();
    let last = async move {
        let known = Mutex::new(Vec::new());
        let told = |checks: Vec<Check>| {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            known.extend(checks);
            let mut data = Data::new(Body::Checks(known.clone()));
            data.complete = false;
            // Nobody listens any more only when the view has been left.
            let _ = parts.unbounded_send(SoFar::Part(Box::new(data)));
        };
        let all = checks(&engine, &action, &told).await;
        SoFar::Whole(all.map(|checks| Box::new(Data::new(Body::Checks(checks)))))
    };
    // It ends with its sender, which ends with `last`.
    futures::stream::select(so_far, futures::stream::once(last)).boxed()
}

async fn checks(engine: &Arc<Engine>, action: &Action, told: Told<'_>) -> Result<Vec<Check>> {
    selector::check_scope(&engine.fleet().view(), &action.scope)?;
    let own = Arc::clone(engine);
    // A home on a dead network drive holds up nobody else.
    let own = async {
        let own = tokio::task::spawn_blocking(move || health::checks(&own)).await;
        let own = own.unwrap_or_else(|error| {
            let message = format!("corral's own checks ended inside: {error}");
            vec![Check::fail("corral.checks", message).remedy("corral config path; report this")]
        });
        told(own.clone());
        own
    };
    let seen = |report: &Report| told(of_context(report));
    let reports = doctor::run(engine.fleet(), &action.scope, &seen);
    let (mut found, reports) = tokio::join!(own, reports);
    found.extend(reports.iter().flat_map(of_context));
    let only = action.args.text("check");
    found.retain(|check| only.is_none_or(|id| check.id == id));
    Ok(found)
}

fn of_context(report: &Report) -> Vec<Check> {
    let named = report.checks.iter().cloned().map(|mut check| {
        check.context = Some(report.context.name.clone());
        check
    });
    named.collect()
}

async fn check(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let checks = checks(&engine, &action, &|_| {}).await?;
    if checks.is_empty()
        && let Some(id) = action.args.text("check")
    {
        return Err(Error::not_found(format!(
            "there is no check {:?}",
            crate::model::shown(id)
        )));
    }
    Ok(Data::new(Body::Checks(checks)))
}

struct Repair {
    /// Whose check it is.
    of: Whose,
    check: String,
}

enum Whose {
    Backend(Arc<dyn Backend>),
    Corral(Arc<Engine>),
}

#[async_trait]
impl LocalWork for Repair {
    async fn run(&self, cx: &TaskCx, _: Prepared) -> Result<Outcome> {
        match &self.of {
            Whose::Backend(backend) => backend.repair(cx, &self.check).await,
            Whose::Corral(engine) => {
                let (engine, check) = (Arc::clone(engine), self.check.clone());
                let done = tokio::task::spawn_blocking(move || health::repair(&engine, &check));
                let done = done
                    .await
                    .map_err(|error| Error::backend("the repair ended inside").because(error))?;
                done.map(Outcome::changed)
            }
        }
    }
}

async fn fix(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let mut works: Vec<(Arc<Instance>, Prepared, Arc<dyn LocalWork>)> = Vec::new();
    for check in checks(&engine, &action, &|_| {}).await? {
        if check.fix.is_none() || check.status == CheckStatus::Ok {
            continue;
        }
        let (context, kind, of) = match &check.context {
            // No context can have this name, so none of a context's rules bend it.
            None => (
                ".corral",
                Kind::new("corral"),
                Whose::Corral(Arc::clone(&engine)),
            ),
            Some(context) => match engine.fleet().member(context) {
                Some(member) => {
                    let backend = Arc::clone(&member.backend);
                    (
                        context.as_str(),
                        member.spec.kind.clone(),
                        Whose::Backend(backend),
                    )
                }
                None => continue,
            },
        };
        let id = InstanceId::new(context, Some("doctor"), &check.id);
        let stub = Instance::new(id, kind, InstanceKind::Vm, State::Broken, Timestamp::now());
        let steps = if check.repair.is_empty() {
            let native = check.remedy.clone().unwrap_or_else(|| check.id.clone());
            vec![Step::new(check.message.clone(), native)]
        } else {
            check.repair.clone()
        };
        let mut prepared = Prepared::new(format!("{}:{}", check.id, check.message), steps);
        if !check.repair.is_empty() {
            prepared.notes.push(check.message.clone());
        }
        let work = Repair {
            of,
            check: check.id.clone(),
        };
        works.push((Arc::new(stub), prepared, Arc::new(work)));
    }
    let mut shape = Shape::of(&action)?;
    "Repair".clone_into(&mut shape.ask);
    if works.is_empty() {
        let nothing =
            "nothing that corral can repair was found; corral doctor says what only you can do";
        let id = InstanceId::new(".corral", Some("doctor"), "corral");
        let kind = Kind::new("corral");
        let stub = Instance::new(id, kind, InstanceKind::Vm, State::Broken, Timestamp::now());
        let work = Repair {
            of: Whose::Corral(Arc::clone(&engine)),
            check: String::new(),
        };
        let prepared = Prepared::unchanged("", nothing);
        works.push((Arc::new(stub), prepared, Arc::new(work)));
    }
    let count = works.len();
    let mut planned = plan_local(&engine, action, shape, works)?;
    planned.plan.question = format!("Repair {}?", counted(count, "fault"));
    Ok(planned)
}
