//! `unlock`.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Risk, Row, Run, Targets};
use crate::backend::contract::{Request, UnlockRequest};
use crate::model::{Action, GroupNoun, Operation, Result};

const UNLOCK: Row = Row {
    examples: &["unlock local/web", "unlock local/web --dry-run"],
    details: "What a living process holds is left alone, and told with its number and command.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    risk: Risk::Confirm,
    operations: &[Operation::Unlock],
    ..Row::new(
        "unlock",
        Group::Life,
        "Removes a lock of a process that is gone",
        Run::Change(|e, a| Box::pin(unlock(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&UNLOCK];

async fn unlock(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let shape = Shape::of(&action)?;
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Unlock(UnlockRequest))
    })
    .await
}
