//! The detail of one instance.

mod devices;
mod events;
mod group;
mod metrics;
mod snapshots;
mod summary;

use ratatui::layout::Rect;

use super::super::app::{App, Focus, Tab};
use super::super::layout;
use super::super::native;
use super::super::prose::{Line, Shown, as_it_is, laid};
use super::super::search::{self, Place};
use super::super::text::Canvas;
use super::super::theme::Role;
use super::super::zone::Zone;
use crate::model::shown_width;

pub(super) fn draw(app: &App, area: Rect, canvas: &mut Canvas) {
    let text = canvas.style(Role::Text);
    canvas.fill(area, text);
    canvas.zone(area, Zone::Detail);
    let focused = app.focus == Focus::Detail;
    // A line on the side where the list is.
    let mut inner = area;
    if area.x > 0 {
        let rule = canvas.style(Role::Rule);
        let bar = canvas.glyphs.bar();
        for y in area.top()..area.bottom() {
            canvas.put_styled(area.x, y, 1, bar, rule);
        }
        canvas.zone(Rect { width: 1, ..area }, Zone::Divider);
        inner.x += 1;
        inner.width = inner.width.saturating_sub(1);
    } else if area.height > 4 {
        let line = Rect { height: 1, ..area };
        canvas.rule(line);
        canvas.zone(line, Zone::Divider);
        inner.y += 1;
        inner.height -= 1;
    }
    let Some(row) = app.inventory.selected() else {
        let lines = app.inventory.selected_group().map(|g| group::group(app, g));
        let lines = lines.unwrap_or_default().into_iter();
        for (y, (text, role)) in (inner.y..inner.bottom()).zip(lines) {
            canvas.put(inner.x + 1, y, inner.width.saturating_sub(1), &text, role);
        }
        return;
    };
    let name_room = inner.width.saturating_sub(2);
    canvas.put(
        inner.x + 1,
        inner
            .y
            .saturating_sub(u16::from(area.x == 0 && area.height > 4)),
        name_room,
        &format!(" {} ", row.id),
        Role::Title,
    );
    let mut y = inner.y + u16::from(area.x > 0 || area.height <= 4);
    let mut x = inner.x + 1;
    let all: usize = Tab::ALL
        .iter()
        .map(|tab| shown_width(tab.title()) + 2)
        .sum();
    let wide = all < usize::from(inner.width);
    for tab in Tab::ALL {
        let role = match (tab == app.detail.tab, focused) {
            (true, true) => Role::Selected,
            (true, false) => Role::Title,
            (false, _) => Role::Muted,
        };
        // Of a long title the first word is enough where all would not fit.
        let title = if wide {
            tab.title()
        } else {
            tab.title().split(' ').next().unwrap_or_default()
        };
        let label = match (tab == app.detail.tab, wide) {
            (true, true) => format!("[{title}]"),
            (true, false) => format!("[{title}] "),
            (false, true) => format!(" {title} "),
            (false, false) => format!("{title} "),
        };
        let used = canvas.put(x, y, inner.right().saturating_sub(x), &label, role);
        canvas.zone(Rect::new(x, y, used, 1), Zone::Tab(tab));
        x += used;
    }
    y += 1;
    let lines = lines(app);
    let height = usize::from(inner.bottom().saturating_sub(y));
    // The snapshot under the cursor stays on the screen.
    let scroll = if app.detail.tab == Tab::Snapshots {
        (app.detail.snapshot + 2).saturating_sub(height)
    } else {
        app.detail
            .scroll
            .min(lines.len().saturating_sub(height.max(1)))
    };
    let wanted = search::wanted(app, Place::Detail);
    let in_native = native::has_cursor(app);
    for (n, line) in lines.iter().enumerate().skip(scroll).take(height) {
        let snapshot = app.detail.tab == Tab::Snapshots
            && focused
            && n == app.detail.snapshot + 1
            && lines.len() > 1;
        let chosen = snapshot || (in_native && line.of == app.detail.line);
        let cursor = match app.detail.tab {
            Tab::Native => Some(line.of),
            Tab::Snapshots => n.checked_sub(1),
            _ => None,
        };
        let known = app.current_detail().map_or(0, |d| match app.detail.tab {
            Tab::Snapshots => d.snapshots.len(),
            _ => usize::MAX,
        });
        if let Some(cursor) = cursor.filter(|n| *n < known) {
            canvas.zone(Rect::new(inner.x, y, inner.width, 1), Zone::Line(cursor));
        }
        let style = canvas.style(if chosen { Role::Selected } else { line.role });
        if in_native && chosen {
            canvas.fill(Rect::new(inner.x, y, inner.width, 1), style);
        }
        let room = inner.width.saturating_sub(1);
        canvas.put_found(inner.x + 1, y, room, &line.text, style, wanted);
        y += 1;
    }
}

/// The text of the tab on the screen, and as it stands there.
pub fn text(app: &App) -> (Vec<Line>, Vec<Shown>) {
    let (lines, breaks) = source(app);
    let shown = if breaks {
        // What is longer goes on below, so that nothing is cut that one came here to read.
        laid(&lines, layout::detail_width(app))
    } else {
        as_it_is(lines.clone())
    };
    (lines, shown)
}

/// The lines of the tab on the screen.
pub fn lines(app: &App) -> Vec<Shown> {
    let known = app.current_detail().and_then(|d| d.native.as_ref());
    if app.detail.tab == Tab::Native && known.is_some() {
        let mut lines = native::on_screen(app, layout::detail_width(app));
        let error = app.detail.detail.error.as_ref();
        lines.extend(error.map(|error| Shown {
            text: super::super::answer::error_line(error),
            role: Role::Error,
            of: usize::MAX,
        }));
        return lines;
    }
    text(app).1
}

/// The text, and whether its lines are broken.
fn source(app: &App) -> (Vec<Line>, bool) {
    let Some(row) = app.inventory.selected() else {
        return (Vec::new(), false);
    };
    let detail = app.current_detail();
    let mut out = match (app.detail.tab, detail) {
        (Tab::Summary, detail) => summary::summary(app, row, detail),
        (Tab::Events, _) => events::events(app),
        (Tab::Metrics, _) => {
            let (width, height) = (layout::detail_width(app), layout::detail_rows(app));
            return (metrics::metrics(app, row, width, height), false);
        }
        (tab, Some(detail)) => match tab {
            Tab::Snapshots => return (snapshots::snapshots(app, detail), false),
            Tab::Devices => devices::devices(detail),
            _ => vec![("The backend gives no definition.".to_owned(), Role::Muted)],
        },
        (_, None) => Vec::new(),
    };
    if let Some(error) = &app.detail.detail.error {
        out.push((super::super::answer::error_line(error), Role::Error));
    } else if detail.is_none() && app.detail.tab != Tab::Events {
        out.push(("reading …".to_owned(), Role::Busy));
    }
    (out, true)
}
