//! Completion of a command line, for every front: what the last word may become, from the grammar and
//! from names that are known already. Nobody is asked, so it cannot hang.

mod names;
mod values;

use clap::{Arg, Command};

use super::row::Row;
use super::{grammar, rows};
use crate::model::Field;
pub use names::{Names, Seen};
pub use values::{Wanted, of_field, of_noun, offered, settings};

/// Stands for the names of files, which a shell completes itself.
pub const FILES: &str = ":files";

/// Words, and what they are.
pub type Candidates = Vec<(String, String)>;

/// What a word of a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A verb, or a group of verbs.
    Verb,
    /// A flag, with its value or without.
    Flag,
    /// The value of the flag before it.
    Value,
    /// What the verb is done with.
    Target,
    /// There is no such verb.
    NoVerb,
    /// The verb has no such flag.
    NoFlag,
}

/// A line up to its last word.
pub struct Line {
    root: Command,
    path: Vec<String>,
    parts: Vec<Part>,
    /// The flag whose value comes next.
    expects: Option<Arg>,
}

impl Line {
    /// Reads words, as far as they mean something.
    pub fn read(words: &[String]) -> Self {
        let mut line = Self {
            root: grammar::command(),
            path: Vec::new(),
            parts: Vec::new(),
            expects: None,
        };
        let mut only_targets = false;
        for word in words {
            let part = line.part(word, only_targets);
            only_targets |= word == "--";
            line.parts.push(part);
        }
        line
    }

    /// What each word is.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The row, once its whole name is there.
    pub fn row(&self) -> Option<&'static Row> {
        rows::find(&self.path.join(" "))
    }

    /// The field of a flag's long name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        values::field(self.flags_of(), name)
    }

    /// The field whose value comes after these words of the line.
    pub fn field_before(&self, words: &[String]) -> Option<&'static Field> {
        let arg = self.flag(words.last()?)?;
        self.field(arg.get_id().as_str())
    }

    fn command(&self) -> &Command {
        let mut at = &self.root;
        for word in &self.path {
            match at.find_subcommand(word) {
                Some(sub) => at = sub,
                None => break,
            }
        }
        at
    }

    fn part(&mut self, word: &str, only_targets: bool) -> Part {
        if self.expects.take().is_some() {
            return Part::Value;
        }
        if word.starts_with('-') && word.len() > 1 && !only_targets {
            if word == "--" || matches!(word, "--help" | "-h" | "--version" | "-V") {
                return Part::Flag;
            }
            let Some(arg) = self.flag(word).cloned() else {
                return Part::NoFlag;
            };
            let has_value = word.contains('=') || (!word.starts_with("--") && word.len() > 2);
            self.expects = Some(arg).filter(|arg| takes_value(arg) && !has_value);
            return Part::Flag;
        }
        if let Some(sub) = self.command().find_subcommand(word) {
            let name = sub.get_name().to_owned();
            self.path.push(name);
            return Part::Verb;
        }
        match self.row() {
            Some(_) => Part::Target,
            None => Part::NoVerb,
        }
    }

    fn flag(&self, word: &str) -> Option<&Arg> {
        let name = word.split('=').next().unwrap_or(word);
        let all = self.command().get_arguments();
        all.chain(self.root.get_arguments())
            .find(|arg| match name.strip_prefix("--") {
                Some(long) => arg.get_long() == Some(long),
                None => name.chars().nth(1) == arg.get_short() && arg.get_short().is_some(),
            })
    }

    fn flags(&self) -> Candidates {
        let mut found: Candidates = Vec::new();
        let all = self.command().get_arguments();
        for arg in all.chain(self.root.get_arguments()) {
            let Some(long) = arg.get_long() else { continue };
            let word = format!("--{long}");
            if !arg.is_hide_set() && found.iter().all(|(known, _)| *known != word) {
                let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
                found.push((word, about));
            }
        }
        found.push((
            "--help".to_owned(),
            "Says what the command takes".to_owned(),
        ));
        found
    }

    /// The row whose flags these are: `tasks` with flags is `tasks list`.
    fn flags_of(&self) -> Option<&'static Row> {
        self.row()
            .or_else(|| rows::find(&format!("{} list", self.path.join(" "))))
    }
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

/// What the last of `words` may become; what does not begin like it is among them.
pub fn candidates(words: &[String], names: &dyn Names) -> Candidates {
    let (current, before) = match words.split_last() {
        Some((current, before)) => (current.as_str(), before),
        None => ("", words),
    };
    let line = Line::read(before);
    let targets: Vec<&str> = before
        .iter()
        .zip(line.parts())
        .filter(|(_, part)| **part == Part::Target)
        .map(|(word, _)| word.as_str())
        .collect();
    if let Some(arg) = &line.expects {
        return values::of_arg(line.flags_of(), arg, "", current, &targets, names);
    }
    if let Some((name, typed)) = current.split_once('=')
        && name.starts_with("--")
    {
        let Some(arg) = line.flag(name) else {
            return Vec::new();
        };
        let lead = format!("{name}=");
        return values::of_arg(line.flags_of(), arg, &lead, typed, &targets, names);
    }
    if current.starts_with('-') {
        return line.flags();
    }
    let mut found: Candidates = line
        .command()
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set())
        .map(|sub| {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            (sub.get_name().to_owned(), about)
        })
        .collect();
    if let Some(row) = line.row() {
        let wanted = values::of_noun(row.noun, current);
        found.extend(values::offered(wanted, current, &targets, names));
    }
    found
}
