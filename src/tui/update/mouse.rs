//! The mouse: a click means what is seen there. It asks and looks, it never says yes to what wants a name typed.

use super::super::app::{App, Focus, Overlay, Pane, Tab};
use super::super::dialog::Act;
use super::super::input::{Code, Key};
use super::super::msg::Effect;
use super::super::split;
use super::super::zone::{self, Zone};
use super::{front, keys, overlays};

/// A second click within so many milliseconds opens.
const DOUBLE_MS: u64 = 400;
/// Lines for one notch of the wheel.
const NOTCH: isize = 3;

/// The left button went down.
pub(super) fn click(app: &mut App, x: u16, y: u16) -> Vec<Effect> {
    app.dragging = false;
    let zone = zone::at(app, x, y);
    let double = app
        .clicked
        .take()
        .is_some_and(|(at, cx, cy)| (cx, cy) == (x, y) && app.ms.saturating_sub(at) <= DOUBLE_MS);
    if !double {
        app.clicked = Some((app.ms, x, y));
    }
    match app.overlays.last() {
        None => on_panes(app, zone, double),
        Some(Overlay::Filter(..) | Overlay::Search(..)) if !matches!(zone, Some(Zone::Over)) => {
            // What was typed holds, where it can; the click is for the pane.
            let effects = overlays::key(app, Key::plain(Code::Enter));
            if app.overlays.is_empty() {
                return on_panes(app, zone, double);
            }
            effects
        }
        Some(_) => on_overlay(app, zone, double),
    }
}

fn on_panes(app: &mut App, zone: Option<Zone>, double: bool) -> Vec<Effect> {
    // A menu of keys is open.
    if !app.keys.is_empty() && !matches!(zone, Some(Zone::Press(_))) {
        if !matches!(zone, Some(Zone::Over)) {
            app.keys.clear();
        }
        return Vec::new();
    }
    match zone {
        Some(Zone::Run(line)) => {
            app.notice = None;
            return keys::line(app, &line);
        }
        Some(Zone::Press(text)) => return press(app, &text),
        Some(Zone::Row(n)) => {
            app.notice = None;
            app.focus = Focus::List;
            row(app, n);
            if double {
                return front::run(app, "open", &[]);
            }
        }
        Some(Zone::List) => app.focus = Focus::List,
        Some(Zone::Detail) => app.focus = Focus::Detail,
        Some(Zone::Tab(tab)) => {
            app.detail.tab = tab;
            app.detail.scroll = 0;
            app.focus = Focus::Detail;
        }
        Some(Zone::Line(n)) => {
            app.focus = Focus::Detail;
            if app.detail.tab == Tab::Native {
                app.detail.line = n;
                if double {
                    return front::run(app, "fold", &[]);
                }
            } else {
                app.detail.snapshot = n;
            }
        }
        Some(Zone::Divider) => app.dragging = true,
        _ => {}
    }
    Vec::new()
}

fn press(app: &mut App, text: &str) -> Vec<Effect> {
    let keys: Vec<Key> = text.split(' ').filter_map(Key::parse).collect();
    keys.into_iter()
        .flat_map(|key| keys::key(app, key))
        .collect()
}

fn row(app: &mut App, n: usize) {
    if app.pane == Pane::Inventory {
        app.inventory.go(n);
    } else {
        let cursor = app.cursors.entry(app.pane).or_default();
        cursor.row = n;
        cursor.key = None;
    }
}

