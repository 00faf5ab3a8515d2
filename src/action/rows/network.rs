//! `network list|info`.

use std::sync::Arc;

use super::super::around::{Gathered, gather, pick};
use super::super::engine::Engine;
use super::super::row::{Group, Row, Run, Targets};
use crate::model::{Action, Body, Data, GroupNoun, Network, Operation, Result};

const LIST: Row = Row {
    aliases: &["network ls"],
    examples: &["network list", "network list -o json"],
    noun: GroupNoun::Networks,
    operations: &[Operation::Networks],
    ..Row::new(
        "network list",
        Group::Around,
        "Lists what network interfaces connect to",
        Run::Read(|e, a| Box::pin(list(e, a))),
    )
};

const INFO: Row = Row {
    aliases: &["network show"],
    examples: &["network info", "network info local/user -o yaml"],
    noun: GroupNoun::Networks,
    targets: Targets::Any,
    operations: &[Operation::Networks],
    ..Row::new(
        "network info",
        Group::Around,
        "Shows everything about a network",
        Run::Read(|e, a| Box::pin(info(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&LIST, &INFO];

async fn networks(engine: &Arc<Engine>, action: &Action) -> Result<Gathered<Network>> {
    gather(engine, action, Operation::Networks, &|backend, cx| {
        backend
            .families()
            .networks()
            .map(|family| family.networks(cx))
    })
    .await
}

async fn list(engine: Arc<Engine>, action: Action) -> Result<Data> {
    Ok(networks(&engine, &action).await?.data(Body::Networks))
}

async fn info(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let all = networks(&engine, &action).await?;
    Ok(pick(all, &action.targets, "network")?.data(Body::NetworkDetails))
}
