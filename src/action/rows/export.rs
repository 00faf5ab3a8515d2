//! `export`.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::paths::absolute;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Row, Run, Targets};
use crate::backend::contract::{ExportRequest, Request};
use crate::model::{Action, Error, Field, FieldKind, GroupNoun, Operation, Result, shown};

const EXPORT: Row = Row {
    examples: &[
        "export local/web --to web-export",
        "export local/web --to web.qcow2 --snapshot before-upgrade",
        "export local/web --to web.ova --overwrite",
    ],
    details: "Writes an instance out. A folder gets portable.json, one file per disk and SHA256SUMS, and holds all \
that import needs. NAME.qcow2, NAME.raw and NAME.raw.gz hold one disk, NAME.ova descriptor and disks. A running \
instance goes on: its disks are taken at one moment. What was interrupted goes on where it was.",
    noun: GroupNoun::Instances,
    targets: Targets::One,
    fields: &[
        Field::new("to", FieldKind::Path, "New folder or file").required(),
        Field::new(
            "format",
            FieldKind::Choice(&["dir", "qcow2", "raw", "gz", "ova"]),
            "What is written [default: by the name]",
        ),
        Field::new(
            "snapshot",
            FieldKind::Snapshot,
            "From this snapshot, not the present",
        ),
        Field::flag("overwrite", "Replaces the export that is there"),
    ],
    heavy: true,
    operations: &[Operation::Export],
    ..Row::new(
        "export",
        Group::Copies,
        "Writes an instance into files",
        Run::Change(|e, a| Box::pin(export(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&EXPORT];

async fn export(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let args = &action.args;
    if args.text("to") == Some("-") {
        return Err(
            Error::invalid("an export has parts and cannot be written to standard output")
                .remedy("Name a file or a folder; one that is called - is ./-"),
        );
    }
    let request = ExportRequest {
        to: absolute(&engine.env().home, args.text("to").unwrap_or_default()),
        format: args.text("format").map(str::to_owned),
        snapshot: args.text("snapshot").map(str::to_owned),
        overwrite: args.flag("overwrite"),
    };
    let mut shape = Shape::of(&action)?;
    shape.tail = format!("to {}", shown(&request.to.to_string_lossy()));
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Export(request.clone()))
    })
    .await
}
