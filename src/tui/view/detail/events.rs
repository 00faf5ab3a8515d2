//! What its backend reported, newest first.

use crate::model::{Body, EventLevel};
use crate::tui::app::App;
use crate::tui::columns::{seconds_since, step_age};
use crate::tui::theme::Role;

pub(super) fn events(app: &App) -> Vec<(String, Role)> {
    let loaded = &app.detail.events;
    let events = match loaded.value.as_ref().map(|d| &d.body) {
        Some(Body::Events(events)) => events.as_slice(),
        _ => &[],
    };
    let mut out: Vec<(String, Role)> = events
        .iter()
        .rev()
        .map(|event| {
            let role = match event.level {
                EventLevel::Info => Role::Text,
                EventLevel::Warn => Role::Warn,
                EventLevel::Error => Role::Error,
            };
            let ago = step_age(seconds_since(app.now, event.at));
            (format!("{ago:>4}  {} {}", event.kind, event.message), role)
        })
        .collect();
    match (&loaded.error, loaded.asked) {
        (Some(error), _) => out.push((crate::tui::answer::error_line(error), Role::Error)),
        (None, Some(_)) if out.is_empty() => out.push(("reading …".to_owned(), Role::Busy)),
        (None, _) if out.is_empty() => out.push(("No event is known.".to_owned(), Role::Muted)),
        _ => {}
    }
    out
}
