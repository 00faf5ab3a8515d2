//! `autostart`: the mark, and the start of all that have it.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use super::super::engine::Engine;
use super::super::planner::{LocalWork, Planned, Shape, plan_instances, plan_local};
use super::super::row::{Group, Row, Run, Targets};
use super::setter;
use crate::backend::contract::{AutostartRequest, PowerRequest, Prepared, Request, TaskCx};
use crate::model::{
    Action, Error, ErrorKind, Field, Gate, GroupNoun, Instance, InstanceId, InstanceKind, Kind,
    Operation, Outcome, Result, State,
};

const AUTOSTART: Row = Row {
    examples: &[
        "autostart local/web --on",
        "autostart local/web --off",
        "autostart --run --context local",
    ],
    details: "Where the system has no way of its own, corral doctor --fix sets up what runs `corral autostart --run`.",
    noun: GroupNoun::Instances,
    targets: Targets::Any,
    fields: &[
        setter::on("Starts it with its host (default)"),
        setter::off("No longer does"),
        Field::flag("run", "Starts now all that are marked so; asks nothing"),
    ],
    operations: &[Operation::Autostart],
    shapes: &[("run", Run::Change(|e, a| Box::pin(run(e, a))))],
    ..Row::new(
        "autostart",
        Group::Life,
        "Starts an instance with its host, or no longer",
        Run::Change(|e, a| Box::pin(mark(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&AUTOSTART];

async fn mark(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    if action.targets.is_empty() && action.scope.filter.is_none() {
        return Err(Error::invalid("corral autostart: which instance?")
            .remedy("Name it, or see corral list"));
    }
    let on = setter::is_on(&action)?;
    let shape = Shape::of(&action)?;
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Autostart(AutostartRequest { on }))
    })
    .await
}

async fn run(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    if action.args.flag("on") || action.args.flag("off") {
        return Err(Error::invalid("--run goes without --on and --off"));
    }
    let mut shape = Shape::of(&action)?;
    "Start".clone_into(&mut shape.ask);
    let mut marked = action.clone();
    let own = action.scope.filter.as_deref().unwrap_or_default();
    marked.scope.filter = Some(format!("{own} autostart:yes").trim().to_owned());
    let start = |_: &Instance| Ok(Request::Power(PowerRequest::Start));
    let mut planned = match plan_instances(&engine, marked, shape, start).await {
        Ok(planned) => planned,
        Err(error) if error.kind == ErrorKind::NotFound && action.targets.is_empty() => {
            nothing(&engine, &action)?
        }
        Err(error) => return Err(error),
    };
    planned.plan.action = action;
    // Each of them was marked for just this: a boot has nobody to ask.
    planned.plan.gate = Gate::Free;
    Ok(planned)
}

/// That nothing is marked is no failure of a boot.
fn nothing(engine: &Arc<Engine>, action: &Action) -> Result<Planned> {
    let id = InstanceId::new(".corral", Some("autostart"), "none");
    let kind = Kind::new("corral");
    let stub = Instance::new(id, kind, InstanceKind::Vm, State::Stopped, Timestamp::now());
    let prepared = Prepared::unchanged("", "nothing is marked to start with its host");
    let work = Arc::new(Nothing) as Arc<dyn LocalWork>;
    let works = vec![(Arc::new(stub), prepared, work)];
    plan_local(engine, action.clone(), Shape::of(action)?, works)
}

struct Nothing;

#[async_trait]
impl LocalWork for Nothing {
    async fn run(&self, _: &TaskCx, _: Prepared) -> Result<Outcome> {
        Ok(Outcome::unchanged(
            "nothing is marked to start with its host",
        ))
    }
}