fn on_overlay(app: &mut App, zone: Option<Zone>, double: bool) -> Vec<Effect> {
    let outside = !matches!(
        zone,
        Some(Zone::Over | Zone::Button(_) | Zone::Field(_) | Zone::Pick(_))
    );
    match (app.overlays.last_mut(), zone) {
        (Some(Overlay::Dialog(_)), Some(Zone::Button(n))) => return button(app, n),
        (Some(Overlay::Quit(quit)), Some(Zone::Button(n))) => {
            quit.focus = n;
            return overlays::key(app, Key::plain(Code::Enter));
        }
        (Some(Overlay::Form(form)), Some(Zone::Field(n))) => {
            form.focus = n;
            form.chosen = None;
            // Both only close it or show a plan.
            if form.on_cancel() || form.on_go() {
                return overlays::key(app, Key::plain(Code::Enter));
            }
        }
        (Some(Overlay::Command(command)), Some(Zone::Pick(n))) => {
            command.chosen = Some(n);
            if double {
                return overlays::key(app, Key::plain(Code::Enter));
            }
        }
        (Some(Overlay::Actions(actions)), Some(Zone::Pick(n))) => {
            actions.row = n;
            if double {
                return overlays::key(app, Key::plain(Code::Enter));
            }
        }
        (Some(Overlay::Views(menu)), Some(Zone::Pick(n))) if menu.naming.is_none() => {
            menu.row = n;
            menu.deleting = None;
            if double {
                return overlays::key(app, Key::plain(Code::Enter));
            }
        }
        // Twice is as Space: Enter would keep all of it.
        (Some(Overlay::Columns(picker)), Some(Zone::Pick(n))) => {
            picker.row = n;
            if double {
                return overlays::key(app, Key::char(' '));
            }
        }
        (Some(Overlay::Themes(_)), Some(Zone::Pick(n))) => {
            super::themes::look_at(app, n);
            if double {
                return overlays::key(app, Key::plain(Code::Enter));
            }
        }
        // Beside a menu is out of it; a question is left by its own buttons.
        (
            Some(
                Overlay::Help(_)
                | Overlay::Actions(_)
                | Overlay::Themes(_)
                | Overlay::Columns(_)
                | Overlay::Views(_)
                | Overlay::Command(_),
            ),
            _,
        ) if outside => return overlays::key(app, Key::plain(Code::Esc)),
        _ => {}
    }
    Vec::new()
}

/// A button of a confirmation. What wants a name typed is not confirmed by the hand on the mouse.
fn button(app: &mut App, n: usize) -> Vec<Effect> {
    let (ms, size) = (app.ms, app.setup.size);
    let Some(Overlay::Dialog(dialog)) = app.overlays.last_mut() else {
        return Vec::new();
    };
    let Some(button) = dialog.buttons(size).get(n).cloned() else {
        return Vec::new();
    };
    let typed = dialog.to_type().is_some() && button.act == Act::Confirm;
    let opens = button.act == Act::Cancel || dialog.guard.admits(ms);
    if typed || !button.live || !opens {
        if typed {
            app.say("this one is confirmed by keys: type what it asks for, Enter, and Enter again");
        }
        return Vec::new();
    }
    dialog.focus = n;
    overlays::press(app, button.act)
}

/// The wheel, over what is under the pointer.
pub(super) fn wheel(app: &mut App, down: bool, x: u16, y: u16) -> Vec<Effect> {
    let by = if down { NOTCH } else { -NOTCH };
    let key = Key::plain(if down { Code::Down } else { Code::Up });
    match app.overlays.last() {
        // It would wander through the fields, and answer a question.
        Some(Overlay::Form(_) | Overlay::Quit(_) | Overlay::Question(_) | Overlay::Search(..)) => {
            return Vec::new();
        }
        Some(_) => {
            return (0..NOTCH).flat_map(|_| overlays::key(app, key)).collect();
        }
        None => {}
    }
    match zone::at(app, x, y) {
        Some(Zone::Detail | Zone::Tab(_) | Zone::Line(_)) if app.detail.open => {
            front::scroll(app, by);
        }
        Some(Zone::Opened) => front::scroll(app, by),
        _ if app.pane == Pane::Inventory => app.inventory.step(by),
        _ => front::step(app, by),
    }
    Vec::new()
}

/// The pointer moved with the button down.
pub(super) fn drag(app: &mut App, x: u16, y: u16) {
    app.clicked = None;
    if app.dragging && app.overlays.is_empty() {
        split::pull(app, x, y);
    }
}
