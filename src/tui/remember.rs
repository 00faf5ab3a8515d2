//! What the user changed and finds again the next time.

use std::sync::Arc;

use super::app::{App, Overlay};
use super::theme::Theme;
use crate::action::ui_state::UiState;

/// What can be remembered, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    mouse: bool,
    theme: String,
    sort: String,
    detail: bool,
    filters: Arc<Vec<String>>,
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
        let way = if inventory.reverse { "-" } else { "" };
        Self {
            mouse: app.mouse,
            theme: chosen(app).name.clone(),
            sort: format!("{way}{}", inventory.sort),
            detail: app.detail.open,
            filters: Arc::clone(&app.filters),
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
        if self.filters != before.filters {
            kept.filters = self.filters.to_vec();
        }
        self != before
    }
}
