//! What can be done where.

use super::{ListRow, Listing, loading};
use crate::model::Body;
use crate::tui::app::App;
use crate::tui::reading::Reading;
use crate::tui::theme::Role;

pub(super) fn support(app: &App) -> Listing {
    let (empty, note) = loading(app, Reading::Matrix, "the matrix");
    let matrix = match app.readings.body(Reading::Matrix) {
        Some(Body::Matrix(rows)) => rows.as_slice(),
        _ => &[],
    };
    let mut rows = Vec::new();
    for row in matrix {
        for cell in &row.cells {
            let role = match cell.support.word() {
                "yes" => Role::Ok,
                "no" => Role::Muted,
                _ => Role::Warn,
            };
            let why = cell.support.reason().unwrap_or_default().to_owned();
            rows.push(ListRow {
                key: format!("{} {}", row.title, cell.backend),
                cells: vec![
                    (row.title.clone(), Role::Text),
                    (cell.backend.clone(), Role::Text),
                    (cell.support.word().to_owned(), role),
                    (why.clone(), Role::Muted),
                ],
                more: vec![(
                    format!(
                        "{} on {}: {} {why}",
                        row.title,
                        cell.backend,
                        cell.support.word()
                    ),
                    role,
                )],
                ..ListRow::default()
            });
        }
    }
    Listing {
        columns: vec!["OPERATION", "BACKEND", "CAN", "WHY"],
        rows,
        empty,
        note,
    }
}
