//! Checks of corral itself, for doctor.

use std::sync::Arc;

use super::engine::Engine;
use crate::model::{Check, TaskState};

/// Checks of the configuration, the state folder and what an earlier corral left behind.
pub fn checks(engine: &Arc<Engine>) -> Vec<Check> {
    let mut found = Vec::new();
    let config = engine.config();
    let errors = config.problems.iter().filter(|p| !p.warning).count();
    if config.problems.is_empty() {
        found.push(Check::ok("corral.config", "the configuration is in order"));
    }
    for problem in &config.problems {
        let at = problem.place();
        let message = format!("{at}: {}", problem.message);
        found.push(if problem.warning {
            Check::warn("corral.config", message)
        } else {
            Check::fail("corral.config", message)
        });
    }
    tracing::debug!(errors, "configuration checked");
    if !engine.is_in_memory() {
        found.push(writable(engine));
    }
    let interrupted: Vec<String> = engine
        .board()
        .all()
        .into_iter()
        .filter(|task| task.state == TaskState::Interrupted)
        .map(|task| task.id)
        .collect();
    if let Some(last) = interrupted.last() {
        found.push(
            Check::warn(
                "corral.tasks",
                format!(
                    "{} tasks were interrupted, the last is {last}",
                    interrupted.len()
                ),
            )
            .remedy(format!("corral tasks show {last}")),
        );
    }
    found
}

fn writable(engine: &Engine) -> Check {
    let state = &engine.env().dirs.state;
    let tried = std::fs::create_dir_all(state).and_then(|()| tempfile::tempfile_in(state));
    match tried {
        Ok(_) => Check::ok("corral.state", format!("{} can be written", state.display())),
        Err(error) => Check::fail("corral.state", format!("{} cannot be written: {error}", state.display()))
            .remedy("Tasks, history and protection are kept there: give it back to this user, or free space"),
    }
}
