//! Which pane is on the screen, and the ways between them.

use super::rows::{derive, set_filter};
use crate::action::{Invocation, Output};
use crate::model::{Error, InstanceId, Scope};
use crate::tui::app::{App, Focus, Overlay, Pane, Tab};
use crate::tui::dialog::QuitDialog;
use crate::tui::msg::Effect;
use crate::tui::places::{self, Place};
use crate::tui::reading::reload;

/// Puts a pane on the screen; where we were is a way back.
pub(in crate::tui::update) fn show(app: &mut App, pane: Pane) {
    if app.pane != pane {
        let here = Place::here(app);
        places::leave(app, here);
        app.pane = pane;
        app.focus = Focus::List;
        app.search = None;
    }
}

/// Snapshots of one instance are a tab of its detail; said again there, or with several marked, those of all are meant.
fn means_several(app: &App) -> bool {
    let in_tab = app.pane == Pane::Inventory
        && app.focus == Focus::Detail
        && app.detail.tab == Tab::Snapshots;
    in_tab
        || app.pane == Pane::Snapshots
        || app.inventory.selected().is_none()
        || app.inventory.visible_marks().len() > 1
}

pub(super) fn go(app: &mut App, name: &str) -> Vec<Effect> {
    if name == "snapshots" && !means_several(app) {
        open_detail(app, Tab::Snapshots);
        return Vec::new();
    }
    let Some((_, pane, _)) = Pane::NAMES.iter().find(|(word, _, _)| *word == name) else {
        let names: Vec<&str> = Pane::NAMES.iter().map(|(word, _, _)| *word).collect();
        app.complain(&Error::invalid(format!(
            "there is no pane {name:?}; there are {}",
            names.join(", ")
        )));
        return Vec::new();
    };
    app.notice = None;
    if app.pane == *pane && app.focus == Focus::List {
        app.say(format!("{} is on the screen", pane.title()));
    }
    show(app, *pane);
    // Whoever goes to a pane means its list, not the detail beside it.
    app.focus = Focus::List;
    reload(app, false)
}

/// A question of the command line: the pane that answers it, or a new answer.
pub(in crate::tui::update) fn question(
    app: &mut App,
    invocation: Invocation,
    line: &str,
) -> Vec<Effect> {
    let (action, output) = (invocation.action, invocation.output);
    let plain = action.targets.is_empty()
        && action.args.0.is_empty()
        && action.scope == Scope::default()
        && output == Output::default();
    let pane = match action.verb.as_str() {
        "list" if plain => Some("inventory"),
        "tasks list" if plain => Some("tasks"),
        "history" if plain => Some("history"),
        "doctor" if plain => Some("doctor"),
        "matrix" if plain => Some("support"),
        "context list" if plain => Some("contexts"),
        "host list" if plain => Some("hosts"),
        "storage list" | "network list" if plain => Some("places"),
        "image list" if plain => Some("images"),
        _ => None,
    };
    if let Some(pane) = pane {
        return go(app, pane);
    }
    let number = app.number();
    app.asked.push((number, line.to_owned(), output));
    app.say(format!("{line} …"));
    vec![Effect::Read(number, action)]
}

pub(super) fn open_detail(app: &mut App, tab: Tab) {
    show(app, Pane::Inventory);
    if app.inventory.selected().is_none() {
        app.say("no instance is under the cursor");
        return;
    }
    app.detail.open = true;
    app.detail.tab = tab;
    app.detail.scroll = 0;
    app.focus = Focus::Detail;
}

/// The inventory of the host under the cursor.
pub(super) fn instances(app: &mut App) {
    let key = app.cursors.get(&Pane::Hosts).and_then(|c| c.key.clone());
    let host = key.and_then(|key| key.parse::<InstanceId>().ok());
    let Some(host) = host.filter(|_| app.pane == Pane::Hosts) else {
        app.say("no host is under the cursor");
        return;
    };
    app.inventory.context = Some(host.context().to_owned());
    app.inventory.problems = false;
    show(app, Pane::Inventory);
    let name = host.key().replace(['\\', '"'], "");
    set_filter(app, &format!("host:\"{name}\""));
    app.say("Esc clears the filter");
}

