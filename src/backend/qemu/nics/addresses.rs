//! Which addresses the guest's network interfaces have, as its agent says.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::locks;
use crate::link::qga::Agent;
use crate::model::Result;

/// A guest may have any number; a page shows so many of each card.
const MOST: usize = 16;

/// Addresses by MAC, IPv4 first.
pub type Addresses = BTreeMap<String, Vec<String>>;

/// Asks the agent.
///
/// # Errors
/// Those of the agent.
pub async fn ask(ctx: &Ctx, vm: &Definition, limit: Duration) -> Result<Addresses> {
    let paths = ctx.paths(&vm.uuid)?;
    let _lock = locks::agent(ctx, &vm.uuid).await?;
    let mut agent = Agent::connect(&paths.agent, limit).await?;
    let answer = agent
        .execute("guest-network-get-interfaces", &json!({}), limit)
        .await?;
    Ok(read(&answer))
}

fn read(answer: &Value) -> Addresses {
    let mut all = Addresses::new();
    for card in answer.as_array().into_iter().flatten() {
        let text =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let Some(mac) = text(card, "hardware-address") else {
            continue;
        };
        let mut found: Vec<IpAddr> = card
            .get("ip-addresses")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|item| text(item, "ip-address")?.parse().ok())
            .filter(|ip: &IpAddr| !ip.is_loopback())
            .collect();
        found.sort();
        found.dedup();
        found.truncate(MOST);
        all.entry(mac.to_ascii_lowercase())
            .or_default()
            .extend(found.into_iter().map(|ip| ip.to_string()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guest_says_is_only_believed_where_it_is_an_address() {
        let all = read(&json!([
            null, {"name": "lo", "hardware-address": "00:00:00:00:00:00", "ip-addresses": [{"ip-address": "127.0.0.1"}]},
            {"hardware-address": "52:54:00:AA:00:01", "ip-addresses": [
                {"ip-address": "fe80::1"}, {"ip-address": "10.0.2.15"}, 3, {"ip-address": "\u{1b}[2J"}]},
            {"hardware-address": 7}, {"hardware-address": "x", "ip-addresses": "y"},
        ]));
        assert_eq!(all["52:54:00:aa:00:01"], ["10.0.2.15", "fe80::1"]);
        assert!(all["00:00:00:00:00:00"].is_empty() && all["x"].is_empty());
        assert!(read(&Value::Null).is_empty());
    }
}
