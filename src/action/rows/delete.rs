//! `delete`.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Risk, Row, Run, Targets};
use crate::backend::contract::RemoveRequest;
use crate::backend::contract::Request;
use crate::model::{Action, Field, GroupNoun, Operation, Result};

const DELETE: Row = Row {
    aliases: &["rm"],
    examples: &[
        "delete local/web --dry-run",
        "delete local/web --confirm web",
        "delete local/web --keep-disks --confirm web",
    ],
    details: "Removes the instance and the disks that only it uses, as the plan lists them. Shared and foreign disks stay.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[
        Field::flag("keep-disks", "Leaves every disk where it is"),
        Field::flag("force", "Powers a running instance off first"),
    ],
    risk: Risk::TypeName,
    danger: true,
    operations: &[Operation::Delete],
    leads_to: &["gone"],
    ..Row::new(
        "delete",
        Group::Life,
        "Deletes instances and their own disks",
        Run::Change(|e, a| Box::pin(delete(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&DELETE];

async fn delete(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let request = RemoveRequest {
        keep_disks: action.args.flag("keep-disks"),
        force: action.args.flag("force"),
    };
    let mut shape = Shape::of(&action)?;
    "for good".clone_into(&mut shape.tail);
    plan_instances(&engine, action, shape, |_| Ok(Request::Remove(request))).await
}
