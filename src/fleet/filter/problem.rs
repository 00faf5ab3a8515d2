//! What counts as a problem of an instance.

use crate::model::{Instance, State};

/// What is wrong with an instance, in a word or two: crashed, broken, paused by an error, locked,
/// stopped although it is to start with its host, not fresh, or in a state that nobody knows.
pub fn problem(row: &Instance) -> Option<&'static str> {
    let by_error = |reason: &str| reason.to_ascii_lowercase().contains("error");
    match row.state {
        State::Crashed => Some("crashed"),
        State::Broken => Some("broken"),
        State::Paused if row.reason.as_deref().is_some_and(by_error) => Some("paused by an error"),
        _ if row.stale => Some("stale"),
        // Nobody can say how it is, although its context answers: its node is away, or its process hangs.
        State::Unknown => Some("unknown"),
        _ if row.locked.is_some() => Some("locked"),
        State::Stopped if row.autostart == Some(true) => Some("stopped, but starts with its host"),
        _ => None,
    }
}

/// Whether [`problem`] finds one.
pub fn has_problem(row: &Instance) -> bool {
    problem(row).is_some()
}
