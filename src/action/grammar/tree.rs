//! The command tree for clap, built from the rows.

use clap::{Arg, ArgAction, Command};

use super::super::row::{Row, Targets, Words};
use super::super::rows::rows;
use crate::model::{Field, FieldKind, GroupNoun};

/// Flags that hold for the whole run of the program.
pub(super) const PROGRAM_FLAGS: &[Field] = &[
    Field::flag(
        "headless",
        "No TUI, no prompt, no colour; with no verb: list",
    ),
    Field::new(
        "demo",
        FieldKind::Text,
        "A simulated fleet that touches nothing",
    ),
    Field::new("config", FieldKind::Path, "Another config file"),
    Field::flag("no-discover", "Only contexts from the config file"),
    Field::flag("readonly", "Refuses every change"),
];

const OUTPUT_FLAGS: &[Field] = &[
    Field::new(
        "output",
        FieldKind::Text,
        "table, wide, name, json, yaml or jsonpath=…",
    )
    .short('o'),
    Field::new(
        "columns",
        FieldKind::Text,
        "Columns to print, comma-separated",
    ),
    Field::new(
        "sort",
        FieldKind::Text,
        "Column to sort by; -COLUMN reverses",
    ),
    Field::flag("no-headers", "No header line"),
    Field::new(
        "progress",
        FieldKind::Choice(&["json"]),
        "Task events as JSON Lines on stderr",
    ),
];

/// The flag that lists what `--set` takes.
const FIELDS: &str = "fields";

/// The whole command tree, built from the rows.
pub fn command() -> Command {
    let mut root = Command::new("corral")
        .version(env!("CARGO_PKG_VERSION"))
        .about("One terminal for every VM and container you run")
        .disable_help_subcommand(true)
        .subcommand_required(false)
        .infer_subcommands(false)
        .after_help(
            "Without a verb corral opens its full-screen view. More: corral VERB --help, corral ui",
        );
    for flag in PROGRAM_FLAGS {
        let arg = arg_of(flag).global(true).help_heading("Program");
        root = root.arg(if flag.name == "demo" {
            arg.num_args(0..=1)
                .require_equals(true)
                .default_missing_value("small")
        } else {
            arg
        });
    }
    let mut groups: Vec<(&str, Command)> = Vec::new();
    for row in rows() {
        match row.name.split_once(' ') {
            None => root = root.subcommand(command_of(row, row.name)),
            Some((group, word)) => {
                // `addnic` for `nic add`: found by those who know it, and in no list.
                for alias in row.aliases.iter().filter(|alias| !alias.contains(' ')) {
                    root = root.subcommand(command_of(row, alias).hide(true));
                }
                let sub = command_of(row, word);
                if let Some((_, command)) = groups.iter_mut().find(|(name, _)| *name == group) {
                    *command = std::mem::take(command).subcommand(sub);
                } else {
                    let command = Command::new(group)
                        .about(group_about(group))
                        .subcommand_required(true)
                        .arg_required_else_help(true)
                        .disable_help_subcommand(true)
                        .subcommand(sub);
                    groups.push((group, command));
                }
            }
        }
    }
    for (group, command) in groups {
        root = root.subcommand(match listing(group) {
            // `corral tasks` is `corral tasks list`.
            Some(row) => with_arguments(command, row)
                .subcommand_required(false)
                .arg_required_else_help(false)
                .args_conflicts_with_subcommands(true),
            None => command,
        });
    }
    root
}

/// What a group's own word means without a verb behind it: its list, where that needs nothing.
pub(super) fn listing(group: &str) -> Option<&'static Row> {
    rows().iter().copied().find(|row| {
        row.name.strip_suffix(" list") == Some(group) && matches!(row.targets, Targets::None)
    })
}

/// The verbs of a group.
pub(super) fn verbs_of(group: &str) -> Vec<&'static str> {
    let of_group = |row: &&'static Row| row.name.split_once(' ').filter(|(g, _)| *g == group);
    rows()
        .iter()
        .filter_map(of_group)
        .map(|(_, verb)| verb)
        .collect()
}

fn group_about(group: &str) -> String {
    format!("Groups: {}", verbs_of(group).join(", "))
}

fn command_of(row: &'static Row, word: &'static str) -> Command {
    let mut command = Command::new(word)
        .about(row.summary)
        .display_order(row.group as usize);
    if !row.details.is_empty() {
        command = command.long_about(format!("{}\n\n{}", row.summary, row.details));
    }
    // Only aliases of the same group can be clap aliases; `rm` for `snapshot delete` is `snapshot rm`.
    for alias in row.aliases {
        let same_group =
            alias.rsplit_once(' ').map(|(g, _)| g) == row.name.rsplit_once(' ').map(|(g, _)| g);
        // A short form of its own, `rmdisk`, has none of them.
        if same_group && word == row.verb_word() {
            command = command.visible_alias(alias.rsplit_once(' ').map_or(*alias, |(_, w)| w));
        }
    }
    if !row.examples.is_empty() {
        let lines: Vec<String> = row
            .examples
            .iter()
            .map(|e| format!("  corral {e}"))
            .collect();
        command = command.after_help(format!("Examples:\n{}", lines.join("\n")));
    }
    with_arguments(command, row)
}

