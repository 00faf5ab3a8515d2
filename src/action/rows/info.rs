//! `info`: everything about one instance.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::envelope;
use super::super::planner::resolve;
use super::super::row::{Group, Row, Run, Targets};
use crate::fleet::selector::Purpose;
use crate::model::{Action, Body, Data, Detail, Error, ErrorKind, Field, GroupNoun, Result, Scope};

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
    let (details, scope) = details(&engine, &action).await?;
    Ok(envelope::of_fleet(
        &engine.fleet().view(),
        &scope,
        Body::Details(details),
    ))
}

/// Asks each backend for the details of what the action names; and what the answer is about.
pub(super) async fn details(engine: &Arc<Engine>, action: &Action) -> Result<(Vec<Detail>, Scope)> {
    let resolved = resolve(engine, action, Purpose::Read).await?;
    let scope = resolved.scope();
    let mut details = Vec::new();
    for instance in resolved.targets {
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
        detail.instance.protected |=
            engine.protection().holds(&detail.instance) || instance.protected;
        details.push(detail);
    }
    Ok((details, scope))
}

/// What is wrong with an instance's own files is no fault of the command line.
fn not_usage(mut error: Error) -> Error {
    if error.kind == ErrorKind::Invalid {
        error.kind = ErrorKind::Backend;
    }
    error
}
