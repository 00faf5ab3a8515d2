//! What the user changed and finds again the next time.

use std::sync::Arc;

use super::app::{App, Overlay};
use super::own_columns::{self, Own};
use super::split::Split;
use super::theme::Theme;
use crate::action::ui_state::{SavedView, UiState};

/// What can be remembered, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    mouse: bool,
    theme: String,
    sort: String,
    detail: bool,
    split: Split,
    filters: Arc<Vec<String>>,
    columns: Arc<Own>,
    group: &'static str,
    views: Arc<Vec<SavedView>>,
}

/// The theme that was chosen: while themes are looked through, the one before.
fn chosen(app: &App) -> &Theme {
    app.overlays
        .iter()
        .find_map(|overlay| match overlay {
            Overlay::Themes(picker) => Some(&picker.before),
            _ => None,
        })
        .unwrap_or(&app.setup.theme)
}

impl Choices {
    /// Of a view.
    pub fn of(app: &App) -> Self {
        let inventory = &app.inventory;
        let (columns, sort, reverse) = app
            .overlays
            .iter()
            .find_map(|overlay| match overlay {
                // While columns are looked through, those before.
                Overlay::Columns(picker) => Some(picker.before.clone()),
                _ => None,
            })
            .unwrap_or_else(|| {
                let columns = Arc::clone(&inventory.columns);
                (columns, inventory.sort.clone(), inventory.reverse)
            });
        let way = if reverse { "-" } else { "" };
        Self {
            mouse: app.mouse,
            theme: chosen(app).name.clone(),
            sort: format!("{way}{sort}"),
            detail: app.detail.open,
            split: app.split,
            filters: Arc::clone(&app.filters),
            columns,
            group: inventory.grouping.word(),
            views: Arc::clone(&app.views),
        }
    }

    /// Notes in `kept` what is not as it was `before`; false when nothing is.
    pub fn note(&self, before: &Self, kept: &mut UiState) -> bool {
        if self.mouse != before.mouse {
            kept.mouse = Some(self.mouse);
        }
        if self.theme != before.theme {
            kept.theme = Some(self.theme.clone());
        }
        if self.sort != before.sort {
            kept.sort = Some(self.sort.clone());
        }
        if self.detail != before.detail {
            kept.detail = Some(self.detail);
        }
        if self.split != before.split {
            kept.beside = self.split.beside;
            kept.below = self.split.below;
        }
        if self.filters != before.filters {
            kept.filters = self.filters.to_vec();
        }
        if self.columns != before.columns {
            kept.columns = Some(own_columns::words(&self.columns));
        }
        if self.group != before.group {
            kept.group = Some(self.group.to_owned());
        }
        if self.views != before.views {
            kept.views = Some(self.views.to_vec());
        }
        self != before
    }
}
