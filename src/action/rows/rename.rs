//! `rename`.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Risk, Row, Run, Targets};
use crate::backend::contract::{RenameRequest, Request};
use crate::model::{Action, Field, FieldKind, GroupNoun, Operation, Result, shown};

const RENAME: Row = Row {
    examples: &["rename local/web --to shop"],
    details: "Its ID follows the name where the backend addresses by name; uid, snapshots, protection and history stay.",
    noun: GroupNoun::Instances,
    targets: Targets::One,
    fields: &[Field::new("to", FieldKind::Name, "The new name").required()],
    risk: Risk::Confirm,
    operations: &[Operation::Rename],
    ..Row::new(
        "rename",
        Group::Life,
        "Gives an instance another name",
        Run::Change(|e, a| Box::pin(rename(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&RENAME];

async fn rename(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let to = action.args.text("to").unwrap_or_default().to_owned();
    let mut shape = Shape::of(&action)?;
    shape.tail = format!("to {}", shown(&to));
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Rename(RenameRequest { to: to.clone() }))
    })
    .await
}
