//! What is done with what is under the cursor: copy, act, fill in a form.

use crate::model::{GroupNoun, InstanceId};
use crate::tui::app::{Actions, App, Focus, Overlay, Pane};
use crate::tui::command::row_at;
use crate::tui::form::Form;
use crate::tui::listing;
use crate::tui::msg::Effect;
use crate::tui::update::changes;
use crate::tui::update::keys;

pub(super) fn copy(app: &mut App, what: &str) -> Vec<Effect> {
    let text = match (app.pane, what) {
        (Pane::History, "command") => {
            let row = app.cursors.get(&Pane::History).map_or(0, |c| c.row);
            listing::history_command(app, row)
        }
        (Pane::Inventory, _) => app.inventory.selected().map(|row| match what {
            "id" => row.id.to_string(),
            "name" => row.name.clone(),
            "address" => row
                .addresses
                .iter()
                .flatten()
                .map(|a| a.ip.clone())
                .next()
                .unwrap_or_default(),
            "json" => match app.current_detail() {
                Some(detail) => serde_json::to_string_pretty(detail).unwrap_or_default(),
                None => serde_json::to_string_pretty(row.as_ref()).unwrap_or_default(),
            },
            "command" => format!("corral info {}", row.id),
            _ => String::new(),
        }),
        _ => None,
    };
    match text {
        None => app.say("nothing is under the cursor"),
        Some(text) if text.is_empty() => app.say(format!("no {what} is known")),
        Some(text) => return vec![send(app, what, text)],
    }
    Vec::new()
}

/// Sends a text to the clipboard and says so: whether it arrived cannot be known.
pub(in crate::tui::update) fn send(app: &mut App, what: &str, text: String) -> Effect {
    app.say(format!(
        "{} ({} bytes) sent to the terminal's clipboard; empty paste? tmux: set -s set-clipboard on",
        what,
        text.len()
    ));
    Effect::Copy(text)
}

/// Whom an action would concern, in words.
pub(in crate::tui::update) fn targets_text(app: &App) -> String {
    let targets = match app.focus {
        Focus::Detail => app.inventory.selected().cloned().into_iter().collect(),
        Focus::List => app.inventory.targets(),
    };
    match targets.as_slice() {
        [] => "nothing".to_owned(),
        [one] => one.id.to_string(),
        many => format!("{} marked", many.len()),
    }
}

pub(super) fn actions(app: &mut App) -> Vec<Effect> {
    let targets = match app.focus {
        Focus::Detail => app.inventory.selected().cloned().into_iter().collect(),
        Focus::List => app.inventory.targets(),
    };
    if targets.is_empty() {
        app.say("no instance is under the cursor");
        return Vec::new();
    }
    let number = app.number();
    app.overlays.push(Overlay::Actions(Actions {
        title: targets_text(app),
        asked: number,
        support: None,
        row: 0,
    }));
    vec![Effect::Support(
        number,
        targets.iter().map(|row| row.id.clone()).collect(),
    )]
}

/// Opens the form of a command; false if there is none.
pub(in crate::tui::update) fn form(app: &mut App, words: &[String]) -> bool {
    let filled = crate::tui::command::words(
        &words
            .iter()
            .map(|w| crate::action::grammar::quote(w))
            .collect::<Vec<_>>()
            .join(" "),
        &keys::under(app),
    );
    let words = match filled {
        Ok(words) => words,
        Err(error) => {
            app.complain(&error);
            return true;
        }
    };
    let Some(row) = row_at(&words) else {
        return false;
    };
    if !row.is_change() {
        return false;
    }
    let name_words = row.name.split(' ').count();
    let targets: Vec<String> = words
        .iter()
        .skip(name_words)
        .filter(|w| !w.starts_with('-'))
        .cloned()
        .collect();
    let title = match (row.noun, targets.as_slice()) {
        (GroupNoun::NewInstance | GroupNoun::Source, _) => match &app.inventory.context {
            Some(context) => format!("in {context}"),
            None => match &app.setup.beside.default {
                Some(context) => format!("in {context} (default)"),
                None => "in the default context".to_owned(),
            },
        },
        (_, []) => String::new(),
        (_, [one]) => one.clone(),
        (_, many) => format!("{} instances", many.len()),
    };
    let mut form = Form::new(row, targets, title);
    if matches!(row.noun, GroupNoun::NewInstance | GroupNoun::Source)
        && let Some(context) = &app.inventory.context
    {
        form.extra = vec![format!("--context={context}")];
    }
    if let [one] = form.targets.as_slice()
        && let Ok(id) = one.parse::<InstanceId>()
        && let Some(on) = app.fleet.instances.iter().find(|row| row.id == id)
    {
        form.of(on);
    }
    form.hidden = changes::hidden_for(app, row);
    app.overlays.push(Overlay::Form(Box::new(form)));
    true
}
