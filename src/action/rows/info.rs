//! `info`: everything about one instance.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;

use super::super::engine::Engine;
use super::super::envelope;
use super::super::planner::resolve;
use super::super::row::{Group, Row, Run, Targets};
use crate::fleet::selector::Purpose;
use crate::model::{
    Action, Body, Data, Detail, Error, ErrorKind, Field, GroupNoun, Instance, InstanceId, Result,
    Scope,
};

/// Enough to hide latency, few enough for one daemon.
const AT_ONCE: usize = 8;

pub(super) const ROWS: &[&Row] = &[&Row {
    aliases: &["show"],
    examples: &["info local/web", "info web -o yaml"],
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[Field::flag(
        "native",
        "Prints the definition as the backend has it",
    )],
    ..Row::new(
        "info",
        Group::Look,
        "Shows everything about an instance",
        Run::Read(|e, a| Box::pin(info(e, a))),
    )
}];

async fn info(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let found = details(&engine, &action).await?;
    let view = engine.fleet().view();
    let mut data = envelope::of_fleet(&view, &found.scope, Body::Details(found.details));
    data.errors.extend(found.failed);
    Ok(data)
}

/// What came of asking for details.
pub(super) struct Found {
    /// In the order they were named.
    pub(super) details: Vec<Detail>,
    /// Instances that could not be asked: they hide no other.
    pub(super) failed: Vec<Error>,
    /// What the answer is about.
    pub(super) scope: Scope,
}

/// Asks each backend for the details of what the action names, a few at a time.
///
/// # Errors
/// When none could be had: why the first could not.
pub(super) async fn details(engine: &Arc<Engine>, action: &Action) -> Result<Found> {
    let resolved = resolve(engine, action, Purpose::Read).await?;
    let mut found = Found {
        details: Vec::new(),
        failed: Vec::new(),
        scope: resolved.scope(),
    };
    let mut answers = details_of(engine, resolved.targets);
    while let Some((_, answer)) = answers.next().await {
        match answer {
            Ok(detail) => found.details.push(detail),
            Err(error) => found.failed.push(error),
        }
    }
    if found.details.is_empty() && !found.failed.is_empty() {
        return Err(found.failed.swap_remove(0));
    }
    Ok(found)
}

/// Asks for each, a few at a time, in order.
pub(super) fn details_of(
    engine: &Arc<Engine>,
    instances: Vec<Arc<Instance>>,
) -> BoxStream<'static, (InstanceId, Result<Detail>)> {
    let engine = Arc::clone(engine);
    futures::stream::iter(instances)
        .map(move |instance| {
            let engine = Arc::clone(&engine);
            async move { (instance.id.clone(), one(engine, instance).await) }
        })
        .buffered(AT_ONCE)
        .boxed()
}

async fn one(engine: Arc<Engine>, instance: Arc<Instance>) -> Result<Detail> {
    let context = &instance.context;
    let member = engine
        .fleet()
        .member(context)
        .ok_or_else(|| Error::not_found(format!("there is no context {context:?}")))?;
    let cx = engine.fleet().read_cx(context);
    let mut detail = cx
        .within(context, member.backend.detail(&cx, &instance.id))
        .await
        .map_err(|error| not_usage(error).in_context(context))?;
    engine.fleet().note_detail(&detail);
    detail.instance.protected |= engine.protection().holds(&detail.instance) || instance.protected;
    Ok(detail)
}

/// What is wrong with an instance's own files is no fault of the command line.
fn not_usage(mut error: Error) -> Error {
    if error.kind == ErrorKind::Invalid {
        error.kind = ErrorKind::Backend;
    }
    error
}
