//! The filter while it is typed: the line, what is wrong under the place where it is, and what the
//! word may become above it.

use ratatui::layout::{Position, Rect};

use super::super::app::App;
use super::super::filter_line::FilterLine;
use super::super::layout;
use super::super::text::{Canvas, wrap};
use super::super::theme::Role;
use super::{bottom, popup};
use crate::model::{shown, shown_width};

/// Rows of the list of what may follow: what is filtered must stay in sight.
const MOST: u16 = 8;
const HINT: &str = "Down chooses, Tab completes, Up: filters of before, Enter keeps, Esc undoes";

pub(super) fn draw(app: &App, filter: &FilterLine, canvas: &mut Canvas) -> Option<Position> {
    let area = canvas.buf.area;
    let lines = layout::bottom(area.height);
    if lines == 0 {
        return None;
    }
    let y = area.height - lines;
    let plain = canvas.style(Role::Text);
    canvas.fill(Rect::new(0, y, area.width, lines), plain);
    canvas.put(0, y, 1, "/", Role::Accent);
    let width = area.width.saturating_sub(1);
    let cursor = bottom::type_line(canvas, &filter.line, 1, y, width);
    let error = app.inventory.filter_error.as_ref();
    // What was said last of what may follow counts until the next key.
    let told = app.notice.as_ref().map(|n| (n.text.as_str(), n.role));
    let told = told.or(error.map(|e| (e.message.as_str(), Role::Error)));
    let mut above = 0;
    if let (Some(error), 2.., Some(cursor)) = (error, lines, cursor) {
        let column = |end: usize| shown_width(&shown(&filter.line.text()[..end]));
        let scrolled = column(filter.line.before().len()).saturating_sub(usize::from(cursor.x - 1));
        let from = column(error.span.start).saturating_sub(scrolled) as u16 + 1;
        let end = column(error.span.end).saturating_sub(scrolled) as u16 + 1;
        let marks = "^".repeat(usize::from(end.saturating_sub(from).max(1)));
        let used = canvas.put(
            from,
            y + 1,
            area.width.saturating_sub(from),
            &marks,
            Role::Error,
        );
        if let Some((text, role)) = told {
            let room = area.width.saturating_sub(from + used + 1);
            if shown_width(&shown(text)) <= usize::from(room) {
                canvas.put(from + used + 1, y + 1, room, text, role);
            } else {
                above = wrapped(canvas, y, text, role);
            }
        }
    } else if lines > 1 {
        let (text, role) = told.unwrap_or((HINT, Role::Muted));
        canvas.put(1, y + 1, width, text, role);
    } else if let Some((text, role)) = told {
        above = wrapped(canvas, y, text, role);
    }
    offers(filter, lines + above, canvas);
    cursor
}

/// Tells something above the line, as a whole; lines taken.
fn wrapped(canvas: &mut Canvas, y: u16, text: &str, role: Role) -> u16 {
    let area = canvas.buf.area;
    let width = usize::from(area.width.saturating_sub(2).max(1));
    let mut lines = wrap(text, width);
    lines.truncate(usize::from((area.height / 3).max(1).min(y)));
    let from = y - lines.len() as u16;
    let plain = canvas.style(Role::Text);
    for (n, line) in lines.iter().enumerate() {
        canvas.cell(0, from + n as u16, area.width, "", plain);
        canvas.put(1, from + n as u16, area.width.saturating_sub(1), line, role);
    }
    lines.len() as u16
}

fn offers(filter: &FilterLine, below: u16, canvas: &mut Canvas) {
    let height = canvas.buf.area.height;
    let room = height.saturating_sub(below + layout::top(height) + 3);
    let words = &filter.offers.words;
    let title = match words.first() {
        None => return,
        Some((word, _)) if word.ends_with(':') => "Fields".to_owned(),
        Some((word, _)) => {
            let field = word.split_once(':').map_or("", |(field, _)| field);
            let field = field.trim_start_matches(['-', '!']);
            match filter.offers.more {
                0 => format!("Values of {field}"),
                n => format!("Values of {field}, and {n} more"),
            }
        }
    };
    popup::choices(canvas, below, MOST.min(room), &title, words, filter.chosen);
}
