//! Everything that is decided: a message in, effects out, no I/O.

mod changes;
mod columns;
mod filter_line;
mod forms;
mod front;
mod keys;
mod mouse;
mod overlays;
mod questions;
mod replies;
mod saved;
mod search;
mod slide;
mod themes;
mod typing;

pub use replies::outcome as outcome_line;

use std::collections::HashMap;
use std::sync::Arc;

use super::app::{App, Focus, Notice, Overlay, Pane, Tab};
use super::input::Input;
use super::inventory::Entry;
use super::layout;
use super::listing;
use super::look;
use super::msg::{At, Effect, Msg};
use super::native;
use super::presence::{self, Notify, Presence};
use super::reading::reload;
use super::remember::Choices;
use super::theme::Role;
use super::typed;
use crate::model::{Action, Error, FleetView, InstanceId, Selector, Task, shown};

/// Takes a message.
pub fn update(app: &mut App, at: At, msg: Msg) -> Vec<Effect> {
    app.ms = app.ms.max(at.ms);
    app.now = at.wall;
    if app.leaving {
        return Vec::new();
    }
    let mut before = Choices::of(app);
    let said = app.notice.clone();
    let by_itself = matches!(msg, Msg::Notice(..));
    let mut effects = match msg {
        Msg::Input(input) => self::input(app, input),
        Msg::Fleet(fleet, pending) => self::fleet(app, fleet, pending),
        Msg::Tasks(tasks) => self::tasks(app, tasks),
        Msg::OtherTasks(tasks) => {
            app.other_tasks = tasks;
            Vec::new()
        }
        Msg::Reply(request, reply) => replies::reply(app, request, reply),
        Msg::Tick => {
            // A load that stays the same is a reading too, though no row changes by it.
            app.detail.sampled_for = None;
            Vec::new()
        }
        Msg::Drawn => {
            drawn(app);
            Vec::new()
        }
        Msg::Absent(absent) => {
            app.setup.absent = absent;
            Vec::new()
        }
        Msg::Contexts(beside) => {
            app.setup.beside = beside;
            Vec::new()
        }
        Msg::Config(readonly, fault) => {
            app.setup.readonly = readonly;
            // A fault that is mended is told no longer.
            if app.notice.is_some() && app.notice == app.config_notice {
                app.notice = None;
            }
            app.config_notice = fault.and_then(|fault| {
                app.complain(&Error::invalid(fault));
                app.notice.clone()
            });
            Vec::new()
        }
        Msg::Look(new) => {
            // A key that was half typed may mean something else by now.
            app.keys.clear();
            app.overlays.retain(|o| !matches!(o, Overlay::Themes(_)));
            new.put_on(&mut app.setup);
            look::follow_background(app);
            Vec::new()
        }
        Msg::Background(light) => {
            app.setup.light = Some(light);
            look::follow_background(app);
            // The terminal has chosen, not the user.
            before = Choices::of(app);
            Vec::new()
        }
        Msg::Question(number, prompt) => {
            questions::put(app, number, prompt);
            Vec::new()
        }
        Msg::Withdrawn(number) => {
            questions::withdrawn(app, number);
            Vec::new()
        }
        Msg::Notice(text, bad) => {
            app.notice = Some(Notice {
                text,
                role: if bad { Role::Error } else { Role::Text },
                at: app.ms,
            });
            Vec::new()
        }
        Msg::Returned(cut) => {
            let told = super::cut::back(app, *cut);
            app.say(told);
            front::derive(app);
            reload(app, false)
        }
    };
    // What only answers the key just pressed would bury what one looks for.
    let worth = |notice: &Notice| by_itself || notice.role != Role::Text;
    if app.notice != said && app.notice.as_ref().is_some_and(worth) {
        app.keep_notice();
    }
    // Whatever was waited for may have ended before the answer was to wait.
    let waiting = |o: &Overlay| matches!(o, Overlay::Quit(quit) if quit.waiting);
    if app.overlays.iter().any(waiting) && !app.busy() {
        app.leaving = true;
        let mut last = typed::given_up(app);
        last.push(Effect::Quit);
        return last;
    }
    effects.splice(0..0, typed::given_up(app));
    questions::open_when_free(app);
    effects.extend(follow_up(app));
    let presence = Presence::of(app);
    if presence != app.presence {
        app.presence = presence.clone();
        let manners = app.setup.manners;
        if manners.title || manners.progress {
            effects.push(Effect::Present(presence, manners));
        }
    }
    if Choices::of(app).note(&before, &mut app.setup.kept) {
        effects.push(Effect::Keep(app.setup.kept.clone()));
    }
    effects
}

