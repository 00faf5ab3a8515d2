//! What the command line offers, and all actions for some instances.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use super::app::{App, Overlay};
use super::command::FRONT;
use super::completion;
use crate::action::{Row, grammar, rows};
use crate::model::{GroupNoun, Operation, Support};

/// Rows offered at most.
const OFFERED: usize = 200;

/// Something the command line offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// As printed.
    pub title: String,
    /// The command line; none while it is not whole.
    pub run: String,
    /// What the line before the cursor becomes by Tab.
    pub completed: String,
    /// What it does.
    pub says: String,
    /// Its keys, where it has some.
    pub keys: String,
}

/// What fits what is typed: earlier lines while they are looked through, words once there is a verb, else
/// commands.
pub fn candidates(app: &App) -> Vec<Candidate> {
    let Some(Overlay::Command(command)) = app.overlays.last() else {
        return Vec::new();
    };
    if command.search.is_some() {
        return earlier(app, command.line.text());
    }
    let words = words(app, command.line.before(), command.line.after());
    if !words.is_empty() {
        return words;
    }
    commands(app, command.line.text().trim_start())
}

/// Earlier lines that have these words in them, the newest first.
fn earlier(app: &App, typed: &str) -> Vec<Candidate> {
    let wanted: Vec<String> = typed.split_whitespace().map(str::to_lowercase).collect();
    let fits = |line: &&String| {
        let line = line.to_lowercase();
        wanted.iter().all(|word| line.contains(word))
    };
    let lines = app.entered.iter().rev().filter(fits).take(OFFERED);
    lines
        .map(|line| Candidate {
            title: line.clone(),
            run: line.clone(),
            completed: line.clone(),
            says: String::new(),
            keys: String::new(),
        })
        .collect()
}

/// Words that the one before the cursor may become; those that begin like it come first.
fn words(app: &App, before: &str, after: &str) -> Vec<Candidate> {
    let Some(found) = completion::found(app, before) else {
        return Vec::new();
    };
    let lead = before.get(..found.from).unwrap_or_default();
    let only = |word: &str| !word.starts_with('-') && !word.ends_with(['=', ':', '@']);
    let all = found.words.into_iter().map(|(word, says)| {
        let completed = format!("{lead}{}", grammar::quote(&word));
        let whole = only(&word) && !completion::is_group(&completed);
        Candidate {
            run: if whole {
                format!("{completed}{after}")
            } else {
                String::new()
            },
            completed: if only(&word) {
                format!("{completed} ")
            } else {
                completed
            },
            title: word,
            says,
            keys: String::new(),
        }
    });
    let mut ranked = rank(&found.typed, all.collect(), |c| {
        format!("{} {}", c.title, c.says)
    });
    ranked.sort_by_key(|c| !c.title.starts_with(&found.typed));
    ranked
}

/// Commands, by their words and by what they do.
fn commands(app: &App, typed: &str) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = Vec::new();
    for binding in app.setup.keymap.of(&app.sections()) {
        if binding.help.is_empty() {
            continue;
        }
        all.push(Candidate {
            title: binding.run.clone(),
            run: binding.run.clone(),
            completed: binding.run.clone(),
            says: binding.help.clone(),
            keys: binding.keys_text(),
        });
    }
    for row in rows().iter().filter(|row| is_offered(row)) {
        let begins =
            |c: &Candidate| c.run == row.name || c.run.starts_with(&format!("{} ", row.name));
        if !all.iter().any(begins) {
            let run = default_line(row);
            all.push(Candidate {
                title: run.clone(),
                run,
                completed: format!("{} ", row.name),
                says: row.summary.to_owned(),
                keys: String::new(),
            });
        }
    }
    for (word, says) in FRONT {
        let run = format!("ui {word}");
        if !all
            .iter()
            .any(|c| c.run == run || c.run.starts_with(&format!("{run} ")))
        {
            all.push(Candidate {
                title: run.clone(),
                completed: run.clone(),
                run,
                says: (*says).to_owned(),
                keys: String::new(),
            });
        }
    }
    rank(typed, all, |c| format!("{} {}", c.run, c.says))
}

/// It makes sense inside the full-screen view.
fn is_offered(row: &Row) -> bool {
    !matches!(
        row.run,
        crate::action::Run::Front | crate::action::Run::Open(_)
    )
}

