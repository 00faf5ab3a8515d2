//! `metrics`: load of running instances.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::engine::Engine;
use super::super::envelope;
use super::super::planner::resolve;
use super::super::row::{Group, Row, Run, Targets};
use crate::fleet::selector::Purpose;
use crate::model::{
    Action, Body, Data, GroupNoun, InstanceId, MetricSeries, Operation, Result, State,
};

/// Rates need two readings; this far apart.
const BETWEEN: Duration = Duration::from_secs(1);

pub(super) const ROWS: &[&Row] = &[&Row {
    aliases: &["top"],
    examples: &["metrics", "metrics local/web -o json"],
    noun: GroupNoun::Instances,
    targets: Targets::Any,
    operations: &[Operation::Metrics],
    ..Row::new(
        "metrics",
        Group::Look,
        "Shows the load of running instances",
        Run::Read(|e, a| Box::pin(metrics(e, a))),
    )
}];

async fn metrics(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let resolved = resolve(&engine, &action, Purpose::Read).await?;
    let scope = resolved.scope();
    let mut by_context: BTreeMap<String, Vec<InstanceId>> = BTreeMap::new();
    for row in resolved
        .targets
        .iter()
        .filter(|row| row.state == State::Running)
    {
        by_context
            .entry(row.context.clone())
            .or_default()
            .push(row.id.clone());
    }
    let mut errors = Vec::new();
    let mut series: Vec<MetricSeries> = Vec::new();
    for round in 0..2 {
        if round == 1 {
            tokio::time::sleep(BETWEEN).await;
        }
        for (context, ids) in &by_context {
            let Some(member) = engine.fleet().member(context) else {
                continue;
            };
            let Some(family) = member.backend.families().metrics() else {
                continue;
            };
            let cx = engine.fleet().read_cx(context);
            match cx.within(context, family.sample(&cx, ids)).await {
                Ok(samples) if round == 1 => {
                    series.extend(samples.into_iter().map(|(id, sample)| MetricSeries {
                        id,
                        samples: vec![sample],
                    }));
                }
                Err(error) if round == 1 => errors.push(error.in_context(context)),
                // The first round only sets the marks that rates are measured from.
                _ => {}
            }
        }
    }
    let mut data = envelope::of_fleet(&engine.fleet().view(), &scope, Body::Metrics(series));
    data.complete &= errors.is_empty();
    data.errors.extend(errors);
    Ok(data)
}
