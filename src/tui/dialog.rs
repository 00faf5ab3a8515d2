//! Confirmations: what is asked, which buttons there are, and when keys count.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use super::app::Planning;
use super::edit::Line;
use crate::action::grammar;
use crate::model::{Consent, Gate, Instance, Plan};

/// Keys count only after so much quiet, from when the question is on the screen: on a slow link what
/// was typed ahead arrives after it.
pub const QUIET_MS: u64 = 250;

/// The smallest screen on which a question can be answered: columns and rows.
pub const ROOM: (u16, u16) = (30, 8);

/// When keys begin to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    quiet_since: Option<u64>,
}

impl Guard {
    /// It is on the screen.
    pub fn drawn(&mut self, ms: u64) {
        self.quiet_since.get_or_insert(ms);
    }

    /// Whether a key counts now. One that does not starts the quiet anew.
    pub fn admits(&mut self, ms: u64) -> bool {
        if self.is_open(ms) {
            return true;
        }
        if self.quiet_since.is_some() {
            self.quiet_since = Some(ms);
        }
        false
    }

    /// Keys count.
    pub fn is_open(&self, ms: u64) -> bool {
        self.quiet_since.is_some_and(|since| ms >= since + QUIET_MS)
    }

    /// When they will.
    pub fn opens_at(&self) -> Option<u64> {
        self.quiet_since.map(|since| since + QUIET_MS)
    }
}

/// What a button does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing is done.
    Cancel,
    /// Goes on.
    Confirm,
    /// Asks for the forced form instead.
    Force,
    /// Includes marked instances that are hidden.
    Include,
    /// Shows or folds the native calls.
    Natives,
    /// Sends the headless command to the clipboard.
    Copy,
}

/// A button.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Button {
    /// As printed.
    pub label: String,
    /// The key that presses it; always upper case, except for what changes nothing.
    pub key: Option<char>,
    /// What it does.
    pub act: Act,
    /// It can be pressed.
    pub live: bool,
}

/// A confirmation.
#[derive(Clone, Debug)]
pub struct Dialog {
    /// What would be done.
    pub plan: Plan,
    /// How it was asked.
    pub planning: Planning,
    /// Keys count from when.
    pub guard: Guard,
    /// The typed text.
    pub typed: Line,
    /// The button with the focus.
    pub focus: usize,
    /// Lines scrolled away.
    pub scroll: usize,
    /// What is lost has been on the screen.
    pub losses_seen: bool,
    /// The button with the focus was gone to, by a key that does only that.
    pub chosen: bool,
    /// Something else was entered than what is asked for.
    pub wrong: bool,
    /// Native calls are shown.
    pub natives: bool,
    /// Its targets as they were when it was asked.
    pub seen: Vec<Arc<Instance>>,
    /// Stands for a name that not every keyboard can type.
    code: Option<String>,
}

impl Dialog {
    /// A question; the focus is on Cancel.
    pub fn new(plan: Plan, planning: Planning) -> Self {
        Self {
            natives: plan.targets.len() <= 1,
            seen: Vec::new(),
            code: code(&plan),
            plan,
            planning,
            guard: Guard::default(),
            typed: Line::default(),
            focus: 0,
            scroll: 0,
            losses_seen: false,
            chosen: false,
            wrong: false,
        }
    }

    /// Nothing of it can run.
    pub fn is_refused(&self) -> bool {
        self.plan.runnable().next().is_none()
    }

    /// Only shows.
    pub fn is_dry(&self) -> bool {
        self.planning.run.dry_run
    }

    /// There is nothing to say yes to.
    fn only_shows(&self) -> bool {
        self.is_dry() || self.plan.changing().next().is_none()
    }

    /// The text that has to be typed: what the gate asks for, or a code that stands for it.
    pub fn to_type(&self) -> Option<&str> {
        match &self.plan.gate {
            Gate::Type { text } if !self.only_shows() => Some(self.code.as_ref().unwrap_or(text)),
            _ => None,
        }
    }

    /// What is asked for is typed.
    pub fn is_typed(&self) -> bool {
        self.to_type().is_some_and(|text| text == self.typed.text())
    }

    /// What is typed is not what is asked for.
    pub fn is_typed_wrong(&self) -> bool {
        self.to_type().is_some() && !self.is_typed() && !self.typed.text().is_empty()
    }

