//! What stands around the guests of one server: pools, networks, images, backups, files.

mod images;
mod keep;
mod places;

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;

pub(crate) use places::pools;

use super::backend::Demo;
use super::dialect::Dialect;
use super::guest::Guest;
use super::random::Random;
use crate::backend::contract::{Hosts, Networks, ReadCx, Storage};
use crate::model::{
    Bytes, Error, Host, Image, InstanceKind, Network, Result, StoragePool, Volume, shown,
};

/// What a server keeps besides its guests.
#[derive(Debug)]
pub(crate) struct Stores {
    pub(crate) images: Vec<Image>,
    /// Grows with every change of the images.
    pub(crate) images_turn: u64,
    pub(crate) backups: Vec<Backup>,
    /// Disks that no guest has any more.
    pub(crate) loose: Vec<Volume>,
    /// Files that were written out, and the guests in them.
    pub(crate) files: BTreeMap<String, Guest>,
}

/// A copy of a guest, kept elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Backup {
    pub(crate) name: String,
    pub(crate) place: String,
    pub(crate) taken_at: Timestamp,
    pub(crate) guest: Guest,
}

impl Backup {
    /// Whether it is of the instance that is called or named like this.
    pub(crate) fn is_of(&self, what: &str) -> bool {
        let id = self.guest.id();
        id.to_string() == what || id.key() == what || self.guest.base.name == what
    }
}

impl Stores {
    pub(crate) fn new(dialect: Dialect, context: &str) -> Self {
        Self {
            images: images::here(dialect, context),
            images_turn: 1,
            backups: Vec::new(),
            loose: Vec::new(),
            files: BTreeMap::new(),
        }
    }
}

#[async_trait]
impl Hosts for Demo {
    async fn hosts(&self, cx: &ReadCx) -> Result<Vec<Host>> {
        self.world.answer(cx, "hosts").await?;
        let world = &self.world;
        let now = world.now();
        let guests = world.guests();
        let hosts = world.hosts.iter().map(|host| {
            let mut host = host.clone();
            let mut random = Random::new(world.knobs.seed, &format!("host {}", host.name));
            let version = world.dialect.version();
            host.facts.push(("Manager".into(), version.into()));
            if !host.online {
                return host;
            }
            let here = guests
                .iter()
                .filter(|g| g.base.host.as_ref() == Some(&host.name) && g.state().is_active());
            let usages: Vec<_> = here.map(|g| g.usage(now, world.knobs.seed)).collect();
            let memory: u64 = usages
                .iter()
                .filter_map(|u| u.memory_bytes)
                .map(|b| b.0)
                .sum();
            let busy: f64 = usages.iter().filter_map(|u| u.cpu_percent).sum::<f64>() / 100.0;
            let all = host.memory_bytes.map_or(0, |b| b.0);
            host.running = Some(usages.len() as u64);
            host.memory_used_bytes = Some(Bytes((memory + (3 << 30)).min(all)));
            host.load =
                Some([1.0, 0.9, 1.1].map(|part| ((busy + 0.2) * part * 100.0).round() / 100.0));
            host.uptime_seconds = Some(86_400 * (3 + random.below(200)) + random.below(86_400));
            host.kernel = Some(world.dialect.kernel().into());
            host.acceleration = Some("kvm".into()).filter(|_| world.dialect.runs_on_kvm());
            host
        });
        Ok(hosts.collect())
    }
}

#[async_trait]
impl Storage for Demo {
    async fn pools(&self, cx: &ReadCx) -> Result<Vec<StoragePool>> {
        let world = &self.world;
        world.answer(cx, "pools").await?;
        let guests = world.guests();
        let pools = pools(world.dialect).iter().map(|pool| {
            let used: u64 = guests
                .iter()
                .flat_map(|g| &g.disks)
                .filter(|d| d.source.as_deref().is_some_and(|s| pool.holds(s)))
                .filter_map(|d| d.used_bytes)
                .map(|b| b.0)
                .sum();
            let size = pool.gib << 30;
            // The one that the context's problem is about.
            let full = world.problem_about(&format!("pool {:?} is full", pool.name));
            StoragePool {
                context: world.name().to_owned(),
                name: pool.name.to_owned(),
                kind: pool.kind.to_owned(),
                place: Some(pool.prefix.trim_end_matches(['/', ' ']).to_owned()),
                host: None,
                size_bytes: Some(Bytes(size)),
                used_bytes: Some(Bytes(if full { size } else { used.min(size) })),
                fault: full.then(|| "it is full".to_owned()),
            }
        });
        Ok(pools.collect())
    }

