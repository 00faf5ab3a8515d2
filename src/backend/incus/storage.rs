//! Storage pools and their volumes.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use serde_json::Value;

use super::ctx::Ctx;
use super::json::{Look as _, encoded, entry, named, size};
use crate::backend::contract::{ReadCx, Storage};
use crate::model::{Bytes, Error, ErrorKind, InstanceId, Result, StoragePool, Volume, shown};

/// Pools asked for their space at once.
const AT_ONCE: usize = 8;

/// The storage family.
#[derive(Clone, Debug)]
pub struct Pools(pub Arc<Ctx>);

/// The instances of a `used_by`; what else uses it is not of them.
pub fn users(ctx: &Ctx, value: &Value) -> Vec<InstanceId> {
    let urls = value.list("used_by").iter().filter_map(Value::as_str);
    let instances = urls.filter(|url| {
        let path = url.split('?').next().unwrap_or_default();
        let parts: Vec<&str> = path.split('/').collect();
        matches!(
            parts.as_slice(),
            ["", _, "instances" | "containers" | "virtual-machines", _]
        )
    });
    let mut ids: Vec<InstanceId> = instances
        .filter_map(|url| named(url).map(|(name, project)| ctx.id(&project, &name)))
        .collect();
    ids.sort();
    ids.dedup();
    ids
}

fn pool(ctx: &Ctx, value: &Value) -> Option<StoragePool> {
    let config = value.object("config");
    let status = value.text("status").unwrap_or("Created");
    Some(StoragePool {
        context: ctx.spec.name.clone(),
        name: value.text("name")?.to_owned(),
        kind: value.text("driver").unwrap_or("unknown").to_owned(),
        place: entry(config, "source").map(str::to_owned),
        host: None,
        size_bytes: None,
        used_bytes: None,
        fault: (status != "Created").then(|| format!("its server says {}", shown(status))),
    })
}

/// All pools: one call, and one more for the space of each.
///
/// # Errors
/// As a read.
pub async fn pools(ctx: &Ctx, cx: &ReadCx) -> Result<Vec<StoragePool>> {
    let api = ctx.api()?;
    let reply = api.get(cx, "/1.0/storage-pools?recursion=1").await?;
    let list = reply.metadata.as_array().cloned().unwrap_or_default();
    let pools: Vec<StoragePool> = list.iter().filter_map(|value| pool(ctx, value)).collect();
    let filled = futures::stream::iter(pools).map(|mut pool| async move {
        let path = format!("/1.0/storage-pools/{}/resources", encoded(&pool.name));
        match api.get(cx, &path).await {
            Ok(reply) => {
                let space = reply.metadata.get("space");
                let total = space
                    .and_then(|space| space.number("total"))
                    .filter(|n| *n > 0);
                pool.size_bytes = total.map(Bytes);
                pool.used_bytes = total
                    .and_then(|total| Some(space?.number("used")?.min(total)))
                    .map(Bytes);
            }
            Err(error) if pool.fault.is_none() => {
                pool.fault = Some(format!("its space is not known: {error}"));
            }
            Err(_) => {}
        }
        pool
    });
    Ok(filled.buffered(AT_ONCE).collect().await)
}

#[async_trait]
impl Storage for Pools {
    async fn pools(&self, cx: &ReadCx) -> Result<Vec<StoragePool>> {
        pools(&self.0, cx).await
    }

    async fn volumes(&self, cx: &ReadCx, pool: &str) -> Result<Vec<Volume>> {
        let ctx = &*self.0;
        let path = format!(
            "/1.0/storage-pools/{}/volumes?recursion=1&{}",
            encoded(pool),
            ctx.scope()
        );
        let reply = ctx.api()?.get(cx, &path).await.map_err(|error| {
            if error.kind == ErrorKind::NotFound {
                Error::not_found(format!("there is no storage pool {:?}", shown(pool)))
                    .remedy("See corral storage list")
            } else {
                error
            }
        })?;
        let list = reply.metadata.as_array().cloned().unwrap_or_default();
        let read = |value: &Value| {
            let kind = value.text("type").unwrap_or("custom");
            let used_by = users(ctx, value);
            Some(Volume {
                pool: pool.to_owned(),
                name: match kind {
                    "custom" => value.text("name")?.to_owned(),
                    kind => format!("{kind}/{}", value.text("name")?),
                },
                format: value.text("content_type").map(str::to_owned),
                size_bytes: entry(value.object("config"), "size")
                    .and_then(size)
                    .map(Bytes),
                used_bytes: None,
                orphan: kind == "custom" && value.list("used_by").is_empty(),
                used_by,
            })
        };
        Ok(list.iter().filter_map(read).collect())
    }
}
