//! Its definition as the backend has it.

use crate::model::Detail;
use crate::tui::theme::Role;

pub(super) fn native(detail: &Detail) -> Vec<(String, Role)> {
    match &detail.native {
        Some(native) => native
            .text
            .lines()
            .map(|line| (line.replace('\t', "    "), Role::Text))
            .collect(),
        None => vec![("The backend gives no definition.".to_owned(), Role::Muted)],
    }
}
