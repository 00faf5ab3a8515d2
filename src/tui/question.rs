//! Questions from below: they wait in the header, and take keys only when nothing else does.

use super::dialog::Guard;
use super::edit::Line;
use crate::model::{Prompt, PromptKind, SecretText};

/// One question.
#[derive(Clone)]
pub struct Question {
    /// The number it is answered under.
    pub number: u64,
    /// What is asked.
    pub prompt: Prompt,
    /// What is typed.
    pub typed: Line,
    /// Keys count from when.
    pub guard: Guard,
    /// The user put it off: it opens only when asked for.
    pub put_off: bool,
}

impl Question {
    /// One that nobody has seen yet.
    pub fn new(number: u64, prompt: Prompt) -> Self {
        Self {
            number,
            prompt,
            typed: Line::default(),
            guard: Guard::default(),
            put_off: false,
        }
    }

    /// What was typed must not be seen.
    pub fn is_secret(&self) -> bool {
        self.prompt.answer == PromptKind::Secret
    }

    /// A text is wanted.
    pub fn takes_text(&self) -> bool {
        self.prompt.answer != PromptKind::YesNo
    }
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never what was typed.
        f.debug_struct("Question")
            .field("number", &self.number)
            .field("prompt", &self.prompt)
            .finish_non_exhaustive()
    }
}

/// A text that a user typed. It never prints.
#[derive(Clone, Debug)]
pub struct Given(pub SecretText);

impl PartialEq for Given {
    fn eq(&self, other: &Self) -> bool {
        use secrecy::ExposeSecret as _;
        self.0.expose_secret() == other.0.expose_secret()
    }
}
