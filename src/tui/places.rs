//! Where we were: pane, row and filter, so that going back leads to the same sight.

use std::sync::Arc;

use super::app::{App, Cursor, Focus, Pane};
use super::inventory::Spot;

/// Places kept in each direction.
const KEPT: usize = 100;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pane: Pane,
    cursor: Option<Cursor>,
    /// In the inventory: filter, problems only, context, and what was under the cursor.
    sight: Option<(String, bool, Option<String>, Spot)>,
}

impl Place {
    /// The present one.
    pub fn here(app: &App) -> Self {
        let inventory = &app.inventory;
        Self {
            pane: app.pane,
            cursor: app.cursors.get(&app.pane).cloned(),
            sight: (app.pane == Pane::Inventory).then(|| {
                (
                    inventory.filter_text.clone(),
                    inventory.problems,
                    inventory.context.clone(),
                    inventory.spot(),
                )
            }),
        }
    }
}

/// Notes a place as the one to go back to; what was ahead is no more.
pub fn leave(app: &mut App, place: Place) {
    if app.back.last() != Some(&place) {
        app.back.push(place);
        let extra = app.back.len().saturating_sub(KEPT);
        app.back.drain(..extra);
    }
    app.forward.clear();
}

/// Goes there, and works the rows out as they are now.
pub fn arrive(app: &mut App, place: Place) {
    app.pane = place.pane;
    app.focus = Focus::List;
    if let Some(cursor) = place.cursor {
        app.cursors.insert(place.pane, cursor);
    }
    let Some((filter, problems, context, spot)) = place.sight else {
        return;
    };
    let fleet = Arc::clone(&app.fleet);
    let inventory = &mut app.inventory;
    inventory.set_filter(&filter);
    inventory.problems = problems;
    inventory.context = context.filter(|name| fleet.context(name).is_some());
    inventory.derive(&fleet, app.now);
    inventory.return_to(spot);
}
