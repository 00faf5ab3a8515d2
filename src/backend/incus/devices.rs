//! Devices of an instance: what disks and NICs there are, and where they come from.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::call::{self, Call};
use super::ctx::Ctx;
use super::json::{Look as _, entry, is_true, size};
use super::row::{is_root, mac};
use super::seen::Seen;
use super::work::Todo;
use crate::backend::contract::ReadCx;
use crate::model::{Bytes, Disk, Error, Nic, Result, State, shown};

/// Volumes of a pool as the server lists them.
#[derive(Clone, Debug, Default)]
pub struct Volumes(Vec<(String, Vec<Value>)>);

impl Volumes {
    /// Of these pools; one that cannot be read is told of by the second half of the answer.
    pub async fn of(ctx: &Ctx, cx: &ReadCx, project: &str, pools: &[&str]) -> (Self, Vec<String>) {
        let (mut all, mut problems) = (Vec::new(), Vec::new());
        for pool in pools {
            let path = format!(
                "{}&recursion=1",
                call::at(&["storage-pools", pool, "volumes"], project)
            );
            let asked = async { ctx.api()?.get(cx, &path).await };
            match asked.await {
                Ok(reply) => all.push((
                    (*pool).to_owned(),
                    reply.metadata.as_array().cloned().unwrap_or_default(),
                )),
                Err(error) => {
                    problems.push(format!("the pool {} cannot be read: {error}", shown(pool)));
                }
            }
        }
        (Self(all), problems)
    }

    /// A volume that was added to an instance.
    pub fn custom(&self, pool: &str, name: &str) -> Option<&Value> {
        let (_, volumes) = self.0.iter().find(|(of, _)| of == pool)?;
        volumes.iter().find(|volume| {
            volume.text("type") == Some("custom") && volume.text("name") == Some(name)
        })
    }
}

/// Pools that its disks are in.
pub fn pools(seen: &Seen) -> Vec<&str> {
    let mut pools: Vec<&str> = disks_of(seen)
        .filter_map(|(_, device)| device.text("pool"))
        .collect();
    pools.sort_unstable();
    pools.dedup();
    pools
}

fn disks_of(seen: &Seen) -> impl Iterator<Item = (&String, &Value)> {
    seen.all_devices()
        .into_iter()
        .flatten()
        .filter(|(_, device)| device.text("type") == Some("disk"))
}

/// Its disks and media, the root disk first.
pub fn disks(seen: &Seen, volumes: &Volumes) -> Vec<Disk> {
    let mut disks: Vec<Disk> = disks_of(seen)
        .map(|(name, device)| disk(seen, name, device, volumes))
        .collect();
    disks.sort_by(|a, b| {
        let root = |disk: &Disk| {
            seen.all_devices()
                .and_then(|all| all.get(&disk.name))
                .is_none_or(|d| !is_root(d))
        };
        (root(a), &a.name).cmp(&(root(b), &b.name))
    });
    disks
}

fn disk(seen: &Seen, name: &str, device: &Value, volumes: &Volumes) -> Disk {
    let pool = device.text("pool");
    let source = device.text("source");
    let root = is_root(device);
    let volume = pool
        .zip(source)
        .and_then(|(pool, source)| volumes.custom(pool, source));
    let content = volume.and_then(|volume| volume.text("content_type"));
    let folder = if seen.row.kind == crate::model::InstanceKind::Vm {
        "virtual-machine"
    } else {
        "container"
    };
    let place = match (pool, source) {
        (Some(pool), _) if root => Some(format!("{pool}/{folder}/{}", seen.name)),
        (Some(pool), Some(source)) => Some(format!("{pool}/{source}")),
        (_, source) => source.map(str::to_owned),
    };
    let medium = content == Some("iso") || (pool.is_none() && source.is_some_and(is_iso));
    let own_size = device.text("size").and_then(size);
    let of_volume = volume.and_then(|volume| size(entry(volume.object("config"), "size")?));
    let used = seen
        .value
        .get("state")
        .and_then(|live| live.get("disk")?.get(name)?.number("usage"));
    let users = volume.map(|volume| volume.list("used_by").len());
    Disk {
        name: name.to_owned(),
        device: if medium { "cdrom" } else { "disk" }.to_owned(),
        bus: device.text("io.bus").map(str::to_owned),
        source: place,
        format: content.map(str::to_owned),
        size_bytes: own_size.or(of_volume).map(Bytes),
        used_bytes: used.filter(|bytes| *bytes > 0).map(Bytes),
        backing: None,
        owned: root || users == Some(1),
        readonly: medium || is_true(device.text("readonly")),
        snapshots: None,
    }
}

