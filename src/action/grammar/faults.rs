//! What is wrong with a command line, in one line, and what to do.

use super::super::rows::rows;
use super::ParseFailure;
use super::tree::verbs_of;
use crate::model::{Error, nearest, shown};

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
pub(super) fn of_clap(error: &clap::Error) -> ParseFailure {
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
            remedy.get_or_insert_with(|| tip.to_owned());
        } else if line.starts_with("[possible values")
            || (message.ends_with(':') && line.starts_with('<'))
            || (message.ends_with(':') && line.starts_with("--"))
        {
            message = format!("{message} {line}");
        }
    }
    let remedy = remedy.unwrap_or_else(|| "See corral --help".to_owned());
    ParseFailure::Bad(
        Error::invalid(shown(&message).into_owned()).remedy(shown(&remedy).into_owned()),
    )
}
