//! The front's own commands: `ui …`.

mod moves;
mod panes;
mod rows;
mod tools;

use moves::{focus, fold, left, page, right, turn_tab};
use panes::{back, close, escape, forward, go, instances, open, open_detail};
use rows::{context, group, mark};
use tools::{actions, copy};

use crate::model::Error;
use crate::tui::app::{App, CommandLine, Focus, Overlay, Pane, Tab};
use crate::tui::msg::Effect;
use crate::tui::reading::reload;
use crate::tui::search as found;
use crate::tui::split;
use crate::tui::update::{columns, filter_line, questions, saved};

pub(super) use moves::{scroll, step};
pub(super) use panes::{jump, question, quit, show};
pub(super) use rows::{derive, set_filter, sort_by};
pub(super) use tools::{form, send, targets_text};

/// Carries one out.
pub(super) fn run(app: &mut App, word: &str, rest: &[String]) -> Vec<Effect> {
    let arg = rest.first().map_or("", String::as_str);
    match word {
        "go" => return go(app, arg),
        "notices" => return go(app, "notices"),
        "help" => app.overlays.push(Overlay::Help(0)),
        "command" => {
            let line = CommandLine {
                aim: super::keys::aim(app),
                ..CommandLine::default()
            };
            app.overlays.push(Overlay::Command(line));
        }
        "filter" if rest.is_empty() => {
            show(app, Pane::Inventory);
            filter_line::open(app);
        }
        "filter" => {
            jump(app);
            let text = rest.join(" ");
            set_filter(app, &text);
            if app.inventory.filter_error.is_none() {
                crate::tui::filter_line::note(app, &text);
            }
        }
        "actions" => return actions(app),
        "form" => match form(app, rest) {
            Some(effects) => return effects,
            None => app.complain(&Error::invalid("there is no form for that")),
        },
        "events" => {
            open_detail(app, Tab::Events);
        }
        "up" => step(app, -1),
        "down" => step(app, 1),
        "page-up" => step(app, -page(app)),
        "page-down" => step(app, page(app)),
        "top" => step(app, isize::MIN / 2),
        "bottom" => step(app, isize::MAX / 2),
        "left" => left(app),
        "right" => right(app),
        "open" => return open(app),
        "instances" => instances(app),
        "escape" => return escape(app),
        "close" => return close(app),
        "back" => back(app),
        "forward" => forward(app),
        "mark" | "range" | "mark-all" | "unmark" => mark(app, word),
        "context" => context(app, arg),
        "problems" => {
            jump(app);
            app.inventory.problems = !app.inventory.problems;
            derive(app);
            let text = if app.inventory.problems {
                "only problems · ! shows all again"
            } else {
                "all instances"
            };
            app.say(text);
        }
        "detail" => {
            app.detail.open = !app.detail.open;
            if !app.detail.open {
                app.focus = Focus::List;
            } else if app.inventory.rows.is_empty() {
                app.say("the detail opens with an instance under the cursor");
            }
        }
        "zoom" => {
            app.zoom = !app.zoom;
            app.say(if app.zoom {
                "zoomed · z undoes it"
            } else {
                "not zoomed"
            });
        }
        "focus" => focus(app),
        "tab" => turn_tab(app, 1),
        "tab-back" => turn_tab(app, Tab::ALL.len() - 1),
        "scroll-down" => scroll(app, 1),
        "scroll-up" => scroll(app, -1),
        "scroll-page-down" => scroll(app, page(app)),
        "scroll-page-up" => scroll(app, -page(app)),
        "search" => super::search::begin(app, &rest.join(" ")),
        "next-hit" => found::step(app, false),
        "previous-hit" => found::step(app, true),
        "fold" => fold(app, arg),
        "split" => split::change(app, arg),
        "secrets" => {
            app.detail.secrets = !app.detail.secrets;
            app.say(if app.detail.secrets {
                "secrets are shown as far as the backend gives them · x hides them"
            } else {
                "secrets are hidden"
            });
        }
        "sort" => sort_by(app, arg),
        "columns" => columns::open(app),
        "view" => saved::choose(app, &rest.join(" ")),
        "group" => group(app, arg),
        "wide" => {
            app.inventory.wide = !app.inventory.wide;
            app.inventory.skip = 0;
            app.say(if app.inventory.wide {
                "wide: all columns · Left and Right scroll them"
            } else {
                "columns that fit"
            });
        }
        "copy" => return copy(app, arg),
        "refresh" => {
            let mut effects = vec![Effect::Refresh(app.inventory.context.clone())];
            app.detail.row = None;
            effects.extend(reload(app, true));
            app.say("asking again …");
            return effects;
        }
        "mouse" => {
            app.mouse = !app.mouse;
            app.say(if app.mouse {
                "mouse on; Shift-drag selects text"
            } else {
                "mouse off: the terminal selects text"
            });
            return vec![Effect::Mouse(app.mouse)];
        }
        "question" => questions::open_first(app),
        "theme" => super::themes::choose(app, arg),
        "repaint" => return vec![Effect::Repaint],
        "suspend" => return vec![Effect::Suspend],
        "quit" => return quit(app),
        _ => app.complain(&Error::invalid(format!(
            "there is no command \"ui {word}\""
        ))),
    }
    Vec::new()
}