/// A file of the server that is a medium by its name.
pub fn is_iso(path: &str) -> bool {
    path.starts_with('/')
        && Path::new(path)
            .extension()
            .is_some_and(|end| end.eq_ignore_ascii_case("iso"))
}

/// Its network interfaces.
pub fn nics(seen: &Seen) -> Vec<Nic> {
    let nics = seen
        .all_devices()
        .into_iter()
        .flatten()
        .filter(|(_, device)| device.text("type") == Some("nic"));
    nics.map(|(name, device)| {
        let mac = mac(name, device, seen.all_config());
        Nic {
            name: name.clone(),
            network: network_of(device).map(str::to_owned),
            model: device
                .text("nictype")
                .or_else(|| device.text("io.bus"))
                .map(str::to_owned),
            addresses: mac
                .as_deref()
                .map(|mac| addresses(seen, mac))
                .unwrap_or_default(),
            mac,
        }
    })
    .collect()
}

/// What a NIC is connected to.
pub fn network_of(device: &Value) -> Option<&str> {
    device.text("network").or_else(|| device.text("parent"))
}

fn addresses(seen: &Seen, mac: &str) -> Vec<String> {
    if matches!(seen.state(), State::Stopped | State::Hibernated) {
        return Vec::new();
    }
    let network = seen
        .value
        .get("state")
        .and_then(|live| live.object("network"));
    let own = network.into_iter().flat_map(Map::values).filter(|nic| {
        nic.text("hwaddr")
            .is_some_and(|hwaddr| hwaddr.eq_ignore_ascii_case(mac))
    });
    own.flat_map(|nic| nic.list("addresses"))
        .filter(|address| address.text("scope").is_none_or(|scope| scope == "global"))
        .filter_map(|address| address.text("address").map(str::to_owned))
        .collect()
}

/// Networks of the server, as it lists them.
///
/// # Errors
/// As a read.
pub async fn networks(ctx: &Ctx, cx: &ReadCx, project: &str) -> Result<Vec<Value>> {
    let path = format!("{}&recursion=1", call::at(&["networks"], project));
    let reply = ctx.api()?.get(cx, &path).await?;
    Ok(reply.metadata.as_array().cloned().unwrap_or_default())
}

/// A NIC on a network or a bridge.
///
/// # Errors
/// `NotFound` with those there are.
pub fn nic(networks: &[Value], name: &str) -> Result<Value> {
    let found = networks
        .iter()
        .find(|network| network.text("name") == Some(name));
    match found {
        Some(network) if network.flag("managed") == Some(true) => {
            Ok(json!({"type": "nic", "network": name}))
        }
        Some(network) if network.text("type") == Some("bridge") => {
            Ok(json!({"type": "nic", "nictype": "bridged", "parent": name}))
        }
        Some(network) if network.text("type") == Some("physical") => {
            Ok(json!({"type": "nic", "nictype": "macvlan", "parent": name}))
        }
        _ => {
            let names: Vec<&str> = networks.iter().filter_map(|n| n.text("name")).collect();
            Err(
                Error::not_found(format!("there is no network {:?}", shown(name)))
                    .remedy(format!("There are: {}", shown(&names.join(", ")))),
            )
        }
    }
}

