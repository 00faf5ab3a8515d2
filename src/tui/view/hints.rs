//! The line of keys at the bottom, from the keymap.

use ratatui::layout::Rect;

use super::super::app::{App, Focus, Pane, Tab};
use super::super::text::Canvas;
use super::super::theme::Role;
use super::super::zone::Zone;
use crate::model::shown_width;

/// What a key runs, and its word.
type Hint = (&'static str, &'static str);

const HELP: Hint = ("ui help", "keys");
const BACK: Hint = ("ui escape", "back");
const HOME: Hint = ("ui close", "inventory");
const QUIT: Hint = ("ui close", "quit");

/// The most useful keys of where we are: only such as do something, the way out last.
fn wanted(app: &App) -> &'static [Hint] {
    match (app.pane, app.focus) {
        // The first screen: nothing is there yet.
        (Pane::Inventory, Focus::List) if app.fleet.instances.is_empty() => &[
            HELP,
            ("ui form create", "create"),
            ("ui go contexts", "contexts"),
            ("ui go doctor", "doctor"),
            ("ui command", "command"),
            QUIT,
        ],
        (Pane::Inventory, Focus::List) if app.inventory.rows.is_empty() => &[
            HELP,
            ("ui filter", "filter"),
            ("ui form create", "create"),
            ("ui command", "command"),
            BACK,
            QUIT,
        ],
        (Pane::Inventory, Focus::List) => &[
            HELP,
            ("ui filter", "filter"),
            ("ui open", "open"),
            ("start {ids}", "power"),
            ("ui form snapshot create {ids}", "snapshot"),
            ("ui form create", "create"),
            ("ui command", "command"),
            ("ui actions", "actions"),
            QUIT,
        ],
        (Pane::Inventory, Focus::Detail) if app.detail.tab == Tab::Snapshots => &[
            HELP,
            ("ui form snapshot create {id}", "new"),
            ("ui form snapshot restore {snapshot}", "restore"),
            ("snapshot delete {snapshot}", "delete"),
            ("ui tab", "tabs"),
            BACK,
        ],
        (Pane::Inventory, Focus::Detail) if app.detail.tab == Tab::Native => &[
            HELP,
            ("ui fold", "fold"),
            ("ui search", "search"),
            ("ui secrets", "secrets"),
            ("ui tab", "tabs"),
            ("ui zoom", "zoom"),
            BACK,
        ],
        (Pane::Answer, _) => &[
            HELP,
            ("ui open", "open"),
            ("ui search", "search"),
            BACK,
            HOME,
        ],
        (Pane::Inventory, Focus::Detail) => &[
            HELP,
            ("ui tab", "tabs"),
            ("start {id}", "power"),
            ("ui actions", "actions"),
            ("ui zoom", "zoom"),
            BACK,
        ],
        (Pane::Snapshots, _) => &[
            HELP,
            ("ui open", "open"),
            ("ui form snapshot create {id}", "new"),
            ("ui form snapshot restore {snapshot}", "restore"),
            ("snapshot delete {snapshot}", "delete"),
            BACK,
            HOME,
        ],
        (Pane::Tasks, _) => &[
            HELP,
            ("ui open", "log"),
            ("tasks cancel {task}", "cancel"),
            ("tasks retry {task}", "retry"),
            BACK,
        ],
        (Pane::Contexts, _) => &[
            HELP,
            ("ui open", "open"),
            ("context test {context}", "test"),
            ("ui form context add", "add"),
            ("context enable {context}", "enable"),
            ("context disable {context}", "disable"),
            ("context remove {context}", "remove"),
            BACK,
        ],
        (Pane::Doctor, _) => &[
            HELP,
            ("ui open", "open"),
            ("doctor --fix", "repair"),
            ("ui refresh", "check again"),
            BACK,
            HOME,
        ],
        (Pane::Hosts, _) => &[
            HELP,
            ("ui open", "open"),
            ("ui instances", "instances"),
            ("ui refresh", "refresh"),
            BACK,
            HOME,
        ],
        (Pane::Images, _) => &[
            HELP,
            ("ui open", "open"),
            ("ui form image pull", "pull"),
            ("image delete {image}", "delete"),
            BACK,
            HOME,
        ],
        _ => &[
            HELP,
            ("ui open", "open"),
            ("ui refresh", "refresh"),
            BACK,
            HOME,
        ],
    }
}

/// Draws as many as have room: the way out has, before the others.
pub(super) fn draw(app: &App, canvas: &mut Canvas, y: u16) {
    let sections = app.sections();
    let all: Vec<(String, &str)> = wanted(app)
        .iter()
        .filter_map(|(run, word)| {
            let keys = app.setup.keymap.key_of(&sections, run)?;
            // Of a menu the first key is enough; a key that is no menu does what it runs.
            Some(match (*word, keys.split_once(' ')) {
                ("power", Some((first, _))) => (first.to_owned(), *word),
                ("power", None) => (keys, "start"),
                _ => (keys, *word),
            })
        })
        .collect();
    let width = |(key, word): &(String, &str)| shown_width(key) + 1 + shown_width(word);
    let room = usize::from(canvas.buf.area.width.saturating_sub(1));
    let (Some(last), before) = (all.last(), all.len().saturating_sub(1)) else {
        return;
    };
    let mut left = room.saturating_sub(width(last));
    let fits = all.iter().take(before).take_while(|hint| {
        let needs = width(hint) + 2;
        let fits = needs <= left;
        left = left.saturating_sub(needs);
        fits
    });
    let mut x = 1;
    for (key, word) in fits.chain([last]) {
        let from = x;
        let rest = canvas.buf.area.width.saturating_sub(x);
        x += canvas.put(x, y, rest, key, Role::Accent) + 1;
        let rest = canvas.buf.area.width.saturating_sub(x);
        x += canvas.put(x, y, rest, word, Role::Muted);
        canvas.zone(Rect::new(from, y, x - from, 1), Zone::Press(key.clone()));
        x += 2;
    }
}
