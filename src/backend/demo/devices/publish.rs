//! Ports of the guest at its host.

use super::super::act::Act;
use super::super::backend::Demo;
use super::super::changes::family;
use super::super::guest::Guest;
use super::super::random::Random;
use super::super::work::Work;
use crate::backend::contract::{Prepared, PublishRequest};
use crate::model::shown;

family!(PublishRequest, "publish.prepare", publish);

impl Demo {
    fn publish(&self, guest: &Guest, request: PublishRequest) -> Prepared {
        match request {
            PublishRequest::Publish {
                address,
                port,
                guest: inside,
                protocol,
            } => self.publish_port(guest, &address, port, inside, protocol),
            PublishRequest::Unpublish {
                address,
                guest: inside,
                port,
                protocol,
            } => self.unpublish_port(guest, inside, address.as_deref(), port, &protocol),
        }
    }

    fn publish_port(
        &self,
        guest: &Guest,
        address: &str,
        port: u16,
        inside: u16,
        protocol: String,
    ) -> Prepared {
        let world = &self.world;
        let id = guest.id();
        let ports = || guest.base.ports.iter().flatten();
        let same = ports().find(|p| {
            p.guest == inside
                && p.protocol == protocol
                && p.host.rsplit_once(':').is_some_and(|(at, number)| {
                    at == address && (port == 0 || number == port.to_string())
                })
        });
        if let Some(known) = same {
            return Prepared::unchanged(
                guest.token(),
                format!(
                    "port {inside} of {id} is published at {} already",
                    known.host
                ),
            );
        }
        let busy = |host: &str| {
            let same = |p: &crate::model::Port| p.host == host && p.protocol == protocol;
            world.taken(|g| g.base.ports.iter().flatten().any(same))
        };
        let host = if port == 0 {
            let mut random = Random::new(world.knobs.seed, &format!("port {id} {inside}"));
            let mut host = String::new();
            while host.is_empty() || busy(&host) {
                host = format!("{address}:{}", 20_000 + random.below(10_000));
            }
            host
        } else {
            format!("{address}:{port}")
        };
        if busy(&host) {
            return Self::refuse(
                guest,
                format!("{} is published already", shown(&host)),
                "Choose another port, or 0 for any free one.",
            );
        }
        let done = format!("port {inside} of {id} is at {}", shown(&host));
        let act = Act::Publish {
            host,
            guest: inside,
            protocol,
        };
        let mut prepared = Work::new(vec![act], done).plan(world, guest);
        if !matches!(address, "127.0.0.1" | "::1" | "localhost") {
            prepared
                .notes
                .push(format!("Others reach it too: {}", shown(address)));
        }
        prepared
    }

    fn unpublish_port(
        &self,
        guest: &Guest,
        inside: u16,
        address: Option<&str>,
        port: Option<u16>,
        protocol: &str,
    ) -> Prepared {
        let id = guest.id();
        let here = |host: &str| {
            let (at, number) = host.rsplit_once(':').unwrap_or((host, ""));
            port.is_none_or(|port| number == port.to_string())
                && address.is_none_or(|address| at == address)
        };
        let acts: Vec<Act> = guest
            .base
            .ports
            .iter()
            .flatten()
            .filter(|p| p.guest == inside && p.protocol == protocol && here(&p.host))
            .map(|p| Act::Unpublish {
                host: p.host.clone(),
                guest: inside,
                protocol: protocol.to_owned(),
            })
            .collect();
        if acts.is_empty() {
            return Prepared::unchanged(
                guest.token(),
                format!("port {inside} of {id} is not published"),
            );
        }
        let done = format!("port {inside} of {id} is no longer published");
        let mut prepared = Work::new(acts, done).plan(&self.world, guest);
        prepared
            .notes
            .push("Connections that are open stay open".into());
        prepared
    }
}
