//! `events`: what backends reported.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;

use super::super::engine::Engine;
use super::super::envelope;
use super::super::planner::resolve;
use super::super::row::{Group, Row, Run, Targets};
use crate::fleet::selector::Purpose;
use crate::model::{
    Action, Body, Data, Event, Field, FieldKind, GroupNoun, InstanceId, Operation, Result, Scope,
};

pub(super) const ROWS: &[&Row] = &[&Row {
    examples: &["events", "events local/web", "events -f -o json"],
    noun: GroupNoun::Instances,
    targets: Targets::Any,
    fields: &[
        Field::flag("follow", "Goes on as events happen").short('f'),
        Field::new("last", FieldKind::Count, "So many of the newest").default("50"),
    ],
    operations: &[Operation::Events],
    shapes: &[("follow", Run::Follow(follow))],
    ..Row::new(
        "events",
        Group::Look,
        "Shows what backends reported",
        Run::Read(|e, a| Box::pin(events(e, a))),
    )
}];

/// The instances that are meant and what an answer about them is about; none means everything, also
/// what is no instance's.
async fn targets(engine: &Engine, action: &Action) -> Result<(Option<Vec<InstanceId>>, Scope)> {
    if action.targets.is_empty() && action.scope.filter.is_none() {
        return Ok((None, action.scope.clone()));
    }
    let resolved = resolve(engine, action, Purpose::Read).await?;
    let ids = resolved.targets.iter().map(|row| row.id.clone()).collect();
    Ok((Some(ids), resolved.scope()))
}

async fn events(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let (ids, scope) = targets(&engine, &action).await?;
    let view = engine.fleet().settle(&scope).await;
    let mut found: Vec<Event> = Vec::new();
    for context in view
        .contexts
        .iter()
        .filter(|c| scope.covers(&c.name, c.kind.as_str()))
    {
        let wanted: Vec<Option<&InstanceId>> = match &ids {
            None => vec![None],
            Some(ids) => ids
                .iter()
                .filter(|id| id.context() == context.name)
                .map(Some)
                .collect(),
        };
        for id in wanted {
            found.extend(
                engine
                    .fleet()
                    .recorded_events(id, Some(&context.name))
                    .await,
            );
            if let Some(member) = engine.fleet().member(&context.name)
                && let Some(family) = member.backend.families().events()
                && context.health.is_ok()
            {
                let cx = engine.fleet().read_cx(&context.name);
                found.extend(cx.within(&context.name, family.recorded(&cx, id)).await?);
            }
        }
    }
    found.sort_by_key(|a| a.at);
    found.dedup();
    let last = usize::try_from(action.args.count("last").unwrap_or(50)).unwrap_or(usize::MAX);
    let from = found.len().saturating_sub(last);
    Ok(envelope::of_fleet(
        &view,
        &scope,
        Body::Events(found.split_off(from)),
    ))
}

fn follow(engine: Arc<Engine>, action: Action) -> BoxStream<'static, Result<Data>> {
    let receiver = engine.fleet().events();
    futures::stream::once(async move {
        let ids = match targets(&engine, &action).await {
            Ok((ids, _)) => ids,
            Err(error) => return futures::stream::once(async { Err(error) }).boxed(),
        };
        futures::stream::unfold((engine, receiver), |(engine, mut receiver)| async move {
            loop {
                match receiver.recv().await {
                    Ok(event) => return Some((event, (engine, receiver))),
                    Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                    Err(tokio::sync::broadcast::error::RecvError::Closed) => return None,
                }
            }
        })
        .filter(move |event| {
            let scope = &action.scope;
            let meant = ids
                .as_ref()
                .is_none_or(|ids| event.instance.as_ref().is_some_and(|id| ids.contains(id)));
            let keep =
                meant && (scope.contexts.is_empty() || scope.contexts.contains(&event.context));
            async move { keep }
        })
        .map(|event| Ok(Data::new(Body::Events(vec![event]))))
        .boxed()
    })
    .flatten()
    .boxed()
}
