//! `wait`: until instances are as wanted.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::super::engine::Engine;
use super::super::planner::resolve;
use super::super::row::{Group, Row, Run, Targets, WAITS};
use super::super::waiting::{self, Wanted};
use crate::fleet::selector::Purpose;
use crate::model::{
    Action, Body, Data, ErrorKind, Field, FieldKind, GroupNoun, InstanceId, Result, WaitRow,
};

pub(super) const ROWS: &[&Row] = &[&Row {
    examples: &[
        "wait local/web --for running",
        "wait local/web --for gone --timeout 5m",
    ],
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[
        Field::new("for", FieldKind::Choice(WAITS), "What to wait for").required(),
        Field::new("timeout", FieldKind::Duration, "How long at most").default("10m"),
    ],
    ..Row::new(
        "wait",
        Group::Look,
        "Waits until instances are as wanted",
        Run::Read(|e, a| Box::pin(wait(e, a))),
    )
}];

async fn wait(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let wanted: Wanted = action.args.text("for").unwrap_or("running").parse()?;
    let limit = action
        .args
        .duration("timeout")
        .unwrap_or(Duration::from_secs(600));
    let ids: Vec<InstanceId> = match resolve(&engine, &action, Purpose::Read).await {
        Ok(resolved) => resolved.targets.iter().map(|row| row.id.clone()).collect(),
        // Gone already is what was wanted, if the name says where it was, or if any would do.
        Err(error) if wanted == Wanted::Gone && error.kind == ErrorKind::NotFound => action
            .targets
            .iter()
            .filter(|target| !target.is_glob())
            .map(|t| t.as_str().parse())
            .collect::<Result<_>>()
            .map_err(|_| error)?,
        Err(error) => return Err(error),
    };
    let cancel = CancellationToken::new();
    let waits = ids.into_iter().map(|id| {
        let engine = Arc::clone(&engine);
        let cancel = cancel.clone();
        async move {
            let result = waiting::until(&engine, &id, wanted, limit, &cancel).await;
            (id, result)
        }
    });
    let mut rows = Vec::new();
    let mut errors = Vec::new();
    for (id, result) in futures::future::join_all(waits).await {
        let seconds = result
            .as_ref()
            .map_or(limit.as_secs_f64(), Duration::as_secs_f64);
        rows.push(WaitRow {
            wanted: wanted.to_string(),
            reached: result.is_ok(),
            seconds,
            id,
        });
        errors.extend(result.err());
    }
    if errors.len() == rows.len()
        && let Some(first) = errors.into_iter().next()
    {
        return Err(first);
    }
    let mut data = Data::new(Body::Waits(rows));
    data.complete = true;
    Ok(data)
}
