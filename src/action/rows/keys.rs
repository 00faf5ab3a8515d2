//! `sendkey`: keys and texts for a guest's keyboard.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::keyboard;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Row, Run, Targets, Words};
use crate::backend::contract::{Request, SendKeyRequest};
use crate::model::{Action, Error, Field, FieldKind, GroupNoun, Operation, Result};

pub(super) const ROWS: &[&Row] = &[&Row {
    examples: &[
        "sendkey local/web ctrl-alt-delete",
        "sendkey local/web esc shift-f10",
    ],
    details: "Keys joined by - are held together; chords are sent one after the other, a text before them. \
Keys are named for where they are on a US keyboard. A text is not kept in the history: corral sendkey web --text root ret",
    noun: GroupNoun::Instances,
    targets: Targets::One,
    words: Words::Rest("key"),
    fields: &[
        Field::new(
            "key",
            FieldKind::Text,
            "A key, or keys held together: ctrl-alt-delete",
        )
        .many(),
        Field::new("text", FieldKind::Text, "Types a text, as on a US keyboard").secret(),
    ],
    operations: &[Operation::SendKey],
    ..Row::new(
        "sendkey",
        Group::Reach,
        "Sends keys to the guest's keyboard",
        Run::Change(|e, a| Box::pin(sendkey(e, a))),
    )
}];

async fn sendkey(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let text = action.args.text("text").unwrap_or_default();
    let mut chords = keyboard::typed(text)?;
    let typed = chords.len();
    for key in action.args.many("key") {
        chords.push(keyboard::chord(&key)?);
    }
    if chords.is_empty() {
        return Err(Error::invalid("corral sendkey: which keys?")
            .remedy("For example: corral sendkey web ctrl-alt-delete"));
    }
    let shape = Shape::of(&action)?;
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::SendKey(SendKeyRequest {
            chords: chords.clone(),
            typed,
        }))
    })
    .await
}
