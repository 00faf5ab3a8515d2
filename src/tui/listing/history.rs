//! What corral did.

use super::{ListRow, Listing, loading};
use crate::model::{Body, HistoryEntry, age};
use crate::tui::app::App;
use crate::tui::columns::{seconds_since, step_age};
use crate::tui::reading::Reading;
use crate::tui::theme::Role;

fn entries(body: Option<&Body>) -> &[HistoryEntry] {
    match body {
        Some(Body::History(entries)) => entries,
        _ => &[],
    }
}

/// The command of a history row.
pub fn history_command(app: &App, row: usize) -> Option<String> {
    let all = entries(app.readings.body(Reading::History));
    all.iter().rev().nth(row).map(|entry| entry.command.clone())
}

/// Is one of a list that was cut short in the journal.
fn is_rest(id: &str) -> bool {
    id.starts_with("and ")
}

/// All that is known: who asked for what, what was done, what was left and why.
fn whole(entry: &HistoryEntry, role: Role) -> Vec<(String, Role)> {
    let mut lines = vec![
        (format!("= {}", entry.command), Role::Accent),
        (
            format!("{:.0} by {}, task {}", entry.at, entry.user, entry.task),
            Role::Text,
        ),
    ];
    let on = || (format!("on {}", entry.targets.join(", ")), Role::Text);
    if entry.state == "done" || entry.state == "running" {
        lines.push(on());
        return lines;
    }
    let took = entry.ended_at.map(|end| seconds_since(end, entry.at));
    let took = took.map_or_else(String::new, |took| format!(" after {}", age(took)));
    lines.push((format!("{}{took}", entry.state), role));
    if entry.left.is_empty() {
        // Its process was killed, and its file is no longer there.
        lines.push(on());
        lines.push(("how far it was is not known".to_owned(), Role::Warn));
    }
    let cut = entry.left.iter().any(|left| is_rest(&left.id));
    for left in &entry.left {
        let line = if left.why.is_empty() {
            format!("left: {}", left.id)
        } else {
            format!("left: {}: {}", left.id, left.why)
        };
        lines.push((line, role));
    }
    let done: Vec<&str> = entry
        .targets
        .iter()
        .map(String::as_str)
        .filter(|id| entry.left.iter().all(|left| left.id != **id))
        .collect();
    if !entry.left.is_empty() && !cut {
        let done = match done.as_slice() {
            [] => "none".to_owned(),
            done => done.join(", "),
        };
        lines.push((format!("done: {done}"), Role::Text));
    }
    lines
}

pub(super) fn history(app: &App) -> Listing {
    let (empty, note) = loading(app, Reading::History, "the journal");
    let rows = entries(app.readings.body(Reading::History))
        .iter()
        .rev()
        .map(|entry| {
            let role = match entry.state.as_str() {
                "done" => Role::Ok,
                "running" => Role::Busy,
                "failed" | "interrupted" => Role::Error,
                _ => Role::Warn,
            };
            ListRow {
                key: entry.task.clone(),
                cells: vec![
                    (step_age(seconds_since(app.now, entry.at)), Role::Muted),
                    (entry.state.clone(), role),
                    (entry.user.clone(), Role::Muted),
                    (entry.command.clone(), Role::Text),
                ],
                more: whole(entry, role),
                ..ListRow::default()
            }
        })
        .collect();
    Listing {
        columns: vec!["AGO", "STATE", "USER", "COMMAND"],
        rows,
        empty,
        note,
    }
}
