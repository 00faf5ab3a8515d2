//! The lists of the other panes: what each row says, short and in full.

use super::app::{App, Loaded, Pane};
use super::columns::{seconds_since, step_age};
use super::glyphs::health_role;
use super::theme::Role;
use crate::model::{
    Body, CheckStatus, ContextView, Data, Health, HistoryEntry, TargetState, Task, TaskState,
    shown_width,
};

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRow {
    /// What it is about; the cursor stays on it.
    pub key: String,
    /// Its cells.
    pub cells: Vec<(String, Role)>,
    /// All of it, when it is opened.
    pub more: Vec<(String, Role)>,
}

/// A list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Headings.
    pub columns: Vec<&'static str>,
    /// Rows.
    pub rows: Vec<ListRow>,
    /// What an empty list means.
    pub empty: String,
    /// Something to know about the whole.
    pub note: Option<(String, Role)>,
}

impl Listing {
    /// Widths of the columns on `width`: each what it needs, the widest give way.
    pub fn widths(&self, width: u16) -> Vec<u16> {
        let width = usize::from(width);
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(n, title)| {
                let cells = self.rows.iter().filter_map(|row| row.cells.get(n));
                let widest = cells
                    .map(|(text, _)| shown_width(&crate::model::shown(text)))
                    .max();
                widest.unwrap_or(0).max(title.len()).min(width.max(1))
            })
            .collect();
        let gaps = widths.len();
        while widths.iter().sum::<usize>() + gaps > width {
            let Some(widest) = widths.iter_mut().max() else {
                break;
            };
            if *widest <= 4 {
                break;
            }
            *widest -= 1;
        }
        widths.iter().map(|w| *w as u16).collect()
    }
}

/// The list of a pane.
pub fn of(app: &App, pane: Pane) -> Listing {
    match pane {
        Pane::Inventory => Listing::default(),
        Pane::Tasks => tasks(app),
        Pane::History => history(app),
        Pane::Doctor => doctor(app),
        Pane::Contexts => contexts(app),
        Pane::Problems => problems(app),
        Pane::Support => support(app),
        Pane::Answer => answer(app),
    }
}

fn task_role(state: TaskState) -> Role {
    match state {
        TaskState::Queued | TaskState::Running => Role::Busy,
        TaskState::Done => Role::Ok,
        TaskState::Partial | TaskState::Cancelled | TaskState::TimedOut => Role::Warn,
        TaskState::Failed | TaskState::Interrupted => Role::Error,
    }
}

fn tasks(app: &App) -> Listing {
    let rows = app
        .tasks
        .iter()
        .rev()
        .map(|task| task_row(app, task))
        .collect();
    Listing {
        columns: vec!["STATE", "TASK", "DONE", "BEGAN", "COMMAND"],
        rows,
        empty: "No task of this corral yet. Every change becomes one; g y shows those of before."
            .to_owned(),
        note: None,
    }
}

fn task_row(app: &App, task: &Task) -> ListRow {
    let done = task
        .targets
        .iter()
        .filter(|t| !matches!(t.state, TargetState::Queued | TargetState::Running))
        .count();
    let mut progress = format!("{done}/{}", task.targets.len());
    if let Some(percent) = percent(task) {
        progress = format!("{progress} {percent}%");
    }
    let mut more = Vec::new();
    more.push((format!("= {}", task.command), Role::Accent));
    for target in &task.targets {
        let (word, role) = match &target.state {
            TargetState::Queued => ("queued".to_owned(), Role::Muted),
            TargetState::Running => {
                let step = target.step.clone().unwrap_or_else(|| "running".to_owned());
                let part = target
                    .progress
                    .filter(|(_, total)| *total > 0)
                    .map(|(done, total)| format!(", {} %", done * 100 / total))
                    .unwrap_or_default();
                (format!("{step}{part}"), Role::Busy)
            }
            TargetState::Done(outcome) => {
                let message = outcome.message.clone().unwrap_or_else(|| "done".to_owned());
                (message, Role::Ok)
            }
            TargetState::Failed(error) => (super::answer::error_line(error), Role::Error),
            TargetState::Skipped => ("not begun".to_owned(), Role::Warn),
        };
        more.push((format!("{}: {word}", target.id), role));
        if let Some(native) = &target.native_task {
            more.push((format!("  server's task {native}"), Role::Muted));
        }
    }
    more.extend(task.log.iter().map(|line| (line.clone(), Role::Text)));
    ListRow {
        key: task.id.clone(),
        cells: vec![
            (task.state.as_str().to_owned(), task_role(task.state)),
            (task.id.clone(), Role::Muted),
            (progress, Role::Text),
            (
                step_age(seconds_since(app.now, task.started_at)),
                Role::Muted,
            ),
            (task.command.clone(), Role::Text),
        ],
        more,
    }
}