fn input(app: &mut App, input: Input) -> Vec<Effect> {
    match input {
        Input::Key(key) => {
            app.dragging = false;
            keys::key(app, key)
        }
        Input::Paste(text) => {
            overlays::paste(app, &text);
            Vec::new()
        }
        Input::Click(x, y) => mouse::click(app, x, y),
        Input::Drag(x, y) => {
            mouse::drag(app, x, y);
            Vec::new()
        }
        Input::Release => {
            app.dragging = false;
            Vec::new()
        }
        Input::Wheel(down, x, y) => mouse::wheel(app, down, x, y),
        Input::Resize(width, height) => {
            app.setup.size = (width, height);
            Vec::new()
        }
    }
}

fn fleet(
    app: &mut App,
    fleet: Arc<FleetView>,
    pending: Arc<HashMap<InstanceId, String>>,
) -> Vec<Effect> {
    let rows = !Arc::ptr_eq(&app.fleet, &fleet);
    app.fleet = fleet;
    app.pending = pending;
    if let Some(name) = app
        .inventory
        .context
        .take_if(|name| app.fleet.context(name).is_none())
    {
        app.say(format!("context {name} is gone: all contexts"));
    }
    if rows {
        let before = app.inventory.selected().cloned();
        app.inventory.derive(&app.fleet, app.now);
        if let Some(before) = before {
            slide::note(app, &before);
        }
    }
    Vec::new()
}

fn tasks(app: &mut App, tasks: Arc<Vec<Task>>) -> Vec<Effect> {
    let was_running = |id: &str| app.tasks.iter().any(|t| t.id == id && !t.state.is_final());
    // A task that ended while we looked: say how, and read anew what it changed.
    let ended: Vec<&Task> = tasks
        .iter()
        .filter(|t| {
            t.state.is_final() && (was_running(&t.id) || app.tasks.iter().all(|o| o.id != t.id))
        })
        .collect();
    let note = ended.last().map(|task| replies::outcome(task));
    let how = app.setup.manners.notify;
    let ring = ended
        .iter()
        .rfind(|task| how != Notify::Off && presence::was_long(task))
        .map(|task| Effect::Ring(shown(&replies::outcome(task).0).into_owned(), how));
    let any = !ended.is_empty();
    let touched = app.inventory.selected().is_some_and(|row| {
        ended
            .iter()
            .any(|task| task.targets.iter().any(|t| t.id == row.id))
    });
    app.tasks = tasks;
    let tasks = &app.tasks;
    app.submitting
        .retain(|s| !tasks.iter().any(|t| s.task.as_deref() == Some(&t.id)));
    if let Some((text, role)) = note {
        app.notice = Some(Notice {
            text,
            role,
            at: app.ms,
        });
    }
    if touched {
        app.detail.row = None;
    }
    let mut effects: Vec<Effect> = ring.into_iter().collect();
    // Checks are long; they are asked again by hand.
    if any && app.pane != Pane::Doctor {
        effects.extend(reload(app, true));
    }
    effects
}

fn drawn(app: &mut App) {
    let ms = app.ms;
    if let Some(guard) = app.overlays.last_mut().and_then(Overlay::guard_mut) {
        guard.drawn(ms);
    }
}

/// What is lost has been seen once it was on the screen of the question.
fn note_losses(app: &mut App) {
    let seen = match app.overlays.last() {
        Some(Overlay::Dialog(dialog)) => {
            dialog.losses_seen || super::view::shows_losses(app, dialog)
        }
        _ => return,
    };
    if let Some(Overlay::Dialog(dialog)) = app.overlays.last_mut() {
        dialog.losses_seen = seen;
    }
}

