//! Drawing: everything that is shown, from the state alone.

mod bottom;
mod columns;
mod detail;
mod dialog;
mod filter_line;
mod first;
mod form;
mod header;
mod help;
mod hints;
mod inventory;
mod list;
mod popup;
mod question;
mod saved;
mod themes;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::app::{App, Overlay, Pane};
use super::text::Canvas;
use super::theme::Role;
use super::zone::{Zone, Zones};

pub use detail::lines as detail_lines;
pub use detail::text as detail_text;
pub use dialog::{last_scroll as dialog_last, page as dialog_page, shows_losses};
pub use help::last as help_last;
pub use help::lines as help_lines;

/// Draws the whole screen; where the cursor stands, if it is shown.
pub fn view(app: &App, buf: &mut Buffer) -> Option<Position> {
    paint(app, buf).0
}

/// What stands where on the screen.
pub fn zones(app: &App) -> Zones {
    let (width, height) = app.setup.size;
    paint(app, &mut Buffer::empty(Rect::new(0, 0, width, height))).1
}

fn paint(app: &App, buf: &mut Buffer) -> (Option<Position>, Zones) {
    let mut canvas = Canvas {
        buf,
        theme: &app.setup.theme,
        glyphs: app.setup.glyphs,
        zones: Zones::new(),
    };
    let area = canvas.buf.area;
    canvas.fill(area, app.setup.theme.style(Role::Text));
    if area.width < 2 || area.height < 2 {
        canvas.put(0, 0, area.width, "corral", Role::Text);
        return (None, canvas.zones);
    }
    header::draw(app, &mut canvas);
    match app.pane {
        Pane::Inventory => inventory::draw(app, &mut canvas),
        pane => list::draw(app, pane, &mut canvas),
    }
    let mut cursor = bottom::draw(app, &mut canvas);
    // Over what is typed, under what asks.
    let over = match app.overlays.last() {
        None | Some(Overlay::Command(_) | Overlay::Search(..)) => true,
        Some(Overlay::Help(_)) => app.search.is_some(),
        Some(_) => false,
    };
    let filtering = matches!(app.overlays.last(), Some(Overlay::Filter(_)));
    if !over && !filtering {
        bottom::tell(app, &mut canvas);
    }
    if !app.keys.is_empty() {
        popup::keys(app, &mut canvas);
    }
    match app.overlays.last() {
        Some(Overlay::Dialog(dialog)) => cursor = dialog::draw(app, dialog, &mut canvas),
        Some(Overlay::Quit(quit)) => dialog::draw_quit(app, quit, &mut canvas),
        Some(Overlay::Form(form)) => cursor = form::draw(app, form, &mut canvas),
        Some(Overlay::Command(command)) => popup::palette(app, command, &mut canvas),
        Some(Overlay::Help(scroll)) => help::draw(app, *scroll, &mut canvas),
        Some(Overlay::Actions(actions)) => popup::actions(app, actions, &mut canvas),
        Some(Overlay::Question(question)) => cursor = question::draw(app, question, &mut canvas),
        Some(Overlay::Themes(picker)) => themes::draw(app, picker, &mut canvas),
        Some(Overlay::Columns(picker)) => columns::draw(app, picker, &mut canvas),
        Some(Overlay::Views(menu)) => cursor = saved::draw(app, menu, &mut canvas),
        Some(Overlay::Filter(filter)) => cursor = filter_line::draw(app, filter, &mut canvas),
        Some(Overlay::Search(..)) => {
            // What is searched may be help.
            let help = app.overlays.iter().find_map(|o| match o {
                Overlay::Help(scroll) => Some(*scroll),
                _ => None,
            });
            if let Some(scroll) = help {
                help::draw(app, scroll, &mut canvas);
                cursor = bottom::draw(app, &mut canvas);
            }
        }
        None => {}
    }
    if over {
        bottom::tell(app, &mut canvas);
    }
    (cursor, canvas.zones)
}

/// A box in the middle, with a title; its inside.
fn boxed(canvas: &mut Canvas, width: u16, height: u16, title: &str, role: Role) -> Rect {
    let screen = canvas.buf.area;
    let width = width.min(screen.width);
    let height = height.min(screen.height);
    let area = Rect::new(
        (screen.width - width) / 2,
        (screen.height - height) / 2,
        width,
        height,
    );
    frame(canvas, area, title, role)
}

/// Lines inside a frame of this height.
fn inside(height: u16) -> u16 {
    if height < 3 { height } else { height - 2 }
}

/// Clears an area and draws a line above and below; its inside.
fn frame(canvas: &mut Canvas, area: Rect, title: &str, role: Role) -> Rect {
    let text = canvas.style(Role::Text);
    canvas.fill(area, text);
    canvas.zone(area, Zone::Over);
    if area.height < 3 {
        return area;
    }
    canvas.rule(Rect { height: 1, ..area });
    canvas.rule(Rect {
        y: area.bottom() - 1,
        height: 1,
        ..area
    });
    let rule = canvas.style(Role::Rule);
    let bar = canvas.glyphs.bar();
    let (left, right) = (area.x, area.right() - 1);
    let (top, bottom) = (area.y, area.bottom() - 1);
    let places = [(left, top), (right, top), (left, bottom), (right, bottom)];
    for ((x, y), corner) in places.into_iter().zip(canvas.glyphs.corners()) {
        canvas.put_styled(x, y, 1, corner, rule);
    }
    let title = format!(" {title} ");
    canvas.put(
        area.x + 2,
        area.y,
        area.width.saturating_sub(4),
        &title,
        role,
    );
    for y in area.top() + 1..area.bottom() - 1 {
        canvas.put_styled(area.x, y, 1, bar, rule);
        canvas.put_styled(area.right() - 1, y, 1, bar, rule);
    }
    Rect::new(
        area.x + 2,
        area.y + 1,
        area.width.saturating_sub(4),
        area.height - 2,
    )
}
