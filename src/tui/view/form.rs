//! A form: its fields, below each what is wrong with it or what it may become.

use ratatui::layout::{Position, Rect};

use super::super::app::App;
use super::super::form::{Entry, Form, offers};
use super::super::text::{Canvas, wrap};
use super::super::theme::Role;
use super::super::zone::Zone;
use crate::model::FieldKind;

/// Rows of what a field may become that are shown at once.
const OFFERED: usize = 5;
/// Lines of a text that are shown at once.
const LINES: usize = 6;

/// What stands in a row of the form.
enum Part {
    /// A field, or the line of a text.
    Field(usize, usize),
    /// What is wrong with the field above.
    Fault(String),
    /// What the field above may become.
    Offer(String, String, bool),
}

/// What holds while nothing is typed.
fn default(entry: &Entry) -> String {
    let default = entry.default.as_deref();
    default.map(|text| format!("({text})")).unwrap_or_default()
}

/// The rows of the form, and which of them belong to the field with the focus.
fn parts(app: &App, form: &Form) -> (Vec<Part>, std::ops::Range<usize>) {
    let mut out = Vec::new();
    let mut own = 0..0;
    for (n, entry) in form.entries.iter().enumerate() {
        let here = n == form.focus;
        let from = out.len();
        let (rows, at) = entry.line.rows();
        let first = (at + 1).saturating_sub(LINES);
        let shown = if here && entry.line.is_area() {
            // One more shows that there may be one more.
            (rows.len() + 1).clamp(3, LINES)
        } else {
            1
        };
        out.extend((first..first + shown).map(|row| Part::Field(n, row)));
        let offers = if here { offers(app, form) } else { Vec::new() };
        let typed = entry.line.text();
        let becomes = here && offers.iter().any(|(word, _)| word.starts_with(typed));
        out.extend(entry.fault(becomes).map(Part::Fault));
        let is_choice = matches!(entry.kind, FieldKind::Choice(_));
        let chosen = if is_choice {
            offers.iter().position(|(word, _)| word == typed)
        } else {
            form.chosen.filter(|_| here)
        };
        let top = (chosen.unwrap_or(0) + 1).saturating_sub(OFFERED);
        for (m, (word, about)) in offers.into_iter().enumerate().skip(top).take(OFFERED) {
            out.push(Part::Offer(word, about, chosen == Some(m)));
        }
        if here {
            own = from..out.len();
        }
    }
    (out, own)
}

pub(super) fn draw(app: &App, form: &Form, canvas: &mut Canvas) -> Option<Position> {
    let (parts, own) = parts(app, form);
    let title = format!("{} {}", form.heading(), form.title);
    let height = parts.len() as u16 + 7;
    let inner = super::boxed(canvas, 78, height, title.trim_end(), Role::Title);
    if inner.height == 0 {
        return None;
    }
    // Below the fields: what is wrong or what the field is for, the command, the buttons.
    let foot = 3.min(inner.height - 1);
    let rows = usize::from(inner.height - foot);
    let end = if form.entry().is_some() {
        own.end
    } else {
        parts.len()
    };
    // Its first row, whatever stands below it has no room.
    let top = end.saturating_sub(rows);
    let top = if form.entry().is_some() {
        top.min(own.start)
    } else {
        top
    };
    let label = 15.min(inner.width / 2);
    let mut cursor = None;
    for (n, part) in parts.iter().enumerate().skip(top).take(rows) {
        let y = inner.y + (n - top) as u16;
        let place = Rect::new(inner.x + label, y, inner.width.saturating_sub(label), 1);
        match part {
            Part::Field(n, row) => {
                let Some(entry) = form.entries.get(*n) else {
                    continue;
                };
                let here = *n == form.focus;
                let line = Rect::new(inner.x, y, inner.width, 1);
                canvas.zone(line, Zone::Field(*n));
                if *row == 0 {
                    let role = if here { Role::Title } else { Role::Muted };
                    let sign = if here { ">" } else { " " };
                    canvas.put(inner.x, y, 1, sign, Role::Accent);
                    let name = label.saturating_sub(2);
                    canvas.put(inner.x + 2, y, name, entry.name, role);
                }
                cursor = field(entry, *row, here, place, canvas).or(cursor);
            }
            Part::Fault(text) => {
                canvas.put(place.x, y, place.width, text, Role::Error);
            }
            Part::Offer(word, about, chosen) => {
                let role = if *chosen {
                    Role::Selected
                } else {
                    Role::Accent
                };
                let used = canvas.put(place.x, y, place.width, &format!(" {word} "), role);
                let room = place.width.saturating_sub(used + 1);
                canvas.put(place.x + used + 1, y, room, about, Role::Muted);
            }
        }
    }
    draw_foot(app, form, inner, foot, canvas);
    cursor
}

