//! The inventory's table, with the detail.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::super::app::{App, Focus};
use super::super::columns::{self, Column};
use super::super::groups::Group;
use super::super::inventory::Entry;
use super::super::layout;
use super::super::text::Canvas;
use super::super::theme::Role;
use super::super::zone::Zone;
use super::{detail, first};
use crate::model::{Instance, counted};

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
    canvas.zone(area, Zone::List);
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
            if column.sort_word() == inventory.sort && inventory.sort != "name" {
                title.push_str(if inventory.reverse { "↑" } else { "↓" });
            }
            canvas.put(x, y, *width, &title, Role::Muted);
            let word = column.sort_word();
            let again = word == inventory.sort;
            let word = if again { "reverse" } else { word };
            let zone = Zone::Run(format!("ui sort {word}"));
            canvas.zone(Rect::new(x, y, *width, 1), zone);
            x += width + 1;
        }
        y += 1;
    }
    let rows = usize::from(area.bottom().saturating_sub(y));
    for (n, entry) in inventory.on_screen(rows) {
        let here = n == inventory.cursor && app.focus == Focus::List;
        let plain = app
            .setup
            .theme
            .style(if here { Role::Selected } else { Role::Text });
        let line = Rect::new(area.x, y, area.width, 1);
        canvas.fill(line, plain);
        canvas.zone(line, Zone::Row(n));
        // Under the cursor the whole line is one style; else each cell has its role.
        let style = |role: Role| {
            if here {
                plain
            } else {
                app.setup.theme.style(role)
            }
        };
        match entry {
            Entry::Group(group) => heading(group, line, &style, canvas),
            Entry::Row(row, depth) => cells(app, row, depth, line, &laid, &style, canvas),
        }
        y += 1;
    }
    // Columns that do not fit are told at the edge.
    if area.width > 20 && columns::hidden(&all, area.width, inventory.skip) {
        canvas.put(area.right() - 1, area.y, 1, ">", Role::Accent);
    }
}

/// The line of an instance.
fn cells(
    app: &App,
    row: &Instance,
    depth: u16,
    line: Rect,
    laid: &[columns::Sized],
    style: &dyn Fn(Role) -> Style,
    canvas: &mut Canvas,
) {
    let y = line.y;
    let sign = columns::sign(app, row);
    let (mark, glyph) = sign.split_at(1);
    let marked = app.inventory.is_marked(row);
    canvas.put_styled(line.x, y, 1, mark, style(Role::Mark));
    canvas.put_styled(line.x + 1, y, 1, glyph, style(columns::role_of(app, row)));
    let mut x = line.x + 3;
    for (column, width) in laid {
        let (text, role) = columns::cell(app, row, *column, *width);
        let is_name = *column == Column::Name;
        let role = if marked && is_name { Role::Mark } else { role };
        // What is in a group is set in, as far as the name has room for it.
        let indent = if is_name {
            (depth * 2).min(width / 4)
        } else {
            0
        };
        canvas.put_styled(x + indent, y, width - indent, &text, style(role));
        x += width + 1;
    }
}

/// The heading of a group: its name, how many, how they are.
fn heading(group: &Group, line: Rect, style: &dyn Fn(Role) -> Style, canvas: &mut Canvas) {
    let y = line.y;
    let marked = group.marked;
    if marked > 0 {
        canvas.put_styled(line.x, y, 1, ">", style(Role::Mark));
    }
    if let Some((state, role)) = group.worst {
        canvas.put_styled(line.x + 1, y, 1, canvas.glyphs.state(state), style(role));
    }
    let mut parts = vec![
        (canvas.glyphs.fold(group.open).to_owned(), Role::Muted),
        (format!(" {}", group.title), Role::Title),
        (format!("  {}", group.count()), Role::Text),
    ];
    if group.running > 0 {
        parts.push((format!(", {} running", group.running), Role::Muted));
    }
    if group.problems > 0 {
        parts.push((
            format!(", {}", counted(group.problems, "problem")),
            Role::Warn,
        ));
    }
    if marked > 0 {
        parts.push((format!(", {marked} marked"), Role::Mark));
    }
    let mut x = line.x + 3 + group.depth * 2;
    for (text, role) in parts {
        x += canvas.put_styled(x, y, line.right().saturating_sub(x), &text, style(role));
    }
}