    /// The headless command that does the same.
    pub fn command(&self) -> String {
        let options = grammar::print_run(&self.planning.run);
        std::iter::once(self.plan.command.clone())
            .chain(options)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// What the user has said by confirming.
    pub fn consent(&self) -> Consent {
        Consent {
            yes: true,
            typed: match (&self.plan.gate, self.to_type()) {
                (Gate::Type { text }, Some(wanted)) if wanted == self.typed.text() => {
                    Some(text.clone())
                }
                (_, Some(_)) => Some(self.typed.text().to_owned()),
                (_, None) => None,
            },
        }
    }

    /// On this screen one sees what is asked about.
    pub fn has_room(size: (u16, u16)) -> bool {
        size.0 >= ROOM.0 && size.1 >= ROOM.1
    }

    /// The buttons on a screen of this size, Cancel first. Where the machine's ID has no room nothing can be confirmed.
    pub fn buttons(&self, size: (u16, u16)) -> Vec<Button> {
        let mut buttons = vec![Button {
            label: if self.only_shows() {
                "Close".to_owned()
            } else if self.plan.action.verb == "tasks cancel" {
                "Let it go on".to_owned()
            } else {
                "Cancel".to_owned()
            },
            key: None,
            act: Act::Cancel,
            live: true,
        }];
        let typing = self.to_type().is_some();
        if !self.planning.hidden.is_empty() && !self.planning.included {
            buttons.push(Button {
                label: "include hidden".to_owned(),
                key: (!typing).then_some('h'),
                act: Act::Include,
                live: true,
            });
        }
        if self.plan.runnable().any(|t| !t.steps.is_empty()) {
            let word = if self.natives { "fold" } else { "native calls" };
            buttons.push(Button {
                label: word.to_owned(),
                key: (!typing).then_some('n'),
                act: Act::Natives,
                live: true,
            });
        }
        buttons.push(Button {
            label: "copy".to_owned(),
            key: (!typing).then_some('y'),
            act: Act::Copy,
            live: true,
        });
        if self.only_shows() || !Self::has_room(size) {
            return buttons;
        }
        let word = self.word();
        buttons.push(Button {
            key: (!typing)
                .then(|| word.chars().next())
                .flatten()
                .map(|c| c.to_ascii_uppercase()),
            label: word,
            act: Act::Confirm,
            live: self.losses_seen && (!typing || self.is_typed()),
        });
        if self.plan.action.verb == "stop" && !self.plan.action.args.flag("force") && !typing {
            buttons.push(Button {
                label: "Force off…".to_owned(),
                key: Some('F'),
                act: Act::Force,
                live: self.losses_seen,
            });
        }
        buttons
    }

    /// The word on the button.
    pub fn word(&self) -> String {
        let action = &self.plan.action;
        let word = match action.verb.as_str() {
            "stop" if action.args.flag("force") => "power off",
            "restart" if action.args.flag("force") => "reset",
            "tasks cancel" => "cancel it",
            "doctor" => "repair",
            verb => verb.rsplit(' ').next().unwrap_or(verb),
        };
        let mut word = word.to_owned();
        if let Some(first) = word.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let running = self.plan.changing().count();
        if self.plan.targets.len() > 1 {
            word.push_str(&format!(" {running}"));
        }
        word
    }
}

/// Four digits, where what the gate asks for is an ID with characters that had to be escaped.
fn code(plan: &Plan) -> Option<String> {
    let Gate::Type { text } = &plan.gate else {
        return None;
    };
    let target = plan.changing().find(|t| t.id.to_string() == *text)?;
    let mut hasher = DefaultHasher::new();
    (text, &target.token, target.observed_at).hash(&mut hasher);
    Some(format!("{:04}", hasher.finish() % 10_000))
}

/// Leave corral?
#[derive(Clone, Debug, Default)]
pub struct QuitDialog {
    /// Keys count from when.
    pub guard: Guard,
    /// The button with the focus: Stay, Wait, Quit.
    pub focus: usize,
    /// Waiting for tasks to end.
    pub waiting: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn req_13_keys_count_after_it_is_drawn_and_quiet() {
        let mut guard = Guard::default();
        assert!(!guard.admits(10_000), "not drawn yet");
        guard.drawn(10_100);
        assert!(!guard.admits(10_150));
        assert!(!guard.admits(10_390), "a burst keeps it shut");
        assert!(!guard.admits(10_600));
        assert!(guard.admits(10_850));
        assert!(guard.admits(10_851));
    }
}
