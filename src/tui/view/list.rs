//! Lists of the other panes.

use ratatui::layout::Rect;

use super::super::app::{App, Pane};
use super::super::layout;
use super::super::listing;
use super::super::text::{Canvas, wrap};
use super::super::theme::Role;

pub(super) fn draw(app: &App, pane: Pane, canvas: &mut Canvas) {
    let area = layout::middle(app.setup.size);
    let list = listing::of(app, pane);
    let cursor = app.cursors.get(&pane).cloned().unwrap_or_default();
    if list.rows.is_empty() {
        let mut y = area.y + u16::from(area.height > 4);
        let mut texts = vec![(list.empty.clone(), Role::Text)];
        if area.height < 8 {
            texts.extend(list.note.clone());
        }
        for (text, role) in texts {
            for line in wrap(&text, usize::from(area.width.saturating_sub(4)).max(1)) {
                if y < area.bottom() {
                    canvas.put(2, y, area.width.saturating_sub(3), &line, role);
                    y += 1;
                }
            }
        }
        return;
    }
    let rows = layout::list_rows(app.setup.size, cursor.open);
    let widths = list.widths(area.width.saturating_sub(2));
    let mut y = area.y;
    if layout::headings(area.height) > 0 && pane != Pane::Answer {
        let mut x = 1;
        for (title, width) in list.columns.iter().zip(&widths) {
            canvas.put(x, y, *width, title, Role::Muted);
            x += width + 1;
        }
        y += 1;
    }
    for (n, row) in list.rows.iter().enumerate().skip(cursor.top).take(rows) {
        if y >= area.bottom() {
            break;
        }
        let here = n == cursor.row;
        let plain = canvas.style(if here { Role::Selected } else { Role::Text });
        canvas.fill(Rect::new(0, y, area.width, 1), plain);
        let mut x = 1;
        for ((text, role), width) in row.cells.iter().zip(&widths) {
            let style = if here { plain } else { canvas.style(*role) };
            canvas.put_styled(x, y, *width, text, style);
            x += width + 1;
        }
        y += 1;
    }
    if cursor.open
        && let Some(row) = list.rows.get(cursor.row)
    {
        let y = area.y + area.height / 2;
        opened(
            canvas,
            Rect::new(0, y, area.width, area.bottom() - y),
            &row.more,
        );
    }
}

fn opened(canvas: &mut Canvas, area: Rect, more: &[(String, Role)]) {
    if area.height == 0 {
        return;
    }
    let text = canvas.style(Role::Text);
    canvas.fill(area, text);
    canvas.rule(Rect { height: 1, ..area });
    let width = usize::from(area.width.saturating_sub(3)).max(1);
    let lines: Vec<(String, Role)> = more
        .iter()
        .flat_map(|(text, role)| wrap(text, width).into_iter().map(move |line| (line, *role)))
        .collect();
    let height = usize::from(area.height - 1);
    // Of a log the end is what one wants to see, but its command stays above.
    let skip = lines.len().saturating_sub(height);
    let mut shown: Vec<&(String, Role)> = lines.iter().skip(skip).collect();
    if skip > 0
        && let (Some(first), Some(head)) = (shown.first_mut(), lines.first())
    {
        *first = head;
    }
    for (n, (text, role)) in shown.into_iter().enumerate() {
        canvas.put(
            2,
            area.y + 1 + n as u16,
            area.width.saturating_sub(3),
            text,
            *role,
        );
    }
}
