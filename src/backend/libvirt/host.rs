//! The machine of the server.

use std::sync::Arc;

use async_trait::async_trait;

use super::ctx::Ctx;
use super::inventory;
use super::wire::{Call, Listed, Server};
use super::xml::{children, parse};
use crate::backend::contract::{Hosts, ReadCx};
use crate::model::{Host, Result};

/// The hosts family.
pub struct Machine(pub Arc<Ctx>);

/// `9.0.0` of `9000000`.
pub fn version(number: u32) -> String {
    format!(
        "{}.{}.{}",
        number / 1_000_000,
        number / 1000 % 1000,
        number % 1000
    )
}

/// How guests are run, by the capabilities.
pub fn acceleration(capabilities: &str) -> Option<String> {
    let document = parse(capabilities).ok()?;
    let mut kinds: Vec<String> = document
        .descendants()
        .filter(|node| node.is_element() && node.tag_name().name() == "guest")
        .flat_map(|guest| children(guest, "arch").collect::<Vec<_>>())
        .flat_map(|arch| children(arch, "domain").collect::<Vec<_>>())
        .filter_map(|domain| domain.attribute("type").map(str::to_owned))
        .collect();
    kinds.sort();
    kinds.dedup();
    if kinds.is_empty() {
        return None;
    }
    Some(if kinds.iter().any(|kind| kind == "kvm") {
        "kvm".to_owned()
    } else {
        format!("no KVM: {} (slow)", kinds.join(", "))
    })
}

#[async_trait]
impl Hosts for Machine {
    async fn hosts(&self, cx: &ReadCx) -> Result<Vec<Host>> {
        let ctx = &self.0;
        let (server, listed) = tokio::join!(
            ctx.client.ask::<Server>(cx, Call::Server {}),
            ctx.client.ask::<Vec<Listed>>(cx, Call::List { all: false })
        );
        let server = server?;
        let mut host = inventory::host(ctx, &server);
        // What cannot be counted is not known, and hides nothing else of the machine.
        host.running = listed
            .ok()
            .map(|all| all.iter().filter(|one| one.id.is_some()).count() as u64);
        let hypervisor = server.hypervisor.map(version);
        host.kernel = Some(match &hypervisor {
            Some(version) => format!("{} {version}", server.driver),
            None => server.driver.clone(),
        });
        host.acceleration = server.capabilities.as_deref().and_then(acceleration);
        let facts = [
            ("libvirt", Some(version(server.version))),
            ("URI", Some(ctx.client.uri().to_owned())),
            ("CPU", server.cpu.map(|(model, _, _)| model)),
        ];
        host.facts = facts
            .into_iter()
            .filter_map(|(label, text)| Some((label.to_owned(), text?)))
            .collect();
        Ok(vec![host])
    }
}
