//! Pools and what is in them.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::ctx::Ctx;
use super::domain::{Domain, Source};
use super::volumes::{self, Vol};
use super::wire::{Call, Fault, Listed};
use crate::backend::contract::{ReadCx, Storage};
use crate::model::{InstanceId, Result, StoragePool, Volume};

/// The storage family.
pub struct Pools(pub Arc<Ctx>);

/// Which domains use which path or volume (`pool/volume`): by the definitions of their next start, and by what runs.
///
/// # Errors
/// Those of libvirt.
pub async fn users(ctx: &Ctx, cx: &ReadCx) -> Result<HashMap<String, Vec<InstanceId>>> {
    let mut users: HashMap<String, Vec<InstanceId>> = HashMap::new();
    for domain in definitions(ctx, cx).await? {
        let id = ctx.id(&domain.name);
        let disks = domain.disks.iter();
        let named = disks.filter_map(|disk| disk.source.as_ref().map(Source::shown));
        let backing = domain.disks.iter().filter_map(|disk| disk.backing.clone());
        for place in named.chain(backing).chain(domain.nvram.clone()) {
            let of = users.entry(place).or_default();
            if !of.contains(&id) {
                of.push(id.clone());
            }
        }
    }
    Ok(users)
}

/// The definitions of all domains, as they run and as they will; those that cannot be read are left out.
///
/// # Errors
/// Those of libvirt.
pub async fn definitions(ctx: &Ctx, cx: &ReadCx) -> Result<Vec<Domain>> {
    let listed: Vec<Listed> = ctx.client.ask(cx, Call::List { all: false }).await?;
    let uuids: Vec<String> = listed.iter().map(|one| one.uuid.clone()).collect();
    let active: Vec<String> = listed
        .iter()
        .filter(|one| one.id.is_some())
        .map(|one| one.uuid.clone())
        .collect();
    let read = |uuids: Vec<String>, config| {
        ctx.client
            .ask::<Vec<(String, Result<String, Fault>)>>(cx, Call::Xml { uuids, config })
    };
    let (config, live) = tokio::try_join!(read(uuids, true), read(active, false))?;
    Ok(config
        .into_iter()
        .chain(live)
        .filter_map(|(_, xml)| Domain::read(&xml.ok()?).ok())
        .collect())
}

#[async_trait]
impl Storage for Pools {
    async fn pools(&self, cx: &ReadCx) -> Result<Vec<StoragePool>> {
        let ctx = &self.0;
        let all = volumes::pools(ctx, cx).await?;
        Ok(all
            .into_iter()
            .map(|(name, pool)| match pool {
                Ok(pool) => StoragePool {
                    context: ctx.spec.name.clone(),
                    name,
                    kind: pool.kind,
                    place: pool.path,
                    host: None,
                    size_bytes: pool.capacity.filter(|_| pool.active),
                    used_bytes: match (pool.capacity, pool.available) {
                        (Some(all), Some(left)) if pool.active => {
                            Some(crate::model::Bytes(all.0.saturating_sub(left.0)))
                        }
                        _ => None,
                    },
                    fault: (!pool.active).then(|| "it is not started".to_owned()),
                },
                Err(error) => StoragePool {
                    context: ctx.spec.name.clone(),
                    name,
                    kind: "?".to_owned(),
                    place: None,
                    host: None,
                    size_bytes: None,
                    used_bytes: None,
                    fault: Some(error.message),
                },
            })
            .collect())
    }

    async fn volumes(&self, cx: &ReadCx, pool: &str) -> Result<Vec<Volume>> {
        let ctx = &self.0;
        volumes::pool(ctx, cx, pool).await?;
        let (all, users) = tokio::try_join!(volumes::in_pool(ctx, cx, pool), users(ctx, cx))?;
        // What another volume is on top of is needed, too.
        let needed: Vec<String> = all
            .iter()
            .filter_map(|(_, vol)| vol.as_ref().ok()?.backing.clone())
            .collect();
        Ok(all
            .into_iter()
            .map(|(name, vol)| match vol {
                Ok(vol) => told(vol, &users, &needed),
                Err(_) => Volume {
                    pool: pool.to_owned(),
                    name,
                    format: None,
                    size_bytes: None,
                    used_bytes: None,
                    used_by: Vec::new(),
                    orphan: false,
                },
            })
            .collect())
    }
}

fn told(vol: Vol, users: &HashMap<String, Vec<InstanceId>>, needed: &[String]) -> Volume {
    let by_name = format!("{}/{}", vol.pool, vol.name);
    let mut used_by = Vec::new();
    for place in [&vol.path, &by_name] {
        for id in users.get(place).into_iter().flatten() {
            if !used_by.contains(id) {
                used_by.push(id.clone());
            }
        }
    }
    // A medium may be kept for the next one to be made.
    let image = vol.format.as_deref() == Some("iso") || vol.kind == "dir";
    Volume {
        orphan: used_by.is_empty() && !needed.contains(&vol.path) && !image,
        pool: vol.pool,
        name: vol.name,
        format: vol.format,
        size_bytes: Some(vol.capacity),
        used_bytes: vol.allocation,
        used_by,
    }
}
