//! The front's own commands: `ui …`.

use super::super::app::{Actions, App, CommandLine, Focus, Overlay, Pane, Tab};
use super::super::command::row_at;
use super::super::dialog::QuitDialog;
use super::super::edit::Line;
use super::super::form::Form;
use super::super::layout;
use super::super::listing;
use super::super::msg::Effect;
use super::super::theme::Theme;
use super::{changes, keys, questions};
use crate::action::fleet_api::sort;
use crate::model::{Action, Error, GroupNoun, InstanceId};

/// Carries one out.
pub(super) fn run(app: &mut App, word: &str, rest: &[String]) -> Vec<Effect> {
    let arg = rest.first().map_or("", String::as_str);
    match word {
        "go" => return go(app, arg),
        "help" => app.overlays.push(Overlay::Help(0)),
        "command" => app.overlays.push(Overlay::Command(CommandLine::default())),
        "filter" if rest.is_empty() => {
            show(app, Pane::Inventory);
            let before = app.inventory.filter_text.clone();
            app.overlays
                .push(Overlay::Filter(Line::new(&before), before));
        }
        "filter" => {
            show(app, Pane::Inventory);
            set_filter(app, &rest.join(" "));
        }
        "actions" => return actions(app),
        "form" => {
            if !form(app, rest) {
                app.complain(&Error::invalid("there is no form for that"));
            }
        }
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
        "escape" => return escape(app),
        "close" => return close(app),
        "back" => back(app),
        "forward" => forward(app),
        "mark" | "range" | "mark-all" | "unmark" => mark(app, word),
        "context" => context(app, arg),
        "problems" => {
            app.inventory.problems = !app.inventory.problems;
            show(app, Pane::Inventory);
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
        "sort" => sort_by(app, arg),
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
        "theme" => theme(app, arg),
        "repaint" => return vec![Effect::Repaint],
        "suspend" => return vec![Effect::Suspend],
        "quit" => return quit(app),
        _ => app.complain(&Error::invalid(format!(
            "there is no command \"ui {word}\""
        ))),
    }
    Vec::new()
}

/// Puts a pane on the screen; where we were is a way back.
pub(super) fn show(app: &mut App, pane: Pane) {
    if app.pane != pane {
        app.back.push(app.pane);
        app.forward.clear();
        app.pane = pane;
        app.focus = Focus::List;
    }
}

fn go(app: &mut App, name: &str) -> Vec<Effect> {
    if name == "snapshots" {
        open_detail(app, Tab::Snapshots);
        return Vec::new();
    }
    let Some((_, pane, _)) = Pane::NAMES.iter().find(|(word, _, _)| *word == name) else {
        let names: Vec<&str> = Pane::NAMES.iter().map(|(word, _, _)| *word).collect();
        app.complain(&Error::invalid(format!(
            "there is no pane {name:?}; there are {} and snapshots",
            names.join(", ")
        )));
        return Vec::new();
    };
    app.notice = None;
    if app.pane == *pane {
        app.say(format!("{} is on the screen", pane.title()));
    }
    show(app, *pane);
    reload(app, false)
}

/// Asks for what the pane shows; again, if it was there before.
fn reload(app: &mut App, again: bool) -> Vec<Effect> {
    let verb = match app.pane {
        Pane::History => "history",
        Pane::Doctor => "doctor",
        Pane::Support => "matrix",
        _ => return Vec::new(),
    };
    let number = app.number();
    let loaded = match app.pane {
        Pane::History => &mut app.history,
        Pane::Doctor => &mut app.doctor,
        _ => &mut app.matrix,
    };
    // The journal and the checks change behind our back; the matrix does not.
    if loaded.asked.is_some() && !again || (loaded.value.is_some() && app.pane == Pane::Support) {
        return Vec::new();
    }
    loaded.asked = Some(number);
    let mut action = Action::new(verb);
    if verb == "history" {
        action = action.with("last", 200);
    }
    vec![Effect::Read(number, action)]
}

/// A question of the command line: the pane that answers it, or a new answer.
pub(super) fn question(app: &mut App, action: Action, line: &str) -> Vec<Effect> {
    let plain =
        action.targets.is_empty() && action.args.0.is_empty() && action.scope.filter.is_none();
    let pane = match action.verb.as_str() {
        "list" if plain => Some("inventory"),
        "tasks list" if plain => Some("tasks"),
        "history" if plain => Some("history"),
        "doctor" if plain => Some("doctor"),
        "matrix" if plain => Some("support"),
        "context list" if plain => Some("contexts"),
        _ => None,
    };
    if let Some(pane) = pane {
        return go(app, pane);
    }
    let number = app.number();
    app.asked.push((number, line.to_owned()));
    app.say(format!("{line} …"));
    vec![Effect::Read(number, action)]
}

fn derive(app: &mut App) {
    let fleet = std::sync::Arc::clone(&app.fleet);
    app.inventory.derive(&fleet, app.now);
}

/// Sets the filter and works the rows out.
pub(super) fn set_filter(app: &mut App, text: &str) {
    app.inventory.set_filter(text);
    derive(app);
}

fn page(app: &App) -> isize {
    let rows = match app.pane {
        Pane::Inventory => layout::body(app).rows,
        _ => layout::list_rows(app.setup.size, false),
    };
    isize::try_from(rows.saturating_sub(1).max(1)).unwrap_or(1)
}

fn step(app: &mut App, by: isize) {
    match app.pane {
        Pane::Inventory if app.focus == Focus::Detail => scroll(app, by),
        Pane::Inventory => app.inventory.step(by),
        pane => {
            let count = listing::of(app, pane).rows.len();
            let cursor = app.cursors.entry(pane).or_default();
            cursor.row = cursor
                .row
                .saturating_add_signed(by)
                .min(count.saturating_sub(1));
            cursor.key = None;
        }
    }
}

fn left(app: &mut App) {
    if app.inventory.skip == 0 {
        app.say("the first column is on the screen");
    }
    app.inventory.skip = app.inventory.skip.saturating_sub(1);
}

fn right(app: &mut App) {
    let width = layout::body(app).list.map_or(0, |area| area.width);
    let all = super::super::columns::shown_at(app, width);
    if super::super::columns::hidden(&all, width, app.inventory.skip) {
        app.inventory.skip += 1;
    } else {
        app.say("the last column is on the screen");
    }
}

fn open_detail(app: &mut App, tab: Tab) {
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

fn open(app: &mut App) -> Vec<Effect> {
    match app.pane {
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
                app.say("no context is under the cursor");
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
fn escape(app: &mut App) -> Vec<Effect> {
    app.notice = None;
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

fn close(app: &mut App) -> Vec<Effect> {
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

fn back(app: &mut App) {
    let Some(pane) = app.back.pop() else {
        app.say("there is nothing before this");
        return;
    };
    app.forward.push(app.pane);
    app.pane = pane;
    app.focus = Focus::List;
}

fn forward(app: &mut App) {
    let Some(pane) = app.forward.pop() else {
        app.say("there is nothing after this");
        return;
    };
    app.back.push(app.pane);
    app.pane = pane;
    app.focus = Focus::List;
}

fn mark(app: &mut App, word: &str) {
    if word != "unmark" && app.inventory.rows.is_empty() {
        app.say("there is nothing to mark");
        return;
    }
    match word {
        "mark" => app.inventory.mark(),
        "mark-all" => app.inventory.mark_all(),
        "range" => match app.inventory.mark_range() {
            Some(count) => app.say(format!("{count} in the range marked")),
            None => app.say("range begins here · V at its end · Esc gives it up"),
        },
        _ => {
            let (all, hidden) = app.inventory.unmark_all();
            app.say(match (all, hidden) {
                (0, _) => "nothing was marked".to_owned(),
                (n, 0) => format!("{n} unmarked"),
                (n, h) => format!("{n} unmarked, {h} of them were hidden by the filter"),
            });
        }
    }
    derive(app);
}

fn context(app: &mut App, number: &str) {
    let wanted = match number.parse::<usize>() {
        Ok(0) => None,
        Ok(n) => match app.fleet.contexts.get(n - 1) {
            Some(context) if app.inventory.context.as_ref() != Some(&context.name) => {
                Some(context.name.clone())
            }
            Some(_) => None,
            None => {
                app.say(format!(
                    "there is no context {n}; there are {}",
                    app.fleet.contexts.len()
                ));
                return;
            }
        },
        Err(_) if app.fleet.context(number).is_some() => Some(number.to_owned()),
        Err(_) => {
            app.say(format!("there is no context {number:?}"));
            return;
        }
    };
    show(app, Pane::Inventory);
    app.say(match &wanted {
        Some(name) => format!("only context {name} · 0 shows all"),
        None => "all contexts".to_owned(),
    });
    app.inventory.context = wanted;
    derive(app);
}

fn focus(app: &mut App) {
    if app.pane != Pane::Inventory || !app.detail.open {
        app.say("there is one pane on the screen · d opens the detail");
        return;
    }
    app.focus = match app.focus {
        Focus::List => Focus::Detail,
        Focus::Detail => Focus::List,
    };
}

fn turn_tab(app: &mut App, by: usize) {
    if !app.detail.open {
        app.say("d opens the detail");
        return;
    }
    let at = Tab::ALL
        .iter()
        .position(|tab| *tab == app.detail.tab)
        .unwrap_or(0);
    app.detail.tab = Tab::ALL[(at + by) % Tab::ALL.len()];
    app.detail.scroll = 0;
}

fn scroll(app: &mut App, by: isize) {
    if !app.detail.open {
        app.say("d opens the detail");
        return;
    }
    if app.detail.tab == Tab::Snapshots && app.focus == Focus::Detail {
        let count = app.current_detail().map_or(0, |d| d.snapshots.len());
        let row = app
            .detail
            .snapshot
            .saturating_add_signed(by)
            .min(count.saturating_sub(1));
        if row == app.detail.snapshot {
            app.say(if by < 0 {
                "this is the top"
            } else {
                "this is the end"
            });
        }
        app.detail.snapshot = row;
        return;
    }
    let lines = super::super::view::detail_lines(app).len();
    let height = layout::body(app)
        .detail
        .map_or(1, |area| usize::from(area.height.saturating_sub(2)).max(1));
    let scroll = app
        .detail
        .scroll
        .saturating_add_signed(by)
        .min(lines.saturating_sub(height));
    if scroll == app.detail.scroll {
        app.say(if by < 0 {
            "this is the top"
        } else {
            "this is the end"
        });
    }
    app.detail.scroll = scroll;
}

fn sort_by(app: &mut App, column: &str) {
    if column == "reverse" {
        app.inventory.reverse = !app.inventory.reverse;
    } else if sort::by_column(column).is_some() {
        column.clone_into(&mut app.inventory.sort);
        app.inventory.reverse = false;
    } else {
        app.complain(&Error::invalid(format!(
            "there is no column {column:?}; there are {}",
            sort::COLUMNS.join(", ")
        )));
        return;
    }
    let way = if app.inventory.reverse {
        ", turned round"
    } else {
        ""
    };
    app.say(format!("sorted by {}{way}", app.inventory.sort));
    derive(app);
}

fn copy(app: &mut App, what: &str) -> Vec<Effect> {
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
            "command" => format!("corral info {}", row.id),
            _ => String::new(),
        }),
        _ => None,
    };
    match text {
        None => app.say("nothing is under the cursor"),
        Some(text) if text.is_empty() => app.say(format!("no {what} is known")),
        Some(text) => {
            app.say(format!(
                "{} ({} bytes) sent to the terminal's clipboard; empty paste? tmux: set -s set-clipboard on",
                what,
                text.len()
            ));
            return vec![Effect::Copy(text)];
        }
    }
    Vec::new()
}

fn theme(app: &mut App, name: &str) {
    let names: Vec<&str> = Theme::names().collect();
    let at = names
        .iter()
        .position(|n| *n == app.setup.theme.name)
        .unwrap_or(0);
    let wanted = if name.is_empty() {
        names[(at + 1) % names.len()]
    } else {
        name
    };
    match Theme::built_in(wanted, app.setup.depth) {
        Some(theme) => {
            let now = theme.name.clone();
            app.setup.theme = theme;
            app.say(if now == wanted {
                format!("theme {now}")
            } else {
                format!("theme {now}: this terminal shows no colours, or NO_COLOR is set")
            });
        }
        None => app.complain(&Error::invalid(format!(
            "there is no theme {name:?}; there are {}",
            names.join(", ")
        ))),
    }
}

/// Whom an action would concern, in words.
pub(super) fn targets_text(app: &App) -> String {
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

fn actions(app: &mut App) -> Vec<Effect> {
    let targets = match app.focus {
        Focus::Detail => app.inventory.selected().cloned().into_iter().collect(),
        Focus::List => app.inventory.targets(),
    };
    if targets.is_empty() {
        app.say("no instance is under the cursor");
        return Vec::new();
    }
    let number = app.number();
    app.overlays.push(Overlay::Actions(Actions {
        title: targets_text(app),
        asked: number,
        support: None,
        row: 0,
    }));
    vec![Effect::Support(
        number,
        targets.iter().map(|row| row.id.clone()).collect(),
    )]
}

/// Opens the form of a command; false if there is none.
pub(super) fn form(app: &mut App, words: &[String]) -> bool {
    let filled = super::super::command::words(
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
            return true;
        }
    };
    let Some(row) = row_at(&words) else {
        return false;
    };
    if !row.is_change() {
        return false;
    }
    let name_words = row.name.split(' ').count();
    let targets: Vec<String> = words
        .iter()
        .skip(name_words)
        .filter(|w| !w.starts_with('-'))
        .cloned()
        .collect();
    let title = match (row.noun, targets.as_slice()) {
        (GroupNoun::NewInstance, _) => match &app.inventory.context {
            Some(context) => format!("in {context}"),
            None => "in the default context".to_owned(),
        },
        (_, []) => String::new(),
        (_, [one]) => one.clone(),
        (_, many) => format!("{} instances", many.len()),
    };
    let mut form = Form::new(row, targets, title);
    if row.noun == GroupNoun::NewInstance
        && let Some(context) = &app.inventory.context
    {
        form.extra = vec![format!("--context={context}")];
    }
    form.hidden = changes::hidden_for(app, row);
    app.overlays.push(Overlay::Form(Box::new(form)));
    true
}

/// Leaves; asks first while work is under way.
pub(super) fn quit(app: &mut App) -> Vec<Effect> {
    if app.running_tasks().next().is_none() && app.submitting.is_empty() {
        app.leaving = true;
        return vec![Effect::Quit];
    }
    if !app.overlays.iter().any(|o| matches!(o, Overlay::Quit(_))) {
        app.overlays.push(Overlay::Quit(QuitDialog::default()));
    }
    Vec::new()
}