fn percent(task: &Task) -> Option<u64> {
    let (done, total) = task
        .targets
        .iter()
        .filter(|t| matches!(t.state, TargetState::Running))
        .filter_map(|t| t.progress)
        .fold((0u64, 0u64), |(a, b), (done, total)| {
            (a.saturating_add(done), b.saturating_add(total))
        });
    (total > 0).then(|| done.saturating_mul(100) / total)
}

fn loading<T>(loaded: &Loaded<T>, what: &str) -> (String, Option<(String, Role)>) {
    match (&loaded.error, loaded.asked, &loaded.value) {
        (Some(error), _, _) => (
            String::new(),
            Some((super::answer::error_line(error), Role::Error)),
        ),
        (None, Some(_), None) => (format!("asking {what} …"), None),
        (None, Some(_), Some(_)) => (
            String::new(),
            Some(("asking again …".to_owned(), Role::Busy)),
        ),
        _ => (format!("nothing in {what}"), None),
    }
}

fn entries(data: Option<&Data>) -> &[HistoryEntry] {
    match data.map(|d| &d.body) {
        Some(Body::History(entries)) => entries,
        _ => &[],
    }
}

/// The command of a history row.
pub fn history_command(app: &App, row: usize) -> Option<String> {
    let all = entries(app.history.value.as_deref());
    all.iter().rev().nth(row).map(|entry| entry.command.clone())
}

fn history(app: &App) -> Listing {
    let (empty, note) = loading(&app.history, "the journal");
    let rows = entries(app.history.value.as_deref())
        .iter()
        .rev()
        .map(|entry| {
            let role = match entry.state.as_str() {
                "done" => Role::Ok,
                "running" => Role::Busy,
                "failed" | "interrupted" => Role::Error,
                _ => Role::Warn,
            };
            let mut more = vec![
                (format!("= {}", entry.command), Role::Accent),
                (
                    format!("{:.0} by {}, task {}", entry.at, entry.user, entry.task),
                    Role::Text,
                ),
                (format!("on {}", entry.targets.join(", ")), Role::Text),
            ];
            more.extend(entry.error.iter().map(|e| (e.clone(), Role::Error)));
            ListRow {
                key: entry.task.clone(),
                cells: vec![
                    (step_age(seconds_since(app.now, entry.at)), Role::Muted),
                    (entry.state.clone(), role),
                    (entry.user.clone(), Role::Muted),
                    (entry.command.clone(), Role::Text),
                ],
                more,
            }
        })
        .collect();
    Listing {
        columns: vec!["AGO", "STATE", "USER", "COMMAND"],
        rows,
        empty,
        note,
    }
}

fn doctor(app: &App) -> Listing {
    let (empty, mut note) = loading(&app.doctor, "every context");
    let checks = match app.doctor.value.as_ref().map(|d| &d.body) {
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
                "{} ok, {warn} warnings, {bad} failed",
                count(CheckStatus::Ok)
            ),
            role,
        ));
    }
    let rows = checks
        .iter()
        .enumerate()
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
            }
        })
        .collect();
    Listing {
        columns: vec!["STATUS", "CONTEXT", "CHECK", "REMEDY"],
        rows,
        empty,
        note,
    }
}

