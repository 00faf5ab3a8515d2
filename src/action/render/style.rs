//! Colour as roles. Never the only sign: the word always stands beside it.

use crate::model::{CheckStatus, State};

/// What a piece of text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing special.
    #[default]
    Plain,
    /// Good.
    Ok,
    /// Worth a look.
    Warn,
    /// Wrong.
    Error,
    /// Under way.
    Busy,
    /// Of less interest.
    Muted,
    /// A heading.
    Strong,
}

impl Role {
    fn code(self) -> Option<&'static str> {
        Some(match self {
            Self::Plain => return None,
            Self::Ok => "32",
            Self::Warn => "33",
            Self::Error => "1;31",
            Self::Busy => "34",
            Self::Muted => "2",
            Self::Strong => "1",
        })
    }

    /// The text in this role's colour, where colour is wanted.
    pub(crate) fn paint(self, text: &str, colour: bool) -> String {
        match self.code() {
            Some(code) if colour && !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
}

/// The role of a state.
pub(crate) fn of_state(state: State) -> Role {
    match state {
        State::Running => Role::Ok,
        State::Stopped | State::Hibernated => Role::Muted,
        State::Paused | State::Unknown => Role::Warn,
        State::Starting | State::Stopping | State::Migrating | State::Provisioning => Role::Busy,
        State::Crashed | State::Broken => Role::Error,
    }
}

/// The role of a check.
pub(crate) fn of_check(status: CheckStatus) -> Role {
    match status {
        CheckStatus::Ok => Role::Ok,
        CheckStatus::Warn => Role::Warn,
        CheckStatus::Fail => Role::Error,
    }
}
/// How terminals that show colours are called, by terminfo's families.
const COLOURED: &[&str] = &[
    "alacritty",
    "ansi",
    "contour",
    "cons25",
    "cygwin",
    "Eterm",
    "foot",
    "fbterm",
    "ghostty",
    "gnome",
    "hurd",
    "iTerm",
    "kitty",
    "konsole",
    "linux",
    "mintty",
    "mlterm",
    "ms-terminal",
    "nsterm",
    "pcansi",
    "putty",
    "rio",
    "rxvt",
    "screen",
    "st",
    "teraterm",
    "terminology",
    "tmux",
    "vte",
    "wezterm",
    "wsvt25",
    "xfce",
    "xterm",
];

/// Endings of names in these families that say that there are none.
const PLAIN: &[&str] = &[
    "-mono", "-m", "25m", "-vt100", "-vt102", "-vt220", "-vt52", "-r5", "-r6",
];

/// Whether a terminal of this name shows colours; nothing where nobody knows the name.
pub fn has_colours(term: &str) -> Option<bool> {
    let family = |name: &&&str| {
        let rest = term.strip_prefix(**name);
        // `st` is one, `sun` and `stv52` are none of its family.
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.', '+']))
    };
    let vt = term
        .strip_prefix("vt")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if matches!(term, "" | "dumb" | "unknown" | "network")
        || PLAIN.iter().any(|end| term.ends_with(end))
    {
        return Some(false);
    }
    if term.contains("color")
        || term.contains("direct")
        || COLOURED.iter().any(|name| family(&name))
    {
        return Some(true);
    }
    vt.then_some(false)
}

#[cfg(test)]
mod tests {
    use super::has_colours;

    #[test]
    fn colours_are_for_terminals_that_are_known_to_have_them() {
        for term in [
            "xterm",
            "xterm-256color",
            "linux",
            "screen.linux",
            "tmux-256color",
            "foot",
            "st-256color",
            "rxvt-unicode",
            "vt220-color",
        ] {
            assert_eq!(has_colours(term), Some(true), "{term}");
        }
        for term in [
            "",
            "dumb",
            "vt100",
            "vt220",
            "xterm-mono",
            "rxvt-m",
            "wsvt25m",
            "xterm-vt220",
        ] {
            assert_eq!(has_colours(term), Some(false), "{term}");
        }
        for term in ["sun", "stv52", "no-such"] {
            assert_eq!(has_colours(term), None, "{term}");
        }
    }
}
