//! Ports of a guest at its host: devices of type `proxy`.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::ctx::Ctx;
use super::json::Look as _;
use super::row::port;
use super::seen::Seen;
use super::work::{self, Act, Edit, Todo, plan};
use crate::backend::contract::{Changes, Prepared, PublishRequest, ReadCx, TaskCx};
use crate::model::{Error, Instance, InstanceKind, Outcome, Port, Result, shown};

/// Ports that are picked: above those that services have, below those that outgoing connections do.
const PICKED: std::ops::Range<u16> = 20_000..30_000;

/// The publish family.
#[derive(Clone, Debug)]
pub struct Publish(pub Arc<Ctx>);

fn end(address: IpAddr, port: u16) -> String {
    std::net::SocketAddr::new(address, port).to_string()
}

/// The device that publishes a port, and its name. Port 0 picks one that nobody of `taken` has.
///
/// # Errors
/// `Invalid` for what is no address or protocol.
pub fn device(
    address: &str,
    listen: u16,
    guest: u16,
    protocol: &str,
    vm: bool,
    taken: &[Port],
) -> Result<(String, Value)> {
    if !matches!(protocol, "tcp" | "udp") {
        return Err(Error::invalid(format!(
            "\"{}\" is neither tcp nor udp",
            shown(protocol)
        )));
    }
    let address: IpAddr = address.parse().map_err(|_| {
        Error::invalid(format!("{} is no address of a host", shown(address)))
            .remedy("Take 127.0.0.1, or 0.0.0.0 for all addresses of the host")
    })?;
    if guest == 0 {
        return Err(Error::invalid("0 is no port of a guest"));
    }
    let is_taken = |wanted: u16| {
        let place = end(address, wanted);
        taken
            .iter()
            .any(|port| port.host == place && port.protocol == protocol)
    };
    let listen = match listen {
        0 => {
            // The same for the plan that is shown and the one that runs.
            let first = PICKED.start + guest % (PICKED.end - PICKED.start);
            (first..PICKED.end)
                .chain(PICKED.start..first)
                .find(|port| !is_taken(*port))
                .ok_or_else(|| Error::refused("no port is free"))?
        }
        listen => listen,
    };
    let name = format!("corral-{protocol}-{listen}");
    let inside = if vm { "0.0.0.0" } else { "127.0.0.1" };
    let mut device = json!({
        "type": "proxy",
        "listen": format!("{protocol}:{}", end(address, listen)),
        "connect": format!("{protocol}:{inside}:{guest}"),
    });
    if vm {
        device["nat"] = json!("true");
    }
    Ok((name, device))
}

/// A VM is reached by address translation: it needs an address that stays.
fn vm_can(seen: &Seen) -> Result<()> {
    let fixed = seen.all_devices().into_iter().flatten().any(|(_, device)| {
        device.text("type") == Some("nic")
            && (device.text("ipv4.address").is_some() || device.text("ipv6.address").is_some())
    });
    if fixed {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{} is a VM: its port is published by address translation, for which it needs a static address",
        seen.id
    ))
    .remedy(format!(
        "Give its NIC one (ipv4.address): corral edit {}. Or dial it: corral dial {}",
        seen.id, seen.id
    )))
}

fn add(seen: &Seen, address: &str, listen: u16, guest: u16, protocol: &str) -> Result<Prepared> {
    let id = &seen.id;
    let there = seen.row.ports.clone().unwrap_or_default();
    let same = there.iter().find(|port| {
        port.guest == guest
            && port.protocol == protocol
            && match port.host.rsplit_once(':') {
                Some((at, n)) => {
                    at.trim_matches(['[', ']']) == address
                        && (listen == 0 || n == listen.to_string())
                }
                None => false,
            }
    });
    if let Some(same) = same {
        let said = format!(
            "port {guest} of {id} is published at {} already",
            same.place()
        );
        return Ok(Prepared::unchanged(seen.token(), said));
    }
    let vm = seen.row.kind == InstanceKind::Vm;
    if vm {
        vm_can(seen)?;
    }
    let (name, device) = device(address, listen, guest, protocol, vm, &there)?;
    let place = device
        .text("listen")
        .and_then(|l| l.split_once(':'))
        .map_or("", |(_, place)| place);
    if let Some(other) = there
        .iter()
        .find(|port| port.host == place && port.protocol == protocol)
    {
        return Err(Error::refused(format!(
            "{place} leads to port {} of {id} already",
            other.guest
        ))
        .remedy("Take another port, or 0 to have one picked"));
    }
    if seen
        .all_devices()
        .is_some_and(|all| all.contains_key(&name))
    {
        return Err(
            Error::refused(format!("{id} has another device called {name}"))
                .remedy("Take another port, or 0 to have one picked"),
        );
    }
    let port: String = place.rsplit(':').next().unwrap_or_default().to_owned();
    let said = format!("port {guest} of {id} is at {place}");
    let udp = if protocol == "udp" {
        " --protocol udp"
    } else {
        ""
    };
    let todo = Todo::new(
        format!("Publish port {guest} at {place} of its host"),
        Act::Edit(Edit::device(&name, Some(device))),
    )
    .undo(format!(
        "corral ports unpublish {id} --port {port}:{guest}{udp}"
    ));
    Ok(plan(seen, vec![todo], said))
}

fn remove(
    seen: &Seen,
    address: Option<&str>,
    guest: u16,
    listen: Option<u16>,
    protocol: &str,
) -> Prepared {
    let id = &seen.id;
    let meant = |port: &Port| {
        let (at, n) = port.host.rsplit_once(':').unwrap_or((&port.host, ""));
        port.guest == guest
            && port.protocol == protocol
            && address.is_none_or(|address| at.trim_matches(['[', ']']) == address)
            && listen.is_none_or(|listen| n == listen.to_string())
    };
    let found: Vec<(&String, Port)> = seen
        .all_devices()
        .into_iter()
        .flatten()
        .filter_map(|(name, device)| Some((name, port(device)?)))
        .filter(|(_, port)| meant(port))
        .collect();
    if found.is_empty() {
        return Prepared::unchanged(
            seen.token(),
            format!("port {guest} of {id} is not published so"),
        );
    }
    let mut edit = Edit::default();
    let mut places = Vec::new();
    for (name, port) in found {
        let own = seen
            .devices()
            .is_some_and(|devices| devices.contains_key(name));
        let away = if own {
            None
        } else {
            Some(json!({"type": "none"}))
        };
        edit.devices.push((name.clone(), away));
        places.push(port.place());
    }
    let places = shown(&places.join(", ")).into_owned();
    let todo = Todo::new(
        format!("No longer publish port {guest} at {places}"),
        Act::Edit(edit),
    );
    plan(
        seen,
        vec![todo],
        format!("port {guest} of {id} is no longer at {places}"),
    )
}

#[async_trait]
impl Changes<PublishRequest> for Publish {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: PublishRequest,
    ) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        if let Some(refused) = seen.unclear() {
            return Ok(refused);
        }
        let planned = match request {
            PublishRequest::Publish {
                address,
                port,
                guest,
                protocol,
            } => add(&seen, &address, port, guest, &protocol),
            PublishRequest::Unpublish {
                address,
                guest,
                port,
                protocol,
            } => Ok(remove(&seen, address.as_deref(), guest, port, &protocol)),
        };
        Ok(planned.unwrap_or_else(|error| Prepared::failed(seen.token(), &error)))
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        work::run(&self.0, cx, prepared).await
    }
}
