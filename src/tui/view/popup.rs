//! Menus: the keys that may follow, the palette, all actions.

use ratatui::layout::Rect;

use super::super::app::{Actions, App, CommandLine};
use super::super::keymap::Found;
use super::super::layout;
use super::super::palette::{self, ActionRow};
use super::super::text::Canvas;
use super::super::theme::Role;
use super::super::zone::Zone;
use crate::model::shown_width;

/// What may follow the keys so far, with whom it would concern.
pub(super) fn keys(app: &App, canvas: &mut Canvas) {
    let sections = app.sections();
    let Found::Prefix(bindings) = app.setup.keymap.find(&sections, &app.keys) else {
        return;
    };
    let mut title = app.setup.keymap.title(&app.keys).to_owned();
    let acts = |run: &str| run.contains("{id}") || run.contains("{ids}");
    if bindings.iter().any(|b| acts(&b.run)) {
        title = format!("{title}: {}", super::super::update::targets(app));
    }
    let rows: Vec<(String, String)> = bindings
        .iter()
        .map(|b| {
            let rest: Vec<String> = b.keys[app.keys.len()..]
                .iter()
                .map(ToString::to_string)
                .collect();
            let help = if b.help.is_empty() {
                b.run.clone()
            } else {
                b.help.clone()
            };
            (rest.join(" "), help)
        })
        .collect();
    // The headless command of each, where all of them have room.
    let commands = bindings.iter().map(|b| {
        let line = super::super::update::headless(app, &b.run);
        line.map_or_else(String::new, |line| format!("= {line}"))
    });
    let commands: Vec<String> = commands.collect();
    let says = rows
        .iter()
        .map(|(k, h)| shown_width(k).max(2) + shown_width(h));
    let says = says.max().unwrap_or(0) + 1;
    let widest = commands.iter().map(|c| shown_width(c)).max().unwrap_or(0);
    let fits = widest > 0 && says + widest + 8 <= usize::from(canvas.buf.area.width);
    let width = says + 7 + if fits { widest + 2 } else { 0 };
    let width = width.max(shown_width(&title) + 8).max(24) as u16;
    let screen = canvas.buf.area;
    let height = (rows.len() as u16 + 2).min(screen.height);
    let below = layout::bottom(screen.height).min(screen.height - height);
    let width = width.min(screen.width);
    let area = Rect::new(
        screen.width - width,
        screen.height - height - below,
        width,
        height,
    );
    let inner = super::frame(canvas, area, &title, Role::Title);
    for (n, (key, help)) in rows.iter().enumerate().take(usize::from(inner.height)) {
        let y = inner.y + n as u16;
        let line = Rect::new(inner.x, y, inner.width, 1);
        canvas.zone(line, Zone::Press(key.clone()));
        let used = canvas.put(inner.x, y, inner.width, key, Role::Accent);
        canvas.put(
            inner.x + used.max(2) + 1,
            y,
            inner.width.saturating_sub(used.max(2) + 1),
            help,
            Role::Text,
        );
        if fits {
            let x = inner.x + says as u16 + 2;
            let room = inner.right().saturating_sub(x);
            canvas.put(x, y, room, &commands[n], Role::Muted);
        }
    }
}

/// A list to choose from above what is typed, each with what it means.
pub(super) fn choices(
    canvas: &mut Canvas,
    below: u16,
    most: u16,
    title: &str,
    words: &[(String, String)],
    chosen: Option<usize>,
) {
    let screen = canvas.buf.area;
    let rows = (words.len() as u16).min(most);
    if rows == 0 {
        return;
    }
    let top = screen.height - below - rows - 1;
    let area = Rect::new(0, top, screen.width, rows + 1);
    let text = canvas.style(Role::Text);
    canvas.fill(area, text);
    canvas.zone(area, Zone::Over);
    canvas.rule(Rect { height: 1, ..area });
    let room = area.width.saturating_sub(4);
    canvas.put(2, top, room, &format!(" {title} "), Role::Title);
    let widest = words.iter().map(|(word, _)| shown_width(word)).max();
    let column = (widest.unwrap_or(0) as u16 + 3).min(screen.width / 2);
    let rows = usize::from(rows);
    let first = (chosen.unwrap_or(0) + 1).saturating_sub(rows);
    for (n, (word, says)) in words.iter().enumerate().skip(first).take(rows) {
        let y = top + 1 + (n - first) as u16;
        let here = chosen == Some(n);
        let style = |role| canvas.style(if here { Role::Selected } else { role });
        let (plain, muted) = (style(Role::Text), style(Role::Muted));
        canvas.fill(Rect::new(0, y, screen.width, 1), plain);
        canvas.put_styled(1, y, column.saturating_sub(2), word, plain);
        let room = screen.width.saturating_sub(column + 1);
        canvas.put_styled(column, y, room, says, muted);
    }
}

