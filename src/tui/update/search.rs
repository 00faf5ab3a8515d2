//! What is searched for while it is typed.

use super::super::app::{App, Overlay};
use super::super::edit::Line;
use super::super::input::{Code, Key};
use super::super::msg::Effect;
use super::super::search::{self, Search};
use crate::model::counted;

/// Asks what to look for; with a text, looks for it.
pub(super) fn begin(app: &mut App, text: &str) {
    if search::place(app).is_none() {
        app.say("there is no text here · Tab goes to the detail, / filters the list");
        return;
    }
    if text.is_empty() {
        let before = app.search.take();
        app.overlays.push(Overlay::Search(Line::default(), before));
    } else {
        app.search = Some(Search::new(text));
        search::step(app, false);
    }
}

pub(super) fn key(app: &mut App, key: Key) -> Vec<Effect> {
    let Some(Overlay::Search(line, before)) = app.overlays.last_mut() else {
        return Vec::new();
    };
    match key.code {
        Code::Esc => {
            let before = before.take();
            app.overlays.pop();
            app.search = before;
            app.notice = None;
        }
        Code::Enter => {
            // Nothing typed: the same again.
            let same = line.text().is_empty().then(|| before.take()).flatten();
            app.overlays.pop();
            app.search = app.search.take().or(same);
            if app.search.is_some() {
                search::step(app, false);
            }
        }
        Code::Backspace if line.text().is_empty() => {
            let before = before.take();
            app.overlays.pop();
            app.search = before;
        }
        _ => {
            if line.key(key) {
                typed(app);
            }
        }
    }
    Vec::new()
}

/// Shows at once what would be found.
pub(super) fn typed(app: &mut App) {
    let Some(Overlay::Search(line, _)) = app.overlays.last() else {
        return;
    };
    let text = line.text().to_owned();
    if text.is_empty() {
        app.search = None;
        app.notice = None;
        return;
    }
    app.search = Some(Search::new(&text));
    let count = search::count(app);
    app.say(counted(count, "hit"));
}
