//! What is done with what is under the cursor: copy, act, fill in a form.

use crate::action::complete::Wanted;
use crate::model::{Action, GroupNoun, InstanceId, Selector};
use crate::tui::app::{Actions, App, Focus, Overlay, Pane};
use crate::tui::command::row_at;
use crate::tui::form::Form;
use crate::tui::listing;
use crate::tui::msg::Effect;
use crate::tui::reading::{Reading, want};
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
            "command" => app.in_shell(&format!("corral info {}", row.id)),
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
    let actions = Actions {
        title: targets_text(app),
        asked: number,
        support: None,
        row: 0,
        search: None,
        aim: keys::aim(app),
    };
    app.overlays.push(Overlay::Actions(actions));
    vec![Effect::Support(
        number,
        targets.iter().map(|row| row.id.clone()).collect(),
    )]
}

/// Opens the form of a command and asks for what its fields may become; nothing if there is no form.
pub(in crate::tui::update) fn form(app: &mut App, words: &[String]) -> Option<Vec<Effect>> {
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
            return Some(Vec::new());
        }
    };
    let row = row_at(&words).filter(|row| row.is_change())?;
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
    let effects = ask(app, &mut form);
    app.overlays.push(Overlay::Form(Box::new(form)));
    Some(effects)
}

/// Asks for what the fields of a form may become, as far as it is not known.
fn ask(app: &mut App, form: &mut Form) -> Vec<Effect> {
    let wanted: Vec<Wanted> = form.entries.iter().map(|e| form.wants(e)).collect();
    let readings = [
        (Wanted::Image, Reading::Images),
        (Wanted::Network, Reading::Networks),
        (Wanted::Pool, Reading::Pools),
    ];
    let asked = readings
        .into_iter()
        .filter(|(what, _)| wanted.contains(what));
    let mut effects: Vec<Effect> = asked.filter_map(|(_, r)| want(app, r)).collect();
    let parts = [Wanted::Disk, Wanted::Nic, Wanted::Snapshot];
    if let [one] = form.targets.as_slice()
        && let Ok(id) = one.parse::<InstanceId>()
        && parts.iter().any(|part| wanted.contains(part))
    {
        let number = app.number();
        form.asked = Some(number);
        let action = Action::new("info").on(Selector::id(&id));
        effects.push(Effect::Read(number, action));
    }
    effects
}
