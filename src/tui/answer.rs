//! Answers of questions asked on the command line, as lines.

use crate::model::{Body, Data, Error};

/// An error in a line.
pub fn error_line(error: &Error) -> String {
    match &error.remedy {
        Some(remedy) => format!("{}: {} · {remedy}", error.label(), error.message),
        None => format!("{}: {}", error.label(), error.message),
    }
}

/// An answer, line by line: what is its own text as it is, all else as JSON.
pub fn lines(data: &Data) -> Vec<String> {
    let mut lines: Vec<String> = match &data.body {
        Body::Text(text) => text.lines().map(str::to_owned).collect(),
        Body::Events(events) => events
            .iter()
            .map(|event| {
                let whom = event
                    .instance
                    .as_ref()
                    .map_or_else(|| event.context.clone(), ToString::to_string);
                format!("{:.0} {whom}: {} {}", event.at, event.kind, event.message)
            })
            .collect(),
        Body::Waits(waits) => waits
            .iter()
            .map(|wait| {
                let word = if wait.reached { "is" } else { "is not" };
                format!(
                    "{} {word} {} after {:.0} s",
                    wait.id, wait.wanted, wait.seconds
                )
            })
            .collect(),
        _ => serde_json::to_string_pretty(data)
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect(),
    };
    lines.extend(data.errors.iter().map(error_line));
    lines.extend(data.warnings.iter().map(|w| format!("warning: {w}")));
    if lines.is_empty() {
        lines.push(if data.complete {
            "nothing (the answer is complete)".to_owned()
        } else {
            "nothing (the answer is not complete)".to_owned()
        });
    }
    lines
}
