//! What is wrong with a command line, in one line, and what to do.

use super::super::row::Row;
use super::super::rows::rows;
use super::ParseFailure;
use super::tree::verbs_of;
use crate::model::{Error, GroupNoun, nearest, shown};

/// Words with two meanings in the field: they run nothing, they answer with the choice.
pub const AMBIGUOUS_WORDS: &[(&str, &str)] = &[
    (
        "suspend",
        "\"suspend\" means two things: corral pause (stays in RAM), or saving to disk, which is called hibernate. To halt the CPUs: corral pause NAME",
    ),
    (
        "destroy",
        "\"destroy\" means two things: corral stop --force (power off, nothing is lost but unsaved work) or corral delete (data gone)",
    ),
    (
        "poweroff",
        "\"poweroff\" means two things: corral stop (asks the guest) or corral stop --force (power off now)",
    ),
    (
        "kill",
        "\"kill\" means two things: corral stop --force (power off now) or corral tasks cancel (stops a task of corral)",
    ),
];

/// clap's error as ours.
pub(super) fn of_clap(error: &clap::Error, words: &[String]) -> ParseFailure {
    use clap::error::{ContextKind, ContextValue, ErrorKind as Kind};
    if matches!(
        error.kind(),
        Kind::DisplayHelp | Kind::DisplayVersion | Kind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        return ParseFailure::Show(error.render().to_string());
    }
    if error.kind() == Kind::InvalidSubcommand
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
    {
        if let Some((_, choice)) = AMBIGUOUS_WORDS.iter().find(|(known, _)| known == word) {
            return Error::invalid(*choice).into();
        }
        let verbs = rows()
            .iter()
            .flat_map(|row| row.aliases.iter().copied().chain([row.name]));
        let near = nearest(word, verbs).map_or_else(
            || "See corral --help".to_owned(),
            |verb| format!("Did you mean {verb}?"),
        );
        return Error::invalid(format!("there is no verb {:?}", shown(word)))
            .remedy(near)
            .into();
    }
    if error.kind() == Kind::MissingSubcommand
        && let Some(ContextValue::String(command)) = error.get(ContextKind::InvalidSubcommand)
    {
        let group = command.strip_prefix("corral ").unwrap_or(command);
        return Error::invalid(format!("{command} alone does nothing"))
            .remedy(format!("Say which: {}", verbs_of(group).join(", ")))
            .into();
    }
    let text = error.render().to_string();
    // clap's own layout is several lines; the first says what, a tip line says what to do.
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines
        .next()
        .unwrap_or("error: bad usage")
        .trim_start_matches("error: ");
    let mut message = first.to_owned();
    let mut remedy = None;
    for line in lines {
        if let Some(tip) = line.strip_prefix("tip: ") {
            remedy.get_or_insert_with(|| hyphens(error, words).unwrap_or_else(|| tip.to_owned()));
        } else if line.starts_with("[possible values")
            || (message.ends_with(':') && line.starts_with('<'))
            || (message.ends_with(':') && line.starts_with("--"))
        {
            message = format!("{message} {line}");
        }
    }
    let remedy = remedy.unwrap_or_else(|| format!("See corral {}--help", verb_in(words)));
    ParseFailure::Bad(
        Error::invalid(shown(&message).into_owned()).remedy(shown(&remedy).into_owned()),
    )
}

/// What is wrong with a positional, in the words of what it names.
pub(super) fn of_target(row: &Row, text: &str, error: Error) -> Error {
    let quoted = shown(text);
    match row.noun {
        GroupNoun::NewInstance | GroupNoun::NewContext => {
            Error::invalid(format!("{quoted:?} cannot be a name"))
                .remedy("A name is not empty and does not begin with -")
        }
        GroupNoun::Instances => error.remedy("No name and no ID begins with -; see corral list"),
        _ => Error::invalid(format!("{quoted:?} names nothing"))
            .remedy(format!("See corral {} --help", row.name)),
    }
}

/// How to write a value that begins with `-`. `--` only helps where a name is wanted, and no name
/// begins so.
fn hyphens(error: &clap::Error, words: &[String]) -> Option<String> {
    use clap::error::{ContextKind, ContextValue};
    let ContextValue::String(word) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    let at = words.iter().position(|given| given == word)?;
    let option = words[..at].last()?;
    let is_option = option.len() > 2 && option.starts_with("--") && !option.contains('=');
    (is_option && !word.starts_with("--"))
        .then(|| format!("If it is the value of {option}: {option}={word}"))
}

/// The verb that the words begin with, with a space behind it.
fn verb_in(words: &[String]) -> String {
    let plain: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .filter(|word| !word.starts_with('-'))
        .take(2)
        .collect();
    let known = |verb: &str| {
        rows()
            .iter()
            .find(|row| row.name == verb || row.aliases.contains(&verb))
    };
    let found = (1..=plain.len())
        .rev()
        .find_map(|n| known(&plain[..n].join(" ")));
    found.map_or_else(String::new, |row| format!("{} ", row.name))
}
