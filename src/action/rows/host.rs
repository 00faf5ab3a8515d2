//! `host list|info`.

use std::sync::Arc;

use super::super::around::{Gathered, gather, pick};
use super::super::engine::Engine;
use super::super::row::{Group, Row, Run, Targets};
use crate::model::{Action, Body, Data, GroupNoun, Host, Operation, Result};

const LIST: Row = Row {
    aliases: &["host ls"],
    examples: &["host list", "host list -o json"],
    details: "Memory in use is what no program could get if it asked; caches are not counted.",
    noun: GroupNoun::Hosts,
    operations: &[Operation::Hosts],
    ..Row::new(
        "host list",
        Group::Around,
        "Lists the machines that run instances",
        Run::Read(|e, a| Box::pin(list(e, a))),
    )
};

const INFO: Row = Row {
    aliases: &["host show"],
    examples: &["host info", "host info local/node1 -o yaml"],
    noun: GroupNoun::Hosts,
    targets: Targets::Any,
    operations: &[Operation::Hosts],
    ..Row::new(
        "host info",
        Group::Around,
        "Shows everything about a machine",
        Run::Read(|e, a| Box::pin(info(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&LIST, &INFO];

async fn hosts(engine: &Arc<Engine>, action: &Action) -> Result<Gathered<Host>> {
    gather(engine, action, Operation::Hosts, &|backend, cx| {
        backend.families().hosts().map(|family| family.hosts(cx))
    })
    .await
}

async fn list(engine: Arc<Engine>, action: Action) -> Result<Data> {
    Ok(hosts(&engine, &action).await?.data(Body::Hosts))
}

async fn info(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let all = hosts(&engine, &action).await?;
    Ok(pick(all, &action.targets, "host")?.data(Body::HostDetails))
}
