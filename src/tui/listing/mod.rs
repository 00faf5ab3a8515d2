//! The lists of the other panes: what each row says, short and in full.

mod contexts;
mod doctor;
mod history;
mod notices;
mod nouns;
mod problems;
mod snapshots;
mod support;
mod tasks;

use ratatui::layout::Rect;

use crate::model::shown_width;
use crate::tui::app::{App, Pane};
use crate::tui::prose::{Shown, laid};
use crate::tui::reading::Reading;
use crate::tui::theme::Role;

pub use contexts::{ENABLE, health_text};
pub use history::history_command;
pub use problems::problem_count;

/// One row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRow {
    /// What it is about; the cursor stays on it.
    pub key: String,
    /// Its cells.
    pub cells: Vec<(String, Role)>,
    /// All of it, when it is opened.
    pub more: Vec<(String, Role)>,
    /// More lines come at its end, and those are what one wants to see.
    pub grows: bool,
    /// Only names whose those below it are.
    pub heads: bool,
}

/// An entry shown in full, on the screen it has.
pub struct Opened {
    /// All lines.
    pub lines: Vec<Shown>,
    /// The first one on the screen.
    pub first: usize,
    /// The last one that can be the first.
    pub last: usize,
}

impl Opened {
    /// In `area`, whose first row is a rule; scrolled to a line, or where it stands by itself.
    pub fn of(row: &ListRow, area: Rect, scroll: Option<usize>) -> Self {
        let width = usize::from(area.width.saturating_sub(3)).max(1);
        let lines = laid(&row.more, width);
        let last = lines
            .len()
            .saturating_sub(usize::from(area.height.saturating_sub(1)));
        let first = scroll.unwrap_or(if row.grows { last } else { 0 }).min(last);
        Self { lines, first, last }
    }
}

/// A list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Headings.
    pub columns: Vec<&'static str>,
    /// Rows.
    pub rows: Vec<ListRow>,
    /// What an empty list means.
    pub empty: String,
    /// Something to know about the whole.
    pub note: Option<(String, Role)>,
}

impl Listing {
    /// Widths of the columns on `width`: each what it needs, the widest give way.
    pub fn widths(&self, width: u16) -> Vec<u16> {
        let width = usize::from(width);
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(n, title)| {
                let cells = self.rows.iter().filter_map(|row| row.cells.get(n));
                let widest = cells
                    .map(|(text, _)| shown_width(&crate::model::shown(text)))
                    .max();
                widest.unwrap_or(0).max(title.len()).min(width.max(1))
            })
            .collect();
        let gaps = widths.len();
        while widths.iter().sum::<usize>() + gaps > width {
            let Some(widest) = widths.iter_mut().max() else {
                break;
            };
            if *widest <= 4 {
                break;
            }
            *widest -= 1;
        }
        widths.iter().map(|w| *w as u16).collect()
    }
}

/// The list of a pane.
pub fn of(app: &App, pane: Pane) -> Listing {
    match pane {
        Pane::Inventory => Listing::default(),
        Pane::Tasks => tasks::tasks(app),
        Pane::History => history::history(app),
        Pane::Doctor => doctor::doctor(app),
        Pane::Contexts => contexts::contexts(app),
        Pane::Problems => problems::problems(app),
        Pane::Support => support::support(app),
        Pane::Hosts => nouns::hosts(app),
        Pane::Places => nouns::places(app),
        Pane::Images => nouns::images(app),
        Pane::Snapshots => snapshots::snapshots(app),
        Pane::Notices => notices::notices(app),
        Pane::Answer => answer(app),
    }
}

fn loading(app: &App, reading: Reading, what: &str) -> (String, Option<(String, Role)>) {
    let Some(loaded) = app.readings.get(reading) else {
        return (format!("nothing in {what}"), None);
    };
    match (&loaded.error, loaded.asked, &loaded.value) {
        (Some(error), _, _) => (
            String::new(),
            Some((crate::tui::answer::error_line(error), Role::Error)),
        ),
        (None, Some(_), None) => (format!("asking {what} …"), None),
        (None, Some(_), Some(_)) if loaded.part => (
            format!("asking {what} …"),
            Some(("asking the others …".to_owned(), Role::Busy)),
        ),
        (None, Some(_), Some(_)) => (
            String::new(),
            Some(("asking again …".to_owned(), Role::Busy)),
        ),
        _ => (format!("nothing in {what}"), None),
    }
}

/// Contexts that could not be asked, after what others said.
fn left_out(app: &App, reading: Reading) -> Option<(String, Role)> {
    let loaded = app.readings.get(reading)?;
    let errors = &loaded.value.as_ref()?.errors;
    let first = errors.first()?;
    let more = match errors.len() - 1 {
        0 => String::new(),
        n => format!(" · and {n} more"),
    };
    Some((
        format!("{}{more}", crate::tui::answer::error_line(first)),
        Role::Warn,
    ))
}

fn note(app: &App, reading: Reading, said: Option<(String, Role)>) -> Option<(String, Role)> {
    said.or_else(|| left_out(app, reading))
}

fn answer(app: &App) -> Listing {
    let rows = app
        .answer
        .lines
        .iter()
        .enumerate()
        .map(|(n, line)| ListRow {
            key: n.to_string(),
            cells: vec![(line.clone(), Role::Text)],
            more: vec![(line.clone(), Role::Text)],
            ..ListRow::default()
        })
        .collect();
    Listing {
        columns: vec!["ANSWER"],
        rows,
        empty: match app.answer.follows {
            Some(_) => "waiting …".to_owned(),
            None => "No question was asked yet. : asks one.".to_owned(),
        },
        note: Some((
            app.in_shell(&format!("= corral {}", app.answer.title)),
            Role::Accent,
        ))
        .filter(|_| !app.answer.title.is_empty()),
    }
}
