//! State glyphs, in Unicode or in ASCII. The word always stands beside the glyph.

use super::theme::Role;
use crate::model::{Health, Instance, State};

/// Which set is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glyphs {
    /// `●`.
    Unicode,
    /// The same with the icons of a patched font for states.
    Nerd,
    /// `*`.
    Ascii,
}

impl Glyphs {
    /// From `ui.icons` and the locale. CJK locales draw ambiguous characters two columns wide, so
    /// they get ASCII, as does everything that is not UTF-8.
    pub fn choose(setting: &str, locale: &str, term: &str) -> Self {
        match setting {
            "ascii" | "off" => return Self::Ascii,
            "unicode" => return Self::Unicode,
            "nerd" => return Self::Nerd,
            _ => {}
        }
        let lower = locale.to_ascii_lowercase();
        let utf8 = lower.contains("utf-8") || lower.contains("utf8");
        let wide = ["zh", "ja", "ko"].iter().any(|l| lower.starts_with(l));
        if utf8 && !wide && !matches!(term, "dumb" | "linux" | "") {
            Self::Unicode
        } else {
            Self::Ascii
        }
    }

    fn pick(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        match self {
            Self::Unicode | Self::Nerd => unicode,
            Self::Ascii => ascii,
        }
    }

    /// A state's glyph.
    pub fn state(self, state: State) -> &'static str {
        if self == Self::Nerd {
            return nerd_state(state);
        }
        match state {
            State::Running => self.pick("●", "*"),
            State::Stopped => self.pick("○", "-"),
            State::Paused => self.pick("‖", "="),
            State::Hibernated => self.pick("◒", "z"),
            State::Starting => self.pick("◔", "^"),
            State::Stopping => self.pick("◕", "v"),
            State::Migrating => self.pick("→", ">"),
            State::Provisioning => self.pick("◌", "+"),
            State::Crashed => self.pick("✖", "X"),
            State::Broken => "!",
            State::Unknown => "?",
        }
    }

    /// A context's glyph.
    pub fn health(self, health: &Health) -> &'static str {
        if self == Self::Nerd {
            return nerd_health(health);
        }
        match health {
            Health::Ok => self.pick("●", "*"),
            Health::Connecting => self.pick("◌", "+"),
            Health::Stale(_) => self.pick("◐", "~"),
            Health::Failed(_) => self.pick("✖", "X"),
            Health::LoginNeeded(_) => self.pick("⚷", "k"),
        }
    }

    /// Filling levels of one character, from empty to full.
    pub fn steps(self) -> &'static [char] {
        match self {
            Self::Unicode | Self::Nerd => &[' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Self::Ascii => &[' ', '.', ':', '+', '#'],
        }
    }

    /// A bar of `width` characters, filled up to a share between 0 and 1.
    pub fn share(self, share: f64, width: usize) -> String {
        let filled = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
        let (full, empty) = (self.pick("█", "#"), self.pick("░", "."));
        full.repeat(filled) + &empty.repeat(width - filled)
    }

    /// Something of ours is under way.
    pub fn pending(self) -> &'static str {
        self.pick("…", ".")
    }

    /// A horizontal line.
    pub fn rule(self) -> &'static str {
        self.pick("─", "-")
    }

    /// A vertical line.
    pub fn bar(self) -> &'static str {
        self.pick("│", "|")
    }

    /// Corners of a box: top left, top right, bottom left, bottom right.
    pub fn corners(self) -> [&'static str; 4] {
        ["╭", "╮", "╰", "╯"].map(|corner| self.pick(corner, "+"))
    }

    /// Text goes on.
    pub fn more(self) -> &'static str {
        self.pick("…", "~")
    }

    /// A character that is not shown.
    pub fn secret(self) -> &'static str {
        self.pick("•", "*")
    }

    /// Before the heading of a group.
    pub fn fold(self, open: bool) -> &'static str {
        if open {
            self.pick("▾", "v")
        } else {
            self.pick("▸", ">")
        }
    }

    /// A dot between words.
    pub fn dot(self) -> &'static str {
        self.pick("·", "-")
    }

    /// Below something in a tree.
    pub fn branch(self) -> &'static str {
        self.pick("└─ ", "`- ")
    }
}

/// Icons of Font Awesome where patched fonts have them, one column wide each.
fn nerd_state(state: State) -> &'static str {
    match state {
        State::Running => "\u{f04b}",
        State::Stopped => "\u{f04d}",
        State::Paused => "\u{f04c}",
        State::Hibernated => "\u{f186}",
        State::Starting => "\u{f0aa}",
        State::Stopping => "\u{f0ab}",
        State::Migrating => "\u{f061}",
        State::Provisioning => "\u{f019}",
        State::Crashed => "\u{f00d}",
        State::Broken => "\u{f071}",
        State::Unknown => "\u{f128}",
    }
}

fn nerd_health(health: &Health) -> &'static str {
    match health {
        Health::Ok => "\u{f058}",
        Health::Connecting => "\u{f110}",
        Health::Stale(_) => "\u{f017}",
        Health::Failed(_) => "\u{f057}",
        Health::LoginNeeded(_) => "\u{f084}",
    }
}

/// The role of an instance's state.
pub fn state_role(row: &Instance) -> Role {
    match row.state {
        State::Running if row.reason.is_some() || row.locked.is_some() => Role::Warn,
        State::Running => Role::Ok,
        State::Stopped if row.autostart == Some(true) => Role::Warn,
        State::Stopped | State::Hibernated => Role::Muted,
        State::Paused if row.reason.is_some() => Role::Error,
        State::Paused | State::Unknown => Role::Warn,
        State::Starting | State::Stopping | State::Migrating | State::Provisioning => Role::Busy,
        State::Crashed | State::Broken => Role::Error,
    }
}

/// The role of a context's health.
pub fn health_role(health: &Health) -> Role {
    match health {
        Health::Ok => Role::Ok,
        Health::Connecting => Role::Busy,
        Health::Stale(_) | Health::LoginNeeded(_) => Role::Warn,
        Health::Failed(_) => Role::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locale_and_setting_choose() {
        let auto = |locale, term| Glyphs::choose("auto", locale, term);
        assert_eq!(auto("en_US.UTF-8", "xterm"), Glyphs::Unicode);
        assert_eq!(auto("C", "xterm"), Glyphs::Ascii);
        assert_eq!(auto("ja_JP.UTF-8", "xterm"), Glyphs::Ascii);
        assert_eq!(auto("en_US.utf8", "linux"), Glyphs::Ascii);
        assert_eq!(
            Glyphs::choose("ascii", "en_US.UTF-8", "xterm"),
            Glyphs::Ascii
        );
        assert_eq!(Glyphs::choose("unicode", "C", "xterm"), Glyphs::Unicode);
        assert_eq!(Glyphs::choose("nerd", "C", "xterm"), Glyphs::Nerd);
    }

    #[test]
    fn req_27_ascii_is_ascii_and_one_column() {
        for state in State::ALL {
            assert!(Glyphs::Ascii.state(state).is_ascii());
            assert_eq!(Glyphs::Ascii.state(state).len(), 1);
            assert_eq!(crate::model::shown_width(Glyphs::Unicode.state(state)), 1);
            assert_eq!(crate::model::shown_width(Glyphs::Nerd.state(state)), 1);
            let shown = crate::model::shown(Glyphs::Nerd.state(state));
            assert_eq!(shown, Glyphs::Nerd.state(state), "it is drawn as it is");
        }
    }
}
