//! What becomes of an instance as a whole: hibernation, names, copies, templates, locks.

mod clone;
mod rename;

use async_trait::async_trait;

use super::act::Act;
use super::backend::Demo;
use super::changes::family;
use super::dialect::Dialect;
use super::guest::Guest;
use super::work::{Work, run};
use crate::backend::contract::{
    Changes, HibernateRequest, Prepared, ReadCx, TaskCx, TemplateRequest, UnlockRequest,
};
use crate::model::{Instance, InstanceKind, Outcome, Result, State, shown};

family!(HibernateRequest, "hibernate.prepare", hibernate);
family!(TemplateRequest, "template.prepare", mark_template);

impl Demo {
    fn hibernate(&self, guest: &Guest, _: HibernateRequest) -> Prepared {
        let id = guest.id();
        if guest.base.kind == InstanceKind::Ct {
            return Self::refuse(
                guest,
                format!("{id} is a container: its memory is not kept"),
                format!("Stop it instead: corral stop {id}"),
            );
        }
        match guest.state() {
            State::Hibernated => {
                Prepared::unchanged(guest.token(), format!("{id} is hibernated already"))
            }
            State::Running | State::Paused => {
                let mut prepared = Work::new(vec![Act::Hibernate], format!("{id} is hibernated"))
                    .plan(&self.world, guest);
                let memory = guest.base.memory_bytes.unwrap_or_default();
                prepared.notes.push(format!("Up to {memory} go to disk"));
                prepared
            }
            state => Self::refuse(
                guest,
                format!("{id} is {state}"),
                format!("Start it first: corral start {id}"),
            ),
        }
    }

    fn mark_template(&self, guest: &Guest, request: TemplateRequest) -> Prepared {
        let id = guest.id();
        let on = request.on;
        if guest.base.template == on {
            let what = if on {
                "a template already"
            } else {
                "no template"
            };
            return Prepared::unchanged(guest.token(), format!("{id} is {what}"));
        }
        if let Some(refused) = Self::must_be_off(guest) {
            return refused;
        }
        let one_way = self.world.dialect == Dialect::Proxmox;
        if one_way && !on {
            return Self::refuse(
                guest,
                format!("{id} stays a template: Proxmox has no way back"),
                format!("Make an instance from it: corral clone {id} NAME"),
            );
        }
        if on && one_way && !guest.snapshots.is_empty() {
            return Self::refuse(
                guest,
                format!("{id} has snapshots: it cannot become a template here"),
                format!("Delete them first: corral snapshot list {id}"),
            );
        }
        let done = if on {
            format!("{id} is a template: it refuses start and is cloned")
        } else {
            format!("{id} is an ordinary instance again")
        };
        let mut prepared = Work::new(vec![Act::MarkTemplate { on }], done).plan(&self.world, guest);
        if one_way {
            prepared
                .losses
                .push("the way back: a template stays one here".into());
            for step in &mut prepared.steps {
                step.undo = None;
            }
        }
        prepared
    }
}

#[async_trait]
impl Changes<UnlockRequest> for Demo {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, _: UnlockRequest) -> Result<Prepared> {
        self.world.answer(cx, "unlock.prepare").await?;
        let guest = self.world.guest_as(on)?;
        let id = guest.id();
        let Some(lock) = &guest.base.locked else {
            return Ok(Prepared::unchanged(
                guest.token(),
                format!("{id} is not locked"),
            ));
        };
        let lock = shown(lock);
        if guest.state().is_active() {
            return Ok(Self::refuse(
                &guest,
                format!("{id} is locked by a {lock} that still runs"),
                format!("Wait for it: corral events {id}"),
            ));
        }
        let mut prepared =
            Work::new(vec![Act::Unlock], format!("{id} is unlocked")).plan(&self.world, &guest);
        prepared.notes.push(format!(
            "No {lock} runs: what it left half-done stays as it is"
        ));
        if self.world.dialect == Dialect::Proxmox {
            prepared.notes.push("Only root@pam may do that".into());
        }
        Ok(prepared)
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        run(&self.world, cx, prepared).await
    }
}
