//! Lists of the other panes.

use ratatui::layout::Rect;

use super::super::app::{App, Pane};
use super::super::layout;
use super::super::listing::{self, Opened};
use super::super::search::{self, Place};
use super::super::text::{Canvas, wrap};
use super::super::theme::Role;
use super::super::zone::Zone;

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
    let rows = layout::list_rows(app, cursor.open);
    let widths = list.widths(area.width.saturating_sub(2));
    let wanted = search::wanted(app, Place::Rows);
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
        canvas.zone(Rect::new(0, y, area.width, 1), Zone::Row(n));
        let mut x = 1;
        for ((text, role), width) in row.cells.iter().zip(&widths) {
            let style = if here { plain } else { canvas.style(*role) };
            canvas.put_found(x, y, *width, text, style, wanted);
            x += width + 1;
        }
        y += 1;
    }
    if cursor.open
        && let Some(row) = list.rows.get(cursor.row)
    {
        let area = layout::opened(app, true);
        let wanted = search::wanted(app, Place::Opened);
        opened(canvas, area, &Opened::of(row, area, cursor.scroll), wanted);
    }
}

fn opened(canvas: &mut Canvas, area: Rect, text: &Opened, wanted: Option<&str>) {
    if area.height == 0 {
        return;
    }
    let plain = canvas.style(Role::Text);
    canvas.fill(area, plain);
    canvas.zone(area, Zone::Opened);
    let line = Rect { height: 1, ..area };
    canvas.rule(line);
    canvas.zone(line, Zone::Divider);
    let height = usize::from(area.height - 1);
    let lines = text.lines.iter().skip(text.first).take(height);
    for (n, line) in lines.enumerate() {
        let (y, room) = (area.y + 1 + n as u16, area.width.saturating_sub(3));
        let style = canvas.style(line.role);
        canvas.put_found(2, y, room, &line.text, style, wanted);
    }
    let (above, below) = (text.first, text.last - text.first);
    if above + below > 0 {
        let mark = match (above, below) {
            (0, below) => format!(" {below} more below · J "),
            (above, 0) => format!(" {above} more above · K "),
            (above, below) => format!(" {above} above, {below} below · J K "),
        };
        let x = area.right().saturating_sub(mark.chars().count() as u16 + 2);
        canvas.put(x, area.y, area.right() - x, &mark, Role::Muted);
    }
}
