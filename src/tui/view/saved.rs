//! The list of views.

use ratatui::layout::{Position, Rect};

use super::super::app::App;
use super::super::saved::{ViewMenu, says};
use super::super::text::Canvas;
use super::super::theme::Role;
use super::super::zone::Zone;
use super::bottom::type_line;
use crate::model::shown_width;

pub(super) fn draw(app: &App, menu: &ViewMenu, canvas: &mut Canvas) -> Option<Position> {
    let rows: Vec<(String, String)> = app
        .views
        .iter()
        .map(|view| (view.name.clone(), says(view)))
        .collect();
    let column = rows.iter().map(|(name, _)| shown_width(name)).max();
    let column = (column.unwrap_or(0) as u16 + 3).min(canvas.buf.area.width / 2);
    let widest = rows.iter().map(|(_, says)| shown_width(says)).max();
    let width = (column + widest.unwrap_or(0) as u16 + 4).max(60);
    let height = (rows.len().max(1) as u16) + 2 + u16::from(menu.naming.is_some());
    let title = "Views: Enter shows, + saves the present one, D deletes";
    let inner = super::boxed(canvas, width, height, title, Role::Title);
    let mut y = inner.y;
    let mut cursor = None;
    if let Some(line) = &menu.naming {
        let used = canvas.put(inner.x, y, inner.width, "Name: ", Role::Accent);
        let room = inner.width.saturating_sub(used);
        cursor = type_line(canvas, line, inner.x + used, y, room);
        y += 1;
    }
    if rows.is_empty() {
        let text = "none yet: filter, sort and group as you like, then +";
        canvas.put(inner.x, y, inner.width, text, Role::Muted);
        return cursor;
    }
    let visible = usize::from(inner.bottom().saturating_sub(y));
    let top = (menu.row + 1).saturating_sub(visible);
    for (n, (name, says)) in rows.iter().enumerate().skip(top).take(visible) {
        let y = y + (n - top) as u16;
        canvas.zone(Rect::new(inner.x, y, inner.width, 1), Zone::Pick(n));
        let here = n == menu.row && menu.naming.is_none();
        let style = |role| canvas.style(if here { Role::Selected } else { role });
        let (plain, muted) = (style(Role::Text), style(Role::Muted));
        canvas.fill(Rect::new(inner.x, y, inner.width, 1), plain);
        canvas.put_styled(inner.x, y, column.saturating_sub(2), name, plain);
        let room = inner.width.saturating_sub(column);
        canvas.put_styled(inner.x + column, y, room, says, muted);
    }
    cursor
}
