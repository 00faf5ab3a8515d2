//! Choosing a theme: what is under the cursor is shown at once, Esc brings back what was.

use super::super::app::{App, Overlay, ThemePicker};
use super::super::input::{Code, Key};
use super::super::msg::Effect;
use crate::model::Error;

/// Opens the list, or with a name goes there at once.
pub(super) fn choose(app: &mut App, name: &str) {
    if app.setup.themes.len() < 2 {
        app.say("this terminal shows no colours, or NO_COLOR is set: there is nothing to choose");
        return;
    }
    if name.is_empty() {
        let now = &app.setup.theme.name;
        let row = app.setup.themes.iter().position(|t| t.name == *now);
        app.overlays.push(Overlay::Themes(ThemePicker {
            row: row.unwrap_or(0),
            before: app.setup.theme.clone(),
        }));
        return;
    }
    match app.setup.themes.iter().find(|t| t.name == name) {
        Some(theme) => {
            app.setup.theme = theme.clone();
            app.say(format!("theme {name}"));
        }
        None => {
            let names: Vec<&str> = app.setup.themes.iter().map(|t| t.name.as_str()).collect();
            app.complain(&Error::invalid(format!(
                "there is no theme {name:?}; there are {}",
                names.join(", ")
            )));
        }
    }
}

/// Keys while the list is open.
pub(super) fn key(app: &mut App, key: Key) -> Vec<Effect> {
    let last = app.setup.themes.len().saturating_sub(1);
    let Some(Overlay::Themes(picker)) = app.overlays.last_mut() else {
        return Vec::new();
    };
    match key.code {
        Code::Down | Code::Char('j' | 'T') => picker.row = (picker.row + 1).min(last),
        Code::Up | Code::Char('k') => picker.row = picker.row.saturating_sub(1),
        Code::Home => picker.row = 0,
        Code::End => picker.row = last,
        Code::Enter => {
            app.overlays.pop();
            let name = app.setup.theme.name.clone();
            app.say(format!("theme {name}"));
            return Vec::new();
        }
        _ => {
            cancel(app);
            return Vec::new();
        }
    }
    let row = picker.row;
    look_at(app, row);
    Vec::new()
}

/// Shows a theme of the list at once.
pub(super) fn look_at(app: &mut App, row: usize) {
    if let Some(Overlay::Themes(picker)) = app.overlays.last_mut()
        && let Some(theme) = app.setup.themes.get(row)
    {
        picker.row = row;
        app.setup.theme = theme.clone();
    }
}

/// Closes the list; the theme is again what it was.
pub(super) fn cancel(app: &mut App) {
    if let Some(Overlay::Themes(picker)) = app.overlays.last() {
        app.setup.theme = picker.before.clone();
        app.overlays.pop();
    }
}
