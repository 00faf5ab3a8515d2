//! What the word before the cursor of the command line may become, by the mechanism that shells use, and
//! what is wrong with the line so far.

use super::app::{App, Pane};
use super::command::{self, FRONT, Under};
use super::names::InView;
use crate::action::complete::{Candidates, FILES, Line, Names as _, Part, candidates};
use crate::action::fleet_api::{filter, sort};
use crate::action::{grammar, rows};
use crate::model::{Error, Field};

/// What may stand in place of a word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Where that word begins, in bytes.
    pub from: usize,
    /// The word as it stands there now, without its quotes.
    pub typed: String,
    /// What it may become, with what that is; the verb's flags and deeper verbs among them.
    pub words: Candidates,
}

/// The word before the cursor, once a verb stands before it; none where commands are looked for.
pub fn found(app: &App, before: &str) -> Option<Found> {
    let (mut words, open) = grammar::scan(before);
    let ended = open.is_none() && before.ends_with(char::is_whitespace);
    let last = if ended { None } else { words.pop() };
    let (from, typed) = last.map_or((before.len(), String::new()), |w| (w.from, w.text));
    let mut said: Vec<String> = words.into_iter().map(|word| word.text).collect();
    if said.first().is_some_and(|word| word == "corral") {
        said.remove(0);
    }
    let first = said.first()?.clone();
    let is_front = first == "ui" || !is_verb(&first) && FRONT.iter().any(|(w, _)| *w == first);
    let words = if is_front {
        if first == "ui" {
            said.remove(0);
        }
        of_front(app, &said, &typed)
    } else if is_verb(&first) {
        said.push(typed.clone());
        let mut words = candidates(&said, &InView::of(app));
        words.retain(|(word, _)| word != FILES);
        words
    } else {
        return None;
    };
    Some(Found { from, typed, words })
}

/// What all words that begin like the one before the cursor have in common, put in its place; none if that
/// is no more than what is typed. A word that is whole is followed by the next.
pub fn common(app: &App, before: &str) -> Option<String> {
    let found = found(app, before)?;
    let fits = found.words.iter().map(|(word, _)| word.as_str());
    let fits: Vec<&str> = fits.filter(|w| w.starts_with(&found.typed)).collect();
    let first = fits.first()?;
    let goes_on = first.ends_with(['=', ':', '@', '/']);
    let more = if fits.len() == 1 && !goes_on { " " } else { "" };
    let word = grammar::quote(filter::common(fits.into_iter()));
    let lead = before.get(..found.from)?;
    let whole = format!("{lead}{word}{more}");
    (whole.len() > before.len()).then_some(whole)
}

/// How many words begin like the one before the cursor.
pub fn begin_alike(app: &App, before: &str) -> usize {
    let Some(found) = found(app, before) else {
        return 0;
    };
    let fits = |(word, _): &&(String, String)| word.starts_with(&found.typed);
    found.words.iter().filter(fits).count()
}

/// Only a group of verbs: one of them has to follow.
pub fn is_group(line: &str) -> bool {
    let Ok(words) = grammar::tokenize(line) else {
        return false;
    };
    let name = format!("{} ", words.join(" "));
    let is_row = rows::find(name.trim_end()).is_some();
    !is_row && rows().iter().any(|row| row.name.starts_with(&name))
}

/// A verb begins with this word.
fn is_verb(word: &str) -> bool {
    rows()
        .iter()
        .any(|row| row.name.split(' ').next() == Some(word) || row.aliases.contains(&word))
}

