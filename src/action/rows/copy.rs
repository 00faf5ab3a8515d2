//! `cp`: files into a guest and out of it.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::paths::at_home;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Risk, Row, Run, Targets, Words};
use crate::backend::contract::{FilesRequest, Request};
use crate::model::{Action, Error, Field, FieldKind, GroupNoun, Operation, Result};

pub(super) const ROWS: &[&Row] = &[&Row {
    examples: &[
        "cp local/web:/etc/hostname .",
        "cp notes.txt local/web:/root/",
        "cp local/web:/var/log/messages messages.txt --overwrite",
    ],
    details: "Exactly one end is INSTANCE:/PATH; a path here that looks so is written with ./ before it. One file at a \
time, compared by its SHA-256 where the guest can tell it. What is there is only replaced with --overwrite.",
    noun: GroupNoun::Instances,
    targets: Targets::One,
    words: Words::FromTo,
    fields: &[
        Field::new(
            "from",
            FieldKind::Path,
            "What: a path here, or :/PATH in the instance",
        ),
        Field::new(
            "to",
            FieldKind::Path,
            "Where to: a path here, or :/PATH in the instance",
        ),
        Field::flag("overwrite", "Replaces a file that is there"),
    ],
    operations: &[Operation::Files],
    ..Row::new(
        "cp",
        Group::Reach,
        "Copies a file into a guest or out of it",
        Run::Change(|e, a| Box::pin(copy(e, a))),
    )
}];

async fn copy(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let overwrite = action.args.flag("overwrite");
    let end = |name: &str| {
        let text = action.args.text(name).filter(|text| !text.is_empty());
        text.ok_or_else(|| Error::invalid(format!("corral cp: --{name} is missing")))
    };
    let (from, to) = (end("from")?, end("to")?);
    let home = &engine.env().home;
    let (request, risk, ask) = match (from.strip_prefix(":/"), to.strip_prefix(":/")) {
        (Some(path), None) => (
            FilesRequest::Pull {
                from: format!("/{path}"),
                to: at_home(home, to),
                overwrite,
            },
            Risk::Free,
            "Copy a file out of",
        ),
        (None, Some(path)) => (
            FilesRequest::Push {
                from: at_home(home, from),
                to: format!("/{path}"),
                overwrite,
            },
            Risk::Confirm,
            "Copy a file into",
        ),
        _ => {
            return Err(
                Error::invalid("corral cp: exactly one end is a path in the instance")
                    .remedy("For example: corral cp web:/etc/hostname ."),
            );
        }
    };
    let mut shape = Shape::of(&action)?;
    shape.risk = risk;
    ask.clone_into(&mut shape.ask);
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Files(request.clone()))
    })
    .await
}