/// The first name with this beginning that no device has.
pub fn free_slot<'a>(prefix: &str, from: usize, taken: impl Iterator<Item = &'a String>) -> String {
    let taken: Vec<&String> = taken.collect();
    let mut n = from;
    loop {
        let name = format!("{prefix}{n}");
        if taken.iter().all(|slot| **slot != name) {
            return name;
        }
        n += 1;
    }
}

/// The volume that is the medium `image`, and the step that brings it there, where it is a file of this machine.
///
/// # Errors
/// `NotFound`, `Invalid` for what is no medium.
pub async fn iso(
    ctx: &Ctx,
    cx: &ReadCx,
    project: &str,
    pool: &str,
    image: &str,
) -> Result<(Option<Todo>, String)> {
    let (volumes, problems) = Volumes::of(ctx, cx, project, &[pool]).await;
    if let Some(problem) = problems.first() {
        return Err(Error::backend(problem.clone()));
    }
    let name = Path::new(image)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or(image);
    let name: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '-'
            }
        })
        .collect();
    if let Some(volume) = volumes.custom(pool, &name) {
        if volume.text("content_type") == Some("iso") {
            return Ok((None, name));
        }
        return Err(Error::invalid(format!(
            "the volume {} of the pool {} is no medium",
            shown(&name),
            shown(pool)
        )));
    }
    if !image.starts_with('/') {
        return Err(Error::not_found(format!(
            "the pool {} has no medium {:?}",
            shown(pool),
            shown(image)
        ))
        .remedy("Give a file of this machine, or a volume: corral storage info POOL"));
    }
    let length = std::fs::metadata(image)
        .map_err(|error| Error::not_found(format!("{}: {error}", shown(image))))?
        .len();
    let path = call::at(&["storage-pools", pool, "volumes", "custom"], project);
    let call = Call::new(
        "POST",
        path,
        json!({"name": name, "type": "iso", "file": image}),
    );
    Ok((
        Some(Todo::new(
            format!(
                "Bring {} ({}) into the pool {}",
                shown(image),
                Bytes(length),
                shown(pool)
            ),
            super::work::Act::Upload(call),
        )),
        name,
    ))
}

/// How a pool keeps its volumes: `dir`, `zfs` …
///
/// # Errors
/// `NotFound` where there is no such pool.
pub async fn pool_driver(ctx: &Ctx, cx: &ReadCx, pool: &str) -> Result<String> {
    let path = format!("/1.0/storage-pools/{}", super::json::encoded(pool));
    let reply = ctx.api()?.get(cx, &path).await.map_err(|mut error| {
        if error.kind == crate::model::ErrorKind::NotFound {
            error.message = format!("there is no storage pool {:?}", shown(pool));
            error.remedy = Some("See corral storage list".to_owned());
        }
        error
    })?;
    Ok(reply.metadata.text("driver").unwrap_or_default().to_owned())
}

/// Pools that are on one host alone.
const LOCAL: [&str; 4] = ["dir", "btrfs", "lvm", "zfs"];

/// Whether an instance can be given a volume of this pool: one whose RAM is kept goes to another host with all its disks.
///
/// # Errors
/// `Refused` where the server takes none.
pub async fn takes_from(ctx: &Ctx, cx: &ReadCx, seen: &Seen, pool: &str) -> Result<()> {
    let driver = pool_driver(ctx, cx, pool).await?;
    let kept = super::support::memory(seen).is_ready();
    if kept && LOCAL.contains(&driver.as_str()) {
        let id = &seen.id;
        return Err(Error::refused(format!(
            "{id} has migration.stateful, and the server then adds disks from shared pools only; {} is {driver}",
            shown(pool)
        ))
        .remedy(format!(
            "Take the key away while it is off (it cannot be hibernated then): corral edit {id}"
        )));
    }
    Ok(())
}
