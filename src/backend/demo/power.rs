//! Start, stop, restart, pause and resume.

use async_trait::async_trait;

use super::act::Act;
use super::backend::Demo;
use super::dialect::Dialect;
use super::guest::Guest;
use super::work::{Work, run};
use crate::backend::contract::{
    Changes, PauseRequest, PowerRequest, Prepared, ReadCx, RestartMode, TaskCx,
};
use crate::model::{Instance, InstanceKind, Outcome, Result, State};

#[async_trait]
impl Changes<PowerRequest> for Demo {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: PowerRequest) -> Result<Prepared> {
        self.world.answer(cx, "power.prepare").await?;
        let guest = self.world.guest_as(on)?;
        if let Some(refused) = Self::guard(&guest) {
            return Ok(refused);
        }
        Ok(match request {
            PowerRequest::Start | PowerRequest::StartFresh => self.start(&guest),
            PowerRequest::Stop { force, force_after } => self.stop(&guest, force, force_after),
            PowerRequest::Restart(mode) => self.restart(&guest, mode),
        })
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        run(&self.world, cx, prepared).await
    }
}

#[async_trait]
impl Changes<PauseRequest> for Demo {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: PauseRequest) -> Result<Prepared> {
        self.world.answer(cx, "pause.prepare").await?;
        let guest = self.world.guest_as(on)?;
        let (id, token) = (guest.id(), guest.token());
        if let Some(refused) = Self::guard(&guest) {
            return Ok(refused);
        }
        if self.world.dialect == Dialect::Proxmox && guest.base.kind == InstanceKind::Ct {
            return Ok(Prepared::refused(
                token,
                format!("{id} is a container: LXC has no pause"),
                Some(format!("Stop it instead: corral stop {id}")),
            ));
        }
        Ok(match (request, guest.state()) {
            (PauseRequest::Pause, State::Paused) => {
                Prepared::unchanged(token, format!("{id} is paused already"))
            }
            (PauseRequest::Resume, State::Running) => {
                Prepared::unchanged(token, format!("{id} runs already"))
            }
            (PauseRequest::Pause, State::Running) => {
                let mut prepared = Work::new(vec![Act::Pause], format!("{id} is paused"))
                    .plan(&self.world, &guest);
                if self.world.dialect == Dialect::Vsphere {
                    prepared
                        .notes
                        .push("vSphere keeps the memory on disk while it is suspended".into());
                }
                prepared
            }
            (PauseRequest::Resume, State::Paused) => {
                let mut prepared =
                    Work::new(vec![Act::Resume], format!("{id} runs")).plan(&self.world, &guest);
                if let Some(why) = &guest.base.reason {
                    prepared.notes.push(format!(
                        "It was paused by: {why}. Until that is mended it will pause again"
                    ));
                }
                prepared
            }
            (_, state) => Prepared::refused(
                token,
                format!("{id} is {state}"),
                Some(format!("Start it first: corral start {id}")),
            ),
        })
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        run(&self.world, cx, prepared).await
    }
}

impl Demo {
    fn start(&self, guest: &Guest) -> Prepared {
        let (id, token) = (guest.id(), guest.token());
        if guest.base.template {
            return Prepared::refused(
                token,
                format!("{id} is a template: it is not started"),
                Some("Make an instance from it instead.".into()),
            );
        }
        match guest.state() {
            State::Running | State::Starting => {
                Prepared::unchanged(token, format!("{id} runs already"))
            }
            State::Paused => Prepared::refused(
                token,
                format!("{id} is paused"),
                Some(format!("Resume it: corral resume {id}")),
            ),
            State::Stopping => Prepared::refused(
                token,
                format!("{id} is shutting down"),
                Some(format!("Wait for it: corral wait {id} --for stopped")),
            ),
            _ => Work::new(vec![Act::Start], format!("{id} runs")).plan(&self.world, guest),
        }
    }

