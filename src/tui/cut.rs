//! Where a view was when its line was cut, and the way back there.

use super::app::{App, Pane};
use super::saved;
use crate::action::ui_state::Cut;

/// Where it is.
pub fn of(app: &App) -> Cut {
    let inventory = &app.inventory;
    // An answer was asked for by a line, which is in the history of lines.
    let pane = match app.pane {
        Pane::Answer => Pane::Inventory,
        pane => pane,
    };
    Cut {
        pane: pane.word().to_owned(),
        marks: inventory.marks(),
        folded: inventory.folded.iter().cloned().collect(),
        selected: inventory.selected().map(|row| row.id.clone()),
        view: saved::present(app, ""),
    }
}

/// Back there; what is told of it.
pub fn back(app: &mut App, cut: Cut) -> String {
    let Cut {
        pane,
        marks,
        folded,
        selected,
        view,
    } = cut;
    if let Some((_, pane, _)) = Pane::NAMES.iter().find(|(word, ..)| *word == pane) {
        app.pane = *pane;
    }
    let mut told = vec!["where the line was cut".to_owned()];
    match marks.len() {
        0 => {}
        1 => told.push("1 is marked".to_owned()),
        n => told.push(format!("{n} are marked")),
    }
    if !view.filter.is_empty() {
        told.push(format!("/ {}", crate::model::shown(&view.filter)));
    }
    // Order, columns and groups are kept anyway, where the configuration does not say otherwise.
    if let Some(context) = saved::narrow(app, &view) {
        told.push(format!("context {context} is not there: all contexts"));
    }
    app.inventory.folded = folded.into_iter().collect();
    app.inventory.bring_back(marks, selected);
    told.join(" · ")
}
