//! Search in whatever text is on the screen: a detail, an opened entry, rows of a list, help.

use super::app::{App, Focus, Overlay, Pane, Tab};
use super::layout;
use super::listing::{self, Opened};
use super::native;
use super::prose::{self, Line, Shown, as_it_is};
use super::view;

/// What is searched for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// As typed.
    pub text: String,
    /// The hit that was gone to, and where that put the text: scrolled by hand, the next one is looked for from there.
    at: Option<(usize, usize)>,
}

impl Search {
    /// For this text, which was not looked for yet.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            at: None,
        }
    }
}

/// Where a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The tab of the detail.
    Detail,
    /// An entry that is opened.
    Opened,
    /// Rows of a list; of an answer, its lines.
    Rows,
    /// Help.
    Help,
}

/// The text that keys concern now. The inventory has its filter instead.
pub fn place(app: &App) -> Option<Place> {
    if app.overlays.iter().any(|o| matches!(o, Overlay::Help(_))) {
        return Some(Place::Help);
    }
    match (app.pane, app.focus) {
        (Pane::Inventory, Focus::Detail) if app.detail.open => Some(Place::Detail),
        (Pane::Inventory, _) => None,
        (pane, _) if app.cursors.get(&pane).is_some_and(|c| c.open) => Some(Place::Opened),
        _ => Some(Place::Rows),
    }
}

/// What is to be shown as found at a place.
pub fn wanted(app: &App, at: Place) -> Option<&str> {
    let search = app.search.as_ref().filter(|s| !s.text.is_empty())?;
    (place(app) == Some(at)).then_some(&search.text)
}

/// A definition's own lines, folded or not: what is folded is found too.
fn is_native(app: &App, place: Place) -> bool {
    place == Place::Detail && app.detail.tab == Tab::Native
}

fn text(app: &App, place: Place) -> (Vec<Line>, Vec<Shown>) {
    let as_is = |lines: Vec<Line>| (lines.clone(), as_it_is(lines));
    match place {
        Place::Detail if is_native(app, place) => as_is(native::lines(app)),
        Place::Detail => view::detail_text(app),
        Place::Help => as_is(view::help_lines(app)),
        Place::Rows => {
            let rows = listing::of(app, app.pane).rows.into_iter();
            let joined = rows.map(|row| {
                let cells: Vec<&str> = row.cells.iter().map(|(text, _)| text.as_str()).collect();
                (cells.join("  "), super::theme::Role::Text)
            });
            as_is(joined.collect())
        }
        Place::Opened => {
            let cursor = app.cursors.get(&app.pane).cloned().unwrap_or_default();
            let list = listing::of(app, app.pane);
            let Some(row) = list.rows.get(cursor.row) else {
                return Default::default();
            };
            let opened = Opened::of(row, layout::opened(app, true), cursor.scroll);
            (row.more.clone(), opened.lines)
        }
    }
}

fn position(app: &App, place: Place) -> usize {
    let cursor = app.cursors.get(&app.pane);
    match place {
        Place::Detail if is_native(app, place) => app.detail.line,
        // Below its headings.
        Place::Detail if app.detail.tab == Tab::Snapshots => app.detail.snapshot + 1,
        Place::Detail => app.detail.scroll,
        Place::Rows => cursor.map_or(0, |c| c.row),
        Place::Opened => cursor.and_then(|c| c.scroll).unwrap_or(0),
        Place::Help => app
            .overlays
            .iter()
            .find_map(|o| match o {
                Overlay::Help(scroll) => Some(*scroll),
                _ => None,
            })
            .unwrap_or(0),
    }
}

fn go(app: &mut App, place: Place, line: usize, lines: usize) {
    let pane = app.pane;
    match place {
        Place::Detail if is_native(app, place) => native::show_line(app, line),
        Place::Detail if app.detail.tab == Tab::Snapshots => {
            let last = app.current_detail().map_or(0, |d| d.snapshots.len());
            app.detail.snapshot = line.saturating_sub(1).min(last.saturating_sub(1));
        }
        Place::Detail => {
            let height = layout::detail_rows(app);
            app.detail.scroll = line.min(lines.saturating_sub(height));
        }
        Place::Rows => {
            let cursor = app.cursors.entry(pane).or_default();
            cursor.row = line;
            cursor.key = None;
        }
        Place::Opened => {
            let height = usize::from(layout::opened(app, true).height.saturating_sub(1));
            let cursor = app.cursors.entry(pane).or_default();
            cursor.scroll = Some(line.min(lines.saturating_sub(height)));
        }
        Place::Help => {
            let last = view::help_last(app);
            for overlay in &mut app.overlays {
                if let Overlay::Help(scroll) = overlay {
                    *scroll = line.min(last);
                }
            }
        }
    }
}

/// How many hits there are where we are.
pub fn count(app: &App) -> usize {
    let (Some(place), Some(search)) = (place(app), &app.search) else {
        return 0;
    };
    let (lines, laid) = text(app, place);
    prose::hits(&lines, &laid, &search.text).len()
}

/// Goes to the next hit, or the one before, round the end; says which it is.
pub fn step(app: &mut App, back: bool) {
    let Some(place) = place(app) else {
        app.say("n and N go through a text that was searched with / · here / filters");
        return;
    };
    let Some(search) = app.search.clone() else {
        app.say("nothing was searched for · / does");
        return;
    };
    let (lines, laid) = text(app, place);
    let hits = prose::hits(&lines, &laid, &search.text);
    let here = position(app, place);
    let count = hits.len();
    if count == 0 {
        app.say(format!("{:?} is not in it", search.text));
        return;
    }
    let last = search.at.filter(|(hit, at)| *at == here && *hit < count);
    let (hit, round) = match (last, back) {
        (Some((hit, _)), false) => ((hit + 1) % count, hit + 1 == count),
        (Some((hit, _)), true) => ((hit + count - 1) % count, hit == 0),
        (None, false) => match hits.iter().position(|line| *line >= here) {
            Some(hit) => (hit, false),
            None => (0, true),
        },
        (None, true) => match hits.iter().rposition(|line| *line <= here) {
            Some(hit) => (hit, false),
            None => (count - 1, true),
        },
    };
    go(app, place, hits[hit], laid.len());
    let at = position(app, place);
    if let Some(search) = &mut app.search {
        search.at = Some((hit, at));
    }
    let round = match (round, back) {
        (false, _) => "",
        (true, false) => ", from the top again",
        (true, true) => ", from the end again",
    };
    app.say(format!("hit {} of {count}{round}", hit + 1));
}