/// What follows from where the cursor is now.
fn follow_up(app: &mut App) -> Vec<Effect> {
    let mut effects = Vec::new();
    let height = layout::body(app).rows;
    app.inventory.keep_visible(height);
    let pane = app.pane;
    if pane != Pane::Inventory {
        let list = listing::of(app, pane);
        let open = app.cursors.get(&pane).is_some_and(|c| c.open);
        let rows = layout::list_rows(app, open);
        let cursor = app.cursors.entry(pane).or_default();
        if let Some(key) = &cursor.key
            && list.rows.get(cursor.row).is_none_or(|row| row.key != *key)
            && let Some(n) = list.rows.iter().position(|row| row.key == *key)
        {
            cursor.row = n;
        }
        cursor.row = cursor.row.min(list.rows.len().saturating_sub(1));
        let key = list.rows.get(cursor.row).map(|row| row.key.clone());
        if cursor.key != key || !cursor.open {
            cursor.scroll = None;
        }
        cursor.key = key;
        if cursor.row < cursor.top {
            cursor.top = cursor.row;
        } else if cursor.row >= cursor.top + rows {
            cursor.top = cursor.row + 1 - rows;
        }
        cursor.top = cursor.top.min(list.rows.len().saturating_sub(rows));
    }
    note_losses(app);
    effects.extend(detail(app));
    native::keep_visible(app);
    effects.extend(samples(app));
    let inventory = &app.inventory;
    let shown: Vec<InstanceId> = if pane == Pane::Inventory {
        inventory
            .on_screen(height)
            .filter_map(|(_, entry)| match entry {
                Entry::Row(row, _) => Some(row.id.clone()),
                Entry::Group(_) => None,
            })
            .collect()
    } else {
        Vec::new()
    };
    if shown != app.watched {
        app.watched.clone_from(&shown);
        effects.push(Effect::Watch(shown));
    }
    effects
}

/// Asks for the detail of what is under the cursor, one question at a time.
fn detail(app: &mut App) -> Vec<Effect> {
    if !app.detail.open || app.pane != Pane::Inventory {
        return Vec::new();
    }
    let Some(row) = app.inventory.selected().cloned() else {
        app.focus = Focus::List;
        return Vec::new();
    };
    let identity = row.identity();
    // A uid that has just become known is still the same instance.
    let same = app
        .detail
        .of
        .as_ref()
        .is_some_and(|of| *of == identity || *of == row.id.to_string());
    let changed = app.detail.row.as_ref().is_none_or(|old| {
        (old.state, &old.reason, &old.locked, old.stale)
            != (row.state, &row.reason, &row.locked, row.stale)
    });
    if !same {
        app.detail.scroll = 0;
        app.detail.snapshot = 0;
        app.detail.line = 0;
        app.detail.folded.clear();
        app.detail.secrets = false;
        app.detail.samples.clear();
        app.detail.sampled = None;
    }
    if same {
        app.detail.of = Some(identity.clone());
    }
    if (same && !changed) || app.detail.detail.asked.is_some() {
        return Vec::new();
    }
    app.detail.of = Some(identity);
    app.detail.row = Some(Arc::clone(&row));
    app.detail.detail.error = None;
    let (detail, events) = (app.number(), app.number());
    app.detail.detail.asked = Some(detail);
    app.detail.events.asked = Some(events);
    if !same {
        app.detail.events.value = None;
    }
    let on = |verb: &str| Action::new(verb).on(Selector::id(&row.id));
    vec![
        Effect::Read(detail, on("info")),
        Effect::Read(events, on("events").with("last", 200)),
    ]
}

/// Asks for the readings of what is under the cursor, where there may be newer ones.
fn samples(app: &mut App) -> Option<Effect> {
    let seen = (app.detail.open && app.pane == Pane::Inventory && app.detail.tab == Tab::Metrics)
        .then(|| app.inventory.selected())??;
    let row = (seen.id.clone(), seen.observed_at);
    if app.detail.sampled.is_some() || app.detail.sampled_for.as_ref() == Some(&row) {
        return None;
    }
    let number = app.number();
    app.detail.sampled = Some(number);
    app.detail.sampled_for = Some(row.clone());
    Some(Effect::Samples(number, row.0))
}

/// The headless command of a key's line, where it has one.
pub fn headless(app: &App, run: &str) -> Option<String> {
    keys::headless(app, run)
}

/// Whom an action would concern, in words.
pub fn targets(app: &App) -> String {
    front::targets_text(app)
}
