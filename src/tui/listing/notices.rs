//! What was said at the bottom, to be read again.

use super::{ListRow, Listing};
use crate::tui::app::App;
use crate::tui::columns::{seconds_since, step_age};
use crate::tui::theme::Role;

pub(super) fn notices(app: &App) -> Listing {
    let rows = app
        .notices
        .iter()
        .rev()
        .map(|told| ListRow {
            key: told.number.to_string(),
            cells: vec![
                (step_age(seconds_since(app.now, told.at)), Role::Muted),
                (told.at.strftime("%H:%M:%SZ").to_string(), Role::Muted),
                (told.text.clone(), told.role),
            ],
            more: vec![
                (format!("{:.0}", told.at), Role::Muted),
                (told.text.clone(), told.role),
            ],
            ..ListRow::default()
        })
        .collect();
    Listing {
        columns: vec!["AGO", "TIME", "NOTICE"],
        rows,
        empty: "Nothing was told yet: no task has ended, nothing went wrong.".to_owned(),
        note: None,
    }
}
