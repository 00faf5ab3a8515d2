//! A question that a backend has for the user.

/// A question from below: passphrase, login, first certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The context that asks.
    pub context: String,
    /// The question.
    pub question: String,
    /// Lines that help to answer.
    pub facts: Vec<String>,
    /// What is wanted.
    pub answer: PromptKind,
    /// The command that settles it without being asked, for headless use.
    pub remedy: String,
}

/// What a [`Prompt`] wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptKind {
    /// Yes or no: the answer is [`Prompt::YES`] or [`Prompt::NO`].
    YesNo,
    /// A text that is shown.
    Text,
    /// A text that is not.
    Secret,
}

impl Prompt {
    /// An answer to a question for yes or no.
    pub const YES: &'static str = "yes";
    /// The other one.
    pub const NO: &'static str = "no";
}