/// What the command line offers, above it.
pub(super) fn palette(app: &App, command: &CommandLine, canvas: &mut Canvas) {
    let candidates = palette::candidates(app);
    let screen = canvas.buf.area;
    let below = layout::bottom(screen.height);
    let room = screen.height.saturating_sub(below + 2);
    let height = (candidates.len() as u16 + 1).min(14).min(room);
    if height < 2 {
        return;
    }
    let area = Rect::new(0, screen.height - below - height, screen.width, height);
    let text = canvas.style(Role::Text);
    canvas.fill(area, text);
    canvas.rule(Rect { height: 1, ..area });
    let title = if command.search.is_some() {
        " Entered before: Ctrl-R goes on, Enter takes, Esc leaves "
    } else {
        " Commands: Down chooses, Tab completes, Enter runs, Ctrl-R: entered before "
    };
    canvas.put(2, area.y, area.width.saturating_sub(4), title, Role::Title);
    let rows = usize::from(height - 1);
    let chosen = command.chosen.unwrap_or(0);
    let top = (chosen + 1).saturating_sub(rows);
    let column = 34.min(screen.width / 2);
    for (n, candidate) in candidates.iter().enumerate().skip(top).take(rows) {
        let y = area.y + 1 + (n - top) as u16;
        let here = command.chosen == Some(n);
        let style = canvas.style(if here { Role::Selected } else { Role::Text });
        canvas.fill(Rect::new(0, y, screen.width, 1), style);
        canvas.zone(Rect::new(0, y, screen.width, 1), Zone::Pick(n));
        canvas.put_styled(1, y, column.saturating_sub(2), &candidate.title, style);
        let keys = shown_width(&candidate.keys) as u16;
        let room = screen.width.saturating_sub(column + keys + 2);
        canvas.put_styled(column, y, room, &candidate.says, style);
        let style = if here {
            style
        } else {
            canvas.style(Role::Accent)
        };
        canvas.put_styled(
            screen.width.saturating_sub(keys + 1),
            y,
            keys,
            &candidate.keys,
            style,
        );
    }
}

/// What stands left and right of the text in a box.
const MARGIN: u16 = 4;

/// What an action does, or why it cannot be done; where there is not room for both, what is special here.
fn says(row: &ActionRow, room: Option<usize>) -> String {
    match (&row.not, &row.note) {
        (Some(why), _) => format!("no: {why}"),
        (None, Some(note)) => {
            let both = format!("{} ({note})", row.says);
            match room {
                Some(room) if shown_width(&both) > room => note.clone(),
                _ => both,
            }
        }
        (None, None) => row.says.to_owned(),
    }
}

/// All actions; what cannot be done says why.
pub(super) fn actions(app: &App, actions: &Actions, canvas: &mut Canvas) {
    let rows = palette::actions(app);
    let title = match &actions.search {
        Some(line) => format!("Actions / {}_", line.text()),
        None => format!("Actions: {}", actions.title),
    };
    let height = rows.len() as u16 + 3;
    let column = rows.iter().map(|row| shown_width(&row.title)).max();
    let column = column.unwrap_or(0) as u16 + 3;
    let widest = rows.iter().map(|row| shown_width(&says(row, None))).max();
    let width = (column + widest.unwrap_or(0) as u16 + MARGIN).max(76);
    let inner = super::boxed(canvas, width, height.max(4), &title, Role::Title);
    if rows.is_empty() && inner.height > 0 {
        let none = "nothing has that in it: Esc shows all";
        canvas.put(inner.x, inner.y, inner.width, none, Role::Muted);
    }
    // What an action does says more than the end of a long title.
    let column = if width > inner.width + MARGIN {
        column.min(23).min(inner.width / 2)
    } else {
        column
    };
    let room = inner.width.saturating_sub(column);
    // Below all stands the headless command of what is chosen.
    let foot = u16::from(inner.height > 2);
    let visible = usize::from(inner.height - foot);
    if foot > 0
        && let Some(row) = rows.get(actions.row)
        && let Some(command) = super::super::update::headless(app, &row.run)
    {
        let line = format!("= {command}  (y copies)");
        let y = inner.bottom() - 1;
        canvas.put(inner.x, y, inner.width, &line, Role::Accent);
    }
    let top = (actions.row + 1).saturating_sub(visible);
    for (n, row) in rows.iter().enumerate().skip(top).take(visible) {
        let y = inner.y + (n - top) as u16;
        let here = n == actions.row;
        let dim = if row.not.is_some() {
            Role::Muted
        } else {
            Role::Text
        };
        let style = canvas.style(if here { Role::Selected } else { dim });
        canvas.fill(Rect::new(inner.x, y, inner.width, 1), style);
        canvas.zone(Rect::new(inner.x, y, inner.width, 1), Zone::Pick(n));
        let sign = if row.not.is_some() { "x" } else { " " };
        canvas.put_styled(inner.x, y, 1, sign, style);
        let title = column.saturating_sub(3);
        canvas.put_styled(inner.x + 2, y, title, &row.title, style);
        let says = says(row, Some(usize::from(room)));
        canvas.put_styled(inner.x + column, y, room, &says, style);
    }
    let below = rows.len().saturating_sub(top + visible);
    if actions.support.is_some() && below > 0 {
        let more = format!(" {below} more: Down, End ");
        canvas.put(inner.x, inner.bottom(), inner.width, &more, Role::Muted);
    }
    if actions.support.is_none() && inner.height > 1 {
        canvas.put(
            inner.x,
            inner.bottom(),
            inner.width,
            " asking what is possible … ",
            Role::Busy,
        );
    }
}
