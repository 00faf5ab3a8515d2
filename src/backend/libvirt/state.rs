//! libvirt's states and their reasons.

use super::wire::Listed;
use crate::model::State;

/// State, why, and libvirt's own word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Is {
    /// The state.
    pub state: State,
    /// Why, where the state alone does not say.
    pub reason: Option<String>,
    /// libvirt's word.
    pub native: String,
}

/// `VIR_DOMAIN_PAUSED_IOERROR`: which disk it was is asked for.
pub const IO_ERROR: i64 = 5;
/// `VIR_DOMAIN_PAUSED`.
pub const PAUSED: i64 = 3;

/// State and reason as numbers.
pub fn numbers(listed: &Listed) -> (i64, i64) {
    let number = |name: &str| listed.stats.get(name).and_then(serde_json::Value::as_i64);
    (
        number("state.state").unwrap_or(0),
        number("state.reason").unwrap_or(0),
    )
}

/// What a domain is, by its line of the list.
pub fn of(listed: &Listed) -> Is {
    let (state, reason) = numbers(listed);
    let word = match state {
        1 => "running",
        2 => "idle",
        3 => "paused",
        4 => "in shutdown",
        5 => "shut off",
        6 => "crashed",
        7 => "pmsuspended",
        _ => "no state",
    };
    let (is, why) = match (state, reason) {
        // Out-migration pauses it for the last pass.
        (3, 2) => (State::Migrating, Some("its last memory is on its way")),
        (1 | 2, _) => (State::Running, None),
        (3, 1) => (State::Paused, Some("by a user")),
        (3, 3) => (State::Paused, Some("it is being saved")),
        (3, 4) => (State::Paused, Some("its memory is being dumped")),
        (3, IO_ERROR) => (State::Paused, Some("I/O error")),
        (3, 6) => (State::Paused, Some("its watchdog fired")),
        (3, 7) => (State::Paused, Some("it was restored from a snapshot")),
        (3, 8) => (State::Stopping, Some("it is shutting down")),
        (3, 9) => (State::Paused, Some("a snapshot is being taken")),
        (3, 10) => (
            State::Crashed,
            Some("the guest's kernel crashed; it is kept as it is"),
        ),
        (3, 11) => (State::Starting, None),
        (3, 12) => (State::Paused, Some("a migration with post-copy goes on")),
        (3, 13) => (State::Paused, Some("a migration with post-copy failed")),
        (3, 14) => (State::Paused, Some("its disks' journal failed")),
        (3, _) => (State::Paused, None),
        (4, _) => (State::Stopping, None),
        (5, _) if listed.saved => (State::Hibernated, None),
        (5, 3) => (State::Crashed, Some("it crashed")),
        (5, 6) => (State::Stopped, Some("its last start failed")),
        (5, 8) => (State::Stopped, Some("its daemon was stopped")),
        (5, _) => (State::Stopped, None),
        (6, 1) => (State::Crashed, Some("the guest's kernel panicked")),
        (6, _) => (State::Crashed, None),
        (7, _) => (State::Paused, Some("the guest sleeps: start wakes it")),
        (_, _) => (State::Unknown, Some("libvirt tells no state")),
    };
    Is {
        state: is,
        reason: why.map(str::to_owned),
        native: if listed.saved && state == 5 {
            format!("{word} (saved)")
        } else {
            word.to_owned()
        },
    }
}

/// `VIR_DOMAIN_PMSUSPENDED`: to wake is not to resume.
pub fn sleeps(listed: &Listed) -> bool {
    numbers(listed).0 == 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_word_and_odd_numbers_are_unknown() {
        let listed = |state: i64, reason: i64, saved| Listed {
            stats: [("state.state", state), ("state.reason", reason)]
                .map(|(k, v)| (k.to_owned(), v.into()))
                .into(),
            saved,
            ..Listed::default()
        };
        for (state, reason, saved, is) in [
            (1, 1, false, State::Running),
            (3, 1, false, State::Paused),
            (3, IO_ERROR, false, State::Paused),
            (3, 2, false, State::Migrating),
            (5, 1, false, State::Stopped),
            (5, 4, true, State::Hibernated),
            (5, 3, false, State::Crashed),
            (6, 0, false, State::Crashed),
            (7, 0, false, State::Paused),
            (99, 0, false, State::Unknown),
            (-1, -1, false, State::Unknown),
        ] {
            assert_eq!(
                of(&listed(state, reason, saved)).state,
                is,
                "{state} {reason}"
            );
        }
        assert_eq!(of(&Listed::default()).state, State::Unknown);
        let io = of(&listed(3, IO_ERROR, false));
        assert_eq!(io.reason.as_deref(), Some("I/O error"));
    }
}
