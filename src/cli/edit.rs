//! `edit`: the editor between the command and its plan, and a text that nobody loses.

use std::sync::Arc;

use super::change::planned;
use super::{Terminal, exit, note};
use crate::action::Engine;
use crate::action::by_hand::{self, Opened};
use crate::action::grammar::Invocation;
use crate::action::paths::text_of;
use crate::action::render::View;
use crate::model::{Error, Result};

pub(super) async fn edit(
    engine: &Arc<Engine>,
    invocation: &Invocation,
    terminal: &Terminal,
    view: &View,
) -> Result<u8> {
    let opened = match invocation.action.args.text("file") {
        Some("-") => from_stdin(engine, invocation)?,
        None if terminal.is_screen() && !invocation.globals.headless => {
            let opened = by_hand::open(engine, &invocation.action).await?;
            let typed = by_editor(engine, &opened).await;
            if opened.is_as_before() {
                typed?;
                note("Nothing was changed.");
                return Ok(exit::OK);
            }
            if let Err(error) = typed {
                note(&opened.kept());
                return Err(error);
            }
            opened
        }
        _ => return planned(engine, invocation, terminal, view).await,
    };
    let mut with_file = invocation.clone();
    with_file.action = opened.action.clone();
    let code = planned(engine, &with_file, terminal, view).await;
    if code.as_ref().is_ok_and(|code| *code == exit::OK) && !invocation.run.dry_run {
        opened.done();
    } else {
        note(&opened.kept());
    }
    code
}

async fn by_editor(engine: &Arc<Engine>, opened: &Opened) -> Result<()> {
    let editor = opened.editor(engine)?;
    tokio::task::spawn_blocking(move || by_hand::run(&editor))
        .await
        .map_err(|error| Error::backend("the editor ended inside").because(error))?
}

fn from_stdin(engine: &Arc<Engine>, invocation: &Invocation) -> Result<Opened> {
    let text = text_of(std::io::stdin(), "standard input")?;
    by_hand::given(engine, &invocation.action, &text)
}
