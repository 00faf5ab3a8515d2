//! Questions on the terminal itself, whatever standard input is. The default is no.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};

use jiff::Timestamp;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::action::render;
use crate::model::{Consent, Error, Gate, Plan, Result, SecretText, shown};

/// What came of a question.
pub(super) enum Answer {
    /// Yes.
    Given(Consent),
    /// No, or anything that is not yes.
    Declined,
    /// There is no terminal, or nobody may be asked.
    NobodyThere,
}

/// Shows the plan and asks for what its gate wants.
pub(super) async fn about(plan: &Plan, headless: bool) -> Answer {
    if headless {
        return Answer::NobodyThere;
    }
    let Ok(tty) = OpenOptions::new().read(true).write(true).open("/dev/tty") else {
        return Answer::NobodyThere;
    };
    let plan = plan.clone();
    tokio::task::spawn_blocking(move || put(tty, &plan).unwrap_or(Answer::Declined))
        .await
        .unwrap_or(Answer::Declined)
}

fn put(mut tty: File, plan: &Plan) -> std::io::Result<Answer> {
    drop_typed_ahead(&tty);
    write!(tty, "{}", render::plan_text(plan, Timestamp::now(), false))?;
    match &plan.gate {
        Gate::Free => return Ok(Answer::Given(Consent::default())),
        Gate::Confirm => write!(tty, "Go on? [y/N] ")?,
        Gate::Type { text } => write!(tty, "Type {} to go on: ", shown(text))?,
    }
    let line = read_line(&tty)?;
    let line = line.trim();
    Ok(match &plan.gate {
        Gate::Type { text } if line == text => Answer::Given(Consent {
            yes: true,
            typed: Some(line.to_owned()),
        }),
        Gate::Confirm if is_yes(line) => Answer::Given(Consent {
            yes: true,
            typed: None,
        }),
        _ => Answer::Declined,
    })
}

/// Whether a line says yes.
pub fn is_yes(line: &str) -> bool {
    matches!(line.trim(), "y" | "Y" | "yes" | "Yes" | "YES")
}

/// Keys typed before the question stood there are no answer to it.
fn drop_typed_ahead(tty: &File) {
    let _ = rustix::termios::tcflush(tty, rustix::termios::QueueSelector::IFlush);
}

fn read_line(tty: &File) -> std::io::Result<String> {
    let mut line = String::new();
    BufReader::new(tty).read_line(&mut line)?;
    Ok(line)
}

/// Asks for a text; `hidden` does not show it. `Refused` with `remedy` where there is no terminal.
pub fn question(text: &str, facts: &[String], hidden: bool, remedy: &str) -> Result<SecretText> {
    let refuse = || Error::refused(shown(text).into_owned()).remedy(remedy.to_owned());
    let mut tty = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/tty")
        .map_err(|e| refuse().because(e))?;
    drop_typed_ahead(&tty);
    let before = if hidden { tcgetattr(&tty).ok() } else { None };
    if let Some(before) = &before {
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        let _ = tcsetattr(&tty, OptionalActions::Now, &quiet);
    }
    let answer = (|| {
        for fact in facts {
            writeln!(tty, "  {}", shown(fact))?;
        }
        write!(tty, "{}: ", shown(text))?;
        read_line(&tty)
    })();
    if let Some(before) = &before {
        let _ = tcsetattr(&tty, OptionalActions::Now, before);
        let _ = writeln!(tty);
    }
    answer
        .map(|line| SecretText::from(line.trim_end_matches(['\r', '\n'])))
        .map_err(|e| refuse().because(e))
}
