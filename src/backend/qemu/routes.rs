//! The way in: forwarded ports.

use std::sync::Arc;

use async_trait::async_trait;

use super::ctx::Ctx;
use super::definition::Protocol;
use super::inventory::load;
use crate::backend::contract::{ReadCx, Route, Routes, Way};
use crate::model::{Error, Instance, Result, State};

/// The routes family.
#[derive(Debug)]
pub struct Forwards(pub Arc<Ctx>);

#[async_trait]
impl Routes for Forwards {
    async fn routes(&self, _cx: &ReadCx, on: &Instance, port: u16) -> Result<Vec<Route>> {
        let vm = load(&self.0, &on.id)?;
        if on.state == State::Stopped {
            return Err(Error::refused(format!("{} is stopped", on.id))
                .remedy(format!("Start it: corral start {}", on.id)));
        }
        let ways: Vec<Route> = vm
            .nics
            .iter()
            .flat_map(|nic| &nic.forwards)
            .filter(|forward| forward.guest == port && forward.protocol == Protocol::Tcp)
            .map(|forward| Route {
                way: Way::Tcp(reachable(&forward.host), forward.port),
                why: "forwarded port".to_owned(),
                age: None,
            })
            .collect();
        if ways.is_empty() {
            return Err(
                Error::unreachable(format!("port {port} of {} is not published", on.id)).remedy(
                    format!("Publish it: corral ports publish {} --port {port}", on.id),
                ),
            );
        }
        Ok(ways)
    }
}

/// Where to connect for what listens on `host`.
fn reachable(host: &str) -> String {
    match host {
        "0.0.0.0" | "" => "127.0.0.1".to_owned(),
        "::" => "::1".to_owned(),
        other => other.to_owned(),
    }
}
