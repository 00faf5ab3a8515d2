//! `hibernate`.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Risk, Row, Run, Targets};
use crate::backend::contract::{HibernateRequest, Request};
use crate::model::{Action, GroupNoun, Operation, Result};

const HIBERNATE: Row = Row {
    examples: &["hibernate local/web", "hibernate --filter tag:idle -y"],
    details: "start goes on from there. Until then the saved state fits the machine only as it is.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    risk: Risk::Confirm,
    heavy: true,
    operations: &[Operation::Hibernate],
    ..Row::new(
        "hibernate",
        Group::Power,
        "Saves RAM to disk and frees the memory",
        Run::Change(|e, a| Box::pin(hibernate(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&HIBERNATE];

async fn hibernate(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let shape = Shape::of(&action)?;
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Hibernate(HibernateRequest))
    })
    .await
}
