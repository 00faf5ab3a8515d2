//! Keys while something lies over the panes.

use super::super::app::{Actions, App, Overlay};
use super::super::dialog::{Act, Guard};
use super::super::edit::Line;
use super::super::input::{Code, Key};
use super::super::msg::Effect;
use super::super::palette;
use super::super::saved::ViewMenu;
use super::super::search as found;
use super::{
    changes, columns, filter_line, forms, front, keys, questions, saved, search, themes, typing,
};
use crate::model::Bytes;

pub(super) fn key(app: &mut App, key: Key) -> Vec<Effect> {
    match app.overlays.last() {
        Some(Overlay::Dialog(_)) => dialog(app, key),
        Some(Overlay::Quit(_)) => quit(app, key),
        Some(Overlay::Form(_)) => forms::key(app, key),
        Some(Overlay::Command(_)) => typing::key(app, key),
        Some(Overlay::Filter(_)) => filter_line::key(app, key),
        Some(Overlay::Search(..)) => search::key(app, key),
        Some(Overlay::Help(_)) => help(app, key),
        Some(Overlay::Actions(_)) => actions(app, key),
        Some(Overlay::Question(_)) => questions::key(app, key),
        Some(Overlay::Themes(_)) => themes::key(app, key),
        Some(Overlay::Columns(_)) => columns::key(app, key),
        Some(Overlay::Views(_)) => saved::key(app, key),
        None => Vec::new(),
    }
}

/// Ctrl-C: clears what is typed, then closes.
pub(super) fn interrupt(app: &mut App) -> Vec<Effect> {
    if let Some(Overlay::Question(_)) = app.overlays.last() {
        questions::interrupt(app);
        return Vec::new();
    }
    let cleared = match app.overlays.last_mut() {
        Some(Overlay::Command(_)) => typing::clear(app),
        Some(Overlay::Filter(filter)) => clear(&mut filter.line),
        Some(Overlay::Views(menu)) => menu.naming.as_mut().is_some_and(clear),
        Some(Overlay::Search(line, _)) => clear(line),
        Some(Overlay::Dialog(dialog)) => clear(&mut dialog.typed),
        Some(Overlay::Form(form)) => {
            form.chosen = None;
            form.entry_mut().is_some_and(|e| clear(&mut e.line)) || form.asks_to_drop()
        }
        _ => false,
    };
    if matches!(app.overlays.last(), Some(Overlay::Themes(_))) {
        themes::cancel(app);
    } else if matches!(app.overlays.last(), Some(Overlay::Columns(_))) {
        columns::cancel(app);
    } else if !cleared {
        app.overlays.pop();
    }
    if matches!(app.overlays.last(), Some(Overlay::Filter(_))) {
        filter_line::typed(app);
    }
    Vec::new()
}

fn clear(line: &mut Line) -> bool {
    let had = !line.text().is_empty();
    line.set("");
    had
}

/// A text that was pasted. One that is too long is left out whole: half a command is another command.
pub(super) fn paste(app: &mut App, text: &str) {
    let ms = app.ms;
    let line = match app.overlays.last() {
        Some(Overlay::Command(command)) => Some(&command.line),
        Some(Overlay::Filter(filter)) => Some(&filter.line),
        Some(Overlay::Search(line, _)) => Some(line),
        Some(Overlay::Form(form)) => form.entry().map(|entry| &entry.line),
        Some(Overlay::Dialog(dialog)) => Some(&dialog.typed),
        Some(Overlay::Views(menu)) => menu.naming.as_ref(),
        Some(Overlay::Actions(actions)) => actions.search.as_ref(),
        _ => None,
    };
    // What is asked from below may be a key, and is not looked at again.
    if let Some(room) = line.map(Line::room).filter(|room| text.len() > *room) {
        let (length, room) = (Bytes(text.len() as u64), Bytes(room as u64));
        let told = format!("not pasted: {length} are too many here, {room} would fit");
        match app.overlays.last_mut() {
            Some(Overlay::Form(form)) => form.error = Some(told),
            _ => app.say(told),
        }
        return;
    }
    match app.overlays.last_mut() {
        Some(Overlay::Command(_)) => typing::paste(app, text),
        Some(Overlay::Filter(filter)) => {
            filter.line.insert(text);
            filter_line::typed(app);
        }
        Some(Overlay::Search(line, _)) => {
            line.insert(text);
            search::typed(app);
        }
        Some(Overlay::Form(form)) => {
            form.note_fresh();
            form.chosen = None;
            form.error = None;
            // A flag and a choice take no text.
            if let Some(entry) = form.entry_mut().filter(|e| e.takes_text()) {
                entry.line.insert(text);
            }
        }
        Some(Overlay::Dialog(dialog)) => {
            if dialog.guard.admits(ms) && dialog.to_type().is_some() {
                dialog.typed.insert(text);
            }
        }
        Some(
            Overlay::Views(ViewMenu {
                naming: Some(line), ..
            })
            | Overlay::Actions(Actions {
                search: Some(line), ..
            }),
        ) => line.insert(text),
        Some(Overlay::Question(_)) => questions::paste(app, text),
        _ => app.say("there is nothing to paste into here"),
    }
}

