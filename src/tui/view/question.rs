//! A question from below.

use ratatui::layout::Position;

use super::super::app::App;
use super::super::question::Question;
use super::super::text::{Canvas, wrap};
use super::super::theme::Role;
use crate::model::shown;

pub(super) fn draw(app: &App, question: &Question, canvas: &mut Canvas) -> Option<Position> {
    let width = 70.min(canvas.buf.area.width);
    let room = usize::from(width.saturating_sub(4)).max(1);
    let prompt = &question.prompt;
    let mut lines: Vec<(String, Role)> = Vec::new();
    for fact in &prompt.facts {
        lines.extend(
            wrap(&shown(fact), room)
                .into_iter()
                .map(|l| (l, Role::Text)),
        );
    }
    let asked = wrap(&shown(&prompt.question), room);
    lines.extend(asked.into_iter().map(|line| (line, Role::Title)));
    let remedy = wrap(&format!("instead: {}", prompt.remedy), room);
    let remedy = &remedy[..remedy.len().min(3)];
    let foot = remedy.len() + 1 + usize::from(question.takes_text());
    let title = match app.questions.len() {
        0 => format!("Context {} asks", prompt.context),
        more => format!("Context {} asks, {more} more wait", prompt.context),
    };
    let height = (lines.len() + foot + 2) as u16;
    let inner = super::boxed(canvas, width, height, &title, Role::Title);
    // What is typed and which keys there are stand last, whatever else has no room.
    let foot = (foot as u16).min(inner.height);
    let rows = usize::from(inner.height - foot);
    let cut = lines.len().saturating_sub(rows);
    for (n, (text, role)) in lines.iter().skip(cut).enumerate() {
        canvas.put(inner.x, inner.y + n as u16, inner.width, text, *role);
    }
    let mut y = inner.bottom() - foot;
    let mut cursor = None;
    if question.takes_text() {
        cursor = typed(question, canvas, inner.x, y, inner.width);
        y += 1;
    }
    let last = inner.bottom().saturating_sub(1);
    for line in remedy {
        if y < last {
            canvas.put(inner.x, y, inner.width, line, Role::Accent);
            y += 1;
        }
    }
    let open = question.guard.is_open(app.ms);
    let keys = match (open, question.takes_text()) {
        (false, _) => "(wait)",
        (true, true) => "Enter answers  Esc refuses  Ctrl-C puts it off",
        (true, false) => "[Y]es  [N]o  Esc refuses  Ctrl-C puts it off",
    };
    let role = if open { Role::Button } else { Role::Muted };
    canvas.put(inner.x, last, inner.width, keys, role);
    cursor
}

/// A secret is dots.
fn typed(question: &Question, canvas: &mut Canvas, x: u16, y: u16, width: u16) -> Option<Position> {
    let used = canvas.put(x, y, width, "> ", Role::Accent);
    let width = width.saturating_sub(used);
    if !question.is_secret() {
        return super::bottom::type_line(canvas, &question.typed, x + used, y, width);
    }
    let dots = super::super::edit::Line::masked(&question.typed, canvas.glyphs.secret());
    super::bottom::type_line(canvas, &dots, x + used, y, width)
}
