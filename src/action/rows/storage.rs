//! `storage list|info`.

use std::sync::Arc;

use futures::StreamExt as _;

use super::super::around::{Gathered, gather, pick};
use super::super::engine::Engine;
use super::super::row::{Group, Row, Run, Targets};
use crate::model::{
    Action, Body, Data, Error, GroupNoun, Operation, Result, StorageDetail, StoragePool,
};

/// Enough to hide latency, few enough for one daemon.
const AT_ONCE: usize = 8;

const LIST: Row = Row {
    aliases: &["storage ls"],
    examples: &["storage list", "storage list --sort=-used"],
    noun: GroupNoun::Pools,
    operations: &[Operation::Storage],
    ..Row::new(
        "storage list",
        Group::Around,
        "Lists where disks are kept, and the space there",
        Run::Read(|e, a| Box::pin(list(e, a))),
    )
};

const INFO: Row = Row {
    aliases: &["storage show"],
    examples: &["storage info", "storage info local/images -o json"],
    details: "Shows every image and volume with its format, the size a guest sees, the space it takes and who uses it. \
What nobody uses is marked.",
    noun: GroupNoun::Pools,
    targets: Targets::Any,
    operations: &[Operation::Storage],
    ..Row::new(
        "storage info",
        Group::Around,
        "Shows what is kept in a storage and who uses it",
        Run::Read(|e, a| Box::pin(info(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&LIST, &INFO];

async fn pools(engine: &Arc<Engine>, action: &Action) -> Result<Gathered<StoragePool>> {
    gather(engine, action, Operation::Storage, &|backend, cx| {
        backend.families().storage().map(|family| family.pools(cx))
    })
    .await
}

async fn list(engine: Arc<Engine>, action: Action) -> Result<Data> {
    Ok(pools(&engine, &action).await?.data(Body::Pools))
}

async fn info(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let all = pools(&engine, &action).await?;
    let mut wanted = pick(all, &action.targets, "storage")?;
    let asked = std::mem::take(&mut wanted.found);
    let mut answers = futures::stream::iter(asked)
        .map(|pool| volumes(Arc::clone(&engine), pool))
        .buffered(AT_ONCE);
    let mut details = Vec::new();
    let mut failed = Vec::new();
    while let Some((detail, error)) = answers.next().await {
        details.push(detail);
        failed.extend(error);
    }
    wanted.errors.extend(failed);
    Ok(wanted.map(|_| details).data(Body::PoolDetails))
}

/// A pool whose volumes cannot be listed is shown all the same.
async fn volumes(engine: Arc<Engine>, pool: StoragePool) -> (StorageDetail, Option<Error>) {
    let context = pool.context.clone();
    let listed = async {
        let member = engine
            .fleet()
            .member(&context)
            .ok_or_else(|| Error::not_found(format!("there is no context {context:?}")))?;
        let family = member.backend.families().storage();
        let family = family.ok_or_else(|| Error::unsupported("it lists no volumes"))?;
        let cx = engine.asking(engine.fleet().read_cx(&context));
        cx.within(&context, family.volumes(&cx, &pool.name)).await
    };
    let (volumes, error) = match listed.await {
        Ok(volumes) => (volumes, None),
        Err(error) => (Vec::new(), Some(error.in_context(&context))),
    };
    (StorageDetail { pool, volumes }, error)
}
