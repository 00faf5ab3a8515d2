//! `doctor`, and `doctor --fix`.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use super::super::engine::Engine;
use super::super::planner::{LocalWork, Planned, Shape, plan_local};
use super::super::row::{Group, Risk, Row, Run, Targets};
use crate::backend::contract::{Backend, Prepared, TaskCx};
use crate::doctor;
use crate::model::{
    Action, Body, Check, CheckStatus, Data, Error, Field, FieldKind, GroupNoun, Instance,
    InstanceId, InstanceKind, Outcome, Result, State, Step,
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

async fn checks(engine: &Arc<Engine>, action: &Action) -> Vec<Check> {
    let mut found = super::super::health::checks(engine);
    for report in doctor::run(engine.fleet(), &action.scope).await {
        found.extend(report.checks.into_iter().map(|mut check| {
            check.context = Some(report.context.name.clone());
            check
        }));
    }
    let only = action.args.text("check");
    found.retain(|check| only.is_none_or(|id| check.id == id));
    found
}

async fn check(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let checks = checks(&engine, &action).await;
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
    backend: Arc<dyn Backend>,
    check: String,
}

#[async_trait]
impl LocalWork for Repair {
    async fn run(&self, cx: &TaskCx, _: Prepared) -> Result<Outcome> {
        self.backend.repair(cx, &self.check).await
    }
}

async fn fix(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let mut works: Vec<(Arc<Instance>, Prepared, Arc<dyn LocalWork>)> = Vec::new();
    for check in checks(&engine, &action).await {
        let (Some(_), Some(context)) = (&check.fix, &check.context) else {
            continue;
        };
        if check.status == CheckStatus::Ok {
            continue;
        }
        let Some(member) = engine.fleet().member(context) else {
            continue;
        };
        let id = InstanceId::new(context, Some("doctor"), &check.id);
        let stub = Instance::new(
            id,
            member.spec.kind.clone(),
            InstanceKind::Vm,
            State::Broken,
            Timestamp::now(),
        );
        let native = check.remedy.clone().unwrap_or_else(|| check.id.clone());
        let prepared = Prepared::new(
            format!("{}:{}", check.id, check.message),
            vec![Step::new(check.message.clone(), native)],
        );
        let work = Repair {
            backend: Arc::clone(&member.backend),
            check: check.id.clone(),
        };
        works.push((Arc::new(stub), prepared, Arc::new(work)));
    }
    let mut shape = Shape::of(&action)?;
    "Repair".clone_into(&mut shape.ask);
    if works.is_empty() {
        return Err(Error::not_found("nothing that corral can repair was found")
            .remedy("corral doctor says what only you can do"));
    }
    plan_local(&engine, action, shape, works)
}