/// The line that a palette entry stands for.
fn default_line(row: &Row) -> String {
    match row.noun {
        GroupNoun::Instances if row.is_change() => format!("{} {{ids}}", row.name),
        GroupNoun::Instances => format!("{} {{id}}", row.name),
        GroupNoun::NewInstance | GroupNoun::NewContext | GroupNoun::Source => {
            format!("ui form {}", row.name)
        }
        GroupNoun::Images | GroupNoun::ImageSources if row.is_change() => {
            format!("ui form {}", row.name)
        }
        GroupNoun::Tasks => format!("{} {{task}}", row.name),
        GroupNoun::Contexts => format!("{} {{context}}", row.name),
        _ => row.name.to_owned(),
    }
}

fn rank(typed: &str, all: Vec<Candidate>, text: impl Fn(&Candidate) -> String) -> Vec<Candidate> {
    if typed.is_empty() {
        return all.into_iter().take(OFFERED).collect();
    }
    let mut matcher = Matcher::new(Config::DEFAULT);
    let pattern = Pattern::parse(typed, CaseMatching::Smart, Normalization::Smart);
    let mut buffer = Vec::new();
    let mut scored: Vec<(u32, Candidate)> = all
        .into_iter()
        .filter_map(|candidate| {
            let text = text(&candidate);
            let score = pattern.score(Utf32Str::new(&text, &mut buffer), &mut matcher)?;
            Some((score, candidate))
        })
        .collect();
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    scored.into_iter().map(|(_, c)| c).take(OFFERED).collect()
}

/// One action for some instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionRow {
    /// As printed.
    pub title: String,
    /// The command line.
    pub run: String,
    /// What it does.
    pub says: &'static str,
    /// Why it cannot be done now.
    pub not: Option<String>,
    /// Something besides, such as "emulated".
    pub note: Option<String>,
}

/// The changes that rows offer for instances, as far as they are searched for, with what stands in the way.
pub fn actions(app: &App) -> Vec<ActionRow> {
    let Some(Overlay::Actions(actions)) = app.overlays.last() else {
        return Vec::new();
    };
    let known = |operation: Operation| -> Option<&Support> {
        let cells = actions.support.as_ref()?;
        cells.iter().find(|(o, _)| *o == operation).map(|(_, s)| s)
    };
    let mut out = Vec::new();
    for row in rows()
        .iter()
        .filter(|r| r.is_change() && r.noun == GroupNoun::Instances)
    {
        // Its form has the flags, too.
        let by_form = row.name == "snapshot restore"
            || row.name == "snapshot delete"
            || row.fields.iter().any(|f| f.required);
        let line = if row.asks_first() {
            format!("ui form {} {{ids}}", row.name)
        } else {
            format!("{} {{ids}}", row.name)
        };
        let operations: &[Operation] = if row.operations.is_empty() {
            &[]
        } else {
            &row.operations[..1]
        };
        let says = row.summary;
        let name = row.name.to_owned();
        push(&mut out, name, line, says, operations, &known);
        if by_form {
            continue;
        }
        for operation in row.operations.iter().skip(1) {
            let title = operation.title();
            let Some((_, flag)) = title
                .split_once(" --")
                .filter(|(verb, _)| *verb == row.name)
            else {
                continue;
            };
            let run = format!("{} {{ids}} --{flag}", row.name);
            // What the flag makes of it, not what the verb does without.
            let says = row.field(flag).map_or(row.summary, |field| field.doc);
            push(&mut out, title.to_owned(), run, says, &[*operation], &known);
        }
    }
    if let Some(line) = &actions.search {
        let wanted = line.text().trim().to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&wanted);
        out.retain(|row| has(&row.title) || has(row.says));
    }
    out
}

fn push<'a>(
    out: &mut Vec<ActionRow>,
    title: String,
    run: String,
    says: &'static str,
    operations: &[Operation],
    known: &impl Fn(Operation) -> Option<&'a Support>,
) {
    let support = operations.first().and_then(|o| known(*o));
    let (not, note) = match support {
        Some(Support::No(why) | Support::Conditional(why)) => (Some(why.clone()), None),
        Some(Support::Emulated(how)) => (None, Some(how.clone())),
        _ => (None, None),
    };
    out.push(ActionRow {
        title,
        run,
        says,
        not,
        note,
    });
}
