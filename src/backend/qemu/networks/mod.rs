//! User networking, and the bridges of this machine.

mod bridge;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use super::ctx::Ctx;
use super::definition::Definition;
use super::proc;
use super::storage::apart;
use crate::backend::contract::{Networks, ReadCx};
use crate::model::{InstanceId, Network, Result};

/// What a NIC without a bridge connects to.
pub const USER: &str = "user";

/// The networks family.
#[derive(Clone, Debug)]
pub struct Nets(pub Arc<Ctx>);

#[async_trait]
impl Networks for Nets {
    async fn networks(&self, _: &ReadCx) -> Result<Vec<Network>> {
        let ctx = Arc::clone(&self.0);
        apart(move || list(&ctx)).await?
    }
}

fn list(ctx: &Ctx) -> Result<Vec<Network>> {
    let vms: Vec<Definition> = ctx
        .store
        .list()?
        .into_iter()
        .filter_map(|entry| entry.definition.ok())
        .collect();
    // A bridge is `bridge:NAME` in a definition.
    let is_on =
        |network: &str, name: &str| network.strip_prefix("bridge:").unwrap_or(network) == name;
    let users = |name: &str| -> Vec<InstanceId> {
        vms.iter()
            .filter(|vm| vm.nics.iter().any(|nic| is_on(&nic.network, name)))
            .map(|vm| ctx.id(&vm.name))
            .collect()
    };
    let host = proc::host_name();
    let mut all = vec![Network {
        context: ctx.spec.name.clone(),
        name: USER.to_owned(),
        kind: USER.to_owned(),
        active: None,
        addresses: vec!["10.0.2.0/24".to_owned()],
        host: Some(host.clone()),
        used_by: Some(users(USER)),
        fault: None,
        note: Some(
            "Each guest has a network of its own: it reaches out through this machine, and is reached by published ports \
only. Guests do not see each other. A second network interface of a guest has a network to itself as well: net1 \
that of 10.0.3.0/24, net2 that of 10.0.4.0/24, and so on."
                .to_owned(),
        ),
    }];
    for found in bridge::bridges(Path::new("/sys/class/net")) {
        let fault = bridge::usable(&found.name).err();
        all.push(Network {
            context: ctx.spec.name.clone(),
            used_by: Some(users(&found.name)),
            name: found.name,
            kind: "bridge".to_owned(),
            active: Some(found.up),
            addresses: found.addresses,
            host: Some(host.clone()),
            fault,
            note: None,
        });
    }
    Ok(all)
}