/// A context's health in a word or a few.
pub fn health_text(app: &App, context: &ContextView) -> String {
    let since = || {
        context
            .answered_at
            .map(|at| step_age(seconds_since(app.now, at)))
    };
    match &context.health {
        Health::Ok => "ok".to_owned(),
        Health::Connecting => "connecting".to_owned(),
        Health::Stale(_) => format!("stale {}", since().unwrap_or_default()),
        Health::Failed(_) => "no answer".to_owned(),
        Health::LoginNeeded(_) => "login needed".to_owned(),
    }
}

fn contexts(app: &App) -> Listing {
    let mut rows: Vec<ListRow> = app
        .fleet
        .contexts
        .iter()
        .enumerate()
        .map(|(n, context)| context_row(app, n, context))
        .collect();
    for (what, why, how) in &app.setup.absent {
        rows.push(ListRow {
            key: format!("absent {what}"),
            cells: vec![
                ("-".to_owned(), Role::Muted),
                (what.clone(), Role::Muted),
                ("not added".to_owned(), Role::Muted),
                (String::new(), Role::Muted),
                (String::new(), Role::Muted),
                (format!("{why} · {how}"), Role::Muted),
            ],
            more: Vec::new(),
        });
    }
    Listing {
        columns: vec!["#", "CONTEXT", "HEALTH", "KIND", "INSTANCES", "SERVER"],
        rows,
        empty: "No context at all. In a shell: corral context add NAME --backend KIND".to_owned(),
        note: None,
    }
}

fn context_row(app: &App, n: usize, context: &ContextView) -> ListRow {
    let count = match (context.complete, context.answered_at) {
        (true, _) => context.count.to_string(),
        (false, Some(_)) => format!("{}+", context.count),
        (false, None) if context.count > 0 => format!("{}?", context.count),
        (false, None) => "?".to_owned(),
    };
    let mut flags = String::new();
    if context.readonly {
        flags.push_str(" RO");
    }
    if context.protected {
        flags.push_str(" P");
    }
    let server = match (&context.health.error(), &context.facts) {
        (Some(error), _) => super::answer::error_line(error),
        (None, Some(facts)) => facts
            .summary
            .clone()
            .or_else(|| facts.version.clone())
            .unwrap_or_default(),
        (None, None) => String::new(),
    };
    ListRow {
        key: context.name.clone(),
        cells: vec![
            ((n + 1).to_string(), Role::Accent),
            (format!("{}{flags}", context.name), Role::Text),
            (
                format!(
                    "{} {}",
                    app.setup.glyphs.health(&context.health),
                    health_text(app, context)
                ),
                health_role(&context.health),
            ),
            (context.kind.to_string(), Role::Muted),
            (count, Role::Text),
            (server, Role::Muted),
        ],
        more: Vec::new(),
    }
}

fn problems(app: &App) -> Listing {
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
        // Stale rows are their context's problem, said once above.
        if row.stale || !crate::action::fleet_api::filter::has_problem(row) {
            continue;
        }
        let text = super::columns::state_text(app, row, 60);
        rows.push(problem(
            &row.id.to_string(),
            &text,
            None,
            super::glyphs::state_role(row),
        ));
    }
    for task in app.tasks.iter().rev() {
        if matches!(task.state, TaskState::Failed | TaskState::Partial) {
            let (text, role) = super::update::outcome_line(task);
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
        .filter(|row| !row.stale && crate::action::fleet_api::filter::has_problem(row))
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
    }
}

fn support(app: &App) -> Listing {
    let (empty, note) = loading(&app.matrix, "the matrix");
    let matrix = match app.matrix.value.as_ref().map(|d| &d.body) {
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

fn answer(app: &App) -> Listing {
    let rows = app
        .answer
        .lines
        .iter()
        .enumerate()
        .map(|(n, line)| ListRow {
            key: n.to_string(),
            cells: vec![(line.clone(), Role::Text)],
            more: vec![(line.clone(), Role::Text)],
        })
        .collect();
    Listing {
        columns: vec!["ANSWER"],
        rows,
        empty: match app.answer.follows {
            Some(_) => "waiting …".to_owned(),
            None => "No question was asked yet. : asks one.".to_owned(),
        },
        note: Some((format!("= corral {}", app.answer.title), Role::Accent))
            .filter(|_| !app.answer.title.is_empty()),
    }
}
