//! The list of themes, each name in its own colours.

use ratatui::layout::Rect;

use super::super::app::{App, ThemePicker};
use super::super::text::Canvas;
use super::super::theme::Role;
use super::super::zone::Zone;
use crate::model::shown_width;

/// The list over the panes, which stay in sight: they are the preview.
pub(super) fn draw(app: &App, picker: &ThemePicker, canvas: &mut Canvas) {
    let themes = &app.setup.themes;
    let longest = themes.iter().map(|theme| shown_width(&theme.name)).max();
    let width = (longest.unwrap_or(0) as u16 + 12).max(26);
    let screen = canvas.buf.area;
    let height = (themes.len() as u16 + 2).min(screen.height);
    let width = width.min(screen.width);
    let area = Rect::new(
        screen.width - width,
        (screen.height - height) / 2,
        width,
        height,
    );
    let inner = super::frame(canvas, area, "Theme: Enter keeps", Role::Title);
    let visible = usize::from(inner.height);
    let top = (picker.row + 1).saturating_sub(visible);
    for (n, theme) in themes.iter().enumerate().skip(top).take(visible) {
        let y = inner.y + (n - top) as u16;
        let here = n == picker.row;
        let style = theme.style(if here { Role::Selected } else { Role::Text });
        canvas.fill(Rect::new(inner.x, y, inner.width, 1), style);
        canvas.zone(Rect::new(inner.x, y, inner.width, 1), Zone::Pick(n));
        let sign = if here { ">" } else { " " };
        canvas.put_styled(inner.x, y, 1, sign, style);
        let room = inner.width.saturating_sub(2);
        canvas.put_styled(inner.x + 2, y, room, &theme.name, style);
        // A sample of what a state looks like.
        for (at, role) in [Role::Ok, Role::Warn, Role::Error, Role::Busy]
            .into_iter()
            .enumerate()
        {
            let x = inner.right().saturating_sub(5 - at as u16);
            canvas.put_styled(
                x,
                y,
                1,
                app.setup.glyphs.state(crate::model::State::Running),
                theme.style(role),
            );
        }
    }
}
