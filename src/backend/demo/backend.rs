//! The simulated backend: reads.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use jiff::Timestamp;

use super::knobs::Knobs;
use super::support;
use super::world::{Calls, Guest, World};
use crate::backend::contract::{
    Backend, Change, Changes, CreateRequest, Events, Metrics, PauseRequest, PowerRequest, ReadCx,
    RemoveRequest, Routes, SnapshotRequest,
};
use crate::model::{
    Check, ContextSpec, Detail, Error, ErrorKind, Facts, Host, Instance, InstanceId, Inventory,
    Kind, Native, NativeFormat, Operation, Result, State, Support,
};

/// How the context answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    /// Normally.
    Well,
    /// Never.
    Silent,
    /// "Connection refused", at once.
    Refusing,
    /// "Login expired", at once.
    LoggedOut,
}

/// One simulated context.
pub struct Demo {
    pub(super) kind: Kind,
    pub(super) context: String,
    pub(super) world: Arc<World>,
    pub(super) knobs: Knobs,
    mood: Mood,
}

impl Demo {
    pub(super) fn new(spec: &ContextSpec, guests: Vec<Guest>, knobs: &Knobs) -> Self {
        let named = |list: &[String]| list.contains(&spec.name);
        let mood = if named(&knobs.down) {
            Mood::Silent
        } else if named(&knobs.refused) {
            Mood::Refusing
        } else if named(&knobs.up) {
            Mood::Well
        } else {
            match spec.name.as_str() {
                "hv2" => Mood::Silent,
                "vc-old" => Mood::LoggedOut,
                _ => Mood::Well,
            }
        };
        Self {
            kind: spec.kind.clone(),
            context: spec.name.clone(),
            world: Arc::new(World::new(
                guests,
                knobs
                    .seed
                    .wrapping_mul(0x9e37_79b9)
                    .wrapping_add(spec.name.len() as u64),
            )),
            knobs: knobs.clone(),
            mood,
        }
    }

    /// What was asked so far.
    pub fn calls(&self) -> Calls {
        self.world.calls().clone()
    }

    /// Something happens outside of corral.
    pub fn outside(&self, id: &InstanceId, state: State) {
        self.world.change(id, |guest| guest.revision += 1);
        self.world.set_state(id, state);
    }

    /// Another machine takes an ID.
    pub fn reincarnate(&self, id: &InstanceId, uid: &str) {
        self.world.change(id, |guest| {
            guest.row.uid = Some(uid.to_owned());
            guest.revision += 1;
        });
    }

    /// Waits as a network would, and fails as this context does.
    pub(super) async fn reach(&self) -> Result<()> {
        match self.mood {
            Mood::Well => {}
            Mood::Silent => std::future::pending().await,
            Mood::Refusing => {
                return Err(Error::unreachable(format!(
                    "{} does not answer: connection refused",
                    self.context
                ))
                .remedy(format!("Retry: corral context test {}", self.context)));
            }
            Mood::LoggedOut => {
                return Err(Error::new(
                    ErrorKind::Unauthorized,
                    format!(
                        "{} refused the login operator@vsphere.local: it has expired",
                        self.context
                    ),
                )
                .remedy(format!(
                    "corral context set {} --secret-stdin",
                    self.context
                )));
            }
        }
        if !self.knobs.latency.is_zero() {
            tokio::time::sleep(self.knobs.latency).await;
        }
        if self.knobs.failures > 0 && self.world.random(1000) < u64::from(self.knobs.failures) {
            return Err(Error::backend(format!(
                "{}: internal server error",
                self.context
            )));
        }
        Ok(())
    }

    pub(super) fn guest(&self, id: &InstanceId) -> Result<Guest> {
        self.world.guests().get(id).cloned().ok_or_else(|| {
            Error::not_found(format!("there is no {:?} in {}", id.key(), self.context))
        })
    }

    /// Load wanders a little between two looks.
    fn wander(&self, row: &mut Instance) {
        row.observed_at = Timestamp::now();
        if let Some(usage) = &mut row.usage {
            let step = self.world.random(9) as f64 / 10.0 - 0.4;
            usage.cpu_percent = usage
                .cpu_percent
                .map(|cpu| ((cpu + step).clamp(0.1, 99.0) * 10.0).round() / 10.0);
        }
    }

    fn is_polled(&self) -> bool {
        matches!(self.kind.as_str(), "proxmox" | "virtualbox" | "nutanix")
    }
}

