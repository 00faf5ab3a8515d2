//! What is said of an instance and changes nothing about it: tags, note, autostart, template.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use super::ctx::Ctx;
use super::row::{TAGS, TEMPLATE};
use super::seen::Seen;
use super::work::{self, Act, Edit, Todo, Work};
use crate::backend::contract::{
    AutostartRequest, Changes, NoteRequest, Prepared, ReadCx, TagsRequest, TaskCx, TemplateRequest,
    check_note, check_tag,
};
use crate::model::{Error, Instance, Outcome, Result, shown};

/// The tags, notes, autostart and template families.
#[derive(Clone, Debug)]
pub struct Marks(pub Arc<Ctx>);

/// One step that writes a mark. These changes do not mind what state it is in.
fn mark(seen: &Seen, title: String, undo: String, edit: Edit, said: &str) -> Prepared {
    let todo = Todo::new(title, Act::Edit(edit)).undo(undo);
    let work = Work::on(seen, vec![todo], format!("{} {said}", seen.id));
    work.plan(seen.token_of_definition(), &seen.path(&[]))
}

#[async_trait]
impl Changes<TagsRequest> for Marks {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: TagsRequest) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let token = seen.token_of_definition();
        let checked = request.add.iter().try_for_each(|tag| check_tag(tag));
        let both = request.add.iter().find(|tag| request.remove.contains(tag));
        let checked = checked.and(match both {
            Some(both) => Err(Error::invalid(format!(
                "the tag \"{}\" is to be added and removed",
                shown(both)
            ))
            .remedy("Leave one of the two out.")),
            None => Ok(()),
        });
        if let Err(error) = checked {
            return Ok(Prepared::failed(token, &error));
        }
        let before: BTreeSet<String> = seen.row.tags.iter().cloned().collect();
        let mut after = before.clone();
        after.extend(request.add);
        after.retain(|tag| !request.remove.contains(tag));
        if after == before {
            return Ok(Prepared::unchanged(
                token,
                format!("{} has these tags already", seen.id),
            ));
        }
        let words = |flag: &str, tags: BTreeSet<&String>| -> Vec<String> {
            tags.into_iter()
                .map(|tag| format!("{flag} {}", shown(tag)))
                .collect()
        };
        let added: BTreeSet<_> = after.difference(&before).collect();
        let removed: BTreeSet<_> = before.difference(&after).collect();
        let title = [
            words("add", added.clone()),
            words("remove", removed.clone()),
        ]
        .concat();
        let undo = [words("--remove", added), words("--add", removed)].concat();
        let text: Vec<String> = after.into_iter().collect();
        let text = (!text.is_empty()).then(|| text.join(","));
        Ok(mark(
            &seen,
            format!("Tags: {}", title.join(", ")),
            format!("corral tag {} {}", seen.id, undo.join(" ")),
            Edit::key(TAGS, text),
            "is tagged anew",
        ))
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        work::run(&self.0, cx, prepared).await
    }
}

#[async_trait]
impl Changes<NoteRequest> for Marks {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: NoteRequest) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let (id, token) = (&seen.id, seen.token_of_definition());
        let text = request.text.filter(|text| !text.trim().is_empty());
        if text == seen.row.note {
            return Ok(Prepared::unchanged(
                token,
                format!("{id} has this note already"),
            ));
        }
        if let Some(Err(error)) = text.as_deref().map(check_note) {
            return Ok(Prepared::failed(token, &error));
        }
        let (title, said) = match (&seen.row.note, &text) {
            (None, _) => ("Set the note", "has a new note"),
            (Some(_), Some(_)) => ("Replace the note", "has a new note"),
            (Some(_), None) => ("Remove the note", "has no note any more"),
        };
        let undo = match &seen.row.note {
            Some(old) => format!("corral note {id} --text '{}'", shown(old)),
            None => format!("corral note {id} --clear"),
        };
        let edit = Edit {
            description: Some(text.unwrap_or_default()),
            ..Edit::default()
        };
        Ok(mark(&seen, title.to_owned(), undo, edit, said))
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        work::run(&self.0, cx, prepared).await
    }
}

#[async_trait]
impl Changes<AutostartRequest> for Marks {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: AutostartRequest,
    ) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let (id, token) = (&seen.id, seen.token_of_definition());
        if seen.row.autostart == Some(request.on) {
            let how = if request.on {
                "starts"
            } else {
                "does not start"
            };
            return Ok(Prepared::unchanged(
                token,
                format!("{id} {how} with its host already"),
            ));
        }
        if request.on && seen.row.template {
            return Ok(Prepared::refused(
                token,
                format!("{id} is a template and is not started"),
                Some("Make a copy of it and let that start.".to_owned()),
            ));
        }
        let (title, said, undo) = if request.on {
            ("Start it with its host", "starts with its host", "off")
        } else {
            (
                "No longer start it with its host",
                "no longer starts with its host",
                "on",
            )
        };
        Ok(mark(
            &seen,
            title.to_owned(),
            format!("corral autostart {id} --{undo}"),
            Edit::key("boot.autostart", Some(request.on.to_string())),
            said,
        ))
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        work::run(&self.0, cx, prepared).await
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
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let (id, token) = (&seen.id, seen.token());
        if seen.row.template == request.on {
            let how = if request.on {
                "is a template already"
            } else {
                "is no template"
            };
            return Ok(Prepared::unchanged(token, format!("{id} {how}")));
        }
        if let Some(refused) = seen.unclear() {
            return Ok(refused);
        }
        if request.on && seen.state() != crate::model::State::Stopped {
            return Ok(Prepared::refused(
                token,
                format!("{id} is {}", seen.state()),
                Some(format!("Stop it first: corral stop {id}")),
            ));
        }
        let mut edit = Edit::key(TEMPLATE, request.on.then(|| "true".to_owned()));
        let mut title = "Make it an ordinary instance again".to_owned();
        if request.on {
            "Make it a template: it is cloned, and not started".clone_into(&mut title);
            if seen.row.autostart == Some(true) {
                edit.config
                    .push(("boot.autostart".to_owned(), Some("false".to_owned())));
                title.push_str("; no longer start it with its host");
            }
        }
        let said = if request.on {
            "is a template"
        } else {
            "is an ordinary instance again"
        };
        let undo = if request.on { "off" } else { "on" };
        let todo = Todo::new(title, Act::Edit(edit)).undo(format!("corral template {id} --{undo}"));
        Ok(Work::on(&seen, vec![todo], format!("{id} {said}")).plan(token, &seen.path(&[])))
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        work::run(&self.0, cx, prepared).await
    }
}
