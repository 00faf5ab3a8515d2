//! What corral does.

use super::{ListRow, Listing};
use crate::model::{TargetState, Task, TaskState, TaskTarget};
use crate::tui::app::App;
use crate::tui::columns::{seconds_since, step_age};
use crate::tui::theme::Role;

fn task_role(state: TaskState) -> Role {
    match state {
        TaskState::Queued | TaskState::Running => Role::Busy,
        TaskState::Done => Role::Ok,
        TaskState::Partial | TaskState::Cancelled | TaskState::TimedOut => Role::Warn,
        TaskState::Failed | TaskState::Interrupted => Role::Error,
    }
}

pub(super) fn tasks(app: &App) -> Listing {
    let rows = app
        .all_tasks()
        .into_iter()
        .map(|task| task_row(app, task))
        .collect();
    Listing {
        columns: vec!["STATE", "TASK", "DONE", "BEGAN", "COMMAND"],
        rows,
        empty: "No task yet. Every change becomes one; g y shows those of before.".to_owned(),
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
    let failed = |t: &&TaskTarget| matches!(t.state, TargetState::Failed(_));
    let (bad, others): (Vec<_>, Vec<_>) = task.targets.iter().partition(failed);
    if !bad.is_empty() && task.targets.len() > 1 {
        progress = format!("{progress}, {} failed", bad.len());
    }
    let mut more = Vec::new();
    // What failed stands first: it is what one opens a task for. Forty names in a command would hide it.
    more.extend(counts(task));
    for target in bad {
        tell(target, &mut more);
    }
    more.push((format!("= {}", task.command), Role::Accent));
    if !task.state.is_final() && app.other_tasks.iter().any(|other| other.id == task.id) {
        let text = format!("of another corral, process {}", task.pid);
        more.push((text, Role::Muted));
    }
    for target in others {
        tell(target, &mut more);
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
        grows: !task.state.is_final(),
        ..ListRow::default()
    }
}

/// What became of a target.
fn tell(target: &TaskTarget, more: &mut Vec<(String, Role)>) {
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
        TargetState::Failed(error) => (crate::tui::answer::error_line(error), Role::Error),
        TargetState::Skipped => ("not begun".to_owned(), Role::Warn),
    };
    more.push((format!("{}: {word}", target.id.spoken()), role));
    if let Some(native) = &target.native_task {
        more.push((format!("  server's task {native}"), Role::Muted));
    }
}

/// Of a task with many targets: how many ended how, and what R would do again.
fn counts(task: &Task) -> Option<(String, Role)> {
    if task.targets.len() < 2 {
        return None;
    }
    let count = |is: fn(&TargetState) -> bool| task.targets.iter().filter(|t| is(&t.state)).count();
    let failed = count(|state| matches!(state, TargetState::Failed(_)));
    let skipped = count(|state| matches!(state, TargetState::Skipped));
    let parts = [
        (failed, "failed"),
        (skipped, "not begun"),
        (
            count(|state| matches!(state, TargetState::Running)),
            "running",
        ),
        (
            count(|state| matches!(state, TargetState::Queued)),
            "queued",
        ),
        (
            count(|state| matches!(state, TargetState::Done(_))),
            "ended well",
        ),
    ];
    let parts = parts.iter().filter(|(n, _)| *n > 0);
    let mut text = parts
        .map(|(n, word)| format!("{n} {word}"))
        .collect::<Vec<_>>()
        .join(", ");
    let left = failed + skipped;
    let role = if left > 0 { Role::Warn } else { Role::Text };
    if left > 0 && task.state.is_final() {
        text.push_str(&format!(" · R does it again for {left}"));
    }
    Some((text, role))
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
