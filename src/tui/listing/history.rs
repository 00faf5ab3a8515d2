//! What corral did.

use super::{ListRow, Listing, loading};
use crate::model::{Body, Data, HistoryEntry};
use crate::tui::app::App;
use crate::tui::columns::{seconds_since, step_age};
use crate::tui::theme::Role;

fn entries(data: Option<&Data>) -> &[HistoryEntry] {
    match data.map(|d| &d.body) {
        Some(Body::History(entries)) => entries,
        _ => &[],
    }
}

/// The command of a history row.
pub fn history_command(app: &App, row: usize) -> Option<String> {
    let all = entries(app.history.value.as_deref());
    all.iter().rev().nth(row).map(|entry| entry.command.clone())
}

pub(super) fn history(app: &App) -> Listing {
    let (empty, note) = loading(&app.history, "the journal");
    let rows = entries(app.history.value.as_deref())
        .iter()
        .rev()
        .map(|entry| {
            let role = match entry.state.as_str() {
                "done" => Role::Ok,
                "running" => Role::Busy,
                "failed" | "interrupted" => Role::Error,
                _ => Role::Warn,
            };
            let mut more = vec![
                (format!("= {}", entry.command), Role::Accent),
                (
                    format!("{:.0} by {}, task {}", entry.at, entry.user, entry.task),
                    Role::Text,
                ),
                (format!("on {}", entry.targets.join(", ")), Role::Text),
            ];
            more.extend(entry.error.iter().map(|e| (e.clone(), Role::Error)));
            ListRow {
                key: entry.task.clone(),
                cells: vec![
                    (step_age(seconds_since(app.now, entry.at)), Role::Muted),
                    (entry.state.clone(), role),
                    (entry.user.clone(), Role::Muted),
                    (entry.command.clone(), Role::Text),
                ],
                more,
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
