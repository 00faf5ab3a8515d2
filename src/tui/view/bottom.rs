//! The lines below the body: hints or what is typed, what is wrong with it, and what is told.

use ratatui::layout::Position;
use unicode_segmentation::UnicodeSegmentation as _;

use super::super::app::{App, Overlay};
use super::super::completion::Fault;
use super::super::layout;
use super::super::text::{Canvas, wrap};
use super::super::theme::Role;
use crate::model::shown_width;

/// The hints, or what is being typed; where the cursor stands.
pub(super) fn draw(app: &App, canvas: &mut Canvas) -> Option<Position> {
    let area = canvas.buf.area;
    let lines = layout::bottom(area.height);
    if lines == 0 {
        return None;
    }
    let last = area.height - 1;
    let input = match app.overlays.last() {
        Some(Overlay::Command(command)) => Some((":", &command.line)),
        Some(Overlay::Search(line, _)) => Some(("/", line)),
        _ => None,
    };
    if let Some((sign, line)) = input {
        let text = canvas.style(Role::Text);
        canvas.cell(0, last, area.width, "", text);
        let fault = fault_below(app);
        // What is wrong stands under its word: the line goes up for it.
        let y = last - u16::from(fault.is_some());
        canvas.cell(0, y, area.width, "", text);
        canvas.put(0, y, 1, sign, Role::Accent);
        let cursor = type_line(canvas, line, 1, y, area.width.saturating_sub(1));
        if let Some(fault) = fault {
            let text = line.text().get(..fault.at).unwrap_or_default();
            let at = 1 + shown_width(&crate::model::shown(text)) as u16;
            point(canvas, at, last, &fault.text);
        }
        return cursor;
    }
    super::hints::draw(app, canvas, last);
    None
}

/// What is wrong with the word of the command line that it stands under, where there is room for it.
fn fault_below(app: &App) -> Option<&Fault> {
    match app.overlays.last() {
        Some(Overlay::Command(command))
            if command.error.is_none() && layout::bottom(app.setup.size.1) > 1 =>
        {
            command.fault.as_ref()
        }
        _ => None,
    }
}

/// A sign under a column, with what is wrong behind it, or before it where that has more room.
fn point(canvas: &mut Canvas, at: u16, y: u16, text: &str) {
    let width = canvas.buf.area.width;
    let wide = shown_width(&crate::model::shown(text)) as u16;
    let at = at.min(width.saturating_sub(1));
    let behind = width.saturating_sub(at + 2);
    canvas.put(at, y, 1, "^", Role::Error);
    if wide <= behind || behind >= at {
        canvas.put(at + 2, y, behind, text, Role::Error);
    } else {
        let from = at.saturating_sub(wide + 1);
        canvas.put(from, y, at.saturating_sub(from + 1), text, Role::Error);
    }
}

/// What is to be told now: what is wrong with what is typed, else the notice.
fn message(app: &App) -> Option<(&str, Role)> {
    let error = match app.overlays.last() {
        Some(Overlay::Command(_)) if fault_below(app).is_some() => return None,
        Some(Overlay::Command(command)) => {
            let fault = command.fault.as_ref().map(|fault| fault.text.as_str());
            command.error.as_deref().or(fault)
        }
        _ => None,
    };
    let notice = || app.notice.as_ref().map(|n| (n.text.as_str(), n.role));
    error.map(|text| (text, Role::Error)).or_else(notice)
}

/// Draws the message whole: what to do stands at its end, so it takes lines of the body as it needs
/// them, at most half of the screen.
pub(super) fn tell(app: &App, canvas: &mut Canvas) {
    let area = canvas.buf.area;
    let Some((text, role)) = message(app) else {
        return;
    };
    // On the smallest screens a message is worth more than the hints, but not than what is typed.
    let typing = matches!(
        app.overlays.last(),
        Some(Overlay::Command(_) | Overlay::Search(..))
    );
    let end = match layout::bottom(area.height) {
        0 => return,
        1 if !typing => area.height,
        _ => area.height - 1,
    };
    let width = area.width.saturating_sub(2).max(1);
    let mut lines = wrap(text, usize::from(width));
    let most = usize::from((area.height / 2).max(1));
    if lines.len() > most {
        lines.truncate(most);
        if let Some(line) = lines.last_mut() {
            line.push_str(canvas.glyphs.more());
        }
    }
    let plain = canvas.style(Role::Text);
    let from = end - lines.len() as u16;
    for (n, line) in lines.iter().enumerate() {
        let y = from + n as u16;
        canvas.cell(0, y, area.width, "", plain);
        canvas.put(1, y, area.width.saturating_sub(1), line, role);
    }
}

/// Draws a typed line so that its cursor is on the screen; the cursor's place.
pub(super) fn type_line(
    canvas: &mut Canvas,
    line: &super::super::edit::Line,
    x: u16,
    y: u16,
    width: u16,
) -> Option<Position> {
    if width == 0 {
        return None;
    }
    let shown = crate::model::shown(line.before());
    let before = shown_width(&shown);
    if before < usize::from(width) {
        canvas.put(x, y, width, line.text(), Role::Text);
        return Some(Position::new(x + before as u16, y));
    }
    // The end of what stands before the cursor: from there backwards, a long line is not measured again and again.
    let mut room = usize::from(width) - 1;
    let mut from = shown.len();
    for (at, cluster) in shown.grapheme_indices(true).rev() {
        let Some(left) = room.checked_sub(shown_width(cluster)) else {
            break;
        };
        (room, from) = (left, at);
    }
    let tail = &shown[from..];
    let at = shown_width(tail) as u16;
    canvas.put(x, y, width, tail, Role::Text);
    Some(Position::new(x + at, y))
}