fn with_arguments(mut command: Command, row: &Row) -> Command {
    // What a row only reads for its own `--fields` needs no object.
    let lists_fields = row.shapes.iter().any(|(flag, _)| *flag == FIELDS);
    let needed = |arg: Arg| {
        // What positionals can say is looked for once they are read.
        if row.words != Words::None && arg.get_id() != "TARGETS" {
            arg.required(false)
        } else if lists_fields && arg.is_required_set() {
            arg.required(false).required_unless_present(FIELDS)
        } else {
            arg
        }
    };
    if let Some(arg) = positional(row) {
        command = command.arg(needed(arg));
    }
    for field in row.fields {
        let arg = arg_of(field);
        // A kind is what decides which fields there are.
        let is_kind = field.name == "backend";
        command = command.arg(if is_kind { arg } else { needed(arg) });
    }
    for (heading, flags) in row_flags(row) {
        for field in flags {
            if row.field(field.name).is_none() {
                command = command.arg(arg_of(field).help_heading(heading));
            }
        }
    }
    command
}

/// The flags of a row besides its own fields, under their headings.
pub(super) fn row_flags(row: &Row) -> Vec<(&'static str, &'static [Field])> {
    let mut flags: Vec<(&'static str, &'static [Field])> = Vec::new();
    if matches!(
        row.noun,
        GroupNoun::Instances | GroupNoun::NewInstance | GroupNoun::Source
    ) || row.name == "doctor"
    {
        flags.push(("Which", Row::SCOPE_FLAGS));
    } else if row.noun.is_around() {
        flags.push(("Which", Row::AROUND_FLAGS));
    }
    if row.is_change() {
        flags.push(("Running it", Row::CHANGE_FLAGS));
    }
    flags.push(("Output", OUTPUT_FLAGS));
    flags
}

fn positional(row: &Row) -> Option<Arg> {
    let name = row.noun.word()?;
    let arg = Arg::new("TARGETS").value_name(name).help(match row.noun {
        GroupNoun::Instances => "ID, CONTEXT/NAME, name, UUID or glob",
        GroupNoun::NewInstance => "Name of the new instance",
        GroupNoun::File => "A file, - for standard input",
        GroupNoun::Source => "An image, a package or a folder",
        GroupNoun::Shell => "bash, zsh or fish",
        GroupNoun::Hosts | GroupNoun::Pools | GroupNoun::Networks | GroupNoun::Images => {
            "NAME or CONTEXT/NAME"
        }
        GroupNoun::ImageSources => "A name of the catalogue, a URL or a file",
        _ => "",
    });
    Some(match (row.targets, row.words) {
        (Targets::None, _) => return None,
        (_, Words::Rest(_)) => arg
            .required(true)
            .num_args(1..)
            .value_names([name, "WORD"])
            .action(ArgAction::Append),
        (_, Words::FromTo) => arg
            .required(true)
            .num_args(1..=2)
            .value_names(["FROM", "TO"])
            .help("A path here, or INSTANCE:/PATH")
            .action(ArgAction::Append),
        (Targets::One, Words::None) => arg.required(true).num_args(1),
        (Targets::Some | Targets::Any, Words::None) => arg.num_args(0..).action(ArgAction::Append),
    })
}

fn arg_of(field: &Field) -> Arg {
    let mut arg = Arg::new(field.name).long(field.name).help(field.doc);
    if let Some(short) = field.short {
        arg = arg.short(short);
    }
    match field.kind {
        FieldKind::Flag => arg.action(ArgAction::SetTrue),
        kind => {
            arg = arg
                .value_name(kind.word())
                .required(field.required)
                .allow_hyphen_values(matches!(kind, FieldKind::Text | FieldKind::Count))
                .action(if field.many {
                    ArgAction::Append
                } else {
                    ArgAction::Set
                });
            if let FieldKind::Choice(words) = kind {
                arg = arg.value_parser(clap::builder::PossibleValuesParser::new(
                    words.iter().copied(),
                ));
            }
            if let Some(default) = field.default {
                arg = arg.help(format!("{} [default: {default}]", field.doc));
            }
            arg
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row's own field of the same name would never be seen: the other one takes the word.
    #[test]
    fn no_field_of_a_row_has_the_name_of_what_every_command_takes() {
        for row in rows() {
            for field in row.fields {
                let taken = PROGRAM_FLAGS.iter().chain(OUTPUT_FLAGS);
                let taken = taken
                    .chain(if row.is_change() {
                        Row::CHANGE_FLAGS
                    } else {
                        &[]
                    })
                    .any(|other| {
                        other.name == field.name
                            || other.short.is_some() && other.short == field.short
                    });
                assert!(!taken, "{}: --{}", row.name, field.name);
            }
        }
    }
}
