//! A change as a list of acts: as a plan, and carried out.

mod perform;
mod snapshot;

use std::sync::Arc;

use perform::Performer;
pub(crate) use snapshot::promise;

use super::act::Act;
use super::guest::Guest;
use super::world::World;
use crate::backend::contract::{Prepared, TaskCx};
use crate::model::{Error, InstanceId, Outcome, Result};

/// What `prepare` hands to `run`.
pub(crate) struct Work {
    pub(crate) acts: Vec<Act>,
    /// The line for the user when all is done.
    pub(crate) done: String,
    /// The guest that is to be made.
    pub(crate) draft: Option<Guest>,
    /// The guest as it was planned for.
    kept: Option<Guest>,
    /// Concerns what is kept of a guest: that may be gone itself.
    pub(crate) leaves_guest_alone: bool,
}

impl Work {
    pub(crate) fn new(acts: Vec<Act>, done: impl Into<String>) -> Self {
        Self {
            acts,
            done: done.into(),
            draft: None,
            kept: None,
            leaves_guest_alone: false,
        }
    }

    /// As a plan for `guest`.
    pub(crate) fn plan(mut self, world: &World, guest: &Guest) -> Prepared {
        // Later steps are worded for the state that earlier ones lead to.
        let mut expected = guest.clone();
        let mut steps = Vec::new();
        for act in &self.acts {
            steps.push(act.step(world.dialect, &expected));
            if let (Act::Clone { .. }, Some(draft)) = (act, &self.draft) {
                expected = draft.clone();
            }
            if let Some(state) = act.leads_to() {
                expected.base.state = state;
            }
        }
        self.kept = Some(guest.clone());
        let mut prepared = Prepared::new(guest.token(), steps).with((guest.id().clone(), self));
        prepared.detachable = world.dialect.is_server_side();
        prepared
    }
}

/// Carries out what `prepare` said.
pub(crate) async fn run(
    world: &Arc<World>,
    cx: &TaskCx,
    mut prepared: Prepared,
) -> Result<Outcome> {
    if prepared.unchanged {
        return Ok(Outcome::unchanged(prepared.notes.join("; ")));
    }
    if let Some(refusal) = prepared.refusals.first() {
        let mut error = Error::refused(refusal.message.clone()).in_context(world.name());
        error.remedy.clone_from(&refusal.remedy);
        return Err(error);
    }
    let (planned, work): (InstanceId, Work) = prepared.take()?;
    let made = work.draft.as_ref().map(|draft| draft.id().clone());
    let id = made.as_ref().unwrap_or(&planned);
    world.calls.method("run");
    tokio::time::sleep(world.knobs.latency_of(world.name())).await;
    world.connect().await?;
    cx.checkpoint()?;
    if made.is_some() && world.guest(id).is_some() {
        return Err(
            Error::conflict(format!("{id} exists by now. Nothing was done"))
                .in_context(world.name()),
        );
    }
    let original = world.guest(&planned);
    let gone = work.leaves_guest_alone && original.is_none();
    if made.as_ref() != Some(&planned) && !gone {
        world.claim(&planned, &prepared.token)?;
    }
    if world.fails() {
        return Err(Error::backend(format!(
            "{} failed: internal error (simulated)",
            world.name()
        ))
        .in_context(world.name()));
    }
    if world.dialect.is_server_side() {
        let number = world.with_random(super::random::Random::next);
        cx.native_task(format!("task-{:08x}", number as u32));
    }
    let mut performer = Performer {
        world,
        cx,
        id,
        last: original.or_else(|| work.draft.clone()).or(work.kept),
        draft: work.draft,
        consistency: None,
        became: None,
    };
    for (n, act) in work.acts.iter().enumerate() {
        if n > 0 {
            cx.checkpoint()?;
        }
        performer.perform(act, &work.acts[n + 1..]).await?;
    }
    let mut outcome = Outcome::changed(work.done);
    outcome.consistency = performer.consistency;
    outcome.id = performer.became.take().or_else(|| made.clone());
    Ok(outcome)
}
