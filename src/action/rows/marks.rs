//! `tag`, `note`, `template`: what is said of an instance.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Risk, Row, Run, Targets};
use super::setter;
use crate::backend::contract::{NoteRequest, Request, TagsRequest, TemplateRequest};
use crate::model::{Action, Error, Field, FieldKind, GroupNoun, Operation, Result};

const TAG: Row = Row {
    examples: &[
        "tag local/web --add prod",
        "tag local/web --add prod --add eu --remove test",
        "tag --filter tag:test --remove test -y",
    ],
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[
        Field::new("add", FieldKind::Text, "A tag to add").many(),
        Field::new("remove", FieldKind::Text, "A tag to remove").many(),
    ],
    form: true,
    operations: &[Operation::Tag],
    ..Row::new(
        "tag",
        Group::Life,
        "Adds and removes tags",
        Run::Change(|e, a| Box::pin(tag(e, a))),
    )
};

const NOTE: Row = Row {
    examples: &[
        "note local/web --text 'serves the shop'",
        "note local/web --clear",
    ],
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[
        Field::new(
            "text",
            FieldKind::Text,
            "The new note; an empty one removes it",
        )
        .lines(),
        Field::flag("clear", "Removes it"),
    ],
    form: true,
    operations: &[Operation::Note],
    ..Row::new(
        "note",
        Group::Life,
        "Sets or removes the note",
        Run::Change(|e, a| Box::pin(note(e, a))),
    )
};

const TEMPLATE: Row = Row {
    examples: &["template local/base --on", "template local/base --off"],
    details: "A template is not started, only cloned: corral clone base --name web --linked --start",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[
        setter::on("Makes it a template (default)"),
        setter::off("Makes it an ordinary instance again"),
    ],
    risk: Risk::Confirm,
    operations: &[Operation::Template],
    ..Row::new(
        "template",
        Group::Life,
        "Makes an instance a master that is cloned and not started",
        Run::Change(|e, a| Box::pin(template(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&TAG, &NOTE, &TEMPLATE];

async fn tag(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let (add, remove) = (action.args.many("add"), action.args.many("remove"));
    if add.is_empty() && remove.is_empty() {
        return Err(Error::invalid("which tag?").remedy("Write --add TAG or --remove TAG"));
    }
    let shape = Shape::of(&action)?;
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Tags(TagsRequest {
            add: add.clone(),
            remove: remove.clone(),
        }))
    })
    .await
}

async fn note(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let text = action.args.text("text").map(str::to_owned);
    match (&text, action.args.flag("clear")) {
        (None, false) => {
            return Err(Error::invalid("which note?").remedy("Write --text TEXT, or --clear"));
        }
        (Some(text), true) if !text.is_empty() => {
            return Err(Error::invalid("--text and --clear exclude each other"));
        }
        _ => {}
    }
    let shape = Shape::of(&action)?;
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Note(NoteRequest { text: text.clone() }))
    })
    .await
}

async fn template(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let on = setter::is_on(&action)?;
    let shape = Shape::of(&action)?;
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Template(TemplateRequest { on }))
    })
    .await
}
