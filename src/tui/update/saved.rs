//! The list of views: choose one, save the present one, delete one.

use std::sync::Arc;

use super::super::app::{App, Overlay, Pane};
use super::super::edit::Line;
use super::super::input::{Code, Key};
use super::super::msg::Effect;
use super::super::saved::{self, NAME, ViewMenu};
use super::front;
use crate::model::{Error, nearest};

/// Opens the list, or with a name goes there at once.
pub(super) fn choose(app: &mut App, name: &str) {
    front::show(app, Pane::Inventory);
    if name.is_empty() {
        app.overlays.push(Overlay::Views(ViewMenu::default()));
        return;
    }
    let Some(view) = app.views.iter().find(|view| view.name == name).cloned() else {
        let names = app.views.iter().map(|view| view.name.as_str());
        let error = Error::invalid(format!("there is no view {name:?}"));
        app.complain(&match nearest(name, names) {
            Some(near) => error.remedy(format!("did you mean {near}?")),
            None => error.remedy("b lists them, + there saves one"),
        });
        return;
    };
    front::jump(app);
    let gone = saved::put_on(app, &view);
    front::derive(app);
    app.say(match gone {
        Some(context) => format!("view {name}; context {context} is not there: all contexts"),
        None => format!("view {name} · Esc clears its filter"),
    });
}

/// Keys while the list is open.
pub(super) fn key(app: &mut App, key: Key) -> Vec<Effect> {
    app.notice = None;
    let views = Arc::clone(&app.views);
    let Some(Overlay::Views(menu)) = app.overlays.last_mut() else {
        return Vec::new();
    };
    let here = views.get(menu.row);
    if let Some(line) = &mut menu.naming {
        match key.code {
            Code::Esc => (menu.naming, menu.replacing) = (None, None),
            Code::Enter => save(app),
            _ => {
                menu.replacing = None;
                line.key(key);
            }
        }
        return Vec::new();
    }
    let deleting = menu.deleting.take();
    let last = views.len().saturating_sub(1);
    match (key.code, here) {
        (Code::Down | Code::Char('j' | 'b'), _) => menu.row = (menu.row + 1).min(last),
        (Code::Up | Code::Char('k'), _) => menu.row = menu.row.saturating_sub(1),
        (Code::Home, _) => menu.row = 0,
        (Code::End, _) => menu.row = last,
        (Code::Char('+'), _) => {
            menu.naming = Some(Line::default());
        }
        (Code::Enter, Some(view)) => {
            app.overlays.pop();
            choose(app, &view.name);
        }
        (Code::Char('D'), Some(view)) if deleting.as_ref() == Some(&view.name) => {
            let name = view.name.clone();
            menu.row = menu.row.min(last.saturating_sub(1));
            let left = views.iter().filter(|view| view.name != name);
            app.views = Arc::new(left.cloned().collect());
            app.say(format!("view {name} deleted"));
        }
        (Code::Char('D'), Some(view)) => {
            menu.deleting = Some(view.name.clone());
            let text = format!("D again deletes the view {}", view.name);
            app.say(text);
        }
        (Code::Esc | Code::Char('q'), _) => {
            app.overlays.pop();
        }
        _ => app.say("Enter shows a view, + saves what is on the screen, D deletes one"),
    }
    Vec::new()
}

/// Saves what is on the screen under the name that was typed.
fn save(app: &mut App) {
    let Some(Overlay::Views(menu)) = app.overlays.last_mut() else {
        return;
    };
    let typed = menu.naming.as_ref().map_or("", Line::text);
    let name: String = typed.trim().chars().take(NAME).collect();
    let is_there = app.views.iter().any(|known| known.name == name);
    if is_there && menu.replacing.as_ref() != Some(&name) {
        menu.replacing = Some(name.clone());
        app.say(format!("there is a view {name}: Enter again replaces it"));
        return;
    }
    if name.is_empty() {
        menu.naming = Some(Line::default());
        app.say("a view needs a name");
        return;
    }
    app.overlays.pop();
    let view = saved::present(app, &name);
    let mut views = (*app.views).clone();
    let text = match views.iter_mut().find(|known| known.name == name) {
        Some(known) => {
            *known = view;
            format!("view {name} saved in the place of the old one")
        }
        None => {
            views.push(view);
            format!("view {name} saved · b or :ui view {name} shows it")
        }
    };
    app.views = Arc::new(views);
    app.say(text);
}
