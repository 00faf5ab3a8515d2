//! Keys of the command line: completion, earlier lines, and what is wrong before it is entered.

use super::super::app::{App, CommandLine, Overlay};
use super::super::completion::{self, fault};
use super::super::edit::Line;
use super::super::input::{Code, Key};
use super::super::msg::Effect;
use super::super::palette;
use super::keys;
use crate::action::lines::{may_be_kept, push};

pub(super) fn key(app: &mut App, key: Key) -> Vec<Effect> {
    if key == Key::ctrl('r') {
        search(app);
        return Vec::new();
    }
    let Some(command) = open(app) else {
        return Vec::new();
    };
    if command.search.is_some() {
        in_search(app, key);
        return Vec::new();
    }
    match key.code {
        Code::Esc => {
            app.overlays.pop();
        }
        Code::Down if command.chosen.is_none() && command.recalled.is_some() => recall(app, false),
        Code::Down => choose(app, 1),
        Code::Up if command.chosen.is_some() => choose(app, -1),
        Code::Up => recall(app, true),
        Code::Tab => complete(app),
        Code::Enter => return enter(app),
        Code::Backspace if command.line.text().is_empty() => {
            app.overlays.pop();
        }
        _ => {
            if command.line.key(key) {
                typed(app);
            }
        }
    }
    Vec::new()
}

pub(super) fn paste(app: &mut App, text: &str) {
    if let Some(command) = open(app) {
        command.line.insert(text);
        typed(app);
    }
}

/// Ctrl-C: false when there was nothing to clear.
pub(super) fn clear(app: &mut App) -> bool {
    let Some(command) = open(app) else {
        return false;
    };
    let had = !command.line.text().is_empty() || command.search.is_some();
    *command = CommandLine {
        aim: std::mem::take(&mut command.aim),
        ..CommandLine::default()
    };
    had
}

fn open(app: &mut App) -> Option<&mut CommandLine> {
    match app.overlays.last_mut() {
        Some(Overlay::Command(command)) => Some(command),
        _ => None,
    }
}

/// The line is another one: what was said of it holds no longer.
fn typed(app: &mut App) {
    let under = keys::under(app);
    let Some(Overlay::Command(command)) = app.overlays.last() else {
        return;
    };
    let searching = command.search.is_some();
    let fault = (!searching)
        .then(|| fault(app, command.line.text(), &under))
        .flatten();
    if let Some(command) = open(app) {
        command.chosen = None;
        command.error = None;
        command.recalled = None;
        command.fault = fault;
    }
}

/// The next row of what is offered, or the one before; before the first is none.
fn choose(app: &mut App, by: isize) {
    let last = palette::candidates(app).len().checked_sub(1);
    if let Some(command) = open(app) {
        command.chosen = match (command.chosen, by) {
            (None, _) => last.map(|_| 0),
            (Some(n), 1..) => last.map(|last| (n + 1).min(last)),
            (Some(n), _) => n.checked_sub(1),
        };
    }
}

/// The earlier line before that begins like what is typed; or the later one, and in the end what was typed.
fn recall(app: &mut App, back: bool) {
    let entered = std::mem::take(&mut app.entered);
    if let Some(command) = open(app) {
        let (begin, at) = match command.recalled.take() {
            Some((begin, at)) => (begin, Some(at)),
            None => (command.line.text().to_owned(), None),
        };
        let fits = |n: &usize| {
            entered
                .get(*n)
                .is_some_and(|line| line.starts_with(&begin) && *line != begin)
        };
        let next = if back {
            (0..at.unwrap_or(entered.len())).rev().find(fits)
        } else {
            at.and_then(|at| (at + 1..entered.len()).find(fits))
        };
        match (next, at) {
            (Some(n), _) => {
                command.line = Line::new(&entered[n]);
                command.recalled = Some((begin, n));
            }
            // The first of all stays; after the last comes what was typed.
            (None, Some(at)) if back => command.recalled = Some((begin, at)),
            (None, Some(_)) => command.line = Line::new(&begin),
            (None, None) => {}
        }
        command.error = None;
        command.fault = None;
    }
    app.entered = entered;
}

/// Ctrl-R: earlier lines with what is typed in them; again: the next of them.
fn search(app: &mut App) {
    let none = app.entered.is_empty();
    let Some(command) = open(app) else {
        return;
    };
    if command.search.is_some() {
        choose(app, 1);
        return;
    }
    if none {
        app.say("nothing was entered yet");
        return;
    }
    command.search = Some(command.line.text().to_owned());
    typed(app);
    choose(app, 1);
}

/// Keys while earlier lines are looked through. Enter only takes the line: it is run by another.
fn in_search(app: &mut App, key: Key) {
    let pick = || {
        let found = palette::candidates(app);
        let Some(Overlay::Command(command)) = app.overlays.last() else {
            return None;
        };
        let line = found.get(command.chosen.unwrap_or(0))?;
        Some(line.completed.clone())
    };
    match key.code {
        Code::Up => choose(app, -1),
        Code::Down => choose(app, 1),
        Code::Enter | Code::Tab | Code::Right => {
            let picked = pick();
            if let Some(command) = open(app) {
                command.search = None;
                if let Some(line) = picked {
                    command.line = Line::new(&line);
                }
            }
            typed(app);
        }
        Code::Esc => {
            if let Some(command) = open(app) {
                let before = command.search.take().unwrap_or_default();
                command.line = Line::new(&before);
            }
            typed(app);
        }
        _ => {
            if open(app).is_some_and(|command| command.line.key(key)) {
                typed(app);
                choose(app, 1);
            }
        }
    }
}

/// Puts in what is chosen, or what comes first; of words as much as they have in common, if that is more.
fn complete(app: &mut App) {
    let found = palette::candidates(app);
    let Some(Overlay::Command(command)) = app.overlays.last() else {
        return;
    };
    let before = command.line.before();
    let certain = completion::common(app, before);
    let several = || completion::begin_alike(app, before) > 1;
    let text = match command.chosen {
        Some(n) => found.get(n).map(|c| c.completed.clone()),
        None if certain.is_some() => certain,
        // Which of them is for the user to say.
        None if several() => {
            choose(app, 1);
            return;
        }
        None => found.first().map(|c| c.completed.clone()),
    };
    let Some(text) = text else {
        app.say("nothing completes that");
        return;
    };
    if let Some(command) = open(app) {
        command.line.replace_before(0, &text);
    }
    typed(app);
}

fn enter(app: &mut App) -> Vec<Effect> {
    let found = palette::candidates(app);
    let Some(command) = open(app) else {
        return Vec::new();
    };
    let line = command.line.text().trim().to_owned();
    let picked = command.chosen.and_then(|n| found.get(n));
    let text = match picked {
        // A flag or a group of verbs is no line yet.
        Some(candidate) if candidate.run.is_empty() => {
            complete(app);
            return Vec::new();
        }
        Some(candidate) => candidate.run.clone(),
        None if line.is_empty() => {
            app.overlays.pop();
            return Vec::new();
        }
        None => line,
    };
    command.error = None;
    command.fault = None;
    let aim = command.aim.clone();
    let mut effects = keys::aimed(app, &text, &aim);
    let wrong = app
        .overlays
        .iter()
        .any(|o| matches!(o, Overlay::Command(c) if c.error.is_some()));
    if wrong {
        return effects;
    }
    app.overlays.retain(|o| !matches!(o, Overlay::Command(_)));
    if app.entered.last() != Some(&text) && may_be_kept(&text) {
        effects.push(Effect::Entered(text.clone()));
        push(&mut app.entered, text);
    }
    effects
}
