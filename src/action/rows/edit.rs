//! `edit`.

use std::sync::Arc;

use super::super::by_hand;
use super::super::engine::Engine;
use super::super::paths::absolute;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Risk, Row, Run, Targets};
use crate::backend::contract::{EditRequest, Request};
use crate::model::{Action, Error, Field, FieldKind, GroupNoun, Operation, Result};

pub(in super::super) const EDIT: Row = Row {
    examples: &["edit local/web", "edit local/web --file new.toml --dry-run"],
    details: "Opens the definition in $VISUAL or $EDITOR; the plan is what differs. A text that is refused is kept, \
and the message names its file.",
    noun: GroupNoun::Instances,
    targets: Targets::One,
    fields: &[
        Field::new(
            "file",
            FieldKind::Path,
            "The new definition, - for standard input, instead of an editor",
        ),
        Field::new(
            "base",
            FieldKind::Text,
            "Refuses if the definition is no longer this one (its token)",
        ),
    ],
    risk: Risk::Confirm,
    operations: &[Operation::Edit],
    ..Row::new(
        "edit",
        Group::Life,
        "Changes the native definition as a text",
        Run::Change(|e, a| Box::pin(edit(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&EDIT];

async fn edit(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let shape = Shape::of(&action)?;
    let Some(file) = action.args.text("file").map(str::to_owned) else {
        // Where it cannot be edited at all that is what has to be said.
        by_hand::native(&engine, &action).await?;
        return Err(Error::invalid("where is the new definition?")
            .remedy("Give it: --file FILE, or run it on a terminal for an editor"));
    };
    if file == "-" {
        return Err(Error::invalid("standard input is for the command line")
            .remedy("Give a file: --file FILE"));
    }
    let path = absolute(&engine.env().home, &file);
    let text = by_hand::read(&path)?;
    let base = match action.args.text("base") {
        Some(base) => base.to_owned(),
        None => by_hand::native(&engine, &action).await?.token,
    };
    let label = path.to_string_lossy().into_owned();
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Edit(EditRequest {
            text: text.clone(),
            base: base.clone(),
            label: label.clone(),
        }))
    })
    .await
}