fn dialog(app: &mut App, key: Key) -> Vec<Effect> {
    let (ms, size) = (app.ms, app.setup.size);
    let (last, page) = match app.overlays.last() {
        Some(Overlay::Dialog(dialog)) => (
            super::super::view::dialog_last(app, dialog),
            super::super::view::dialog_page(app, dialog),
        ),
        _ => return Vec::new(),
    };
    let Some(Overlay::Dialog(dialog)) = app.overlays.last_mut() else {
        return Vec::new();
    };
    // Leaving without a change is safe whenever it was typed.
    if key.code == Code::Esc {
        return press(app, Act::Cancel);
    }
    if !dialog.guard.admits(ms) {
        return Vec::new();
    }
    let buttons = dialog.buttons(size);
    let count = buttons.len();
    let live = |n: usize| buttons.get(n).is_some_and(|b| b.live);
    let turn = |from: usize, by: usize| {
        let mut at = from;
        loop {
            at = (at + by) % count;
            if live(at) || at == from {
                return at;
            }
        }
    };
    dialog.wrong = false;
    let confirm = buttons.iter().position(|b| b.live && b.act == Act::Confirm);
    let turns = matches!(
        key.code,
        Code::Tab | Code::BackTab | Code::Left | Code::Right
    );
    match key.code {
        // From what was typed on to what it was typed for.
        Code::Tab if dialog.is_typed() && dialog.focus == 0 && confirm.is_some() => {
            dialog.focus = confirm.unwrap_or(0);
        }
        Code::Tab | Code::Right => dialog.focus = turn(dialog.focus, 1),
        Code::BackTab | Code::Left => dialog.focus = turn(dialog.focus, count - 1),
        Code::Down => dialog.scroll = (dialog.scroll + 1).min(last),
        Code::Up => dialog.scroll = dialog.scroll.saturating_sub(1),
        Code::PageDown => dialog.scroll = (dialog.scroll + page).min(last),
        Code::PageUp => dialog.scroll = dialog.scroll.saturating_sub(page),
        Code::Home => dialog.scroll = 0,
        Code::End => dialog.scroll = last,
        // One Enter goes to the button, with a quiet of its own; the next one presses it.
        Code::Enter if dialog.focus == 0 && !dialog.chosen && dialog.is_typed() => {
            if let Some(confirm) = confirm {
                dialog.focus = confirm;
                dialog.guard = Guard::default();
            }
        }
        Code::Enter if dialog.focus == 0 && !dialog.chosen && dialog.is_typed_wrong() => {
            dialog.wrong = true;
        }
        Code::Enter => {
            let act = buttons.get(dialog.focus).filter(|b| b.live).map(|b| b.act);
            return press(app, act.unwrap_or(Act::Cancel));
        }
        Code::Char(c) if !key.ctrl && dialog.to_type().is_none() => {
            let hit = buttons.iter().find(|b| b.live && b.key == Some(c));
            if let Some(button) = hit {
                return press(app, button.act);
            }
        }
        _ => {
            if dialog.to_type().is_some() {
                dialog.typed.key(key);
                dialog.chosen = false;
                let buttons = dialog.buttons(size);
                if buttons.get(dialog.focus).is_some_and(|b| !b.live) {
                    dialog.focus = 0;
                }
            }
        }
    }
    dialog.chosen |= turns;
    Vec::new()
}

pub(super) fn press(app: &mut App, act: Act) -> Vec<Effect> {
    if let Some(Overlay::Dialog(dialog)) = app.overlays.last_mut() {
        if act == Act::Natives {
            dialog.natives = !dialog.natives;
            return Vec::new();
        }
        if act == Act::Copy {
            let command = dialog.command();
            return vec![front::send(app, "the command", command)];
        }
    }
    let Some(Overlay::Dialog(dialog)) = app.overlays.pop() else {
        return Vec::new();
    };
    match act {
        Act::Confirm => {
            let consent = dialog.consent();
            changes::submit(app, dialog.planning, dialog.plan, consent)
        }
        Act::Include => changes::include_hidden(app, dialog.planning),
        Act::Force => {
            let mut planning = dialog.planning;
            planning.action.args.set("force", true);
            changes::plan(app, planning)
        }
        Act::Cancel | Act::Natives | Act::Copy => {
            changes::given_up(app, &dialog.planning.action);
            Vec::new()
        }
    }
}

