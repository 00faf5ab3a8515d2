//! libvirt's networks.

use std::sync::Arc;

use async_trait::async_trait;
use roxmltree::Node;

use super::ctx::Ctx;
use super::storage::definitions;
use super::wire::{Call, Thing};
use super::xml::{attr_at, children, parse};
use crate::backend::contract::{Networks, ReadCx};
use crate::model::{InstanceId, Network, Result};

/// The networks family.
pub struct Nets(pub Arc<Ctx>);

/// How a network passes on, and its addresses.
struct Read {
    kind: String,
    bridge: Option<String>,
    addresses: Vec<String>,
}

fn read(xml: &str) -> Result<Read> {
    let document = parse(xml)?;
    let root = document.root_element();
    let forward = super::xml::child(root, "forward");
    let kind = match forward {
        // A forward without a mode is NAT.
        Some(node) => node.attribute("mode").unwrap_or("nat"),
        None => "isolated",
    };
    Ok(Read {
        kind: kind.to_owned(),
        bridge: attr_at(root, &["bridge"], "name"),
        addresses: children(root, "ip").filter_map(cidr).collect(),
    })
}

fn cidr(ip: Node<'_, '_>) -> Option<String> {
    let address = ip.attribute("address")?;
    let prefix = match (ip.attribute("prefix"), ip.attribute("netmask")) {
        (Some(prefix), _) => prefix.to_owned(),
        (None, Some(mask)) => {
            let mask: std::net::Ipv4Addr = mask.parse().ok()?;
            mask.to_bits().count_ones().to_string()
        }
        (None, None) => return Some(address.to_owned()),
    };
    Some(format!("{address}/{prefix}"))
}

#[async_trait]
impl Networks for Nets {
    async fn networks(&self, cx: &ReadCx) -> Result<Vec<Network>> {
        let ctx = &self.0;
        let (things, domains) = tokio::join!(
            ctx.client.ask::<Vec<Thing>>(cx, Call::Networks {}),
            definitions(ctx, cx)
        );
        let domains = domains.ok();
        let users = |name: &str, bridge: Option<&str>| -> Option<Vec<InstanceId>> {
            let mut ids: Vec<InstanceId> = domains
                .as_ref()?
                .iter()
                .filter(|domain| {
                    domain.nics.iter().any(|nic| {
                        let source = nic.source.as_deref();
                        (nic.kind == "network" && source == Some(name))
                            || (nic.kind == "bridge" && source.is_some() && source == bridge)
                    })
                })
                .map(|domain| ctx.id(&domain.name))
                .collect();
            ids.sort();
            ids.dedup();
            Some(ids)
        };
        Ok(things?
            .into_iter()
            .map(|thing| {
                let read = thing
                    .xml
                    .as_deref()
                    .map_err(super::fault::error)
                    .and_then(read);
                let active = thing.active;
                let mut network = Network {
                    context: ctx.spec.name.clone(),
                    kind: "?".to_owned(),
                    active,
                    addresses: Vec::new(),
                    host: None,
                    used_by: None,
                    fault: (active == Some(false)).then(|| "it is not started".to_owned()),
                    note: None,
                    name: thing.name,
                };
                match read {
                    Ok(read) => {
                        network.used_by = users(&network.name, read.bridge.as_deref());
                        network.note = read.bridge.map(|bridge| format!("bridge {bridge}"));
                        network.kind = read.kind;
                        network.addresses = read.addresses;
                    }
                    Err(error) => network.fault = Some(error.message),
                }
                network
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_network_is_read() {
        let xml = include_str!("../../../tests/fixtures/libvirt/net-default.xml");
        let read = read(xml).unwrap();
        assert_eq!(read.kind, "nat");
        assert_eq!(read.addresses, ["192.168.126.1/24"]);
        let bare = super::read("<network><ip address='fd00::1' prefix='64'/></network>").unwrap();
        assert_eq!(
            (bare.kind.as_str(), bare.addresses[0].as_str()),
            ("isolated", "fd00::1/64")
        );
    }
}