/// Words of the front's own commands.
fn of_front(app: &App, said: &[String], typed: &str) -> Candidates {
    let plain = |words: &mut dyn Iterator<Item = &str>| -> Candidates {
        words.map(|word| (word.to_owned(), String::new())).collect()
    };
    match said {
        [] => FRONT
            .iter()
            .map(|(word, says)| ((*word).to_owned(), (*says).to_owned()))
            .collect(),
        [word] => match word.as_str() {
            "go" => Pane::NAMES
                .iter()
                .map(|(word, _, title)| ((*word).to_owned(), (*title).to_owned()))
                .chain([("snapshots".to_owned(), "Snapshots".to_owned())])
                .collect(),
            "sort" => plain(&mut sort::COLUMNS.iter().copied().chain(["reverse"])),
            "copy" => plain(&mut ["id", "name", "address", "json", "command", "ssh"].into_iter()),
            "theme" => plain(&mut app.setup.themes.iter().map(|theme| theme.name.as_str())),
            "context" => plain(&mut app.fleet.contexts.iter().map(|c| c.name.as_str())),
            "filter" => InView::of(app).filter(typed),
            "form" => rows()
                .iter()
                .filter(|row| row.is_change())
                .map(|row| (row.name.to_owned(), row.summary.to_owned()))
                .collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// What is wrong with a line that is being typed, and with which word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where the word begins, in bytes of the line.
    pub at: usize,
    /// What is wrong and what to do.
    pub text: String,
}

/// The first fault of what stands before the cursor. A word that is still being typed has one only once
/// nothing begins like it; what is missing is no fault before Enter.
pub fn fault(app: &App, line: &str, under: &Under) -> Option<Fault> {
    let (words, open) = grammar::scan(line);
    let ended = open.is_none() && line.ends_with(char::is_whitespace);
    let skip = usize::from(words.first().is_some_and(|word| word.text == "corral"));
    let words = words.get(skip..).unwrap_or_default();
    let first = words.first()?;
    if first.text == "ui" || !is_verb(&first.text) {
        return of_first(words, ended, under);
    }
    let said: Vec<String> = words.iter().map(|word| word.text.clone()).collect();
    let read = Line::read(&said);
    let count = words.len();
    for (n, (word, part)) in words.iter().zip(read.parts()).enumerate() {
        let unfinished = n + 1 == count && !ended;
        let error = match part {
            Part::NoVerb | Part::NoFlag => {
                if unfinished && may_become(app, &line[..word.to]) {
                    continue;
                }
                wrong(&said[..=n], under)
            }
            Part::Flag => word.text.split_once('=').and_then(|(name, value)| {
                let name = name.strip_prefix("--")?;
                of_value(read.field(name)?, value, || {
                    unfinished && may_become(app, &line[..word.to])
                })
            }),
            Part::Value => read.field_before(&said[..n]).and_then(|field| {
                of_value(field, &word.text, || {
                    unfinished && may_become(app, &line[..word.to])
                })
            }),
            Part::Verb | Part::Target => None,
        };
        if let Some(error) = error {
            return Some(Fault {
                at: word.from,
                text: super::answer::error_line(&error),
            });
        }
    }
    None
}

/// What is wrong with a first word that is no verb; while it is typed, and while it looks for a command in
/// other words, nothing is.
fn of_first(words: &[grammar::Word], ended: bool, under: &Under) -> Option<Fault> {
    let first = words.first()?;
    let ambiguous = grammar::AMBIGUOUS_WORDS.iter();
    let is_ambiguous = ambiguous.clone().any(|(word, _)| *word == first.text);
    let is_front = first.text == "ui" && (words.len() > 2 || ended && words.len() == 2);
    if !is_ambiguous && !is_front {
        return None;
    }
    let said: Vec<String> = words.iter().map(|word| word.text.clone()).collect();
    let error = wrong(&said, under)?;
    let at = if is_front { words.get(1)? } else { first };
    Some(Fault {
        at: at.from,
        text: super::answer::error_line(&error),
    })
}

/// Something that is known begins like the last word.
fn may_become(app: &App, before: &str) -> bool {
    begin_alike(app, before) > 0
}

/// What the grammar says to these words.
fn wrong(said: &[String], under: &Under) -> Option<Error> {
    let line: Vec<String> = said.iter().map(|word| grammar::quote(word)).collect();
    let words = command::words(&line.join(" "), under).ok()?;
    command::understand(words).err()
}

/// What is wrong with a value, unless it may still become one of some words.
fn of_value(field: &Field, value: &str, becomes: impl Fn() -> bool) -> Option<Error> {
    if value.is_empty() {
        return None;
    }
    let error = grammar::read_value(field, value).err()?;
    (!becomes()).then_some(error)
}
