//! A group of the tree instead of an instance: how many of it are how.

use crate::model::{State, counted};
use crate::tui::app::App;
use crate::tui::glyphs::state_role;
use crate::tui::groups::Group;
use crate::tui::theme::Role;

pub(super) fn group(app: &App, group: &Group) -> Vec<(String, Role)> {
    let inventory = &app.inventory;
    let rows = inventory.tree.rows_of(group).iter();
    let rows: Vec<_> = rows.filter_map(|n| inventory.rows.get(*n)).collect();
    let mut lines = vec![(
        format!("{}: {}", group.title, counted(rows.len(), "instance")),
        Role::Title,
    )];
    for state in State::ALL {
        let mut of_state = rows.iter().filter(|row| row.state == state);
        let Some(first) = of_state.next() else {
            continue;
        };
        let glyph = app.setup.glyphs.state(state);
        let count = of_state.count() + 1;
        lines.push((format!("{glyph} {count} {state}"), state_role(first)));
    }
    if group.problems > 0 {
        lines.push((counted(group.problems, "problem"), Role::Warn));
    }
    lines.push((
        "Space marks all of them, Left and Right fold".to_owned(),
        Role::Muted,
    ));
    lines
}
