//! `matrix`: what can be done where.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::planner::resolve;
use super::super::row::{Group, Row, Run, Targets};
use crate::backend::registry::KINDS;
use crate::fleet::selector::Purpose;
use crate::model::{Action, Body, Data, GroupNoun, MatrixCell, MatrixRow, Operation, Result};

pub(super) const ROWS: &[&Row] = &[&Row {
    aliases: &["support"],
    examples: &["matrix", "matrix -o markdown", "matrix local/web"],
    details: "Without an instance: every kind of backend, from what was built in, without network. With instances: what can be done with them now, and why not.",
    noun: GroupNoun::Instances,
    targets: Targets::Any,
    ..Row::new(
        "matrix",
        Group::Look,
        "Shows what can be done where",
        Run::Read(|e, a| Box::pin(matrix(e, a))),
    )
}];

async fn matrix(engine: Arc<Engine>, action: Action) -> Result<Data> {
    if action.targets.is_empty() && action.scope.filter.is_none() {
        return Ok(Data::new(Body::Matrix(of_kinds(&action.scope.backends))));
    }
    let resolved = resolve(&engine, &action, Purpose::Read).await?;
    let rows = Operation::ALL
        .into_iter()
        .map(|operation| MatrixRow {
            operation,
            title: operation.title().to_owned(),
            cells: resolved
                .targets
                .iter()
                .map(|row| MatrixCell {
                    backend: row.id.to_string(),
                    support: engine.support(operation, &row.id),
                })
                .collect(),
        })
        .collect();
    Ok(Data::new(Body::Matrix(rows)))
}

/// The static matrix of all kinds, or of those named.
pub fn of_kinds(only: &[String]) -> Vec<MatrixRow> {
    let kinds = || {
        KINDS
            .iter()
            .filter(|k| only.is_empty() || only.iter().any(|o| o == k.id))
    };
    Operation::ALL
        .into_iter()
        .map(|operation| MatrixRow {
            operation,
            title: operation.title().to_owned(),
            cells: kinds()
                .map(|kind| MatrixCell {
                    backend: kind.id.to_owned(),
                    support: (kind.support)(operation),
                })
                .collect(),
        })
        .collect()
}
