//! `clone`.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Risk, Row, Run, Targets};
use crate::backend::contract::{CloneRequest, Request};
use crate::model::{Action, Error, Field, FieldKind, GroupNoun, Operation, Result, shown};

const CLONE: Row = Row {
    examples: &[
        "clone local/web --name web2",
        "clone local/base --name web2 --linked --start",
        "clone local/web --name test --snapshot clean",
    ],
    details: "The clone gets addresses, ports and an identity of its own; the plan says what its guest keeps. \
--linked makes overlays that need the original's disks to stay as they are.",
    noun: GroupNoun::Instances,
    targets: Targets::One,
    fields: &[
        Field::new("name", FieldKind::Name, "Name of the clone").required(),
        Field::flag(
            "linked",
            "Overlays of the original's disks instead of copies",
        ),
        Field::new(
            "snapshot",
            FieldKind::Snapshot,
            "From this snapshot instead of the present",
        ),
        Field::flag(
            "keep-identity",
            "Keeps machine ID, SSH host keys and host name of the guest",
        ),
        Field::flag("start", "Starts it once it is made"),
    ],
    risk: Risk::Confirm,
    heavy: true,
    operations: &[Operation::Clone, Operation::LinkedClone],
    leads_to: &["running", "address", "agent", "stopped"],
    ..Row::new(
        "clone",
        Group::Life,
        "Makes another instance like one that there is",
        Run::Change(|e, a| Box::pin(clone(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&CLONE];

async fn clone(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let name = action.args.text("name").unwrap_or_default().to_owned();
    // The clone is where the original is; of an instance that is named with its snapshot, that one.
    let mut plain = action;
    let mut snapshot = plain.args.text("snapshot").map(str::to_owned);
    for target in &mut plain.targets {
        let (instance, at) = target.split_snapshot()?;
        match (at, &snapshot) {
            (Some(at), Some(other)) if at != *other => {
                return Err(Error::invalid("two snapshot names were given"));
            }
            (Some(at), _) => snapshot = Some(at),
            (None, _) => {}
        }
        *target = instance;
    }
    if let Some(snapshot) = &snapshot {
        plain.args.set("snapshot", snapshot.clone());
    }
    let args = &plain.args;
    let request = CloneRequest {
        name: name.clone(),
        linked: args.flag("linked"),
        snapshot,
        keep_identity: args.flag("keep-identity"),
        start: args.flag("start"),
    };
    let mut shape = Shape::of(&plain)?;
    shape.tail = format!("as {}", shown(&name));
    plan_instances(&engine, plain, shape, |_| {
        Ok(Request::Clone(request.clone()))
    })
    .await
}
