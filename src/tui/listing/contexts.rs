//! Contexts and how they are.

use super::{ListRow, Listing};
use crate::model::{ContextView, Health};
use crate::tui::app::App;
use crate::tui::columns::{seconds_since, step_age};
use crate::tui::glyphs::health_role;
use crate::tui::theme::Role;

/// What connects a context again.
pub const ENABLE: &str = "context enable {context}";
const ADD: &str = "ui form context add";

/// A context's health in a word or a few.
pub fn health_text(app: &App, context: &ContextView) -> String {
    let since = || {
        context
            .answered_at
            .map(|at| step_age(seconds_since(app.now, at)))
    };
    match &context.health {
        Health::Ok => "ok".to_owned(),
        Health::Connecting => "connecting".to_owned(),
        Health::Stale(_) => format!("stale {}", since().unwrap_or_default()),
        Health::Failed(_) => "no answer".to_owned(),
        Health::LoginNeeded(_) => "login needed".to_owned(),
    }
}

pub(super) fn contexts(app: &App) -> Listing {
    let mut rows: Vec<ListRow> = app
        .fleet
        .contexts
        .iter()
        .enumerate()
        .map(|(n, context)| context_row(app, n, context))
        .collect();
    for (name, kind) in &app.setup.beside.disabled {
        let on = app.setup.keymap.key_of(&["contexts"], ENABLE);
        let on = on.map_or_else(String::new, |key| format!("{key} connects it again"));
        rows.push(ListRow {
            key: name.clone(),
            cells: vec![
                ("-".to_owned(), Role::Muted),
                (name.clone(), Role::Text),
                ("disabled".to_owned(), Role::Muted),
                (kind.clone(), Role::Muted),
                (String::new(), Role::Muted),
                (on, Role::Muted),
            ],
            ..ListRow::default()
        });
    }
    for (what, why, how) in &app.setup.absent {
        rows.push(ListRow {
            key: format!("absent {what}"),
            cells: vec![
                ("-".to_owned(), Role::Muted),
                (what.clone(), Role::Muted),
                ("not added".to_owned(), Role::Muted),
                (String::new(), Role::Muted),
                (String::new(), Role::Muted),
                (format!("{why} · {how}"), Role::Muted),
            ],
            more: vec![
                (format!("{what}: {why}"), Role::Text),
                (format!("-> {how}"), Role::Accent),
            ],
            ..ListRow::default()
        });
    }
    Listing {
        columns: vec!["#", "CONTEXT", "HEALTH", "KIND", "INSTANCES", "SERVER"],
        rows,
        empty: match app.setup.keymap.key_of(&["contexts"], ADD) {
            Some(key) => format!("No context at all. {key} adds one."),
            None => "No context at all. : context add NAME --backend KIND adds one.".to_owned(),
        },
        note: None,
    }
}

fn context_row(app: &App, n: usize, context: &ContextView) -> ListRow {
    let count = match (context.complete, context.answered_at) {
        (true, _) => context.count.to_string(),
        (false, Some(_)) => format!("{}+", context.count),
        (false, None) if context.count > 0 => format!("{}?", context.count),
        (false, None) => "?".to_owned(),
    };
    let mut flags = String::new();
    if context.readonly {
        flags.push_str(" RO");
    }
    if context.protected {
        flags.push_str(" P");
    }
    let server = match (&context.health.error(), &context.facts) {
        (Some(error), _) => crate::tui::answer::error_line(error),
        (None, Some(facts)) => facts
            .summary
            .clone()
            .or_else(|| facts.version.clone())
            .unwrap_or_default(),
        (None, None) => String::new(),
    };
    ListRow {
        key: context.name.clone(),
        cells: vec![
            ((n + 1).to_string(), Role::Accent),
            (format!("{}{flags}", context.name), Role::Text),
            (
                format!(
                    "{} {}",
                    app.setup.glyphs.health(&context.health),
                    health_text(app, context)
                ),
                health_role(&context.health),
            ),
            (context.kind.to_string(), Role::Muted),
            (count, Role::Text),
            (server, Role::Muted),
        ],
        ..ListRow::default()
    }
}
