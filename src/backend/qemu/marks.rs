//! What is said of a VM and changes nothing about it: tags, note, autostart, template. All of it
//! stands in the definition.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use super::change::Seen;
use super::ctx::Ctx;
use super::definition::Definition;
use super::image::quoted;
use super::store::{DEFINITION, Store};
use super::{autostart, inventory, locks};
use crate::backend::contract::{
    AutostartRequest, Changes, NoteRequest, Prepared, ReadCx, TagsRequest, TaskCx, TemplateRequest,
    check_note, check_tag,
};
use crate::model::{Error, Instance, InstanceId, Outcome, Result, State, Step, shown};

/// The tags, notes, autostart and template families.
#[derive(Clone, Debug)]
pub struct Marks(pub Arc<Ctx>);

/// What `run` needs.
struct Plan {
    id: InstanceId,
    wanted: Definition,
    said: String,
}

impl Marks {
    /// A plan that brings `id` from what it is to what `change` makes of it. `change` says what it
    /// did as steps' titles with what undoes each.
    fn plan(
        &self,
        id: &InstanceId,
        already: &str,
        said: &str,
        change: impl FnOnce(&mut Definition) -> Result<Vec<(String, String)>>,
    ) -> Result<Prepared> {
        let now = match inventory::load(&self.0, id) {
            Ok(now) => now,
            Err(error) => return Ok(Prepared::failed("", &error)),
        };
        let token = token(&now);
        if let Some(why) = now.readonly_reason() {
            let remedy = Some("Use the newer corral.".to_owned());
            return Ok(Prepared::refused(token, why, remedy));
        }
        let mut wanted = now.clone();
        let changes = match change(&mut wanted) {
            Ok(changes) => changes,
            Err(error) => return Ok(Prepared::failed(token, &error)),
        };
        if wanted == now {
            return Ok(Prepared::unchanged(token, format!("{id} {already}")));
        }
        let file = self.0.store.dir(&now.name)?.join(DEFINITION);
        let steps = changes
            .into_iter()
            .map(|(title, undo)| Step::new(title, format!("write {}", quoted(&file))).undo(undo))
            .collect();
        Ok(Prepared::new(token, steps).with(Plan {
            id: id.clone(),
            wanted,
            said: said.to_owned(),
        }))
    }

    async fn carry_out(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let plan: Plan = prepared.take()?;
        let ctx = &self.0;
        let vm = inventory::load(ctx, &plan.id)?;
        let _lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
        let now = inventory::load(ctx, &plan.id)?;
        if token(&now) != prepared.token {
            return Err(Error::conflict(format!(
                "{} changed meanwhile: its definition was changed. Nothing was done",
                plan.id
            ))
            .remedy("Look at it and ask again."));
        }
        cx.checkpoint()?;
        ctx.store.save(&plan.wanted)?;
        Ok(Outcome::changed(format!("{} {}", plan.id, plan.said)))
    }
}

/// Identity and definition: these changes do not mind what state it is in.
fn token(vm: &Definition) -> String {
    format!("{} {}", vm.uuid, Store::hash(vm))
}

#[async_trait]
impl Changes<TagsRequest> for Marks {
    async fn prepare(&self, _: &ReadCx, on: &Instance, request: TagsRequest) -> Result<Prepared> {
        let id = &on.id;
        self.plan(id, "has these tags already", "is tagged anew", |vm| {
            for tag in &request.add {
                check_tag(tag)?;
            }
            if let Some(both) = request.add.iter().find(|tag| request.remove.contains(tag)) {
                return Err(Error::invalid(format!(
                    "the tag \"{}\" is to be added and removed",
                    shown(both)
                ))
                .remedy("Leave one of the two out."));
            }
            let before: BTreeSet<String> = vm.tags.iter().cloned().collect();
            let mut after = before.clone();
            after.extend(request.add.iter().cloned());
            after.retain(|tag| !request.remove.contains(tag));
            let mut changes = Vec::new();
            for tag in after.difference(&before) {
                let tag = shown(tag);
                changes.push((
                    format!("Add the tag {tag}"),
                    format!("corral tag {id} --remove {tag}"),
                ));
            }
            for tag in before.difference(&after) {
                let tag = shown(tag);
                changes.push((
                    format!("Remove the tag {tag}"),
                    format!("corral tag {id} --add {tag}"),
                ));
            }
            if after != before {
                vm.tags = after.into_iter().collect();
            }
            Ok(changes)
        })
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        self.carry_out(cx, prepared).await
    }
}

