//! The ways in: published ports, then its addresses.

use std::sync::Arc;

use async_trait::async_trait;

use super::ctx::Ctx;
use super::seen::Seen;
use crate::backend::contract::{ReadCx, Route, Routes, Way};
use crate::link::http::Reach;
use crate::model::{Error, Instance, Result, State};

/// The routes family.
#[derive(Debug)]
pub struct Ways(pub Arc<Ctx>);

/// Where to connect for what a server listens on at `host`.
fn reachable(host: &str, server: Option<&str>) -> String {
    let host = host.trim_matches(['[', ']']);
    match (host, server) {
        ("0.0.0.0" | "" | "::", Some(server)) => server.to_owned(),
        ("0.0.0.0" | "", None) => "127.0.0.1".to_owned(),
        ("::", None) => "::1".to_owned(),
        (other, _) => other.to_owned(),
    }
}

#[async_trait]
impl Routes for Ways {
    async fn routes(&self, cx: &ReadCx, on: &Instance, port: u16) -> Result<Vec<Route>> {
        let ctx = &*self.0;
        let seen = Seen::now(ctx, cx, &on.id).await?;
        let id = &seen.id;
        if matches!(seen.state(), State::Stopped | State::Hibernated) {
            return Err(Error::refused(format!("{id} is {}", seen.state()))
                .remedy(format!("Start it: corral start {id}")));
        }
        let server = match ctx.api()?.http.reach() {
            Reach::Tls { host, .. } => Some(host.as_str()),
            Reach::Socket(_) => None,
        };
        let local = server.is_none_or(crate::link::ports::is_here);
        let published = seen
            .row
            .ports
            .iter()
            .flatten()
            .filter(|p| p.guest == port && p.is_tcp());
        let mut ways: Vec<Route> = published
            .filter_map(|published| {
                let (host, at) = published.host.rsplit_once(':')?;
                // What listens on the server's own loop is reached from there only.
                let looped = host
                    .trim_matches(['[', ']'])
                    .parse()
                    .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
                (local || !looped).then_some(())?;
                Some(Route {
                    way: Way::Tcp(reachable(host, server), at.parse().ok()?),
                    why: "published port".to_owned(),
                    age: None,
                })
            })
            .collect();
        let addresses = seen.row.addresses.iter().flatten();
        ways.extend(addresses.map(|address| Route {
            way: Way::Tcp(address.ip.clone(), port),
            why: match &address.nic {
                Some(nic) => format!("address of {nic}"),
                None => "address".to_owned(),
            },
            age: Some(0),
        }));
        if ways.is_empty() {
            return Err(Error::unreachable(format!("{id} has no address yet, and port {port} is not published"))
                .remedy(format!("Wait: corral wait {id} --for address. Or publish it: corral ports publish {id} --port {port}")));
        }
        Ok(ways)
    }
}
