//! An action as a headless command line.

use serde_json::Value;

use super::super::rows::{find, rows};
use super::values::print_value;
use super::words::quote;
use super::{RunOptions, positionals};
use crate::model::{Action, FieldKind, print_duration};

/// Commands in a text with a flag that says which fleet they are for: pasted into a shell they would reach another one of
/// the same names.
pub fn reaching(flag: &str, text: &str) -> String {
    const WORD: &str = "corral ";
    if flag.is_empty() {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + flag.len());
    let mut rest = text;
    while let Some(at) = rest.find(WORD) {
        let (before, after) = rest.split_at(at + WORD.len());
        let verb: String = after
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '-')
            .collect();
        let begins = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || "-_./".contains(c));
        let is_verb = rows().iter().any(|row| {
            row.name.split(' ').next() == Some(&verb) || row.aliases.contains(&verb.as_str())
        });
        out.push_str(before);
        if begins && is_verb {
            out.push_str(flag);
            out.push(' ');
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The headless command line of an action, without `corral`. Secrets are left out.
pub fn print(action: &Action) -> String {
    let mut words: Vec<String> = action.verb.split(' ').map(str::to_owned).collect();
    let row = find(&action.verb);
    let said = row.and_then(|row| positionals::print(row, action));
    let (said, fields): (_, &[&str]) = match &said {
        Some((words, fields)) => (words.iter().map(|w| quote(w)).collect(), fields),
        None => {
            let targets = action.targets.iter().map(|t| quote(t.as_str()));
            (targets.collect::<Vec<_>>(), &[])
        }
    };
    words.extend(said);
    if let Some(row) = row {
        for field in row.fields.iter().filter(|f| !fields.contains(&f.name)) {
            let Some(value) = action.args.0.get(field.name) else {
                continue;
            };
            match (field.kind, value) {
                (FieldKind::Flag, Value::Bool(true)) => words.push(format!("--{}", field.name)),
                (FieldKind::Flag, _) => {}
                (_, _) if field.secret => {}
                (_, Value::Array(items)) => {
                    for item in items {
                        push_flag(&mut words, field.name, &print_value(field, item));
                    }
                }
                (_, value) => push_flag(&mut words, field.name, &print_value(field, value)),
            }
        }
    }
    for context in &action.scope.contexts {
        push_flag(&mut words, "context", context);
    }
    for backend in &action.scope.backends {
        push_flag(&mut words, "backend", backend);
    }
    if let Some(filter) = &action.scope.filter {
        push_flag(&mut words, "filter", filter);
    }
    if action.scope.allow_partial {
        words.push("--allow-partial".to_owned());
    }
    words.join(" ")
}

/// How a change is to be carried out, as flags of its command line.
pub fn print_run(run: &RunOptions) -> Vec<String> {
    let mut words = Vec::new();
    let mut flag = |set: bool, name: &str| {
        if set {
            words.push(format!("--{name}"));
        }
    };
    flag(run.dry_run, "dry-run");
    flag(run.no_wait, "no-wait");
    if let Some(what) = &run.wait_for {
        push_flag(&mut words, "for", what);
    }
    if let Some(limit) = run.timeout {
        push_flag(&mut words, "timeout", &print_duration(limit));
    }
    if let Some(jobs) = run.jobs {
        words.push(format!("-j {jobs}"));
    }
    if run.stop_on_error {
        push_flag(&mut words, "on-error", "stop");
    }
    words
}

/// A flag and its value; one word where the value would be read as another flag.
fn push_flag(words: &mut Vec<String>, name: &str, value: &str) {
    if value.starts_with('-') {
        words.push(quote(&format!("--{name}={value}")));
    } else {
        words.extend([format!("--{name}"), quote(value)]);
    }
}
