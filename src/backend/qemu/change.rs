//! What every change of this backend begins with: the definition, the state, and the proof that
//! they are still what the plan was made for.

use std::time::Duration;

use super::ctx::Ctx;
use super::definition::Definition;
use super::inventory::load;
use super::live::{self, Live};
use super::op;
use super::store::Store;
use crate::backend::contract::{Prepared, ReadCx};
use crate::model::{Error, InstanceId, Result, State};

/// Until a VM has said how it is.
const LOOK: Duration = Duration::from_secs(5);

/// A VM as a plan sees it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its definition.
    pub vm: Definition,
    /// Its state.
    pub live: Live,
    /// Its address.
    pub id: InstanceId,
}

impl Seen {
    /// Looks.
    ///
    /// # Errors
    /// As [`load`].
    pub async fn now(ctx: &Ctx, id: &InstanceId, limit: Duration) -> Result<Self> {
        let vm = load(ctx, id)?;
        let live = live::look(ctx, &vm, limit.min(LOOK)).await;
        let id = id.clone();
        Ok(Self { vm, live, id })
    }

    /// For `prepare`: looks, or says why that is refused.
    ///
    /// # Errors
    /// A ready refusal, for a definition that cannot be read.
    pub async fn for_plan(ctx: &Ctx, cx: &ReadCx, id: &InstanceId) -> Result<Self, Prepared> {
        Self::now(ctx, id, cx.left().mul_f64(0.8))
            .await
            .map_err(|error| Prepared::refused("", error.message.clone(), error.remedy.clone()))
    }

    /// Identity, definition and state in one.
    pub fn token(&self) -> String {
        format!(
            "{} {} {}",
            self.vm.uuid,
            Store::hash(&self.vm),
            self.live.state
        )
    }

    /// `Conflict` when it is no longer what `token` was made of.
    ///
    /// # Errors
    /// As said.
    pub fn still(&self, token: &str) -> Result<()> {
        let now = self.token();
        if now == token {
            return Ok(());
        }
        let mut parts = token.split(' ').zip(now.split(' '));
        let what = if parts.next().is_some_and(|(a, b)| a != b) {
            "it is another machine now".to_owned()
        } else if parts.next().is_some_and(|(a, b)| a != b) {
            "its definition was changed".to_owned()
        } else {
            format!("it is {} now", self.live.state)
        };
        Err(Error::conflict(format!(
            "{} changed meanwhile: {what}. Nothing was done",
            self.id
        ))
        .remedy("Look at it and ask again."))
    }

    /// For `prepare`: whether its disks and devices can be changed at all.
    ///
    /// # Errors
    /// A ready refusal: it is of a newer corral, silent, asleep, or was left half-done.
    pub fn changeable(&self, ctx: &Ctx) -> Result<(), Box<Prepared>> {
        self.whole(ctx)?;
        self.asleep()
            .map_or(Ok(()), |refused| Err(Box::new(refused)))
    }

    /// [`Self::changeable`] but for one that is asleep.
    ///
    /// # Errors
    /// As said.
    pub fn whole(&self, ctx: &Ctx) -> Result<(), Box<Prepared>> {
        let token = self.token();
        if let Some(why) = self.vm.readonly_reason() {
            let remedy = Some("Use the newer corral.".to_owned());
            return Err(Box::new(Prepared::refused(token, why, remedy)));
        }
        if let Some(refused) = self.unclear(&token) {
            return Err(Box::new(refused));
        }
        ctx.store
            .dir(&self.vm.name)
            .and_then(|dir| op::unfinished(&dir))
            .map_err(|error| Box::new(Prepared::failed(token, &error)))
    }

    /// Why its disks and devices cannot be changed: what was put to sleep wakes up only in the
    /// machine it was in.
    pub fn asleep(&self) -> Option<Prepared> {
        (self.live.state == State::Hibernated).then(|| {
            let id = &self.id;
            Prepared::refused(
                self.token(),
                format!("{id} is hibernated, and wakes up only in the machine it was in"),
                Some(format!(
                    "Start it first: corral start {id}. Or give its saved state up: corral start {id} --discard-state"
                )),
            )
        })
    }

    /// Why nothing can be asked of it; `None` when it can.
    pub fn unclear(&self, token: &str) -> Option<Prepared> {
        if self.live.state != State::Unknown {
            return None;
        }
        let why = self.live.reason.clone().unwrap_or_default();
        let remedy = if self.live.is_active() {
            format!("Power it off: corral stop --force {}", self.id)
        } else {
            // Whoever answers there is not known to be its process, so nobody ends it.
            "Nothing was done. Look what it is: corral doctor".to_owned()
        };
        Some(Prepared::refused(
            token,
            format!("{} cannot be asked: {why}", self.id),
            Some(remedy),
        ))
    }
}
