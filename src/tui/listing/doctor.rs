//! Checks, and what to do about them.

use super::{ListRow, Listing, loading};
use crate::model::{Body, Check, CheckStatus, counted};
use crate::tui::app::App;
use crate::tui::reading::Reading;
use crate::tui::theme::Role;

/// Columns of a screen on which a check and its remedy have room side by side.
const WITH_REMEDY: u16 = 120;

pub(super) fn doctor(app: &App) -> Listing {
    let (empty, mut note) = loading(app, Reading::Doctor, "every context");
    let checks = match app.readings.body(Reading::Doctor) {
        Some(Body::Checks(checks)) => checks.as_slice(),
        _ => &[],
    };
    if note.is_none() && !checks.is_empty() {
        let count = |status| checks.iter().filter(|c| c.status == status).count();
        let (bad, warn) = (count(CheckStatus::Fail), count(CheckStatus::Warn));
        let role = if bad > 0 {
            Role::Error
        } else if warn > 0 {
            Role::Warn
        } else {
            Role::Ok
        };
        note = Some((
            format!(
                "{} ok, {}, {bad} failed",
                count(CheckStatus::Ok),
                counted(warn, "warning")
            ),
            role,
        ));
    }
    // What is wrong stands first; on a narrow screen what to do about it is one Enter away.
    let mut order: Vec<(usize, &Check)> = checks.iter().enumerate().collect();
    order.sort_by_key(|(_, check)| match check.status {
        CheckStatus::Fail => 0,
        CheckStatus::Warn => 1,
        CheckStatus::Ok => 2,
    });
    let mut columns = vec!["STATUS", "CONTEXT", "CHECK", "REMEDY"];
    if app.setup.size.0 < WITH_REMEDY {
        columns.pop();
    }
    let rows = order
        .into_iter()
        .map(|(n, check)| {
            let (word, role) = match check.status {
                CheckStatus::Ok => ("ok", Role::Ok),
                CheckStatus::Warn => ("warn", Role::Warn),
                CheckStatus::Fail => ("FAIL", Role::Error),
            };
            let context = check.context.clone().unwrap_or_else(|| "corral".to_owned());
            let mut more = vec![(check.message.clone(), role)];
            more.extend(
                check
                    .remedy
                    .iter()
                    .map(|r| (format!("-> {r}"), Role::Accent)),
            );
            if check.fix.is_some() {
                more.push(("F repairs it".to_owned(), Role::Text));
            }
            ListRow {
                key: format!("{n} {context} {}", check.id),
                cells: vec![
                    (word.to_owned(), role),
                    (context, Role::Text),
                    (check.message.clone(), Role::Text),
                    (check.remedy.clone().unwrap_or_default(), Role::Accent),
                ],
                more,
                ..ListRow::default()
            }
        })
        .collect();
    Listing {
        columns,
        rows,
        empty,
        note,
    }
}