/// The inventory of a world as it is now.
fn inventory(world: &World, wander: impl Fn(&mut Instance)) -> Inventory {
    let mut found = Inventory::empty(Timestamp::now());
    let mut hosts: Vec<String> = Vec::new();
    for guest in world.guests().values() {
        let row = guest.row.clone();
        if let Some(host) = &row.host
            && !hosts.contains(host)
        {
            hosts.push(host.clone());
        }
        found.instances.push(row);
    }
    found.instances.iter_mut().for_each(wander);
    found.hosts = hosts
        .into_iter()
        .map(|name| Host {
            name,
            cpus: Some(32),
            memory_bytes: Some(crate::model::Bytes::gib(128)),
            online: true,
        })
        .collect();
    found
}

#[async_trait]
impl Backend for Demo {
    fn kind(&self) -> Kind {
        self.kind.clone()
    }

    fn support(&self, operation: Operation, on: Option<&Instance>) -> Support {
        support::support(&self.kind, operation, on)
    }

    async fn probe(&self, cx: &ReadCx) -> Result<Facts> {
        cx.within(&self.context, self.reach()).await?;
        self.world.calls().probe += 1;
        Ok(Facts {
            server: Some(format!("demo-{}", self.context)),
            version: Some("demo".to_owned()),
            features: std::collections::BTreeMap::new(),
            summary: Some("simulated: nothing real is touched".to_owned()),
        })
    }

    async fn inventory(&self, cx: &ReadCx) -> Result<Inventory> {
        self.world.calls().inventory += 1;
        cx.within(&self.context, self.reach()).await?;
        Ok(inventory(&self.world, |row| self.wander(row)))
    }

    async fn detail(&self, cx: &ReadCx, id: &InstanceId) -> Result<Detail> {
        self.world.calls().detail += 1;
        cx.within(&self.context, self.reach()).await?;
        let guest = self.guest(id)?;
        let mut instance = guest.row;
        self.wander(&mut instance);
        let text = format!(
            "# simulated\nname = {:?}\nuuid = {:?}\ncpus = {}\n",
            instance.name,
            instance.uid.as_deref().unwrap_or(""),
            instance.cpus.unwrap_or(0)
        );
        Ok(Detail {
            instance,
            disks: guest.disks,
            nics: guest.nics,
            snapshots: guest.snapshots,
            firmware: Some("uefi".to_owned()),
            facts: vec![("Simulated".to_owned(), "yes".to_owned())],
            pending: Vec::new(),
            problems: Vec::new(),
            native: Some(Native {
                format: NativeFormat::Toml,
                text,
            }),
        })
    }

    fn watch(self: Arc<Self>) -> Option<BoxStream<'static, Result<Change>>> {
        if self.is_polled() {
            return None;
        }
        let receiver = self.world.changes();
        let first = {
            let demo = Arc::clone(&self);
            futures::stream::once(async move {
                demo.reach().await?;
                Ok(Change::Reset(inventory(&demo.world, |row| {
                    demo.wander(row);
                })))
            })
        };
        let rest = futures::stream::unfold((self, receiver), |(demo, mut receiver)| async move {
            let change = match receiver.recv().await {
                Ok(change) => change,
                // What was missed is made good by a full list.
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {
                    Change::Reset(inventory(&demo.world, |row| demo.wander(row)))
                }
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return None,
            };
            Some((Ok(change), (demo, receiver)))
        });
        Some(first.chain(rest).boxed())
    }

    async fn doctor(&self, cx: &ReadCx) -> Vec<Check> {
        match cx.within(&self.context, self.reach()).await {
            Ok(()) if self.context == "pve" => vec![
                Check::ok(
                    "demo.tls",
                    "TLS pinned to cluster CA, server certificate valid 212 d",
                ),
                Check::warn(
                    "demo.pool",
                    "pool local-lvm 91 % full: guests pause when it fills",
                )
                .remedy("corral list --context pve --filter disk:100G.."),
            ],
            Ok(()) => vec![Check::ok(
                "demo.simulated",
                "simulated: nothing real is touched",
            )],
            // The generic check has said it.
            Err(_) => Vec::new(),
        }
    }

    fn power(&self) -> Option<&dyn Changes<PowerRequest>> {
        Some(self)
    }

    fn pause(&self) -> Option<&dyn Changes<PauseRequest>> {
        (self.kind.as_str() != "nutanix").then_some(self as &dyn Changes<PauseRequest>)
    }

    fn create(&self) -> Option<&dyn Changes<CreateRequest>> {
        Some(self)
    }

    fn remove(&self) -> Option<&dyn Changes<RemoveRequest>> {
        Some(self)
    }

    fn snapshots(&self) -> Option<&dyn Changes<SnapshotRequest>> {
        Some(self)
    }

    fn routes(&self) -> Option<&dyn Routes> {
        Some(self)
    }

    fn metrics(&self) -> Option<&dyn Metrics> {
        Some(self)
    }

    fn events(&self) -> Option<&dyn Events> {
        Some(self)
    }
}

/// How long one step of a change takes in life.
pub(super) const STEP: Duration = Duration::from_millis(600);
