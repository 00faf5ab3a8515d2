//! Keys, before they mean anything.

use super::super::app::{App, Overlay, Pane};
use super::super::command::{self, Command, Under};
use super::super::input::{Code, Key};
use super::super::keymap::Found;
use super::super::msg::Effect;
use super::super::since::Aim;
use super::{changes, front, overlays, slide};
use crate::model::{Error, InstanceId, SnapshotRef};

/// Twice within so many milliseconds leaves.
const TWICE_MS: u64 = 1000;

pub(super) fn key(app: &mut App, key: Key) -> Vec<Effect> {
    if key == Key::ctrl('c') {
        return interrupt(app);
    }
    app.interrupt = None;
    if !app.overlays.is_empty() {
        return overlays::key(app, key);
    }
    // A question is on its way: what would answer it was typed ahead and must not do anything else
    // meanwhile. Looking around, switching and leaving go on.
    if let Some(planning) = &app.planning {
        if key.code == Code::Esc {
            app.planning = None;
            app.say("given up; nothing was done");
            return Vec::new();
        }
        if matches!(key.code, Code::Char(c) if c.is_uppercase()) {
            let verb = planning.action.verb.clone();
            app.say(format!("planning: corral {verb} … Esc gives it up"));
            return Vec::new();
        }
    }
    // What was said is read by now; an effect of this key may say something new.
    app.notice = None;
    let sections = app.sections();
    let mut keys = app.keys.clone();
    keys.push(key);
    if key.code == Code::Esc && keys.len() > 1 {
        app.keys.clear();
        return Vec::new();
    }
    let keymap = &app.setup.keymap;
    match keymap.find(&sections, &keys) {
        Found::Run(binding) => {
            let run = binding.run.clone();
            let is_sequence = !app.keys.is_empty();
            app.keys.clear();
            if let Some(why) = slide::holds(app, &run) {
                app.complain(&Error::conflict(why));
                return Vec::new();
            }
            if is_sequence {
                let aim = std::mem::take(&mut app.aim);
                return aimed(app, &run, &aim);
            }
            line(app, &run)
        }
        Found::Prefix(_) => {
            if app.keys.is_empty() {
                app.aim = aim(app);
            }
            app.keys = keys;
            Vec::new()
        }
        Found::Nothing => {
            let text: Vec<String> = keys.iter().map(Key::to_string).collect();
            app.keys.clear();
            app.say(format!(
                "{} does nothing here · ? shows keys",
                text.join(" ")
            ));
            Vec::new()
        }
    }
}

/// Ctrl-C clears first; twice asks to leave.
fn interrupt(app: &mut App) -> Vec<Effect> {
    if !app.keys.is_empty() {
        app.keys.clear();
        return Vec::new();
    }
    if !app.overlays.is_empty() {
        return overlays::interrupt(app);
    }
    let again = app
        .interrupt
        .is_some_and(|at| app.ms.saturating_sub(at) <= TWICE_MS);
    if again {
        return front::quit(app);
    }
    app.interrupt = Some(app.ms);
    app.say("Ctrl-C again within 1 s leaves; q leaves too");
    Vec::new()
}

/// What stands for `{…}` where the cursor is.
pub(super) fn under(app: &App) -> Under {
    let mut under = Under::default();
    let on = |pane: Pane| app.pane == pane;
    let key = app.cursors.get(&app.pane).and_then(|c| c.key.clone());
    if on(Pane::Inventory) {
        under.id = app.inventory.selected().map(|row| row.id.to_string());
        under.ids = app
            .inventory
            .targets()
            .iter()
            .map(|row| row.id.to_string())
            .collect();
        under.context = app.inventory.selected().map(|row| row.context.clone());
        under.snapshot = snapshot(app);
    } else if on(Pane::Tasks) {
        under.task = key;
    } else if on(Pane::Contexts) {
        under.context = key;
    } else if on(Pane::Images) {
        under.image = key;
    } else if on(Pane::Snapshots) {
        let key = key.unwrap_or_default();
        let snapshot = key.parse::<SnapshotRef>().ok();
        let id = snapshot.as_ref().map(|s| s.instance.to_string());
        under.id = Some(id.unwrap_or(key)).filter(|id| !id.is_empty());
        under.ids = under.id.iter().cloned().collect();
        under.snapshot = snapshot.map(|s| s.to_string());
    } else if on(Pane::Problems)
        && let Some(id) = key.and_then(|k| k.parse::<InstanceId>().ok())
    {
        under.id = Some(id.to_string());
        under.ids = vec![id.to_string()];
    }
    under
}

/// The headless command of a key's line, where it has one: what only the view does has none. A form's is
/// the command that it asks about.
pub(super) fn headless(app: &App, run: &str) -> Option<String> {
    let run = run.strip_prefix("ui form ").unwrap_or(run);
    if run.starts_with("ui ") {
        return None;
    }
    let words = command::words(run, &under(app)).ok()?;
    command::row_at(&words)?;
    let words: Vec<String> = words
        .iter()
        .map(|w| crate::action::grammar::quote(w))
        .collect();
    Some(app.in_shell(&format!("corral {}", words.join(" "))))
}

/// The snapshot under the cursor, as `ID@NAME`.
fn snapshot(app: &App) -> Option<String> {
    let detail = app.current_detail()?;
    let tree = super::super::tree::snapshots(&detail.snapshots);
    let (_, snapshot) = tree.get(app.detail.snapshot)?;
    let reference = SnapshotRef {
        instance: snapshot.instance.clone(),
        name: snapshot.name.clone(),
    };
    Some(reference.to_string())
}

/// What a menu or a line is opened for.
pub(super) fn aim(app: &App) -> Aim {
    Aim::at(app, under(app))
}

/// Carries out a line that was begun for something: never on something else that has come there since.
pub(super) fn aimed(app: &mut App, text: &str, aim: &Aim) -> Vec<Effect> {
    let missed = text
        .contains('{')
        .then(|| aim.missed(app, under(app)))
        .flatten();
    match missed {
        Some(why) => {
            app.complain(&Error::conflict(why));
            Vec::new()
        }
        None => line(app, text),
    }
}

/// Carries out a command line of a key or of `:`.
pub(super) fn line(app: &mut App, text: &str) -> Vec<Effect> {
    let understood = command::words(text, &under(app)).and_then(|words| {
        let line = words
            .iter()
            .map(|w| crate::action::grammar::quote(w))
            .collect::<Vec<_>>()
            .join(" ");
        command::understand(words).map(|command| (command, line))
    });
    match understood {
        Ok((Command::Front(word, rest), _)) => front::run(app, &word, &rest),
        Ok((Command::Action(invocation), line)) => changes::carry_out(app, *invocation, &line),
        Ok((Command::Show(help), line)) => {
            front::show(app, Pane::Answer);
            app.answer = super::super::app::Answer {
                title: line,
                lines: help.lines().map(str::to_owned).collect(),
                follows: None,
                ..Default::default()
            };
            Vec::new()
        }
        Err(error) => {
            // A missing argument opens the form instead of an error.
            let words = command::words(text, &under(app)).unwrap_or_default();
            if error.message.contains("required")
                && let Some(effects) = front::form(app, &words)
            {
                return effects;
            }
            if let Some(Overlay::Command(line)) = app.overlays.last_mut() {
                line.error = Some(super::super::answer::error_line(&error));
            } else {
                app.complain(&error);
            }
            Vec::new()
        }
    }
}
