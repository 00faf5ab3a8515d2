//! Help, made from the keymap that holds where one is.

use super::super::app::App;
use super::super::text::Canvas;
use super::super::theme::Role;

/// Keys and what they do, section by section.
pub fn lines(app: &App) -> Vec<(String, Role)> {
    let mut out = Vec::new();
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
            out.push((format!("  {keys:<16} {help}"), Role::Text));
        }
    }
    out.push((String::new(), Role::Text));
    out.push(("Also".to_owned(), Role::Title));
    for line in [
        "  Ctrl-C           clears what is typed; twice within 1 s leaves",
        "  Shift-drag       selects text while the mouse is on; z leaves one pane on the screen",
        "  in a question    Tab moves, Enter presses, bracketed letters are upper case, Esc: nothing is done",
    ] {
        out.push((line.to_owned(), Role::Text));
    }
    out
}

pub(super) fn draw(app: &App, scroll: usize, canvas: &mut Canvas) {
    let lines = lines(app);
    let area = canvas.buf.area;
    let height = (lines.len() as u16 + 2).min(area.height);
    let inner = super::boxed(
        canvas,
        90,
        height,
        "Keys valid here · any other key closes",
        Role::Title,
    );
    let rows = usize::from(inner.height);
    for (n, (text, role)) in lines.iter().skip(scroll).take(rows).enumerate() {
        canvas.put(inner.x, inner.y + n as u16, inner.width, text, *role);
    }
    if scroll + rows < lines.len() && inner.width > 12 {
        let text = format!(" {} more below ", lines.len() - scroll - rows);
        canvas.put(inner.x, inner.bottom(), inner.width, &text, Role::Accent);
    }
}
