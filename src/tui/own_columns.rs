//! Columns that were chosen in the view: which, in which order, how wide, for each class of widths.

use std::collections::BTreeMap;

use super::app::App;
use super::columns::{self, Column, Sized};
use crate::action::ui_state::ColumnWords;

/// Chosen columns by the class of their width.
pub type Own = BTreeMap<u16, Vec<Sized>>;

pub use crate::config::WIDTHS;

/// As it was kept; what cannot be understood is left out.
pub fn read(words: &ColumnWords) -> Own {
    let all = words.iter().filter_map(|(class, words)| {
        let class: u16 = class.parse().ok().filter(|n| columns::class(*n) == *n)?;
        let mut columns = vec![(Column::Name, 0)];
        for word in words {
            let (word, width) = word.split_once(':').unwrap_or((word, ""));
            let Some(column) = Column::read(word) else {
                continue;
            };
            if columns.iter().all(|(known, _)| *known != column) {
                let width = width.parse().ok().filter(|n| WIDTHS.contains(n));
                let usual = || columns::usual_width(column, class);
                columns.push((column, width.unwrap_or_else(usual)));
            }
        }
        Some((class, columns))
    });
    all.collect()
}

/// As it is kept: a width only where it is not the usual one.
pub fn words(own: &Own) -> ColumnWords {
    let word = |class: u16, (column, width): &Sized| {
        let word = column.title().to_lowercase();
        if *column == Column::Name || *width == columns::usual_width(*column, class) {
            word
        } else {
            format!("{word}:{width}")
        }
    };
    let all = own.iter().map(|(class, columns)| {
        let columns = columns.iter().map(|column| word(*class, column));
        (class.to_string(), columns.collect())
    });
    all.collect()
}

/// The list of columns while it is open.
#[derive(Clone, Debug)]
pub struct ColumnPicker {
    /// The class of widths that it is about.
    pub class: u16,
    /// Every column, whether it is shown, and how wide: those that are shown first.
    pub rows: Vec<(Column, bool, u16)>,
    /// Chosen row.
    pub row: usize,
    /// What was before, for Esc: columns, and the order of the rows.
    pub before: (std::sync::Arc<Own>, String, bool),
}

impl ColumnPicker {
    /// For a list as wide as the one on the screen.
    pub fn new(app: &App, width: u16) -> Self {
        let inventory = &app.inventory;
        Self {
            class: columns::class(width),
            rows: rows(&columns::shown_at(app, width), width),
            row: 0,
            before: (
                std::sync::Arc::clone(&inventory.columns),
                inventory.sort.clone(),
                inventory.reverse,
            ),
        }
    }

    /// Those that are shown, in order.
    pub fn shown(&self) -> Vec<Sized> {
        let shown = self.rows.iter().filter(|(_, on, _)| *on);
        shown.map(|(column, _, width)| (*column, *width)).collect()
    }

    /// Shows or hides the chosen one; what is shown anew stands behind the others that are.
    pub fn toggle(&mut self) {
        let Some((column, on, width)) = self.rows.get(self.row).copied() else {
            return;
        };
        if on {
            self.rows[self.row].1 = false;
            return;
        }
        self.rows.remove(self.row);
        let last = self.rows.iter().rposition(|(_, on, _)| *on);
        self.row = last.map_or(0, |last| last + 1);
        self.rows.insert(self.row, (column, true, width));
    }

    /// Moves the chosen one; NAME stays first.
    pub fn move_by(&mut self, by: isize) -> bool {
        let to = self.row.saturating_add_signed(by);
        let free = 1..self.rows.len();
        if !free.contains(&self.row) || !free.contains(&to) {
            return false;
        }
        self.rows.swap(self.row, to);
        self.row = to;
        true
    }
}

/// Every column, those of a list first.
pub fn rows(shown: &[Sized], width: u16) -> Vec<(Column, bool, u16)> {
    let on = shown.iter().map(|(column, width)| (*column, true, *width));
    let off = Column::ALL
        .into_iter()
        .filter(|column| shown.iter().all(|(c, _)| c != column))
        .map(|column| (column, false, columns::usual_width(column, width)));
    on.chain(off).collect()
}
