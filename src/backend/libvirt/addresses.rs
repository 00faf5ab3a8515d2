//! Which addresses a guest has: by the leases of libvirt's networks, by its agent, by the host's ARP table, in this
//! order. Each source has its own time, so that a slow agent holds up nothing.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;

use super::ctx::{Ctx, Seen};
use super::wire::{Call, Located};
use crate::backend::contract::ReadCx;
use crate::model::{Address, Result};

/// An agent has this long, seconds.
const AGENT: i32 = 3;
/// A guest may have any number; a page shows so many.
const MOST: usize = 32;

/// All that are known, best first, and the sources that could not be asked.
pub async fn of(ctx: &Ctx, cx: &ReadCx, seen: &Seen) -> (Vec<Address>, Vec<String>) {
    let limit = cx.left().min(Duration::from_secs(5));
    let short = ReadCx {
        deadline: std::time::Instant::now() + limit.mul_f64(0.9),
        asker: std::sync::Arc::clone(&cx.asker),
    };
    let by = |source: &'static str| {
        let call = Call::Addresses {
            dom: seen.dom(),
            source: source.to_owned(),
        };
        ctx.client.ask::<Vec<Located>>(&short, call)
    };
    let (lease, arp, agent) = tokio::join!(by("lease"), by("arp"), by_agent(ctx, &short, seen));
    let mut problems = Vec::new();
    let mut found: Vec<(Located, &str)> = Vec::new();
    for (source, answer) in [("lease", lease), ("agent", agent), ("arp", arp)] {
        match answer {
            Ok(all) => found.extend(all.into_iter().map(|one| (one, source))),
            // ARP is the last way, and not everywhere: without it less is known, and nothing is wrong.
            Err(_) if source == "arp" => {}
            Err(error)
                if source == "lease" && error.kind == crate::model::ErrorKind::Unsupported => {}
            Err(error) => problems.push(format!("addresses by {source}: {error}")),
        }
    }
    (ordered(found, &seen.live), problems)
}

async fn by_agent(ctx: &Ctx, cx: &ReadCx, seen: &Seen) -> Result<Vec<Located>> {
    if seen.live.agent != Some(true) {
        return Ok(Vec::new());
    }
    let said: String = ctx
        .client
        .ask(
            cx,
            Call::Agent {
                dom: seen.dom(),
                command: r#"{"execute":"guest-network-get-interfaces"}"#.to_owned(),
                seconds: AGENT,
            },
        )
        .await?;
    let said: Value = serde_json::from_str(&said).unwrap_or_default();
    Ok(read(said.get("return").unwrap_or(&Value::Null)))
}

fn read(answer: &Value) -> Vec<Located> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut all = Vec::new();
    for card in answer.as_array().into_iter().flatten() {
        let addresses = card.get("ip-addresses").and_then(Value::as_array);
        for address in addresses.into_iter().flatten() {
            if let Some(ip) = text(address, "ip-address") {
                all.push(Located {
                    interface: text(card, "name"),
                    mac: text(card, "hardware-address").map(|mac| mac.to_lowercase()),
                    ip,
                });
            }
        }
    }
    all
}

/// Those of the guest's own NICs before bridges inside of it, global before link-local, IPv4 before IPv6; each once.
fn ordered(found: Vec<(Located, &str)>, domain: &super::domain::Domain) -> Vec<Address> {
    let mut ranked: Vec<(u8, IpAddr, Address)> = Vec::new();
    for (one, source) in found {
        let Ok(ip) = one.ip.parse::<IpAddr>() else {
            continue;
        };
        if ip.is_loopback()
            || ip.is_unspecified()
            || ranked.iter().any(|(_, known, _)| *known == ip)
        {
            continue;
        }
        let nic = domain
            .nics
            .iter()
            .position(|nic| nic.mac.is_some() && nic.mac == one.mac);
        let link_local = match ip {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        let rank = u8::from(nic.is_none()) * 4 + u8::from(link_local) * 2 + u8::from(ip.is_ipv6());
        let address = Address {
            ip: ip.to_string(),
            nic: nic
                .and_then(|n| domain.nics[n].mac.clone())
                .or(one.interface),
            source: Some(source.to_owned()),
        };
        ranked.push((rank, ip, address));
    }
    ranked.sort_by_key(|(rank, _, _)| *rank);
    ranked.truncate(MOST);
    ranked.into_iter().map(|(_, _, address)| address).collect()
}

#[cfg(test)]
mod tests {
    use super::super::domain::{Domain, NicDef};
    use super::*;

    #[test]
    fn req_34_the_guests_own_nic_comes_first() {
        let domain = Domain {
            nics: vec![NicDef {
                mac: Some("52:54:00:00:00:01".to_owned()),
                ..NicDef::default()
            }],
            ..Domain::default()
        };
        let said = serde_json::json!([
            null, 7, {"name": "lo", "ip-addresses": [{"ip-address": "127.0.0.1"}]},
            {"name": "docker0", "hardware-address": "02:42:00:00:00:01", "ip-addresses": [{"ip-address": "172.17.0.1"}]},
            {"name": "eth0", "hardware-address": "52:54:00:00:00:01", "ip-addresses": [
                {"ip-address": "fe80::1"}, {"ip-address": "2001:db8::1"}, {"ip-address": "192.168.127.9"}, {"ip-address": "\u{1b}[2J"}]},
        ]);
        let mut found: Vec<(Located, &str)> =
            read(&said).into_iter().map(|one| (one, "agent")).collect();
        found.insert(
            0,
            (
                Located {
                    interface: None,
                    mac: Some("52:54:00:00:00:01".to_owned()),
                    ip: "192.168.127.9".to_owned(),
                },
                "lease",
            ),
        );
        let all = ordered(found, &domain);
        let ips: Vec<&str> = all.iter().map(|a| a.ip.as_str()).collect();
        assert_eq!(
            ips,
            ["192.168.127.9", "2001:db8::1", "fe80::1", "172.17.0.1"]
        );
        assert_eq!(all[0].source.as_deref(), Some("lease"));
        assert_eq!(all[3].nic.as_deref(), Some("docker0"));
    }
}
