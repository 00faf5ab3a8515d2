//! `resize`.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Risk, Row, Run, Targets};
use crate::backend::contract::{Request, ResizeRequest};
use crate::model::{Action, Error, Field, FieldKind, GroupNoun, Operation, Result};

const RESIZE: Row = Row {
    aliases: &["scale"],
    examples: &[
        "resize local/web --cpus 4",
        "resize local/web --memory 4G --restart",
        "resize local/web --max-cpus 8 --max-memory 16G",
    ],
    details: "A running instance is changed at once where it can be; where it needs a restart, that is refused \
without --restart. --max-cpus and --max-memory give room for more without a restart, from the next start on. \
The size of disks: corral disk grow.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[
        Field::new("cpus", FieldKind::Count, "Virtual CPUs"),
        Field::new("memory", FieldKind::Bytes, "Memory"),
        Field::new(
            "max-cpus",
            FieldKind::Count,
            "Up to so many CPUs without a restart",
        ),
        Field::new(
            "max-memory",
            FieldKind::Bytes,
            "Up to so much memory without a restart",
        ),
        Field::flag("restart", "Restarts a running instance where it needs that"),
    ],
    risk: Risk::Confirm,
    form: true,
    operations: &[Operation::Resize],
    ..Row::new(
        "resize",
        Group::Life,
        "Changes CPUs and memory",
        Run::Change(|e, a| Box::pin(resize(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&RESIZE];

async fn resize(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let args = &action.args;
    let count = |name: &str| {
        args.count(name)
            .map(|n| {
                u32::try_from(n)
                    .ok()
                    .filter(|n| *n > 0)
                    .ok_or_else(|| Error::invalid(format!("--{name}: {n} is not possible")))
            })
            .transpose()
    };
    let request = ResizeRequest {
        cpus: count("cpus")?,
        memory: args.bytes("memory"),
        max_cpus: count("max-cpus")?,
        max_memory: args.bytes("max-memory"),
        restart: args.flag("restart"),
    };
    let nothing = ResizeRequest {
        restart: request.restart,
        ..ResizeRequest::default()
    };
    if request == nothing {
        return Err(Error::invalid("what size?").remedy("Add --cpus N or --memory SIZE"));
    }
    let shape = Shape::of(&action)?;
    plan_instances(&engine, action, shape, |_| Ok(Request::Resize(request))).await
}