    async fn volumes(&self, cx: &ReadCx, pool: &str) -> Result<Vec<Volume>> {
        let world = &self.world;
        world.answer(cx, "volumes").await?;
        let Some(pool) = pools(world.dialect).iter().find(|p| p.name == pool) else {
            return Err(Error::not_found(format!(
                "{} has no storage {}",
                world.name(),
                shown(pool)
            ))
            .remedy(format!(
                "See: corral storage list --context {}",
                world.name()
            ))
            .in_context(world.name()));
        };
        let mut volumes: Vec<Volume> = Vec::new();
        for guest in world.guests() {
            for disk in &guest.disks {
                let Some(source) = disk.source.as_ref().filter(|s| pool.holds(s)) else {
                    continue;
                };
                if let Some(known) = volumes.iter_mut().find(|v| v.name == *source) {
                    known.used_by.push(guest.id().clone());
                    continue;
                }
                volumes.push(Volume {
                    pool: pool.name.to_owned(),
                    name: source.clone(),
                    format: disk.format.clone(),
                    size_bytes: disk.size_bytes,
                    used_bytes: disk.used_bytes,
                    used_by: vec![guest.id().clone()],
                    orphan: false,
                });
            }
        }
        volumes.extend(world.with_stores(|stores| {
            let loose = stores.loose.iter().filter(|v| v.pool == pool.name);
            loose.cloned().collect::<Vec<_>>()
        }));
        Ok(volumes)
    }
}

#[async_trait]
impl Networks for Demo {
    async fn networks(&self, cx: &ReadCx) -> Result<Vec<Network>> {
        let world = &self.world;
        world.answer(cx, "networks").await?;
        let guests = world.guests();
        let mut names: Vec<String> = places::networks(world.dialect)
            .iter()
            .map(|n| n.0.to_owned())
            .collect();
        for nic in guests.iter().flat_map(|g| &g.nics) {
            if let Some(name) = nic.network.as_ref().filter(|n| !names.contains(n)) {
                names.push(name.clone());
            }
        }
        let networks = names.into_iter().map(|name| {
            let known = places::networks(world.dialect).iter().find(|n| n.0 == name);
            let used_by = guests
                .iter()
                .filter(|g| g.nics.iter().any(|n| n.network.as_ref() == Some(&name)))
                .map(|g| g.id().clone())
                .collect();
            Network {
                context: world.name().to_owned(),
                kind: known.map_or("bridge", |n| n.1).to_owned(),
                active: known.is_none_or(|n| n.1 != "user").then_some(true),
                addresses: known
                    .iter()
                    .flat_map(|n| n.2)
                    .map(|a| (*a).to_owned())
                    .collect(),
                host: None,
                used_by: Some(used_by),
                fault: None,
                note: known.map(|n| places::reach(n.1).to_owned()),
                name,
            }
        });
        Ok(networks.collect())
    }
}

impl Dialect {
    /// What its hosts run.
    const fn kernel(self) -> &'static str {
        match self {
            Self::Qemu | Self::Virtualbox | Self::Peer => "Linux 6.12.48",
            Self::Libvirt | Self::Incus => "Linux 6.12.41",
            Self::Kubevirt => "Linux 6.8.0",
            Self::Proxmox => "Linux 6.14.8-2-pve",
            Self::Vsphere => "VMkernel 8.0.3",
            Self::Xen => "Xen 4.17.5",
            Self::Nutanix => "AHV 10.0.1",
        }
    }

    const fn runs_on_kvm(self) -> bool {
        !matches!(self, Self::Virtualbox | Self::Vsphere | Self::Xen)
    }

    /// Why there can be no NIC on `network`.
    pub(crate) fn lacks_network(self, kind: InstanceKind, network: &str) -> Option<String> {
        let known = places::networks(self);
        let first = self.nic(kind).1;
        if network == first || known.iter().any(|n| n.0 == network) {
            return None;
        }
        let names: Vec<&str> = known.iter().map(|n| n.0).collect();
        Some(format!("It has: {}", names.join(", ")))
    }
}
