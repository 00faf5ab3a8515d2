//! An instance as the API has it, as a row of a list.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::ctx::{Ctx, DEFAULT, KIND};
use super::json::{Look as _, entry, is_true, size};
use crate::model::{Address, Bytes, Instance, InstanceKind, Port, State, Usage, shown};

/// Where corral keeps tags, comma-separated.
pub const TAGS: &str = "user.corral.tags";
/// Where corral marks a template.
pub const TEMPLATE: &str = "user.corral.template";
/// A VM without a limit has this much memory.
const VM_MEMORY: u64 = 1 << 30;

/// The row of one element of a list. What has no name is no row: the reason instead.
///
/// # Errors
/// Why it is none, in words.
pub fn read(ctx: &Ctx, value: &Value, at: Timestamp) -> Result<Instance, String> {
    let name = value
        .text("name")
        .ok_or_else(|| format!("an instance without a name: {}", sketch(value)))?;
    let project = value
        .text("project")
        .unwrap_or(ctx.project().unwrap_or(DEFAULT));
    let id = ctx.id(project, name);
    let kind = match value.text("type") {
        Some("virtual-machine") => InstanceKind::Vm,
        Some("container") => InstanceKind::Ct,
        other => {
            let why = format!("its type is {}", shown(other.unwrap_or("not said")));
            let mut row = Instance::broken(id, KIND, why, at);
            row.uid = uid(value);
            return Ok(row);
        }
    };
    let (state, reason) = state(value);
    let mut row = Instance::new(id, KIND, kind, state, at);
    row.reason = reason;
    row.uid = uid(value);
    row.native_state = value.text("status").map(str::to_owned);
    row.host = value
        .text("location")
        .filter(|at| *at != "none")
        .map(str::to_owned);
    row.created_at = value.time("created_at");
    row.note = value.text("description").map(str::to_owned);
    let config = value
        .object("expanded_config")
        .or_else(|| value.object("config"));
    let devices = value
        .object("expanded_devices")
        .or_else(|| value.object("devices"));
    configured(&mut row, config);
    row.ports = devices.map(ports);
    row.disk_bytes = devices.and_then(disk_bytes);
    row.macs = devices.map(|devices| macs(devices, config));
    let live = value.get("state").filter(|live| live.is_object());
    if state.is_active() {
        row.uptime_seconds = value
            .get("state")
            .and_then(|live| live.time("started_at"))
            .or_else(|| value.time("last_used_at"))
            .and_then(|since| u64::try_from(at.as_second() - since.as_second()).ok());
    }
    row.agent = agent(kind, state, live);
    row.addresses = match live {
        _ if !state.is_active() && state != State::Unknown => Some(Vec::new()),
        Some(live) => live.object("network").map(addresses),
        None => None,
    };
    row.usage = live.filter(|_| state.is_active()).and_then(|live| {
        let used = live
            .get("memory")?
            .number("usage")
            .filter(|bytes| *bytes > 0)?;
        Some(Usage {
            cpu_percent: None,
            memory_bytes: Some(Bytes(used)),
        })
    });
    Ok(row)
}

/// The first characters of what cannot be read.
fn sketch(value: &Value) -> String {
    let text: String = value.to_string().chars().take(60).collect();
    shown(&text).into_owned()
}

/// The incarnation: its own UUID; servers without them know only when it was made.
pub fn uid(value: &Value) -> Option<String> {
    let own = entry(value.object("config"), "volatile.uuid")
        .or_else(|| entry(value.object("expanded_config"), "volatile.uuid"));
    own.map(str::to_owned)
        .or_else(|| value.text("created_at").map(|at| format!("created {at}")))
}

fn configured(row: &mut Instance, config: Option<&Map<String, Value>>) {
    let get = |key: &str| entry(config, key);
    let vm = row.kind == InstanceKind::Vm;
    row.cpus = match get("limits.cpu") {
        Some(text) => cpus(text),
        None if vm && config.is_some() => Some(1),
        None => None,
    };
    row.memory_bytes = match get("limits.memory") {
        Some(text) => size(text).map(Bytes),
        None if vm && config.is_some() => Some(Bytes(VM_MEMORY)),
        None => None,
    };
    row.os = os(get("image.os"), get("image.release"));
    row.tags = tags(get(TAGS));
    row.template = is_true(get(TEMPLATE));
    row.autostart = get("boot.autostart").map(|text| is_true(Some(text)));
    row.protected = is_true(get("security.protection.delete"));
}

