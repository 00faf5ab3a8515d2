//! Command lines of keys and of `:`, by the same grammar as argv.

use crate::action::grammar::{self, Globals, Invocation, ParseFailure};
use crate::action::{Row, rows};
use crate::model::{Error, Result};

/// What only the full-screen view carries out: word and what it does.
pub const FRONT: &[(&str, &str)] = &[
    ("go", "Shows a pane"),
    ("help", "Keys valid here"),
    ("command", "Opens the command line"),
    ("filter", "Filters the inventory"),
    (
        "actions",
        "All actions for the marked or selected instances",
    ),
    ("form", "Asks for the arguments of a command"),
    ("events", "Events of the selected instance"),
    ("up", "One up"),
    ("down", "One down"),
    ("page-up", "One page up"),
    ("page-down", "One page down"),
    ("top", "To the first"),
    ("bottom", "To the last"),
    ("left", "Columns to the left; folds a group"),
    ("right", "Columns to the right; unfolds a group"),
    ("open", "Opens what is under the cursor"),
    ("instances", "Instances on the host under the cursor"),
    ("escape", "One layer back"),
    ("close", "Closes the pane; at the inventory: quits"),
    ("back", "To the pane before"),
    ("forward", "To the pane after"),
    ("mark", "Marks and goes down"),
    ("range", "Marks from here to where it is pressed again"),
    ("mark-all", "Marks all visible"),
    ("unmark", "Unmarks all"),
    ("context", "Shows only the context of this number"),
    ("problems", "Shows problems only"),
    ("detail", "Detail pane on or off"),
    ("zoom", "Only the pane with the focus"),
    ("focus", "Next pane on the screen"),
    ("tab", "Next detail tab"),
    ("tab-back", "Previous detail tab"),
    ("scroll-down", "Scrolls the detail down"),
    ("scroll-up", "Scrolls the detail up"),
    ("scroll-page-down", "Scrolls the detail a page down"),
    ("scroll-page-up", "Scrolls the detail a page up"),
    ("notices", "Shows what was told before"),
    ("search", "Searches the text on the screen"),
    ("next-hit", "To the next hit"),
    ("previous-hit", "To the hit before"),
    (
        "fold",
        "Folds what the cursor of a definition is in; all: all",
    ),
    ("secrets", "Secrets of a definition shown or hidden"),
    (
        "split",
        "Shares the screen: larger or smaller detail, or percent",
    ),
    ("sort", "Sorts by a column"),
    (
        "columns",
        "Chooses columns: which, in which order, how wide",
    ),
    ("group", "Groups by context and host, by tag, or not at all"),
    ("view", "Shows a view that was saved under a name"),
    ("wide", "All columns, or those that fit"),
    ("copy", "Copies what is under the cursor"),
    ("refresh", "Asks every context again, now"),
    ("mouse", "Mouse on or off"),
    ("question", "Answers a question that waits"),
    (
        "theme",
        "Chooses a theme; what is under the cursor is shown at once",
    ),
    ("repaint", "Paints the screen anew"),
    ("suspend", "Back to the shell; fg returns"),
    ("quit", "Leaves corral"),
];

/// Words that these take after them; all others take none.
const TAKES: &[(&str, usize)] = &[
    ("go", 1),
    ("filter", usize::MAX),
    ("form", usize::MAX),
    ("context", 1),
    ("sort", 1),
    ("group", 1),
    ("view", usize::MAX),
    ("search", usize::MAX),
    ("fold", 1),
    ("split", 1),
    ("copy", 1),
    ("theme", 1),
];

/// A command line, understood.
pub enum Command {
    /// The front's own: word and the words after it.
    Front(String, Vec<String>),
    /// An action.
    Action(Box<Invocation>),
    /// Text to show.
    Show(String),
}

/// What stands for `{…}` in a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Under {
    /// `{id}`.
    pub id: Option<String>,
    /// `{ids}`.
    pub ids: Vec<String>,
    /// `{snapshot}`: `ID@NAME`.
    pub snapshot: Option<String>,
    /// `{task}`.
    pub task: Option<String>,
    /// `{context}`.
    pub context: Option<String>,
    /// `{image}`.
    pub image: Option<String>,
}

impl Under {
    /// Something of everything: whether a line can be carried out at all.
    pub fn any() -> Self {
        let some = |text: &str| Some(text.to_owned());
        Self {
            id: some("x/a"),
            ids: vec!["x/a".to_owned()],
            snapshot: some("x/a@s"),
            task: some("t"),
            context: some("x"),
            image: some("i"),
        }
    }
}

