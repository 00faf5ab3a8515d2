//! The backend contract over a simulated server.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;

use super::calls::Calls;
use super::guest::Guest;
use super::world::{Mood, World};
use crate::backend::contract::{Backend, Change, Events, Families, Metrics, Prepared, ReadCx};
use crate::model::{
    Check, Detail, Event, Facts, Instance, InstanceId, Inventory, Kind, Operation, Refusal, Result,
    Sample, State, Support,
};

/// A simulated server that impersonates a kind.
pub struct Demo {
    pub(crate) world: Arc<World>,
}

impl Demo {
    /// What it was asked since it was opened.
    pub fn calls(&self) -> Calls {
        self.world.calls.get()
    }

    /// Something happens outside of corral: plans made before are stale.
    pub fn outside(&self, id: &InstanceId, state: State) {
        self.world.change(id, |guest, at| guest.enter(state, at));
    }

    /// Another machine takes an ID.
    pub fn reincarnate(&self, id: &InstanceId, uid: &str) {
        self.world.change(id, |guest, _| {
            uid.clone_into(&mut guest.uid);
            guest.revision += 1;
        });
    }

    /// What refuses every change of a guest, as the plan of it.
    pub(crate) fn guard(guest: &Guest) -> Option<Prepared> {
        let refusal = Self::refusal(guest)?;
        Some(Prepared::refused(
            guest.token(),
            refusal.message,
            refusal.remedy,
        ))
    }

    /// The guest that is to be changed, or what refuses every change of it.
    pub(crate) async fn look(
        &self,
        cx: &ReadCx,
        method: &'static str,
        on: &Instance,
    ) -> Result<std::result::Result<Guest, Prepared>> {
        self.world.answer(cx, method).await?;
        let guest = self.world.guest_as(on)?;
        Ok(match Self::guard(&guest) {
            Some(refused) => Err(refused),
            None => Ok(guest),
        })
    }

    /// `refused` with a remedy, for `guest` as it is.
    pub(crate) fn refuse(
        guest: &Guest,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Prepared {
        Prepared::refused(guest.token(), message, Some(remedy.into()))
    }

    /// What refuses a change that only a stopped instance takes.
    pub(crate) fn must_be_off(guest: &Guest) -> Option<Prepared> {
        let id = guest.id();
        guest.state().is_active().then(|| {
            Self::refuse(
                guest,
                format!("{id} is {}", guest.state()),
                format!("stop it first: corral stop {id}"),
            )
        })
    }

    fn refusal(guest: &Guest) -> Option<Refusal> {
        let id = guest.id();
        let row = &guest.base;
        if let Some(lock) = &row.locked {
            let lock = crate::model::shown(lock);
            return Some(Refusal::new(
                format!("{id} is locked: {lock}"),
                Some(format!("See what holds it: corral events {id}")),
            ));
        }
        match row.state {
            State::Broken => Some(Refusal::new(
                format!(
                    "{id} cannot be read: {}",
                    row.reason.as_deref().unwrap_or("no reason given")
                ),
                Some(format!("See: corral info {id}")),
            )),
            State::Provisioning | State::Migrating => Some(Refusal::new(
                format!("{id} is {}", row.state),
                Some(format!("Wait for it: corral wait {id} --for stopped")),
            )),
            State::Unknown => Some(Refusal::new(
                format!(
                    "{id} is unknown: {}",
                    row.reason.as_deref().unwrap_or("no fresh answer")
                ),
                Some("Bring its host back first.".into()),
            )),
            _ => None,
        }
    }
}

#[async_trait]
impl Backend for Demo {
    fn kind(&self) -> Kind {
        self.world.dialect.kind()
    }

    fn support(&self, operation: Operation, on: Option<&Instance>) -> Support {
        self.world.dialect.support(operation, on)
    }

    async fn probe(&self, cx: &ReadCx) -> Result<Facts> {
        let world = &self.world;
        world.answer(cx, "probe").await?;
        let mut facts = Facts {
            server: Some(format!("demo:{}", world.name())),
            version: Some(world.dialect.version().to_owned()),
            summary: Some(format!("{}, simulated", world.dialect.version())),
            ..Facts::default()
        };
        facts
            .features
            .insert("hosts".into(), world.hosts.len().to_string());
        facts.features.insert("demo".into(), "true".into());
        Ok(facts)
    }

    async fn inventory(&self, cx: &ReadCx) -> Result<Inventory> {
        self.world.answer(cx, "inventory").await?;
        Ok(self.world.inventory())
    }

    async fn detail(&self, cx: &ReadCx, id: &InstanceId) -> Result<Detail> {
        self.world.answer(cx, "detail").await?;
        self.world.learn_uid(id);
        let guest = self.world.guest(id).ok_or_else(|| self.world.missing(id))?;
        Ok(super::detail::detail(&self.world, &guest))
    }

    fn watch(self: Arc<Self>) -> Option<BoxStream<'static, Result<Change>>> {
        self.world
            .dialect
            .is_event_driven()
            .then(|| super::watch::stream(Arc::clone(&self.world)))
    }

    async fn doctor(&self, cx: &ReadCx) -> Vec<Check> {
        let world = &self.world;
        let word = world.dialect.word();
        let id = |what: &str| format!("{word}.{what}");
        // A context that does not answer has no checks of its own: the generic one has said it.
        let mut checks = Vec::new();
        if world.answer(cx, "doctor").await.is_ok() {
            checks.push(Check::ok(
                &id("connect"),
                format!("{} answers (simulated)", world.dialect.version()),
            ));
            for host in world.hosts.iter().filter(|host| !host.online) {
                checks.push(
                    Check::warn(&id("host"), format!("host {} is offline", host.name))
                        .remedy("Look at the machine; its guests are not manageable."),
                );
            }
            for problem in world.inventory().problems {
                let mut check = Check::warn(&id("storage"), problem.message);
                check.remedy = problem.remedy;
                checks.push(check);
            }
        }
        for check in &mut checks {
            check.context = Some(world.name().to_owned());
        }
        checks
    }

    fn families(&self) -> &dyn Families {
        self
    }
}

#[async_trait]
impl Metrics for Demo {
    async fn sample(&self, cx: &ReadCx, ids: &[InstanceId]) -> Result<Vec<(InstanceId, Sample)>> {
        self.world.answer(cx, "sample").await?;
        let now = self.world.now();
        let seed = self.world.knobs.seed;
        let samples = ids.iter().filter_map(|id| {
            let guest = self.world.guest(id).filter(|g| g.state().is_active())?;
            let usage = guest.usage(now, seed);
            // Traffic follows the load.
            let busy = usage.cpu_percent.unwrap_or_default();
            let traffic = |share: f64| Some((busy * share * 1024.0) as u64);
            let sample = Sample {
                at: now,
                cpu_percent: usage.cpu_percent,
                memory_bytes: usage.memory_bytes,
                disk_read_bps: traffic(18.0),
                disk_write_bps: traffic(41.0),
                net_rx_bps: traffic(27.0),
                net_tx_bps: traffic(12.0),
            };
            Some((id.clone(), sample))
        });
        Ok(samples.collect())
    }
}

#[async_trait]
impl Events for Demo {
    async fn recorded(&self, cx: &ReadCx, id: Option<&InstanceId>) -> Result<Vec<Event>> {
        self.world.answer(cx, "recorded").await?;
        Ok(self.world.events(id))
    }
}

impl std::fmt::Debug for Demo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Demo")
            .field("context", &self.world.name())
            .field("kind", &self.world.dialect.word())
            .field("answers", &(self.world.mood == Mood::Answers))
            .finish_non_exhaustive()
    }
}
