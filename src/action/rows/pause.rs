//! `pause`, `resume`.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Risk, Row, Run, Targets};
use crate::backend::contract::PauseRequest;
use crate::backend::contract::Request;
use crate::model::{Action, GroupNoun, Operation, Result};

const PAUSE: Row = Row {
    examples: &["pause local/web"],
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    risk: Risk::Confirm,
    operations: &[Operation::Pause],
    leads_to: &["paused"],
    ..Row::new(
        "pause",
        Group::Power,
        "Halts the CPUs; everything stays in RAM",
        Run::Change(|e, a| Box::pin(pause(e, a))),
    )
};

const RESUME: Row = Row {
    aliases: &["unpause"],
    examples: &["resume local/web"],
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    operations: &[Operation::Resume],
    leads_to: &["running", "address", "agent", "stopped"],
    ..Row::new(
        "resume",
        Group::Power,
        "Goes on after a pause",
        Run::Change(|e, a| Box::pin(resume(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&PAUSE, &RESUME];

async fn pause(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let shape = Shape::of(&action)?;
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Pause(PauseRequest::Pause))
    })
    .await
}

async fn resume(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let shape = Shape::of(&action)?;
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Pause(PauseRequest::Resume))
    })
    .await
}