#[async_trait]
impl Changes<NoteRequest> for Marks {
    async fn prepare(&self, _: &ReadCx, on: &Instance, request: NoteRequest) -> Result<Prepared> {
        let id = &on.id;
        let text = request.text.filter(|text| !text.trim().is_empty());
        let said = if text.is_some() {
            "has a new note"
        } else {
            "has no note any more"
        };
        self.plan(id, "has this note already", said, |vm| {
            if let Some(text) = &text {
                check_note(text)?;
            }
            let title = match (&vm.note, &text) {
                (None, _) => "Set the note",
                (Some(_), Some(_)) => "Replace the note",
                (Some(_), None) => "Remove the note",
            };
            let undo = match &vm.note {
                Some(old) => format!("corral note {id} --text '{}'", shown(old)),
                None => format!("corral note {id} --clear"),
            };
            vm.note = text;
            Ok(vec![(title.to_owned(), undo)])
        })
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        self.carry_out(cx, prepared).await
    }
}

#[async_trait]
impl Changes<AutostartRequest> for Marks {
    async fn prepare(
        &self,
        _: &ReadCx,
        on: &Instance,
        request: AutostartRequest,
    ) -> Result<Prepared> {
        let id = &on.id;
        let (already, said) = if request.on {
            (
                "starts with this machine already",
                "starts with this machine",
            )
        } else {
            (
                "does not start with this machine",
                "no longer starts with this machine",
            )
        };
        let mut plan = self.plan(id, already, said, |vm| {
            if request.on && vm.template {
                return Err(
                    Error::refused(format!("{id} is a template and is not started"))
                        .remedy("Make a copy of it and let that start."),
                );
            }
            vm.autostart = request.on;
            let (title, undo) = if request.on {
                ("Start it with this machine", "off")
            } else {
                ("No longer start it with this machine", "on")
            };
            Ok(vec![(
                title.to_owned(),
                format!("corral autostart {id} --{undo}"),
            )])
        })?;
        if request.on
            && plan.refusals.is_empty()
            && !plan.unchanged
            && let Some(why) = self
                .0
                .store
                .held_by_clones(&inventory::load(&self.0, id)?, id)?
        {
            return Ok(Prepared::failed(plan.token, &why));
        }
        // The mark alone starts nothing.
        if request.on
            && plan.refusals.is_empty()
            && let Some(missing) = autostart::missing(&self.0)
        {
            plan.notes.push(missing);
        }
        Ok(plan)
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        self.carry_out(cx, prepared).await
    }
}

#[async_trait]
impl Changes<TemplateRequest> for Marks {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: TemplateRequest,
    ) -> Result<Prepared> {
        let ctx = &self.0;
        let seen = match Seen::for_plan(ctx, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let id = &on.id;
        if request.on && !seen.vm.template {
            if let Some(refused) = seen.unclear(&seen.token()) {
                return Ok(refused);
            }
            if seen.live.is_active() {
                return Ok(Prepared::refused(
                    token(&seen.vm),
                    format!("{id} is {}", seen.live.state),
                    Some(format!("Stop it first: corral stop {id}")),
                ));
            }
        }
        if request.on && seen.live.state == State::Hibernated && !seen.vm.template {
            return Ok(Prepared::refused(
                token(&seen.vm),
                format!(
                    "{id} is hibernated: a template is not started, so its RAM would wait for ever"
                ),
                Some(format!(
                    "Let it go on and shut it down: corral start {id}, corral stop {id}"
                )),
            ));
        }
        let was_started = request.on && seen.vm.autostart;
        let users = ctx.store.linked_to(&seen.vm)?;
        let (already, said) = if request.on {
            ("is a template already", "is a template")
        } else {
            ("is no template", "is an ordinary VM again")
        };
        let mut plan = self.plan(id, already, said, |vm| {
            vm.template = request.on;
            let (title, undo) = if request.on {
                ("Make it a template: it is cloned, and not started", "off")
            } else {
                ("Make it an ordinary VM again", "on")
            };
            let mut changes = vec![(title.to_owned(), format!("corral template {id} --{undo}"))];
            if request.on && vm.autostart {
                vm.autostart = false;
                changes.push((
                    "No longer start it with this machine".to_owned(),
                    format!("corral autostart {id} --on"),
                ));
            }
            Ok(changes)
        })?;
        if was_started && !plan.unchanged {
            plan.notes.push(format!(
                "--off does not let it start with this machine again: corral autostart {id} --on"
            ));
        }
        if !request.on && !plan.unchanged && !users.is_empty() {
            let names: Vec<_> = users.iter().map(|name| shown(name)).collect();
            plan.notes.push(format!(
                "it still cannot be started: {} is on top of its disks",
                names.join(", ")
            ));
        }
        Ok(plan)
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        // The lock of a start is the same one: it cannot have begun to run since.
        self.carry_out(cx, prepared).await
    }
}
