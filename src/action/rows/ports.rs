//! `ports publish|unpublish|list`.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::envelope;
use super::super::planner::{Planned, Shape, plan_instances, resolve};
use super::super::row::{Group, Risk, Row, Run, Targets};
use crate::backend::contract::{PublishRequest, Request};
use crate::fleet::selector::Purpose;
use crate::model::{
    Action, Body, Data, Error, Field, FieldKind, GroupNoun, Operation, PublishedPort, Result, shown,
};

const PUBLISH: Row = Row {
    examples: &[
        "ports publish local/web --port 8080:80",
        "ports publish local/web --port 53/udp",
    ],
    details: "Without an address the port listens on 127.0.0.1, without a host port on one that is free.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[Field::new(
        "port",
        FieldKind::Text,
        "[[ADDRESS:]PORT:]GUESTPORT[/udp]; PORT 0 picks one",
    )
    .required()],
    operations: &[Operation::Publish],
    ..Row::new(
        "ports publish",
        Group::Reach,
        "Makes a port of the guest reachable at its host",
        Run::Change(|e, a| Box::pin(publish(e, a))),
    )
};

const UNPUBLISH: Row = Row {
    aliases: &["ports rm"],
    examples: &[
        "ports unpublish local/web --port 80",
        "ports unpublish local/web --port 8080:80",
    ],
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[Field::new(
        "port",
        FieldKind::Text,
        "[[ADDRESS:]PORT:]GUESTPORT[/udp]; without PORT wherever it is published",
    )
    .required()],
    risk: Risk::Confirm,
    operations: &[Operation::Publish],
    ..Row::new(
        "ports unpublish",
        Group::Reach,
        "Ends that",
        Run::Change(|e, a| Box::pin(unpublish(e, a))),
    )
};

const LIST: Row = Row {
    aliases: &["ports ls"],
    examples: &["ports list", "ports list local/web -o json"],
    noun: GroupNoun::Instances,
    targets: Targets::Any,
    ..Row::new(
        "ports list",
        Group::Reach,
        "Shows published ports and whose they are",
        Run::Read(|e, a| Box::pin(list(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&PUBLISH, &UNPUBLISH, &LIST];

/// A published port as it is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) address: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) guest: u16,
    pub(super) protocol: &'static str,
}

/// `[[ADDRESS:]PORT:]GUESTPORT[/udp]`.
pub(super) fn read(flag: &str, text: &str) -> Result<Typed> {
    let bad = || {
        Error::invalid(format!(
            "--{flag}: {:?} is not [ADDRESS:]PORT:GUESTPORT",
            shown(text)
        ))
        .remedy("Write it like 2222:22 or 127.0.0.1:8080:80")
    };
    let (ports, protocol) = match text.rsplit_once('/') {
        None => (text, "tcp"),
        Some((ports, "tcp")) => (ports, "tcp"),
        Some((ports, "udp")) => (ports, "udp"),
        Some(_) => return Err(bad()),
    };
    let (rest, guest) = match ports.rsplit_once(':') {
        Some((rest, guest)) => (Some(rest), guest),
        None => (None, ports),
    };
    let (address, port) = match rest.map(|rest| rest.rsplit_once(':').ok_or(rest)) {
        None => (None, None),
        Some(Err(port)) => (None, Some(port)),
        Some(Ok((address, port))) => (Some(address), Some(port)),
    };
    let address = address.map(|a| a.trim_start_matches('[').trim_end_matches(']').to_owned());
    if let Some(address) = &address
        && address.parse::<std::net::IpAddr>().is_err()
    {
        return Err(bad());
    }
    Ok(Typed {
        address,
        port: port.map(str::parse).transpose().map_err(|_| bad())?,
        guest: guest.parse().ok().filter(|p| *p > 0).ok_or_else(bad)?,
        protocol,
    })
}

fn typed(action: &Action) -> Result<Typed> {
    read("port", action.args.text("port").unwrap_or_default())
}

async fn publish(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let typed = typed(&action)?;
    let mut shape = Shape::of(&action)?;
    shape.ask = format!("Publish port {} of", typed.guest);
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Publish(PublishRequest::Publish {
            address: typed
                .address
                .clone()
                .unwrap_or_else(|| "127.0.0.1".to_owned()),
            port: typed.port.unwrap_or(0),
            guest: typed.guest,
            protocol: typed.protocol.to_owned(),
        }))
    })
    .await
}

async fn unpublish(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let typed = typed(&action)?;
    let mut shape = Shape::of(&action)?;
    shape.ask = format!("No longer publish port {} of", typed.guest);
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Publish(no_longer(&typed)))
    })
    .await
}

/// Where nothing is said of the address or port, it is all of them.
fn no_longer(typed: &Typed) -> PublishRequest {
    PublishRequest::Unpublish {
        address: typed.address.clone(),
        guest: typed.guest,
        port: typed.port.filter(|port| *port > 0),
        protocol: typed.protocol.to_owned(),
    }
}

async fn list(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let resolved = resolve(&engine, &action, Purpose::List).await?;
    let scope = resolved.scope();
    let mut ports = Vec::new();
    for row in &resolved.targets {
        for port in row.ports.iter().flatten() {
            ports.push(PublishedPort {
                instance: row.id.clone(),
                open: row.state.is_active(),
                port: port.clone(),
            });
        }
    }
    let view = engine.fleet().view();
    let mut data = envelope::of_fleet(&view, &scope, Body::Ports(ports));
    data.errors.extend(resolved.nothing);
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_as_they_are_typed() {
        let text = |typed: Typed| {
            format!(
                "{:?} {:?} {} {}",
                typed.address, typed.port, typed.guest, typed.protocol
            )
        };
        for (typed, means) in [
            ("80", "None None 80 tcp"),
            ("8080:80", "None Some(8080) 80 tcp"),
            ("0:53/udp", "None Some(0) 53 udp"),
            ("0.0.0.0:1:2/tcp", "Some(\"0.0.0.0\") Some(1) 2 tcp"),
            ("[::1]:1:2", "Some(\"::1\") Some(1) 2 tcp"),
        ] {
            assert_eq!(text(read("port", typed).unwrap()), means, "{typed}");
        }
        let ends = |text| match no_longer(&read("port", text).unwrap()) {
            PublishRequest::Unpublish { address, port, .. } => (address, port),
            other @ PublishRequest::Publish { .. } => panic!("{other:?}"),
        };
        let all = Some("0.0.0.0".to_owned());
        assert_eq!(ends("0.0.0.0:1:2"), (all, Some(1)));
        assert_eq!(ends("0:2"), (None, None));
        for odd in [
            "", "x", "80:", ":80", "80:0", "70000", "a:1:2", "80/sctp", "1:2:3:4", "80\u{1b}",
        ] {
            let error = read("port", odd).unwrap_err();
            assert!(!error.message.contains('\u{1b}'), "{error}");
        }
    }
}
