//! Networks: managed ones, and the interfaces of the host that instances can be put on.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::ctx::Ctx;
use super::json::{Look as _, entry, is_true};
use super::storage::users;
use crate::backend::contract::{Networks, ReadCx};
use crate::model::{Network, Result, shown};

/// The networks family.
#[derive(Clone, Debug)]
pub struct Nets(pub Arc<Ctx>);

fn read(ctx: &Ctx, value: &Value) -> Option<Network> {
    let kind = value.text("type").unwrap_or("unknown");
    let managed = value.flag("managed").unwrap_or(false);
    // What no instance can be on is no network.
    if matches!(kind, "loopback" | "unknown") && !managed {
        return None;
    }
    let config = value.object("config");
    let address = |key: &str| entry(config, key).filter(|text| text.contains('/'));
    let nat = ["ipv4.nat", "ipv6.nat"]
        .iter()
        .any(|key| is_true(entry(config, key)));
    let status = value.text("status").unwrap_or_default();
    let fault = (managed && !matches!(status, "Created" | ""))
        .then(|| format!("its server says {}", shown(status)));
    let note = match (managed, nat) {
        (true, true) => "guests reach out by address translation",
        (true, false) => "guests are reached where their network is routed",
        (false, _) => "an interface of the host",
    };
    Some(Network {
        context: ctx.spec.name.clone(),
        name: value.text("name")?.to_owned(),
        kind: kind.to_owned(),
        active: managed.then_some(fault.is_none()),
        addresses: [address("ipv4.address"), address("ipv6.address")]
            .into_iter()
            .flatten()
            .map(str::to_owned)
            .collect(),
        host: None,
        used_by: Some(users(ctx, value)),
        fault,
        note: Some(value.text("description").unwrap_or(note).to_owned()),
    })
}

#[async_trait]
impl Networks for Nets {
    async fn networks(&self, cx: &ReadCx) -> Result<Vec<Network>> {
        let ctx = &*self.0;
        let server = ctx.server(cx).await?;
        let scope = match ctx.project() {
            None if !server.can("networks_all_projects") => String::new(),
            _ => format!("&{}", ctx.scope()),
        };
        let path = format!("/1.0/networks?recursion=1{scope}");
        let reply = ctx.api()?.get(cx, &path).await?;
        let list = reply.metadata.as_array().cloned().unwrap_or_default();
        Ok(list.iter().filter_map(|value| read(ctx, value)).collect())
    }
}
