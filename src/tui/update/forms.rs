//! Keys of a form: from field to field, what a field may become, and what is wrong with it.

use super::super::app::{App, Overlay, Planning};
use super::super::form::{self, Form};
use super::super::input::{Code, Key};
use super::super::msg::{Effect, Typed};
use super::{changes, front};
use crate::action::grammar::{self, Globals, ParseFailure};
use crate::model::{Error, FieldKind};

fn open(app: &mut App) -> Option<&mut Form> {
    match app.overlays.last_mut() {
        Some(Overlay::Form(form)) => Some(form),
        _ => None,
    }
}

fn close(app: &mut App) {
    app.overlays.pop();
    app.planning = None;
}

pub(super) fn key(app: &mut App, key: Key) -> Vec<Effect> {
    let offers = match app.overlays.last() {
        Some(Overlay::Form(form)) => form::offers(app, form),
        _ => return Vec::new(),
    };
    let Some(form) = open(app) else {
        return Vec::new();
    };
    form.note_fresh();
    form.error = None;
    if key.code != Code::Esc {
        form.dropping = false;
    }
    if form.chosen.is_some() && in_list(form, key, &offers) {
        return Vec::new();
    }
    let stops = form.entries.len() + 2;
    // The name of a file is one line.
    let is_name = |entry: &form::Entry| {
        entry.field.is_some_and(|field| field.typed) && !entry.is_text_of_file()
    };
    let entry = form.entry();
    let is_area = entry.is_some_and(|entry| entry.line.is_area() && !is_name(entry));
    // Up and Down leave a text where it ends; Enter is a line of it.
    if is_area
        && matches!(key.code, Code::Enter | Code::Up | Code::Down)
        && form.entry_mut().is_some_and(|entry| entry.line.key(key))
    {
        return Vec::new();
    }
    match key.code {
        Code::Esc if form.asks_to_drop() => {}
        Code::Esc => close(app),
        Code::Tab | Code::Down => form.focus = (form.focus + 1) % stops,
        Code::BackTab | Code::Up => form.focus = (form.focus + stops - 1) % stops,
        Code::Enter if form.on_cancel() => close(app),
        Code::Enter if form.on_go() => return submit(app),
        // To the button as soon as nothing is missing; Tab goes through the rest.
        Code::Enter if form.enter_ends() => form.focus = stops - 1,
        Code::Enter => form.focus += 1,
        Code::Left | Code::Right if form.on_cancel() || form.on_go() => {
            form.focus = if form.on_cancel() {
                stops - 1
            } else {
                stops - 2
            };
        }
        Code::Char('y') if form.on_cancel() || form.on_go() => {
            let command = form.command();
            let command = app.in_shell(&command);
            return vec![front::send(app, "the command", command)];
        }
        _ => in_field(form, key, !offers.is_empty()),
    }
    Vec::new()
}

fn in_field(form: &mut Form, key: Key, offered: bool) {
    let Some(entry) = form.entry_mut() else {
        return;
    };
    match entry.kind {
        FieldKind::Flag => {
            if matches!(key.code, Code::Char(' ') | Code::Left | Code::Right) {
                entry.on = !entry.on;
            }
        }
        FieldKind::Choice(words)
            if matches!(key.code, Code::Left | Code::Right | Code::Char(' ')) =>
        {
            let now = words.iter().position(|w| *w == entry.line.text());
            let next = match (now, key.code) {
                (None, Code::Left) => words.len().checked_sub(1),
                (None, _) => Some(0),
                (Some(n), Code::Left) => n.checked_sub(1),
                (Some(n), _) => Some(n + 1).filter(|n| *n < words.len()),
            };
            entry
                .line
                .set(next.and_then(|n| words.get(n)).unwrap_or(&""));
        }
        _ if key.code == Code::Right && offered && entry.line.after().is_empty() => {
            form.chosen = Some(0);
        }
        _ => {
            entry.line.key(key);
        }
    }
}

/// Keys while something of a field's list is chosen; false for what is the field's own.
fn in_list(form: &mut Form, key: Key, offers: &[(String, String)]) -> bool {
    let last = offers.len().saturating_sub(1);
    let at = form.chosen.take().unwrap_or(0).min(last);
    match key.code {
        Code::Down => form.chosen = Some((at + 1).min(last)),
        Code::Up => form.chosen = at.checked_sub(1),
        Code::Esc | Code::Left => {}
        Code::Enter | Code::Right | Code::Tab => {
            if let Some(((word, _), entry)) = offers.get(at).zip(form.entry_mut()) {
                entry.line.set(word);
            }
        }
        _ => return false,
    }
    true
}

/// What was typed for a field is in a file, or could not be put there.
pub(super) fn kept(
    app: &mut App,
    request: u64,
    result: Result<(String, String), Error>,
) -> Vec<Effect> {
    let field = open(app).and_then(|form| form.keeping.take_if(|(number, _)| *number == request));
    let (Some((_, n)), Some(form)) = (field, open(app)) else {
        // The form was given up meanwhile.
        let file = result.into_iter().map(|(_, file)| file);
        return file.map(Effect::ForgetText).collect();
    };
    match result {
        Ok(kept) => {
            app.typed.push(kept.1.clone());
            let Some(form) = open(app) else {
                return Vec::new();
            };
            if let Some(entry) = form.entries.get_mut(n) {
                entry.kept = Some(kept);
            }
            submit(app)
        }
        Err(error) => {
            form.focus = n;
            form.error = Some(super::super::answer::error_line(&error));
            Vec::new()
        }
    }
}

/// Plans what the form says; what is missing or wrong is gone to.
fn submit(app: &mut App) -> Vec<Effect> {
    let Some(form) = open(app) else {
        return Vec::new();
    };
    let missing = form.entries.iter().position(form::Entry::is_missing);
    if let Some(at) = missing {
        form.focus = at;
        form.error = Some(format!("{} is missing", form.entries[at].name));
        return Vec::new();
    }
    let wrong = form.entries.iter().enumerate();
    let wrong = wrong
        .filter(|(_, entry)| !entry.positional)
        .find_map(|(n, entry)| Some((n, entry.fault(false)?)));
    if let Some((at, fault)) = wrong {
        form.focus = at;
        form.error = Some(format!("{}: {fault}", form.entries[at].name));
        return Vec::new();
    }
    let unkept = form
        .entries
        .iter()
        .enumerate()
        .find_map(|(n, entry)| Some((n, entry.name, entry.unkept()?.to_owned())));
    if let Some((n, name, text)) = unkept {
        let number = app.number();
        if let Some(form) = open(app) {
            form.keeping = Some((number, n));
        }
        return vec![Effect::KeepText(number, name, Typed(text))];
    }
    match grammar::parse_line(&form.words(), &Globals::default()) {
        Ok(invocation) => {
            let planning = Planning {
                request: 0,
                action: invocation.action,
                run: invocation.run,
                consent: invocation.consent,
                hidden: form.hidden.clone(),
                included: false,
                note: None,
            };
            changes::plan(app, planning)
        }
        Err(ParseFailure::Bad(error)) => {
            form.error = Some(super::super::answer::error_line(&error));
            Vec::new()
        }
        Err(ParseFailure::Show(text)) => {
            form.error = text.lines().next().map(str::to_owned);
            Vec::new()
        }
    }
}
