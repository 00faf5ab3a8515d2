//! `batch`: one command line per line, a result for each.

use std::sync::Arc;

use super::{Terminal, exit, note, run};
use crate::action::Engine;
use crate::action::grammar::{self, Invocation, ParseFailure};
use crate::action::render;
use crate::model::{Error, Result, shown};

pub(super) async fn batch(
    engine: &Arc<Engine>,
    invocation: &Invocation,
    terminal: &Terminal,
) -> Result<u8> {
    let file = invocation
        .action
        .targets
        .first()
        .map_or("-", |t| t.as_str());
    let text = read(file)?;
    let mut codes = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if engine.board().queue().is_cancelled() {
            note(&format!("line {}: not run: {}", at + 1, shown(line)));
            codes.push(exit::FAILED);
            continue;
        }
        let code = one(engine, line, invocation, terminal).await;
        let word = if code == exit::OK { "ok" } else { "failed" };
        note(&format!(
            "line {}: {word} ({code}): {}",
            at + 1,
            shown(line)
        ));
        codes.push(code);
        if code == exit::INTERRUPTED || code == exit::TERMINATED {
            return Ok(code);
        }
    }
    Ok(exit::of_many(&codes))
}

async fn one(engine: &Arc<Engine>, line: &str, outer: &Invocation, terminal: &Terminal) -> u8 {
    let words = match grammar::tokenize(line) {
        Ok(words) => words,
        Err(error) => {
            note(&render::failure(&error));
            return error.exit_code();
        }
    };
    match grammar::parse_line(&words, &outer.globals) {
        Ok(inner) if inner.row.is_some_and(|row| row.name == "batch") => {
            note("error: a batch cannot run a batch");
            exit::USAGE
        }
        Ok(inner) => run::boxed(engine, &inner, terminal).await,
        Err(ParseFailure::Show(text)) => {
            super::out(&text);
            exit::OK
        }
        Err(ParseFailure::Bad(error)) => {
            note(&render::failure(&error));
            error.exit_code()
        }
    }
}

fn read(file: &str) -> Result<String> {
    let bytes = if file == "-" {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    let bytes = bytes.map_err(|e| {
        Error::invalid(format!("cannot read {}: {e}", shown(file)))
            .remedy("Name a file, or - for standard input")
    })?;
    String::from_utf8(bytes)
        .map_err(|_| Error::invalid(format!("{} is not UTF-8 text", shown(file))))
}
