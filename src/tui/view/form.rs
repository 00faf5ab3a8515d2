//! A form.

use ratatui::layout::Position;

use super::super::form::{Entry, Form};
use super::super::text::{Canvas, wrap};
use super::super::theme::Role;
use crate::model::FieldKind;

/// What holds while nothing is typed.
fn default(entry: &Entry) -> String {
    let default = entry.default.as_deref();
    default.map(|text| format!("({text})")).unwrap_or_default()
}

pub(super) fn draw(form: &Form, canvas: &mut Canvas) -> Option<Position> {
    let count = form.entries.len();
    let title = format!("{} {}", form.heading(), form.title);
    let inner = super::boxed(canvas, 78, count as u16 + 7, title.trim_end(), Role::Title);
    if inner.height == 0 {
        return None;
    }
    // Below the fields: what is wrong or what the field is for, the command, the buttons.
    let foot = 3.min(inner.height - 1);
    let rows = usize::from(inner.height - foot);
    let top = (form.focus.min(count.saturating_sub(1)) + 1).saturating_sub(rows);
    let label = 15.min(inner.width / 2);
    let mut cursor = None;
    for (n, entry) in form.entries.iter().enumerate().skip(top).take(rows) {
        let y = inner.y + (n - top) as u16;
        let here = n == form.focus;
        let role = if here { Role::Title } else { Role::Muted };
        canvas.put(inner.x, y, 1, if here { ">" } else { " " }, Role::Accent);
        canvas.put(inner.x + 2, y, label.saturating_sub(2), entry.name, role);
        let x = inner.x + label;
        let width = inner.width.saturating_sub(label);
        if entry.kind == FieldKind::Flag {
            canvas.put(
                x,
                y,
                width,
                if entry.on { "[x]" } else { "[ ]" },
                Role::Text,
            );
            if here {
                cursor = Some(Position::new(x + 1, y));
            }
        } else if here {
            cursor = super::bottom::type_line(canvas, &entry.line, x, y, width);
        } else if entry.line.text().is_empty() {
            canvas.put(x, y, width, &default(entry), Role::Muted);
        } else {
            canvas.put(x, y, width, entry.line.text(), Role::Text);
        }
    }
    let mut y = inner.bottom() - foot;
    if foot >= 3 {
        match (&form.error, form.entries.get(form.focus)) {
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
                let choice = match entry.kind {
                    FieldKind::Choice(words) => {
                        format!(" ({}; Left, Right choose)", words.join(", "))
                    }
                    FieldKind::Flag => " (Space switches)".to_owned(),
                    // In the field itself there is the cursor.
                    _ if entry.line.text().is_empty() => format!(" {}", default(entry)),
                    _ => String::new(),
                };
                canvas.put(
                    inner.x,
                    y,
                    inner.width,
                    &format!("{}{choice}", entry.doc),
                    Role::Muted,
                );
            }
            _ => {}
        }
        y += 1;
    }
    if foot >= 2 {
        let mut line = format!("= {}", form.command());
        if form.on_cancel() || form.on_go() {
            line.push_str("  (y copies)");
        }
        canvas.put(inner.x, y, inner.width, &line, Role::Accent);
        y += 1;
    }
    let style = |chosen: bool| if chosen { Role::Selected } else { Role::Button };
    let used = canvas.put(inner.x, y, inner.width, "[Cancel]", style(form.on_cancel()));
    let go = format!("[{}…]", form.button());
    canvas.put(
        inner.x + used + 2,
        y,
        inner.width.saturating_sub(used + 2),
        &go,
        style(form.on_go()),
    );
    cursor
}
