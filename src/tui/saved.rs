//! Views under a name: filter, order, columns and groups together.

use std::sync::Arc;

use super::app::App;
use super::edit::Line;
use super::groups::Grouping;
use super::own_columns;
use crate::action::ui_state::SavedView;

/// Longer names are cut.
pub const NAME: usize = 40;

/// The list of views while it is open.
#[derive(Clone, Debug, Default)]
pub struct ViewMenu {
    /// Chosen row.
    pub row: usize,
    /// The name that is typed for what is on the screen.
    pub naming: Option<Line>,
    /// The same key again saves over this one.
    pub replacing: Option<String>,
    /// The same key again deletes this one.
    pub deleting: Option<String>,
}

/// What is on the screen, as a view of this name.
pub fn present(app: &App, name: &str) -> SavedView {
    let inventory = &app.inventory;
    let way = if inventory.reverse { "-" } else { "" };
    SavedView {
        name: name.to_owned(),
        filter: inventory.filter_text.trim().to_owned(),
        problems: inventory.problems,
        context: inventory.context.clone(),
        sort: format!("{way}{}", inventory.sort),
        group: inventory.grouping.word().to_owned(),
        columns: own_columns::words(&inventory.columns),
    }
}

/// Shows only what a view shows; the context that it names and that there is not is told by its name.
pub fn narrow(app: &mut App, view: &SavedView) -> Option<String> {
    let gone = view
        .context
        .clone()
        .filter(|name| app.fleet.context(name).is_none());
    let inventory = &mut app.inventory;
    inventory.set_filter(&view.filter);
    inventory.problems = view.problems;
    inventory.context = view.context.clone().filter(|_| gone.is_none());
    gone
}

/// Puts a view on the screen; of its context as [`narrow`].
pub fn put_on(app: &mut App, view: &SavedView) -> Option<String> {
    let gone = narrow(app, view);
    let inventory = &mut app.inventory;
    if super::columns::sorts(&view.sort) {
        inventory.reverse = view.sort.starts_with('-');
        view.sort
            .trim_start_matches('-')
            .clone_into(&mut inventory.sort);
    }
    inventory.grouping = Grouping::read(&view.group);
    inventory.columns = Arc::new(own_columns::read(&view.columns));
    (inventory.wide, inventory.skip) = (false, 0);
    gone
}

/// What a view shows, in a line.
pub fn says(view: &SavedView) -> String {
    let mut parts = Vec::new();
    if !view.filter.is_empty() {
        parts.push(format!("/ {}", view.filter));
    }
    if view.problems {
        parts.push("problems only".to_owned());
    }
    parts.extend(view.context.iter().map(|name| format!("only {name}")));
    match view.sort.strip_prefix('-') {
        Some(sort) => parts.push(format!("by {sort} reversed")),
        None => parts.push(format!("by {}", view.sort)),
    }
    if !view.group.is_empty() {
        parts.push(format!("grouped by {}", view.group));
    }
    if !view.columns.is_empty() {
        parts.push("own columns".to_owned());
    }
    parts.join(" · ")
}
