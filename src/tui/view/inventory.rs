//! The inventory's table, with the detail.

use ratatui::layout::Rect;

use super::super::app::{App, Focus};
use super::super::columns;
use super::super::layout;
use super::super::text::Canvas;
use super::super::theme::Role;
use super::{detail, first};

pub(super) fn draw(app: &App, canvas: &mut Canvas) {
    let body = layout::body(app);
    if let Some(area) = body.list {
        if app.inventory.rows.is_empty() {
            first::draw(app, area, canvas);
        } else {
            table(app, area, canvas);
        }
    }
    if let Some(area) = body.detail {
        detail::draw(app, area, canvas);
    }
}

fn table(app: &App, area: Rect, canvas: &mut Canvas) {
    let inventory = &app.inventory;
    let all = columns::shown_at(app, area.width);
    let laid = columns::laid_out(&all, area.width, inventory.skip);
    let mut y = area.y;
    if layout::headings(area.height) > 0 {
        let style = canvas.style(Role::Muted);
        canvas.cell(area.x, y, area.width, "", style);
        let mut x = area.x + 3;
        for (column, width) in &laid {
            let mut title = column.title().to_owned();
            if column.sort_word() == Some(inventory.sort.as_str()) && inventory.sort != "name" {
                title.push_str(if inventory.reverse { "↑" } else { "↓" });
            }
            canvas.put(x, y, *width, &title, Role::Muted);
            x += width + 1;
        }
        y += 1;
    }
    let rows = usize::from(area.bottom().saturating_sub(y));
    for (n, row) in inventory
        .rows
        .iter()
        .enumerate()
        .skip(inventory.top)
        .take(rows)
    {
        let here = n == inventory.cursor;
        let plain = app.setup.theme.style(if here && app.focus == Focus::List {
            Role::Selected
        } else {
            Role::Text
        });
        canvas.fill(Rect::new(area.x, y, area.width, 1), plain);
        // Under the cursor the whole line is one style; else each cell has its role.
        let style = |role: Role| {
            if here && app.focus == Focus::List {
                plain
            } else {
                app.setup.theme.style(role)
            }
        };
        let sign = columns::sign(app, row);
        let (mark, glyph) = sign.split_at(1);
        let marked = inventory.is_marked(row);
        canvas.put_styled(area.x, y, 1, mark, style(Role::Mark));
        canvas.put_styled(area.x + 1, y, 1, glyph, style(columns::role_of(app, row)));
        let mut x = area.x + 3;
        for (column, width) in &laid {
            let (text, role) = columns::cell(app, row, *column, *width);
            let role = if marked && *column == columns::Column::Name {
                Role::Mark
            } else {
                role
            };
            canvas.put_styled(x, y, *width, &text, style(role));
            x += width + 1;
        }
        y += 1;
    }
    // Columns that do not fit are told at the edge.
    if area.width > 20 && columns::hidden(&all, area.width, inventory.skip) {
        canvas.put(area.right() - 1, area.y, 1, ">", Role::Accent);
    }
}