    fn stop(
        &self,
        guest: &Guest,
        force: bool,
        force_after: Option<std::time::Duration>,
    ) -> Prepared {
        let (id, token) = (guest.id(), guest.token());
        let state = guest.state();
        if !state.is_active() {
            return Prepared::unchanged(token, format!("{id} is {state} already"));
        }
        if force {
            let mut prepared =
                Work::new(vec![Act::PowerOff], format!("{id} is off")).plan(&self.world, guest);
            prepared
                .losses
                .push("what the guest has not written to disk yet".into());
            return prepared;
        }
        if state == State::Paused {
            return Prepared::refused(
                token,
                format!("{id} is paused and cannot react to a shutdown request"),
                Some(format!(
                    "Resume it first: corral resume {id}. Or power it off: corral stop --force {id}"
                )),
            );
        }
        if let Some(refusal) = self.no_agent(guest, "corral stop --force") {
            return refusal;
        }
        let mut acts = vec![Act::ShutDown];
        acts.extend(force_after.map(Act::PowerOffAfter));
        let mut prepared = Work::new(acts, format!("{id} is off")).plan(&self.world, guest);
        if force_after.is_some() {
            prepared
                .losses
                .push("if it has to be powered off: what is not written to disk yet".into());
        } else {
            prepared
                .notes
                .push("Asks the guest to shut down, never kills".into());
        }
        prepared
    }

    fn restart(&self, guest: &Guest, mode: RestartMode) -> Prepared {
        let (id, token) = (guest.id(), guest.token());
        let dialect = self.world.dialect;
        let state = guest.state();
        if !state.is_active() {
            return Prepared::refused(
                token,
                format!("{id} is {state}"),
                Some(format!("Start it: corral start {id}")),
            );
        }
        if state == State::Paused && mode != RestartMode::Force {
            return Prepared::refused(
                token,
                format!("{id} is paused and cannot react"),
                Some(format!("Resume it first: corral resume {id}")),
            );
        }
        let container = guest.base.kind == InstanceKind::Ct;
        let acts = match (mode, dialect) {
            (RestartMode::Force, Dialect::Proxmox) if container => {
                vec![Act::PowerOff, Act::Start]
            }
            (RestartMode::Force, Dialect::Kubevirt) => vec![Act::Cycle { now: true }],
            (RestartMode::Force, _) => vec![Act::Reset],
            (_, Dialect::Kubevirt | Dialect::Proxmox) | (RestartMode::Cold, Dialect::Peer) => {
                vec![Act::Cycle { now: false }]
            }
            (RestartMode::Guest, Dialect::Qemu) if guest.base.agent != Some(true) => {
                vec![Act::ShutDown, Act::Start]
            }
            (RestartMode::Guest, _) => vec![Act::Reboot],
            (RestartMode::Cold, _) => vec![Act::ShutDown, Act::Start],
        };
        if mode != RestartMode::Force
            && let Some(refusal) = self.no_agent(guest, "corral restart --force")
        {
            return refusal;
        }
        let cold = !matches!(acts.first(), Some(Act::Reboot | Act::Reset));
        let mut prepared = Work::new(acts, format!("{id} runs again")).plan(&self.world, guest);
        match mode {
            RestartMode::Force => prepared
                .losses
                .push("what the guest has not written to disk yet".into()),
            RestartMode::Guest if cold => prepared.notes.push(match dialect {
                Dialect::Qemu => "No guest agent answers: it is shut down and started again".into(),
                _ => "Always cold here: it is shut down and started again".into(),
            }),
            RestartMode::Guest | RestartMode::Cold => {}
        }
        if cold && !guest.pending.is_empty() {
            prepared.notes.push(format!(
                "Pending settings apply: {}",
                guest.pending.join(", ")
            ));
        }
        prepared
    }

    /// vSphere asks the guest by its Tools and by nothing else.
    fn no_agent(&self, guest: &Guest, force: &str) -> Option<Prepared> {
        let silent = self.world.dialect == Dialect::Vsphere && guest.base.agent == Some(false);
        let id = guest.id();
        silent.then(|| {
            Prepared::refused(
                guest.token(),
                format!("VMware Tools do not run in {id}: it cannot be asked"),
                Some(format!("Power it off or reset it: {force} {id}")),
            )
        })
    }
}
