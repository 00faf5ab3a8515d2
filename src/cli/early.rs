//! What needs no fleet, no configuration and no network: help, completion, man page, usage errors.

use super::{complete, docs, exit, note, out};
use crate::action::grammar::{self, Invocation, ParseFailure};
use crate::action::render;
use crate::model::{Dirs, Error};

/// Whether anything is left to do.
pub enum Early {
    /// No; this is the exit code.
    Done(u8),
    /// Yes.
    Go(Box<Invocation>),
}

/// Parses the words after `corral` and answers what can be answered from them alone.
pub fn early(words: &[String], dirs: &Dirs) -> Early {
    if let Some((first, rest)) = words.split_first()
        && first == complete::HIDDEN_VERB
    {
        out(&complete::answer(rest, dirs));
        return Early::Done(exit::OK);
    }
    let invocation = match grammar::parse(words) {
        Ok(invocation) => invocation,
        Err(ParseFailure::Show(text)) => {
            out(&text);
            return Early::Done(exit::OK);
        }
        Err(ParseFailure::Bad(error)) => {
            note(&render::failure(&error));
            return Early::Done(error.exit_code());
        }
    };
    let shown = match invocation.row.map(|row| row.name) {
        Some("completion") => {
            let shell = invocation.action.targets.first();
            complete::script(shell.map_or("", |s| s.as_str()))
        }
        Some("man") => docs::man_page().map_err(|e| Error::backend(format!("no man page: {e}"))),
        _ => return Early::Go(Box::new(invocation)),
    };
    match shown {
        Ok(text) => {
            out(&text);
            Early::Done(exit::OK)
        }
        Err(error) => {
            note(&render::failure(&error));
            Early::Done(error.exit_code())
        }
    }
}