fn quit(app: &mut App, key: Key) -> Vec<Effect> {
    let ms = app.ms;
    let Some(Overlay::Quit(dialog)) = app.overlays.last_mut() else {
        return Vec::new();
    };
    if key.code == Code::Esc {
        app.overlays.pop();
        return Vec::new();
    }
    if !dialog.guard.admits(ms) {
        return Vec::new();
    }
    let chosen = match key.code {
        Code::Tab | Code::Right => {
            dialog.focus = (dialog.focus + 1) % 3;
            return Vec::new();
        }
        Code::BackTab | Code::Left => {
            dialog.focus = (dialog.focus + 2) % 3;
            return Vec::new();
        }
        Code::Enter => dialog.focus,
        Code::Char('W') => 1,
        Code::Char('Q') => 2,
        _ => return Vec::new(),
    };
    match chosen {
        1 => {
            dialog.waiting = true;
            app.say("leaving when the tasks have ended · Esc stays");
            Vec::new()
        }
        2 => {
            app.leaving = true;
            vec![Effect::Quit]
        }
        _ => {
            app.overlays.pop();
            Vec::new()
        }
    }
}

fn help(app: &mut App, key: Key) -> Vec<Effect> {
    let last = super::super::view::help_last(app);
    let page = usize::from(app.setup.size.1.saturating_sub(4)).max(1);
    let Some(Overlay::Help(scroll)) = app.overlays.last_mut() else {
        return Vec::new();
    };
    match key.code {
        Code::Down | Code::Char('j') => *scroll = (*scroll + 1).min(last),
        Code::Up | Code::Char('k') => *scroll = scroll.saturating_sub(1),
        Code::PageDown | Code::Char(' ') => *scroll = (*scroll + page).min(last),
        Code::PageUp => *scroll = scroll.saturating_sub(page),
        Code::Home => *scroll = 0,
        Code::End => *scroll = last,
        Code::Char('/') => search::begin(app, ""),
        Code::Char('n') if app.search.is_some() => found::step(app, false),
        Code::Char('N') if app.search.is_some() => found::step(app, true),
        _ => {
            app.overlays.pop();
            app.search = None;
            app.notice = None;
        }
    }
    Vec::new()
}

fn actions(app: &mut App, key: Key) -> Vec<Effect> {
    let rows = palette::actions(app);
    let Some(Overlay::Actions(actions)) = app.overlays.last_mut() else {
        return Vec::new();
    };
    // What is typed is searched for; the rest of the keys go on meaning what they do.
    if let Some(line) = &mut actions.search {
        if key.code == Code::Esc {
            actions.search = None;
            actions.row = 0;
            return Vec::new();
        }
        let moves = matches!(
            key.code,
            Code::Down | Code::Up | Code::Enter | Code::Home | Code::End
        );
        if !moves && line.key(key) {
            actions.row = 0;
            return Vec::new();
        }
    }
    match key.code {
        Code::Down | Code::Char('j') => {
            actions.row = (actions.row + 1).min(rows.len().saturating_sub(1));
        }
        Code::Up | Code::Char('k') => actions.row = actions.row.saturating_sub(1),
        Code::Home => actions.row = 0,
        Code::End => actions.row = rows.len().saturating_sub(1),
        Code::Enter => {
            let Some(row) = rows.get(actions.row) else {
                return Vec::new();
            };
            if let Some(why) = &row.not {
                let text = format!("{}: {why}", row.title);
                app.say(text);
                return Vec::new();
            }
            let (run, aim) = (row.run.clone(), actions.aim.clone());
            app.overlays.pop();
            return keys::aimed(app, &run, &aim);
        }
        Code::Char('y') => {
            let command = rows
                .get(actions.row)
                .and_then(|row| keys::headless(app, &row.run));
            if let Some(command) = command {
                return vec![front::send(app, "the command", command)];
            }
        }
        Code::Char('/') => actions.search = Some(Line::default()),
        // `y c`, as in a list.
        Code::Char('c') => {}
        Code::Esc | Code::Char('q' | 'a') => {
            app.overlays.pop();
        }
        // The letters of a name that is looked for are no commands.
        _ => app.say("/ searches here, Enter takes it, Esc leaves"),
    }
    Vec::new()
}
