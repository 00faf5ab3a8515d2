//! The list of columns, beside the table that follows it.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::columns::Column;
use super::super::own_columns::ColumnPicker;
use super::super::text::Canvas;
use super::super::theme::Role;
use super::super::zone::Zone;

const WIDTH: u16 = 30;
const KEYS: &str = " Space J K + - s r ";

pub(super) fn draw(app: &App, picker: &ColumnPicker, canvas: &mut Canvas) {
    let screen = canvas.buf.area;
    let width = WIDTH.min(screen.width);
    let height = (picker.rows.len() as u16 + 2).min(screen.height);
    let area = Rect::new(
        screen.width - width,
        (screen.height - height) / 2,
        width,
        height,
    );
    let inner = super::frame(canvas, area, "Columns: Enter keeps", Role::Title);
    let visible = usize::from(inner.height);
    let top = (picker.row + 1).saturating_sub(visible);
    let rows = picker.rows.iter().enumerate().skip(top).take(visible);
    for (n, (column, on, width)) in rows {
        let y = inner.y + (n - top) as u16;
        canvas.zone(Rect::new(inner.x, y, inner.width, 1), Zone::Pick(n));
        let role = match (n == picker.row, on) {
            (true, _) => Role::Selected,
            (false, true) => Role::Text,
            (false, false) => Role::Muted,
        };
        let style = canvas.style(role);
        canvas.fill(Rect::new(inner.x, y, inner.width, 1), style);
        let mark = if *on { "[x]" } else { "[ ]" };
        canvas.put_styled(inner.x, y, 3, mark, style);
        canvas.put_styled(inner.x + 4, y, 10, column.title(), style);
        let wide = match column {
            Column::Name => "rest".to_owned(),
            _ => width.to_string(),
        };
        let right = inner.x + 15;
        canvas.put_styled(right, y, inner.right().saturating_sub(right), &wide, style);
        if column.sort_word() == app.inventory.sort {
            let way = if app.inventory.reverse {
                "↑ sort"
            } else {
                "↓ sort"
            };
            let x = inner.x + 20;
            canvas.put_styled(x, y, inner.right().saturating_sub(x), way, style);
        }
    }
    if area.height > 2 {
        let x = area.x + 2;
        canvas.put(
            x,
            area.bottom() - 1,
            width.saturating_sub(4),
            KEYS,
            Role::Muted,
        );
    }
}
