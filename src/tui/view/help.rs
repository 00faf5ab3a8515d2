//! Help, made from the keymap that holds where one is.

use super::super::app::App;
use super::super::search::{self, Place};
use super::super::text::{Canvas, wrap};
use super::super::theme::Role;
use crate::model::shown_width;

/// So wide is help at most.
const WIDTH: u16 = 90;

/// What no keymap has.
const ALSO: [(&str, &str); 3] = [
    ("Ctrl-C", "clears what is typed; twice within 1 s leaves"),
    (
        "Shift-drag",
        "selects text while the mouse is on; z leaves one pane on the screen",
    ),
    (
        "in a question",
        "Tab moves, Enter presses, bracketed letters are upper case, Esc: nothing is done",
    ),
];

/// Keys and what they do, section by section.
pub fn lines(app: &App) -> Vec<(String, Role)> {
    let mut out = Vec::new();
    let width = usize::from(WIDTH.min(app.setup.size.0).saturating_sub(4));
    let sections = app.sections();
    let all = app.setup.keymap.of(&sections);
    for section in &sections {
        let own: Vec<_> = all.iter().filter(|b| b.section == *section).collect();
        if own.is_empty() {
            continue;
        }
        let heading = match *section {
            "everywhere" => "Everywhere".to_owned(),
            "list" => "Moving".to_owned(),
            other => {
                let mut word = other.to_owned();
                if let Some(first) = word.get_mut(..1) {
                    first.make_ascii_uppercase();
                }
                word
            }
        };
        if !out.is_empty() {
            out.push((String::new(), Role::Text));
        }
        out.push((heading, Role::Title));
        let mut said: Vec<(String, String)> = Vec::new();
        for binding in own {
            let keys = binding.keys_text();
            let same = said
                .iter_mut()
                .find(|(_, run)| *run == binding.run && binding.help.is_empty());
            if let Some((text, _)) = same {
                *text = text.replacen('\u{1}', &format!(", {keys}\u{1}"), 1);
            } else {
                let help = if binding.help.is_empty() {
                    binding.run.trim_start_matches("ui ").to_owned()
                } else {
                    binding.help.clone()
                };
                said.push((format!("{keys}\u{1}{help}"), binding.run.clone()));
            }
        }
        for (text, _) in said {
            let (keys, help) = text.split_once('\u{1}').unwrap_or((&text, ""));
            push(&mut out, keys, help, width);
        }
    }
    out.push((String::new(), Role::Text));
    out.push(("Also".to_owned(), Role::Title));
    for (keys, says) in ALSO {
        push(&mut out, keys, says, width);
    }
    out
}

/// A key and what it does, which goes on below where it began.
fn push(out: &mut Vec<(String, Role)>, keys: &str, says: &str, width: usize) {
    let column = format!("  {keys:<16} ");
    // Where there is hardly any room nothing stands in columns.
    let (first, hang) = if shown_width(&column) * 2 > width {
        (format!("  {keys}  "), 4)
    } else {
        let hang = shown_width(&column);
        (column, hang)
    };
    let room = |used: usize| width.saturating_sub(used).max(1);
    let head = wrap(says, room(shown_width(&first)));
    let Some(head) = head.first() else { return };
    out.push((format!("{first}{head}"), Role::Text));
    let rest = says.get(head.len()..).unwrap_or_default().trim_start();
    if !rest.is_empty() {
        let lines = wrap(rest, room(hang)).into_iter();
        out.extend(lines.map(|line| (format!("{}{line}", " ".repeat(hang)), Role::Text)));
    }
}

/// Lines of help that are on the screen.
fn rows(app: &App, lines: usize) -> usize {
    let height = app.setup.size.1.min(lines as u16 + 2);
    usize::from(super::inside(height))
}

/// The last line that can be the first.
pub fn last(app: &App) -> usize {
    let lines = lines(app).len();
    lines.saturating_sub(rows(app, lines))
}

pub(super) fn draw(app: &App, scroll: usize, canvas: &mut Canvas) {
    let lines = lines(app);
    let area = canvas.buf.area;
    let height = (lines.len() as u16 + 2).min(area.height);
    let inner = super::boxed(
        canvas,
        WIDTH,
        height,
        "Keys valid here · / searches, any other key closes",
        Role::Title,
    );
    let rows = usize::from(inner.height);
    let wanted = search::wanted(app, Place::Help);
    for (n, (text, role)) in lines.iter().skip(scroll).take(rows).enumerate() {
        let style = canvas.style(*role);
        let y = inner.y + n as u16;
        canvas.put_found(inner.x, y, inner.width, text, style, wanted);
    }
    if scroll + rows < lines.len() && inner.width > 12 {
        let text = format!(" {} more below ", lines.len() - scroll - rows);
        canvas.put(inner.x, inner.bottom(), inner.width, &text, Role::Accent);
    }
}