fn os(name: Option<&str>, release: Option<&str>) -> Option<String> {
    let parts: Vec<&str> = name.into_iter().chain(release).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// Tags as they are kept.
pub fn tags(text: Option<&str>) -> Vec<String> {
    let words = text.unwrap_or_default().split(',').map(str::trim);
    words
        .filter(|tag| !tag.is_empty())
        .map(str::to_owned)
        .collect()
}

/// How many CPUs `limits.cpu` gives: a number, or a set (`0-3,7`).
pub fn cpus(text: &str) -> Option<u32> {
    if let Ok(number) = text.trim().parse() {
        return Some(number);
    }
    text.split(',').try_fold(0_u32, |sum, part| {
        let part = part.trim();
        let count = match part.split_once('-') {
            Some((from, to)) => {
                let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
                to.checked_sub(from)?.checked_add(1)?
            }
            None => part.parse::<u32>().ok().map(|_| 1)?,
        };
        sum.checked_add(count)
    })
}

/// The state, and why, where the state alone does not say.
pub fn state(value: &Value) -> (State, Option<String>) {
    let code = value.number("status_code").or_else(|| {
        let live = value.get("state")?;
        live.number("status_code")
    });
    let stateful = value.flag("stateful").unwrap_or(false);
    match code {
        Some(103 | 111 | 113) => (State::Running, None),
        Some(102) if stateful => (State::Hibernated, None),
        Some(102) => (State::Stopped, None),
        Some(101 | 106) => (State::Starting, None),
        Some(107 | 108) => (State::Stopping, None),
        Some(109 | 110) => (State::Paused, None),
        Some(112) => {
            let at = value.text("location").filter(|at| *at != "none");
            let why = match at {
                Some(member) => format!(
                    "its server says Error: the member {} may be away",
                    shown(member)
                ),
                None => "its server says Error: it cannot tell how it is".to_owned(),
            };
            (State::Unknown, Some(why))
        }
        _ => {
            let said = value.text("status").unwrap_or("nothing");
            (
                State::Unknown,
                Some(format!("its server says {}", shown(said))),
            )
        }
    }
}

/// A container is always reached; of a VM its agent is, once it counts processes.
fn agent(kind: InstanceKind, state: State, live: Option<&Value>) -> Option<bool> {
    if state != State::Running {
        return matches!(state, State::Stopped | State::Paused | State::Hibernated)
            .then_some(false);
    }
    match kind {
        InstanceKind::Ct => Some(true),
        InstanceKind::Vm => live
            .and_then(|live| live.get("processes")?.as_i64())
            .map(|processes| processes > 0),
    }
}

/// Addresses of a guest, global ones, IPv4 before IPv6.
fn addresses(network: &Map<String, Value>) -> Vec<Address> {
    let mut found: Vec<Address> = Vec::new();
    for (nic, state) in network {
        for address in state.list("addresses") {
            let (Some(ip), scope) = (address.text("address"), address.text("scope")) else {
                continue;
            };
            if scope.is_some_and(|scope| scope != "global")
                || ip.parse::<std::net::IpAddr>().is_err()
            {
                continue;
            }
            found.push(Address {
                ip: ip.to_owned(),
                nic: Some(nic.clone()),
                source: Some("list".to_owned()),
            });
        }
    }
    found.sort_by_key(|address| address.ip.contains(':'));
    found
}

/// MACs of its NICs: given ones, and those the server picked.
fn macs(devices: &Map<String, Value>, config: Option<&Map<String, Value>>) -> Vec<String> {
    let nics = devices
        .iter()
        .filter(|(_, device)| device.text("type") == Some("nic"));
    nics.filter_map(|(name, device)| mac(name, device, config))
        .collect()
}

/// The MAC of one NIC, lower case.
pub fn mac(name: &str, device: &Value, config: Option<&Map<String, Value>>) -> Option<String> {
    let picked = format!("volatile.{name}.hwaddr");
    device
        .text("hwaddr")
        .or_else(|| entry(config, &picked))
        .map(str::to_ascii_lowercase)
}

/// Ports that proxy devices publish.
fn ports(devices: &Map<String, Value>) -> Vec<Port> {
    let mut ports: Vec<Port> = devices.values().filter_map(port).collect();
    ports.sort_by(|a, b| (a.guest, &a.host).cmp(&(b.guest, &b.host)));
    ports
}

/// What one device publishes; `None` where it is no proxy of one port into the guest.
pub fn port(device: &Value) -> Option<Port> {
    if device.text("type") != Some("proxy") || device.text("bind") == Some("instance") {
        return None;
    }
    let (protocol, host) = device.text("listen")?.split_once(':')?;
    let (_, connect) = device.text("connect")?.split_once(':')?;
    if !matches!(protocol, "tcp" | "udp") {
        return None;
    }
    Some(Port {
        guest: connect.rsplit(':').next()?.parse().ok()?,
        host: host.to_owned(),
        protocol: protocol.to_owned(),
    })
}

/// Sizes of its disks where all of them say one.
fn disk_bytes(devices: &Map<String, Value>) -> Option<Bytes> {
    let root = devices.values().find(|device| is_root(device))?;
    size(root.text("size")?).map(Bytes)
}

/// The disk it starts from.
pub fn is_root(device: &Value) -> bool {
    device.text("type") == Some("disk") && device.text("path") == Some("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cpus_are_counted_or_not_known() {
        assert_eq!(cpus("4"), Some(4));
        assert_eq!(cpus("0-3,7"), Some(5));
        assert_eq!(cpus("1-1"), Some(1));
        for odd in ["", "x", "3-1", "0-4294967295", "1,,2"] {
            assert_eq!(cpus(odd), None, "{odd}");
        }
    }

    #[test]
    fn error_is_not_known_and_never_off() {
        let of = |code: u64| state(&json!({"status_code": code, "stateful": false})).0;
        assert_eq!(of(103), State::Running);
        assert_eq!(of(110), State::Paused);
        assert_eq!(of(112), State::Unknown);
        assert_eq!(of(999), State::Unknown);
        assert_eq!(state(&Value::Null).0, State::Unknown);
        assert_eq!(
            state(&json!({"status_code": 102, "stateful": true})).0,
            State::Hibernated
        );
    }

    #[test]
    fn a_proxy_into_the_guest_is_a_port() {
        let proxy = |listen: &str, connect: &str| {
            port(&json!({"type": "proxy", "listen": listen, "connect": connect}))
        };
        let there = proxy("tcp:127.0.0.1:8080", "tcp:127.0.0.1:80").unwrap();
        assert_eq!((there.guest, there.host.as_str()), (80, "127.0.0.1:8080"));
        assert!(proxy("unix:/x", "tcp:127.0.0.1:80").is_none());
        assert!(proxy("tcp:127.0.0.1:8080-8090", "tcp:127.0.0.1:80-90").is_none());
        assert!(port(&json!({"type": "nic"})).is_none());
    }
}