/// Splits first, then fills in `{…}` as whole words, so that no name can become two words or a flag.
pub fn words(line: &str, under: &Under) -> Result<Vec<String>> {
    let missing = |what: &str| Error::not_found(format!("no {what} is under the cursor"));
    let mut out = Vec::new();
    for word in grammar::tokenize(line)? {
        match word.as_str() {
            "{id}" => out.push(under.id.clone().ok_or_else(|| missing("instance"))?),
            "{ids}" if under.ids.is_empty() => return Err(missing("instance")),
            "{ids}" => out.extend(under.ids.iter().cloned()),
            "{snapshot}" => {
                out.push(under.snapshot.clone().ok_or_else(|| missing("snapshot"))?);
            }
            "{task}" => out.push(under.task.clone().ok_or_else(|| missing("task"))?),
            "{context}" => out.push(under.context.clone().ok_or_else(|| missing("context"))?),
            "{image}" => out.push(under.image.clone().ok_or_else(|| missing("image"))?),
            _ => out.push(word),
        }
    }
    Ok(out)
}

/// Understands words that came from a key or from `:`.
pub fn understand(mut words: Vec<String>) -> Result<Command> {
    if words.first().is_some_and(|word| word == "corral") {
        words.remove(0);
    }
    let first = words.first().map_or("", String::as_str);
    if first == "q" {
        return front("quit", words.get(1..).unwrap_or_default());
    }
    if first == "ui" {
        let word = words.get(1).cloned().unwrap_or_else(|| "help".to_owned());
        return front(&word, words.get(2..).unwrap_or_default());
    }
    let is_verb = rows()
        .iter()
        .any(|row| row.name.split(' ').next() == Some(first) || row.aliases.contains(&first));
    // A word with two meanings answers with the choice, here as in a shell.
    let is_ambiguous = grammar::AMBIGUOUS_WORDS
        .iter()
        .any(|(word, _)| *word == first);
    if !is_verb && !is_ambiguous && FRONT.iter().any(|(name, _)| *name == first) {
        return front(first, words.get(1..).unwrap_or_default());
    }
    match grammar::parse_line(&words, &Globals::default()) {
        Ok(invocation) if invocation.row.is_none() => {
            Err(Error::invalid("that is no command").remedy("an empty : lists them all"))
        }
        Ok(invocation) => Ok(Command::Action(Box::new(invocation))),
        Err(ParseFailure::Show(text)) => Ok(Command::Show(text)),
        Err(ParseFailure::Bad(error)) => Err(error),
    }
}

fn front(word: &str, rest: &[String]) -> Result<Command> {
    if FRONT.iter().any(|(name, _)| *name == word) {
        let takes = TAKES.iter().find(|(name, _)| *name == word);
        let most = takes.map_or(0, |(_, count)| *count);
        if let Some(extra) = rest.get(most..).and_then(<[String]>::first) {
            return Err(Error::invalid(format!(
                "ui {word} takes {}: {:?} is too much",
                match most {
                    0 => "no word".to_owned(),
                    n => crate::model::counted(n, "word"),
                },
                crate::model::shown(extra)
            )));
        }
        return Ok(Command::Front(word.to_owned(), rest.to_vec()));
    }
    let near = crate::model::nearest(word, FRONT.iter().map(|(name, _)| *name));
    let error = Error::invalid(format!(
        "there is no command \"ui {}\"",
        crate::model::shown(word)
    ));
    Err(match near {
        Some(near) => error.remedy(format!("did you mean ui {near}?")),
        None => error,
    })
}

/// The row that a line of words begins with.
pub fn row_at(words: &[String]) -> Option<&'static Row> {
    let named = |count: usize| {
        let name = words.get(..count)?.join(" ");
        rows()
            .iter()
            .copied()
            .find(|row| row.name == name || row.aliases.contains(&name.as_str()))
    };
    named(2).or_else(|| named(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_never_become_two_words_or_a_flag() {
        let under = Under {
            id: Some("x/a%20b".to_owned()),
            ids: vec!["x/a".to_owned(), "x/b; rm".to_owned()],
            ..Under::default()
        };
        assert_eq!(
            words("stop {ids} --force", &under).unwrap(),
            ["stop", "x/a", "x/b; rm", "--force"]
        );
        assert_eq!(words("info {id}", &under).unwrap(), ["info", "x/a%20b"]);
        let error = words("snapshot delete {snapshot}", &under).unwrap_err();
        assert!(error.message.contains("snapshot"), "{error}");
    }

    #[test]
    fn ui_may_be_left_out_where_no_verb_has_the_word() {
        let line = |text: &str| understand(grammar::tokenize(text).unwrap());
        assert!(matches!(line("q"), Ok(Command::Front(w, _)) if w == "quit"));
        assert!(
            matches!(line("go tasks"), Ok(Command::Front(w, r)) if w == "go" && r == ["tasks"])
        );
        assert!(matches!(line("events"), Ok(Command::Action(_))));
        assert!(matches!(line("stop x/a"), Ok(Command::Action(_))));
        assert!(matches!(line("stop --help"), Ok(Command::Show(_))));
        assert!(line("kill x/a").is_err());
        assert!(
            line("ui goo")
                .err()
                .unwrap()
                .remedy
                .unwrap()
                .contains("ui go")
        );
    }
}