pub(super) fn open(app: &mut App) -> Vec<Effect> {
    match app.pane {
        Pane::Inventory
            if app
                .inventory
                .selected_group()
                .is_some_and(|group| group.open) =>
        {
            app.inventory.fold();
            derive(app);
        }
        Pane::Inventory if app.inventory.selected_group().is_some() => {
            app.inventory.unfold();
            derive(app);
        }
        Pane::Inventory => {
            let tab = app.detail.tab;
            open_detail(app, tab);
        }
        Pane::Contexts => {
            let key = app.cursors.get(&Pane::Contexts).and_then(|c| c.key.clone());
            if let Some(name) = key.filter(|name| app.fleet.context(name).is_some()) {
                app.inventory.context = Some(name);
                show(app, Pane::Inventory);
                derive(app);
            } else {
                app.say("no connected context is under the cursor");
            }
        }
        Pane::Problems => {
            let key = app.cursors.get(&Pane::Problems).and_then(|c| c.key.clone());
            let id = key.and_then(|key| key.parse::<InstanceId>().ok());
            match id {
                Some(id) if app.fleet.get(&id).is_some() => {
                    if !app.inventory.go_to(&id) {
                        app.inventory.context = None;
                        app.inventory.problems = false;
                        set_filter(app, "");
                        app.inventory.go_to(&id);
                        app.say("the filter was cleared, it hid this instance");
                    }
                    open_detail(app, Tab::Summary);
                }
                _ => {
                    let cursor = app.cursors.entry(Pane::Problems).or_default();
                    cursor.open = !cursor.open;
                }
            }
        }
        pane => {
            let cursor = app.cursors.entry(pane).or_default();
            cursor.open = !cursor.open;
        }
    }
    Vec::new()
}

/// One layer back: an opened entry, the detail, the filter, the pane. Never the marks.
pub(super) fn escape(app: &mut App) -> Vec<Effect> {
    app.notice = None;
    if app.search.take().is_some() {
        app.say("the search is over");
        return Vec::new();
    }
    if let Some(cursor) = app.cursors.get_mut(&app.pane)
        && cursor.open
    {
        cursor.open = false;
    } else if app.pane != Pane::Inventory {
        back(app);
    } else if app.inventory.range.take().is_some() {
        app.say("the range is given up");
    } else if app.focus == Focus::Detail {
        app.focus = Focus::List;
    } else if app.detail.open {
        app.detail.open = false;
    } else if !app.inventory.filter_text.is_empty() {
        set_filter(app, "");
        app.say("filter cleared");
    } else if app.inventory.problems || app.inventory.context.is_some() {
        app.inventory.problems = false;
        app.inventory.context = None;
        derive(app);
        app.say("all instances");
    } else {
        app.say("nothing to go back from · q leaves");
    }
    Vec::new()
}

pub(super) fn close(app: &mut App) -> Vec<Effect> {
    if app.pane != Pane::Inventory {
        let following = app.pane == Pane::Answer && app.answer.follows.take().is_some();
        show(app, Pane::Inventory);
        return if following {
            vec![Effect::Unfollow]
        } else {
            Vec::new()
        };
    }
    if app.focus == Focus::Detail || app.detail.open {
        app.detail.open = false;
        app.focus = Focus::List;
        return Vec::new();
    }
    quit(app)
}

/// Notes where we are in the inventory, before it shows something else: `<` leads back.
pub(in crate::tui::update) fn jump(app: &mut App) {
    if app.pane == Pane::Inventory {
        let here = Place::here(app);
        places::leave(app, here);
    } else {
        show(app, Pane::Inventory);
    }
}

pub(super) fn back(app: &mut App) {
    let Some(place) = app.back.pop() else {
        app.say("there is nothing before this");
        return;
    };
    let here = Place::here(app);
    app.forward.push(here);
    places::arrive(app, place);
}

pub(super) fn forward(app: &mut App) {
    let Some(place) = app.forward.pop() else {
        app.say("there is nothing after this");
        return;
    };
    let here = Place::here(app);
    app.back.push(here);
    places::arrive(app, place);
}

/// Leaves; asks first while work is under way.
pub(in crate::tui::update) fn quit(app: &mut App) -> Vec<Effect> {
    if !app.busy() {
        app.leaving = true;
        return vec![Effect::Quit];
    }
    if !app.overlays.iter().any(|o| matches!(o, Overlay::Quit(_))) {
        app.overlays.push(Overlay::Quit(QuitDialog::default()));
    }
    Vec::new()
}