/// One line of what a field holds; where the cursor stands in it.
fn field(
    entry: &Entry,
    row: usize,
    here: bool,
    place: Rect,
    canvas: &mut Canvas,
) -> Option<Position> {
    let Rect { x, y, width, .. } = place;
    if entry.kind == FieldKind::Flag {
        let sign = if entry.on { "[x]" } else { "[ ]" };
        canvas.put(x, y, width, sign, Role::Text);
        return here.then(|| Position::new(x + 1, y));
    }
    let (lines, at) = entry.line.rows();
    if here {
        if row == at {
            return super::bottom::type_line(canvas, &entry.line.row(), x, y, width);
        }
        let text = lines.get(row).copied().unwrap_or_default();
        canvas.put(x, y, width, text, Role::Text);
        return None;
    }
    if entry.line.text().is_empty() {
        canvas.put(x, y, width, &default(entry), Role::Muted);
        return None;
    }
    let first = lines.first().copied().unwrap_or_default();
    let text = match lines.len() - 1 {
        0 => first.to_owned(),
        more => format!("{first} (+{})", crate::model::counted(more, "line")),
    };
    canvas.put(x, y, width, &text, Role::Text);
    None
}

/// What the field is for, or what is wrong; the command, and the buttons.
fn draw_foot(app: &App, form: &Form, inner: Rect, foot: u16, canvas: &mut Canvas) {
    let mut y = inner.bottom() - foot;
    if foot >= 3 {
        match (&form.error, form.entry()) {
            (Some(error), _) => {
                // What to do stands at its end: it takes lines of the fields as it needs them.
                let lines = wrap(error, usize::from(inner.width.max(1)));
                let over = (lines.len() as u16).saturating_sub(1).min(y - inner.y);
                for (n, line) in lines.iter().take(usize::from(over) + 1).enumerate() {
                    let at = y - over + n as u16;
                    canvas.cell(inner.x, at, inner.width, "", canvas.style(Role::Text));
                    canvas.put(inner.x, at, inner.width, line, Role::Error);
                }
            }
            (None, Some(entry)) => {
                let text = format!("{}{}", entry.doc, how(entry, form));
                canvas.put(inner.x, y, inner.width, &text, Role::Muted);
            }
            _ => {}
        }
        y += 1;
    }
    if foot >= 2 {
        let mut line = format!("= {}", app.in_shell(&form.command()));
        if form.on_cancel() || form.on_go() {
            line.push_str("  (y copies)");
        }
        canvas.put(inner.x, y, inner.width, &line, Role::Accent);
        y += 1;
    }
    let style = |chosen: bool| if chosen { Role::Selected } else { Role::Button };
    let used = canvas.put(inner.x, y, inner.width, "[Cancel]", style(form.on_cancel()));
    let go = format!("[{}…]", form.button());
    let count = form.entries.len();
    canvas.zone(Rect::new(inner.x, y, used, 1), Zone::Field(count));
    let (x, room) = (inner.x + used + 2, inner.width.saturating_sub(used + 2));
    let used = canvas.put(x, y, room, &go, style(form.on_go()));
    canvas.zone(Rect::new(x, y, used, 1), Zone::Field(count + 1));
    let (x, room) = (x + used + 2, room.saturating_sub(used + 2));
    canvas.put(x, y, room, &form.hint(), Role::Muted);
}

/// How a field is filled in, and what holds while it is empty.
fn how(entry: &Entry, form: &Form) -> String {
    match entry.kind {
        FieldKind::Choice(words) => format!(" ({}; Left, Right choose)", words.join(", ")),
        FieldKind::Flag => " (Space switches)".to_owned(),
        _ if form.chosen.is_some() => " (Up, Down; Enter takes it)".to_owned(),
        _ if entry.line.is_area() => " (Enter: a new line; Tab leaves)".to_owned(),
        // In the field itself there is the cursor.
        _ if entry.line.text().is_empty() => format!(" {}", default(entry)),
        _ => String::new(),
    }
}
