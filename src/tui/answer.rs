//! Answers of questions asked on the command line, as lines.

use super::app::App;
use crate::action::Output;
use crate::action::render::{self, Format, View};
use crate::model::{Data, Error};

/// An error in a line.
pub fn error_line(error: &Error) -> String {
    match &error.remedy {
        Some(remedy) => format!("{}: {} · {remedy}", error.label(), error.message),
        None => format!("{}: {}", error.label(), error.message),
    }
}

/// An answer, line by line, in the form it was asked for: what a shell would print.
pub fn lines(app: &App, mut data: Data, output: &Output, more: bool) -> Vec<String> {
    let kinds = |name: &str| app.fleet.context(name).map(|c| c.kind.to_string());
    let printed = Format::read(output.format.as_deref()).and_then(|format| {
        let view = View {
            format,
            output: Output {
                // Of what goes on one heading is enough.
                no_headers: output.no_headers || (more && !app.answer.lines.is_empty()),
                ..output.clone()
            },
            width: Some(usize::from(app.setup.size.0.saturating_sub(4))),
            colour: false,
            stream: more,
        };
        let text = view.data(&mut data, &kinds, app.now)?;
        Ok((text, render::notes(&data, &view)))
    });
    let (text, notes) = match printed {
        Ok(printed) => printed,
        Err(error) => return vec![error_line(&error)],
    };
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if !more {
        lines.extend(notes);
        if lines.is_empty() {
            lines.push(if data.complete {
                "nothing (the answer is complete)".to_owned()
            } else {
                "nothing (the answer is not complete)".to_owned()
            });
        }
    }
    lines
}
