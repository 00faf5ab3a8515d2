//! The filter while it is typed: what it may become, and what was typed before.

use super::app::App;
use super::edit::Line;
use super::places::Place;
use crate::action::fleet_api::filter::{Completion, Known, complete};

/// Filters kept of what was entered.
const ENTERED: usize = 50;

/// The line of the filter.
#[derive(Clone, Debug)]
pub struct FilterLine {
    /// What is typed.
    pub line: Line,
    /// The filter that it takes the place of, for Esc.
    pub before: String,
    /// Where it was opened.
    pub from: Place,
    /// What the word before the cursor may become.
    pub offers: Completion,
    /// Chosen among those.
    pub chosen: Option<usize>,
    /// Place in the history while going through it, and what was typed before that.
    pub recalled: Option<(usize, String)>,
}

impl FilterLine {
    /// With the filter that holds now.
    pub fn new(app: &App) -> Self {
        let before = app.inventory.filter_text.clone();
        let line = Line::new(&before);
        Self {
            offers: offers(app, &line),
            line,
            before,
            from: Place::here(app),
            chosen: None,
            recalled: None,
        }
    }

    /// Works out anew what may follow.
    pub fn look(&mut self, offers: Completion) {
        self.offers = offers;
        self.chosen = None;
    }

    /// Goes back in the history, or forward; false at its end.
    pub fn recall(&mut self, history: &[String], back: bool) -> bool {
        let (at, typed) = match self.recalled.take() {
            Some(place) => place,
            None => (history.len(), self.line.text().to_owned()),
        };
        let to = if back {
            at.checked_sub(1)
        } else {
            Some(at + 1)
        };
        let Some(to) = to.filter(|to| *to <= history.len()) else {
            self.recalled = (at < history.len()).then_some((at, typed));
            return false;
        };
        match history.get(to) {
            Some(text) => {
                self.line = Line::new(text);
                self.recalled = Some((to, typed));
            }
            None => self.line = Line::new(&typed),
        }
        true
    }
}

/// What the word before the cursor may become; nothing where it is that already.
pub fn offers(app: &App, line: &Line) -> Completion {
    let contexts: Vec<String> = app.fleet.contexts.iter().map(|c| c.name.clone()).collect();
    let known = Known {
        rows: app.fleet.instances.iter().map(AsRef::as_ref),
        contexts: &contexts,
    };
    let mut found = complete(line.before(), known);
    let typed = line.before().get(found.from..).unwrap_or_default();
    if matches!(found.words.as_slice(), [(one, _)] if one == typed && !one.ends_with(':')) {
        found.words.clear();
    }
    found
}

/// Notes a filter that was kept; the newest stands last, each once.
pub fn note(app: &mut App, text: &str) {
    let text = text.trim();
    if text.is_empty() || app.filters.last().is_some_and(|last| last == text) {
        return;
    }
    let mut all: Vec<String> = app.filters.iter().filter(|f| *f != text).cloned().collect();
    all.push(text.to_owned());
    let extra = all.len().saturating_sub(ENTERED);
    all.drain(..extra);
    app.filters = all.into();
}
