//! All that is wrong.

use super::{ListRow, Listing};
use crate::action::fleet_api::filter::has_problem;
use crate::model::{Instance, TaskState};
use crate::tui::app::App;
use crate::tui::glyphs::health_role;
use crate::tui::theme::Role;

pub(super) fn problems(app: &App) -> Listing {
    let mut rows = Vec::new();
    for context in &app.fleet.contexts {
        if let Some(error) = context.health.error() {
            rows.push(problem(
                &context.name,
                &format!("{} ({})", error.message, error.label()),
                error.remedy.as_deref(),
                health_role(&context.health),
            ));
        }
        if let Some(hidden) = context.hidden.filter(|n| *n > 0) {
            rows.push(problem(
                &context.name,
                &format!("{hidden} instances are hidden from these credentials"),
                None,
                Role::Warn,
            ));
        }
        for found in &context.problems {
            let what = found
                .instance
                .as_ref()
                .map_or_else(|| context.name.clone(), ToString::to_string);
            rows.push(problem(
                &what,
                &found.message,
                found.remedy.as_deref(),
                Role::Warn,
            ));
        }
    }
    for row in &app.fleet.instances {
        if !is_listed(app, row) {
            continue;
        }
        let text = crate::tui::columns::state_text(app, row, 60);
        rows.push(problem(
            &row.id.to_string(),
            &text,
            None,
            crate::tui::glyphs::state_role(row),
        ));
    }
    for task in app.tasks.iter().rev() {
        if matches!(task.state, TaskState::Failed | TaskState::Partial) {
            let (text, role) = crate::tui::update::outcome_line(task);
            rows.push(problem(&format!("task {}", task.id), &text, None, role));
        }
    }
    let silent = app.fleet.contexts.iter().any(|c| !c.health.is_ok());
    Listing {
        columns: vec!["WHAT", "PROBLEM", "REMEDY"],
        rows,
        empty: if silent {
            "No problem is known, but not every context has answered.".to_owned()
        } else {
            "No problem: every context answered, and every instance is as it should be.".to_owned()
        },
        note: None,
    }
}

/// A problem of its own: stale rows of a context without an answer are that context's, said once.
fn is_listed(app: &App, row: &Instance) -> bool {
    has_problem(row)
        && !(row.stale
            && app
                .fleet
                .context(row.id.context())
                .is_none_or(|context| !context.health.is_ok()))
}

/// How many rows the list of problems has, without making them: the header asks at every frame.
pub fn problem_count(app: &App) -> usize {
    let contexts: usize = app
        .fleet
        .contexts
        .iter()
        .map(|c| {
            usize::from(c.health.error().is_some())
                + usize::from(c.hidden.is_some_and(|n| n > 0))
                + c.problems.len()
        })
        .sum();
    let instances = app
        .fleet
        .instances
        .iter()
        .filter(|row| is_listed(app, row))
        .count();
    let tasks = app
        .tasks
        .iter()
        .filter(|task| matches!(task.state, TaskState::Failed | TaskState::Partial))
        .count();
    contexts + instances + tasks
}

fn problem(what: &str, text: &str, remedy: Option<&str>, role: Role) -> ListRow {
    let mut more = vec![(text.to_owned(), role)];
    more.extend(remedy.iter().map(|r| (format!("-> {r}"), Role::Accent)));
    ListRow {
        key: what.to_owned(),
        cells: vec![
            (what.to_owned(), Role::Text),
            (text.to_owned(), role),
            (remedy.unwrap_or_default().to_owned(), Role::Accent),
        ],
        more,
        ..ListRow::default()
    }
}
