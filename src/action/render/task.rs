//! What came of a change, per target.

use super::listing::of_task;
use super::style::Role;
use crate::model::{TargetState, Task, shown};

/// `tasks show`: everything about one task.
pub(crate) fn block(task: &Task, colour: bool) -> String {
    let mut out = format!(
        "{}  {}\n= {}\n",
        task.id,
        of_task(task.state).paint(task.state.as_str(), colour),
        shown(&task.command)
    );
    out.push_str(&results(task, colour, true));
    for line in &task.log {
        out.push_str(&format!("  {}\n", shown(line)));
    }
    out
}

/// One line per target; failures have their own place on standard error unless `failures`.
pub(crate) fn results(task: &Task, colour: bool, failures: bool) -> String {
    task.targets
        .iter()
        .filter(|target| failures || !matches!(target.state, TargetState::Failed(_)))
        .map(|target| {
            let (word, role, text) = match &target.state {
                TargetState::Queued => ("queued", Role::Busy, String::new()),
                TargetState::Running => (
                    "running",
                    Role::Busy,
                    target
                        .step
                        .as_deref()
                        .map_or(String::new(), |s| shown(s).into_owned()),
                ),
                TargetState::Skipped => ("skipped", Role::Warn, String::new()),
                TargetState::Failed(error) => (
                    error.label(),
                    Role::Error,
                    shown(&error.to_string()).into_owned(),
                ),
                TargetState::Done(outcome) => {
                    let mut text = outcome
                        .message
                        .as_deref()
                        .map_or(String::new(), |m| shown(m).into_owned());
                    let other = outcome.id.as_ref().filter(|id| **id != target.id);
                    // Most say it in their own words.
                    if let Some(id) = other.filter(|id| !text.contains(&id.to_string())) {
                        text.push_str(&format!(" (is now {id})"));
                    }
                    if let Some(consistency) = outcome.consistency {
                        text.push_str(&format!(" [{}]", consistency.as_str()));
                    }
                    let word = if outcome.changed { "done" } else { "unchanged" };
                    (word, Role::Ok, text)
                }
            };
            let word = role.paint(word, colour);
            if text.is_empty() {
                format!("{}: {word}\n", target.id.spoken())
            } else {
                format!("{}: {word}: {}\n", target.id.spoken(), text.trim_start())
            }
        })
        .collect()
}
