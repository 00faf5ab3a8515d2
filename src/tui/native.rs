//! The Native tab: a definition whose parts fold, with a cursor, secrets hidden until they are asked for.

use super::app::{App, Focus, Pane, Tab};
use super::fold;
use super::layout;
use super::prose::{Line, Shown, laid};
use super::secret;
use super::theme::Role;

/// The definition's lines, none folded, as they may be seen.
fn texts(app: &App) -> Vec<String> {
    let Some(native) = app.current_detail().and_then(|d| d.native.as_ref()) else {
        return Vec::new();
    };
    let lines: Vec<String> = native
        .text
        .lines()
        .map(|line| line.replace('\t', "    "))
        .collect();
    if app.detail.secrets {
        return lines;
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    secret::masked(&lines, app.setup.glyphs.secret())
}

/// All lines, none folded.
pub fn lines(app: &App) -> Vec<Line> {
    let texts = texts(app).into_iter();
    texts.map(|text| (text, Role::Text)).collect()
}

/// Lines that are shown, and the number of each among all.
fn shown(app: &App) -> (Vec<usize>, Vec<Line>) {
    let texts = texts(app);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let visible = fold::visible(&texts, &app.detail.folded);
    let lines = visible.iter().map(|n| {
        let text = texts[*n];
        match fold::block(&texts, *n) {
            Some(end) if app.detail.folded.contains(n) => (
                format!("+ {text} {} {}", app.setup.glyphs.more(), end - n - 1),
                Role::Accent,
            ),
            Some(_) => (format!("- {text}"), Role::Text),
            None => (format!("  {text}"), Role::Text),
        }
    });
    let lines = lines.collect();
    (visible, lines)
}

/// As it stands on `width` columns: each line with its number among all.
pub fn on_screen(app: &App, width: usize) -> Vec<Shown> {
    let (visible, lines) = shown(app);
    let mut laid = laid(&lines, width);
    for line in &mut laid {
        line.of = visible.get(line.of).copied().unwrap_or(0);
    }
    laid
}

/// The cursor is in it.
pub fn has_cursor(app: &App) -> bool {
    app.pane == Pane::Inventory
        && app.detail.open
        && app.focus == Focus::Detail
        && app.detail.tab == Tab::Native
        && app.current_detail().is_some_and(|d| d.native.is_some())
}

/// Moves the cursor over the lines that are shown; false at their end.
pub fn step(app: &mut App, by: isize) -> bool {
    let (visible, _) = shown(app);
    let here = visible.partition_point(|n| *n < app.detail.line);
    let to = here
        .saturating_add_signed(by)
        .min(visible.len().saturating_sub(1));
    app.detail.line = visible.get(to).copied().unwrap_or(0);
    to != here
}

/// Puts the cursor on a line and opens what it is folded in.
pub fn show_line(app: &mut App, line: usize) {
    let texts = texts(app);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    app.detail
        .folded
        .retain(|n| *n >= line || fold::block(&texts, *n).is_none_or(|end| end <= line));
    app.detail.line = line.min(texts.len().saturating_sub(1));
}

/// Folds or opens what the cursor is in; false where nothing folds.
pub fn toggle(app: &mut App) -> bool {
    let texts = texts(app);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let Some(head) = fold::holder(&texts, app.detail.line) else {
        return false;
    };
    if !app.detail.folded.remove(&head) {
        app.detail.folded.insert(head);
    }
    app.detail.line = head;
    true
}

/// Opens all, or, where nothing is folded, folds all but the outermost; how many are folded then.
pub fn toggle_all(app: &mut App) -> usize {
    if !app.detail.folded.is_empty() {
        app.detail.folded.clear();
        return 0;
    }
    let texts = texts(app);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let holds: Vec<(usize, usize)> = (0..texts.len())
        .filter_map(|n| Some((n, fold::block(&texts, n)?)))
        .collect();
    // One that holds nearly everything would leave nothing to see.
    let whole = |(n, end): &&(usize, usize)| *n == 0 && *end + 1 >= texts.len();
    app.detail.folded = holds
        .iter()
        .filter(|block| !whole(block))
        .map(|(n, _)| *n)
        .collect();
    let visible = fold::visible(&texts, &app.detail.folded);
    let at = visible.partition_point(|n| *n <= app.detail.line);
    app.detail.line = visible.get(at.saturating_sub(1)).copied().unwrap_or(0);
    app.detail.folded.len()
}

/// Scrolls so that the cursor is on the screen.
pub fn keep_visible(app: &mut App) {
    if !has_cursor(app) {
        return;
    }
    let rows = on_screen(app, layout::detail_width(app));
    // The text may have become shorter, or folded over it.
    if let Some(last) = rows.iter().rev().find(|row| row.of <= app.detail.line) {
        app.detail.line = last.of;
    }
    let here = |row: &Shown| row.of == app.detail.line;
    let first = rows.iter().position(here).unwrap_or(0);
    let last = rows.iter().rposition(here).unwrap_or(0);
    let height = layout::detail_rows(app);
    app.detail.scroll = app
        .detail
        .scroll
        .max((last + 1).saturating_sub(height))
        .min(first);
}
