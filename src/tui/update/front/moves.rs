//! Moving in lists and in the detail.

use super::rows::derive;
use crate::tui::app::{App, Focus, Pane, Tab};
use crate::tui::layout;
use crate::tui::listing;
use crate::tui::native;

pub(super) fn page(app: &App) -> isize {
    let rows = match app.pane {
        Pane::Inventory if app.focus == Focus::Detail => layout::detail_rows(app),
        Pane::Inventory => layout::body(app).rows,
        _ => layout::list_rows(app, false),
    };
    isize::try_from(rows.saturating_sub(1).max(1)).unwrap_or(1)
}

pub(in crate::tui::update) fn step(app: &mut App, by: isize) {
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

pub(super) fn left(app: &mut App) {
    if app.inventory.is_tree() {
        if app.inventory.fold() {
            derive(app);
        } else {
            app.say("there is nothing around this");
        }
        return;
    }
    if app.inventory.skip == 0 {
        app.say("the first column is on the screen");
    }
    app.inventory.skip = app.inventory.skip.saturating_sub(1);
}

pub(super) fn right(app: &mut App) {
    if app.inventory.is_tree() {
        if app.inventory.unfold() {
            derive(app);
        } else {
            app.say("Right unfolds a group · Enter opens an instance");
        }
        return;
    }
    let width = layout::body(app).list.map_or(0, |area| area.width);
    let all = crate::tui::columns::shown_at(app, width);
    if crate::tui::columns::hidden(&all, width, app.inventory.skip) {
        app.inventory.skip += 1;
    } else {
        app.say("the last column is on the screen");
    }
}

pub(super) fn focus(app: &mut App) {
    if app.pane != Pane::Inventory || !app.detail.open {
        app.say("there is one pane on the screen · d opens the detail");
        return;
    }
    app.focus = match app.focus {
        Focus::List => Focus::Detail,
        Focus::Detail => Focus::List,
    };
}

pub(super) fn turn_tab(app: &mut App, by: usize) {
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

/// What is opened under the cursor of a list.
fn scroll_opened(app: &mut App, by: isize) {
    let pane = app.pane;
    let cursor = app.cursors.get(&pane).cloned().unwrap_or_default();
    let list = listing::of(app, pane);
    let Some(row) = list.rows.get(cursor.row).filter(|_| cursor.open) else {
        app.say("Enter opens what is under the cursor");
        return;
    };
    let text = listing::Opened::of(row, layout::opened(app, true), cursor.scroll);
    let to = text.first.saturating_add_signed(by).min(text.last);
    if to == text.first {
        app.say(if by < 0 {
            "this is the top"
        } else {
            "this is the end"
        });
    }
    app.cursors.entry(pane).or_default().scroll = Some(to);
}

/// Folds what the cursor of a definition is in, or `all`.
pub(super) fn fold(app: &mut App, what: &str) {
    if !native::has_cursor(app) {
        app.say("only a definition folds, in the tab Native");
    } else if what == "all" {
        let text = match native::toggle_all(app) {
            0 => "all is shown".to_owned(),
            n => format!("{n} folded"),
        };
        app.say(text);
    } else if !what.is_empty() {
        app.say("ui fold folds what is under the cursor, ui fold all everything");
    } else if !native::toggle(app) {
        app.say("nothing folds here");
    }
}

pub(in crate::tui::update) fn scroll(app: &mut App, by: isize) {
    if app.pane != Pane::Inventory {
        scroll_opened(app, by);
        return;
    }
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
    if native::has_cursor(app) {
        if !native::step(app, by) {
            app.say(if by < 0 {
                "this is the top"
            } else {
                "this is the end"
            });
        }
        return;
    }
    let lines = crate::tui::view::detail_lines(app).len();
    let height = layout::detail_rows(app);
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
