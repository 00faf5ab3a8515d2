//! `list`: the whole fleet, or the part that matches.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;

use super::super::engine::Engine;
use super::super::envelope;
use super::super::planner::resolve;
use super::super::row::{Group, Row, Run, Targets};
use crate::fleet::selector::Purpose;
use crate::model::{Action, Body, Data, ErrorKind, Field, GroupNoun, Instance, Result};

pub(super) const ROWS: &[&Row] = &[&Row {
    aliases: &["ls", "ps"],
    examples: &[
        "list",
        "list --filter 'state:running tag:prod'",
        "list -o json",
        "list --context local",
    ],
    details: "Asks every context in scope and shows what each answered. A context that does not answer in time \
is named on stderr; its last known instances are shown as unknown.",
    noun: GroupNoun::Instances,
    targets: Targets::Any,
    fields: &[
        Field::flag("watch", "Prints again whenever something changes"),
        Field::flag("addresses", "Waits until addresses were looked for"),
    ],
    shapes: &[("watch", Run::Follow(follow))],
    ..Row::new(
        "list",
        Group::Look,
        "Lists instances of all contexts",
        Run::Read(|e, a| Box::pin(list(e, a))),
    )
}];

async fn list(engine: Arc<Engine>, action: Action) -> Result<Data> {
    if action.args.flag("addresses") {
        engine.fleet().sweep_addresses(&action.scope).await;
    }
    let resolved = resolve(&engine, &action, Purpose::List).await?;
    let scope = resolved.scope();
    let instances = resolved
        .targets
        .iter()
        .map(|row| Instance::clone(row))
        .collect();
    let view = engine.fleet().view();
    let mut data = envelope::of_fleet(&view, &scope, Body::Instances(instances));
    data.errors.extend(resolved.nothing);
    Ok(data)
}

fn follow(engine: Arc<Engine>, action: Action) -> BoxStream<'static, Result<Data>> {
    let changed = engine.fleet().subscribe();
    futures::stream::unfold(
        (engine, action, changed, true),
        |(engine, action, mut changed, first)| async move {
            if !first && changed.changed().await.is_err() {
                return None;
            }
            changed.mark_unchanged();
            let mut data = list(Arc::clone(&engine), action.clone()).await;
            // What matches nothing now may match something next.
            if let Ok(data) = &mut data {
                data.errors
                    .retain(|error| error.kind != ErrorKind::NotFound);
            }
            Some((data, (engine, action, changed, false)))
        },
    )
    .boxed()
}
