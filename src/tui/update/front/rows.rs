//! Which rows there are, in which order, and which are marked.

use super::panes::{jump, show};
use crate::action::fleet_api::sort;
use crate::model::Error;
use crate::tui::app::{App, Pane};
use crate::tui::groups::Grouping;

/// Works the rows out anew.
pub(in crate::tui::update) fn derive(app: &mut App) {
    let fleet = std::sync::Arc::clone(&app.fleet);
    app.inventory.derive(&fleet, app.now);
}

/// Sets the filter and works the rows out.
pub(in crate::tui::update) fn set_filter(app: &mut App, text: &str) {
    app.inventory.set_filter(text);
    derive(app);
}

pub(super) fn mark(app: &mut App, word: &str) {
    if word != "unmark" && app.inventory.rows.is_empty() {
        app.say("there is nothing to mark");
        return;
    }
    match word {
        "mark" => app.inventory.mark(),
        "mark-all" => app.inventory.mark_all(),
        "range" if app.inventory.selected().is_none() => {
            app.say("a range begins and ends on an instance");
        }
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

pub(super) fn context(app: &mut App, number: &str) {
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
    jump(app);
    app.say(match &wanted {
        Some(name) => format!("only context {name} · 0 shows all"),
        None => "all contexts".to_owned(),
    });
    app.inventory.context = wanted;
    derive(app);
}

/// Turns to the next way of grouping, or to the one that is named.
pub(super) fn group(app: &mut App, word: &str) {
    let grouping = match word {
        "" => app.inventory.grouping.next(),
        "none" => Grouping::None,
        "host" | "tag" => Grouping::read(word),
        _ => {
            let text = format!("the inventory is grouped by host, tag or none, not by {word:?}");
            app.complain(&Error::invalid(text));
            return;
        }
    };
    show(app, Pane::Inventory);
    app.inventory.grouping = grouping;
    app.inventory.skip = 0;
    derive(app);
    app.say(match grouping {
        Grouping::None => "a table · t: by context and host",
        Grouping::Host => "by context and host · Left and Right fold · t: by tag",
        Grouping::Tag => "by tag · Left and Right fold · t: a table",
    });
}

/// Sorts by a column, or turns it round.
pub(in crate::tui::update) fn sort_by(app: &mut App, column: &str) {
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
