//! One grammar for argv, `:`, keymaps and batch files: words in, [`Action`] out, and back.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::Value;

use super::row::{Row, Targets};
use super::rows::{find, rows};
pub use crate::config::nearest;
use crate::model::{
    Action, Bytes, Consent, Error, Field, FieldKind, GroupNoun, Result, Selector, parse_duration,
    print_duration, shown,
};

/// How a change is run, besides what it does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunOptions {
    /// Only print the plan.
    pub dry_run: bool,
    /// Return once accepted.
    pub no_wait: bool,
    /// Wait for this readiness too.
    pub wait_for: Option<String>,
    /// How long to wait, per target.
    pub timeout: Option<Duration>,
    /// At the same time per context.
    pub jobs: Option<usize>,
    /// Stop the queue at the first failure.
    pub stop_on_error: bool,
}

/// How the answer is printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// `table`, `wide`, `name`, `json`, `yaml`, `markdown`, `jsonpath=…`; `None` is the default.
    pub format: Option<String>,
    /// Columns, comma-separated, in order.
    pub columns: Option<String>,
    /// Sort column; a leading `-` reverses.
    pub sort: Option<String>,
    /// No header line.
    pub no_headers: bool,
    /// `json`: task events as JSON Lines on stderr.
    pub progress: Option<String>,
}

/// What holds for the whole run of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Globals {
    /// No TUI, prompt, colour or escape code.
    pub headless: bool,
    /// Options of a simulated fleet.
    pub demo: Option<String>,
    /// Another config file.
    pub config: Option<String>,
    /// Only configured contexts.
    pub no_discover: bool,
    /// Refuse every change.
    pub readonly: bool,
}

/// A parsed command line.
#[derive(Clone)]
pub struct Invocation {
    /// The row; `None` when no verb was given.
    pub row: Option<&'static Row>,
    /// The action.
    pub action: Action,
    /// How it is run.
    pub run: RunOptions,
    /// What the user already said.
    pub consent: Consent,
    /// How the answer is printed.
    pub output: Output,
    /// Program-wide flags.
    pub globals: Globals,
}

/// Why a command line is no [`Invocation`].
pub enum ParseFailure {
    /// Help or the version was asked for: print to stdout, exit 0.
    Show(String),
    /// It is wrong: print to stderr, exit 2.
    Bad(Error),
}

impl From<Error> for ParseFailure {
    fn from(error: Error) -> Self {
        Self::Bad(error)
    }
}

const PROGRAM_FLAGS: &[Field] = &[
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
                let sub = command_of(row, word);
                if let Some((_, command)) = groups.iter_mut().find(|(name, _)| *name == group) {
                    *command = std::mem::take(command).subcommand(sub)
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
    for (_, command) in groups {
        root = root.subcommand(command);
    }
    root
}

fn group_about(group: &str) -> String {
    let words: Vec<&str> = rows()
        .iter()
        .filter_map(|row| {
            row.name
                .split_once(' ')
                .filter(|(g, _)| *g == group)
                .map(|(_, w)| w)
        })
        .collect();
    format!("Groups: {}", words.join(", "))
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
        if same_group {
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
    if let Some(arg) = positional(row) {
        command = command.arg(arg);
    }
    for field in row.fields {
        command = command.arg(arg_of(field));
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

fn row_flags(row: &Row) -> Vec<(&'static str, &'static [Field])> {
    let mut flags: Vec<(&'static str, &'static [Field])> = Vec::new();
    if matches!(row.noun, GroupNoun::Instances | GroupNoun::NewInstance) || row.name == "doctor" {
        flags.push(("Which", Row::SCOPE_FLAGS));
    }
    if row.is_change() {
        flags.push(("Running it", Row::CHANGE_FLAGS));
    }
    flags.push(("Output", OUTPUT_FLAGS));
    flags
}

fn positional(row: &Row) -> Option<Arg> {
    let name = match row.noun {
        GroupNoun::None => return None,
        GroupNoun::Instances => "INSTANCE",
        GroupNoun::NewInstance | GroupNoun::NewContext => "NAME",
        GroupNoun::Contexts => "CONTEXT",
        GroupNoun::Tasks => "TASK",
        GroupNoun::File => "FILE",
        GroupNoun::Shell => "SHELL",
        GroupNoun::Words => "WORD",
    };
    let arg = Arg::new("TARGETS").value_name(name).help(match row.noun {
        GroupNoun::Instances => "ID, CONTEXT/NAME, name, UUID or glob",
        GroupNoun::NewInstance => "Name of the new instance",
        GroupNoun::File => "A file, - for standard input",
        GroupNoun::Shell => "bash, zsh or fish",
        _ => "",
    });
    Some(match row.targets {
        Targets::None => return None,
        Targets::One => arg.required(true).num_args(1),
        Targets::Some | Targets::Any => arg.num_args(0..).action(ArgAction::Append),
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
                .value_name(value_name(kind))
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

fn value_name(kind: FieldKind) -> &'static str {
    match kind {
        FieldKind::Bytes => "SIZE",
        FieldKind::Count => "N",
        FieldKind::Name | FieldKind::Snapshot => "NAME",
        FieldKind::Choice(_) => "WORD",
        FieldKind::Path => "PATH",
        FieldKind::Url => "URL",
        FieldKind::Duration => "TIME",
        FieldKind::KeyValue => "KEY=VALUE",
        FieldKind::Text | FieldKind::Flag => "TEXT",
        FieldKind::Selector => "INSTANCE",
        FieldKind::Context => "CONTEXT",
        FieldKind::Task => "TASK",
    }
}

/// Splits a line into words the way a shell does for plain words and quotes; nothing is expanded.
pub fn tokenize(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut open = false;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => {
                open = true;
                loop {
                    match chars.next() {
                        None => {
                            return Err(Error::invalid(format!("a {c} is not closed")));
                        }
                        Some('\\') if c == '"' => match chars.next() {
                            Some(next @ ('"' | '\\')) => word.push(next),
                            Some(next) => word.extend(['\\', next]),
                            None => return Err(Error::invalid("a \\ stands at the end")),
                        },
                        Some(next) if next == c => break,
                        Some(next) => word.push(next),
                    }
                }
            }
            '\\' => {
                open = true;
                match chars.next() {
                    Some(next) => word.push(next),
                    None => return Err(Error::invalid("a \\ stands at the end")),
                }
            }
            c if c.is_whitespace() => {
                if open || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                open = false;
            }
            c => word.push(c),
        }
    }
    if open || !word.is_empty() {
        words.push(word);
    }
    Ok(words)
}

/// One word, quoted so that [`tokenize`] and a POSIX shell give it back.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+:,/%@=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Parses words without the leading `corral`.
pub fn parse(words: &[String]) -> Result<Invocation, ParseFailure> {
    let argv = std::iter::once("corral").chain(words.iter().map(String::as_str));
    let matches = command()
        .try_get_matches_from(argv)
        .map_err(|error| clap_failure(&error))?;
    let mut leaf = &matches;
    let mut path: Vec<&str> = Vec::new();
    while let Some((word, sub)) = leaf.subcommand() {
        path.push(word);
        leaf = sub;
    }
    let name = path.join(" ");
    let row = if name.is_empty() { None } else { find(&name) };
    let mut invocation = Invocation {
        row,
        action: Action::default(),
        run: RunOptions::default(),
        consent: Consent::default(),
        output: Output::default(),
        globals: Globals::default(),
    };
    let globals = read_fields(PROGRAM_FLAGS, leaf)?;
    invocation.globals = Globals {
        headless: globals.flag("headless"),
        demo: globals.text("demo").map(str::to_owned),
        config: globals.text("config").map(str::to_owned),
        no_discover: globals.flag("no-discover"),
        readonly: globals.flag("readonly"),
    };
    let Some(row) = row else {
        return Ok(invocation);
    };
    row.name.clone_into(&mut invocation.action.verb);
    invocation.action.args = read_fields(row.fields, leaf)?;
    if let Ok(Some(targets)) = leaf.try_get_many::<String>("TARGETS") {
        for target in targets {
            invocation.action.targets.push(target.parse::<Selector>()?);
        }
    }
    for (heading, flags) in row_flags(row) {
        let flags: Vec<Field> = flags
            .iter()
            .filter(|f| row.field(f.name).is_none())
            .copied()
            .collect();
        let args = read_fields(&flags, leaf)?;
        match heading {
            "Which" => {
                let scope = &mut invocation.action.scope;
                scope.contexts = args.many("context");
                scope.backends = args.many("backend");
                scope.filter = args.text("filter").map(str::to_owned);
                scope.allow_partial = args.flag("allow-partial");
            }
            "Running it" => {
                invocation.consent.yes = args.flag("yes");
                invocation.consent.typed = args.text("confirm").map(str::to_owned);
                invocation.run = RunOptions {
                    dry_run: args.flag("dry-run"),
                    no_wait: args.flag("no-wait"),
                    wait_for: args.text("for").map(str::to_owned),
                    timeout: args.duration("timeout"),
                    jobs: args
                        .count("jobs")
                        .map(|n| usize::try_from(n).unwrap_or(usize::MAX).max(1)),
                    stop_on_error: args.text("on-error") == Some("stop"),
                };
            }
            _ => {
                invocation.output = Output {
                    format: args.text("output").map(str::to_owned),
                    columns: args.text("columns").map(str::to_owned),
                    sort: args.text("sort").map(str::to_owned),
                    no_headers: args.flag("no-headers"),
                    progress: args.text("progress").map(str::to_owned),
                };
            }
        }
    }
    check_targets(row, &invocation.action)?;
    Ok(invocation)
}

fn check_targets(row: &Row, action: &Action) -> Result<()> {
    let given = !action.targets.is_empty() || action.scope.filter.is_some();
    if row.targets == Targets::Some && !given {
        let wanted = if row.noun == GroupNoun::Instances {
            "which instance"
        } else {
            "which one"
        };
        return Err(Error::invalid(format!("corral {}: {wanted}?", row.name))
            .remedy("Name it, or see corral list"));
    }
    Ok(())
}

fn clap_failure(error: &clap::Error) -> ParseFailure {
    use clap::error::ErrorKind as Kind;
    if matches!(
        error.kind(),
        Kind::DisplayHelp | Kind::DisplayVersion | Kind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        return ParseFailure::Show(error.render().to_string());
    }
    if error.kind() == Kind::InvalidSubcommand
        && let Some(clap::error::ContextValue::String(word)) =
            error.get(clap::error::ContextKind::InvalidSubcommand)
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

fn read_fields(fields: &[Field], matches: &ArgMatches) -> Result<crate::model::Args> {
    let mut args = crate::model::Args::default();
    for field in fields {
        if field.kind == FieldKind::Flag {
            if matches!(matches.try_get_one::<bool>(field.name), Ok(Some(true))) {
                args.set(field.name, true);
            }
            continue;
        }
        let values: Vec<&String> = match matches.try_get_many::<String>(field.name) {
            Ok(Some(values)) => values.collect(),
            _ => continue,
        };
        let read: Vec<Value> = values
            .iter()
            .map(|text| read_value(field, text))
            .collect::<Result<_>>()?;
        if field.many {
            args.set(field.name, Value::Array(read));
        } else if let Some(value) = read.into_iter().next_back() {
            args.set(field.name, value);
        }
    }
    Ok(args)
}

/// One field's value from text, in canonical form.
pub fn read_value(field: &Field, text: &str) -> Result<Value> {
    let bad = |error: Error| Error {
        message: format!("--{}: {}", field.name, error.message),
        ..error
    };
    match field.kind {
        FieldKind::Bytes => text.parse::<Bytes>().map(|b| Value::from(b.0)).map_err(bad),
        FieldKind::Count => text.trim().parse::<u64>().map(Value::from).map_err(|_| {
            bad(Error::invalid(format!(
                "{:?} is not a whole number",
                shown(text)
            )))
        }),
        FieldKind::Duration => parse_duration(text)
            .map(|d| {
                if d.subsec_millis() == 0 {
                    Value::from(d.as_secs())
                } else {
                    Value::from(d.as_secs_f64())
                }
            })
            .map_err(bad),
        FieldKind::KeyValue if !text.contains('=') || text.starts_with('=') => Err(bad(
            Error::invalid(format!("{:?} is not KEY=VALUE", shown(text))),
        )),
        FieldKind::Choice(words) if !words.contains(&text) => Err(bad(Error::invalid(format!(
            "{:?} is none of {}",
            shown(text),
            words.join(", ")
        )))),
        FieldKind::Flag => match text {
            "true" | "yes" | "on" => Ok(Value::from(true)),
            "false" | "no" | "off" => Ok(Value::from(false)),
            _ => Err(bad(Error::invalid("a flag takes no value"))),
        },
        _ => Ok(Value::from(text)),
    }
}

/// The headless command line of an action, without `corral`. Secrets are left out.
pub fn print(action: &Action) -> String {
    let mut words: Vec<String> = action.verb.split(' ').map(str::to_owned).collect();
    words.extend(action.targets.iter().map(|t| quote(t.as_str())));
    if let Some(row) = find(&action.verb) {
        for field in row.fields {
            let Some(value) = action.args.0.get(field.name) else {
                continue;
            };
            match (field.kind, value) {
                (FieldKind::Flag, Value::Bool(true)) => words.push(format!("--{}", field.name)),
                (FieldKind::Flag, _) => {}
                (_, _) if field.secret => {}
                (_, Value::Array(items)) => {
                    for item in items {
                        push_flag(&mut words, field.name, &print_value(field, item));
                    }
                }
                (_, value) => push_flag(&mut words, field.name, &print_value(field, value)),
            }
        }
    }
    for context in &action.scope.contexts {
        push_flag(&mut words, "context", context);
    }
    for backend in &action.scope.backends {
        push_flag(&mut words, "backend", backend);
    }
    if let Some(filter) = &action.scope.filter {
        push_flag(&mut words, "filter", filter);
    }
    if action.scope.allow_partial {
        words.push("--allow-partial".to_owned());
    }
    words.join(" ")
}

/// A flag and its value; one word where the value would be read as another flag.
fn push_flag(words: &mut Vec<String>, name: &str, value: &str) {
    if value.starts_with('-') {
        words.push(quote(&format!("--{name}={value}")));
    } else {
        words.extend([format!("--{name}"), quote(value)]);
    }
}

fn print_value(field: &Field, value: &Value) -> String {
    match (field.kind, value) {
        (FieldKind::Bytes, value) => value
            .as_u64()
            .map_or_else(|| value.to_string(), |n| Bytes(n).exact()),
        (FieldKind::Duration, value) => value
            .as_f64()
            .and_then(|s| Duration::try_from_secs_f64(s).ok())
            .map_or_else(|| value.to_string(), print_duration),
        (_, Value::String(text)) => text.clone(),
        (_, value) => value.to_string(),
    }
}

/// The row of an action.
pub fn row_of(action: &Action) -> Result<&'static Row> {
    find(&action.verb).ok_or_else(|| {
        let near = nearest(&action.verb, rows().iter().map(|row| row.name)).map_or_else(
            || "See corral --help".to_owned(),
            |name| format!("Did you mean {name}?"),
        );
        Error::invalid(format!("there is no verb {:?}", shown(&action.verb))).remedy(near)
    })
}

/// Checks an action that did not come through [`parse`]: a peer's, a form's, a history entry's.
pub fn validate(action: &Action) -> Result<&'static Row> {
    let row = row_of(action)?;
    for key in action.args.0.keys() {
        if row.field(key).is_none() {
            return Err(Error::invalid(format!(
                "{} has no argument {:?}",
                row.name,
                shown(key)
            )));
        }
    }
    for field in row.fields.iter().filter(|field| field.required) {
        if !action.args.has(field.name) {
            return Err(Error::invalid(format!(
                "{} needs --{}",
                row.name, field.name
            )));
        }
    }
    check_targets(row, action)?;
    Ok(row)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::action::row::Run;

    fn words(line: &str) -> Vec<String> {
        tokenize(line).unwrap()
    }

    fn parsed(line: &str) -> Invocation {
        match parse(&words(line)) {
            Ok(invocation) => invocation,
            Err(ParseFailure::Bad(error)) => panic!("{line}: {error}"),
            Err(ParseFailure::Show(text)) => panic!("{line}: help: {text}"),
        }
    }

    fn refused(line: &str) -> String {
        match parse(&words(line)) {
            Err(ParseFailure::Bad(error)) => error.to_string(),
            _ => panic!("{line} was accepted"),
        }
    }

    #[test]
    fn every_example_parses_and_prints_back() {
        for row in rows() {
            assert!(
                !row.examples.is_empty() || row.noun == GroupNoun::None,
                "{}",
                row.name
            );
            for example in row.examples {
                let first = parsed(example);
                assert_eq!(first.row.map(|r| r.name), Some(row.name), "{example}");
                let again = parsed(&print(&first.action));
                assert_eq!(again.action, first.action, "{example}");
            }
        }
    }

    #[test]
    fn the_tree_is_sound() {
        command().debug_assert();
        let mut names: Vec<&str> = rows()
            .iter()
            .flat_map(|r| r.aliases.iter().copied().chain([r.name]))
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "a name or alias is used twice");
        for row in rows() {
            if let Run::Change(_) = row.run {
                for flag in Row::CHANGE_FLAGS {
                    assert!(
                        row.field(flag.name).is_none(),
                        "{} redefines --{}",
                        row.name,
                        flag.name
                    );
                }
            }
        }
    }

    #[test]
    fn aliases_of_a_group_are_that_groups_own() {
        assert_eq!(parsed("rm local/web").action.verb, "delete");
        assert_eq!(
            parsed("snapshot rm local/web@s1").action.verb,
            "snapshot delete"
        );
        assert_eq!(parsed("reboot web").action.verb, "restart");
    }

    #[test]
    fn words_with_two_meanings_answer_with_the_choice() {
        for (word, _) in AMBIGUOUS_WORDS {
            assert!(
                refused(&format!("{word} web")).contains("means two things"),
                "{word}"
            );
        }
    }

    #[test]
    fn values_are_canonical() {
        let action = parsed("create web --memory 4GiB --disk 20G --cpus 4").action;
        assert_eq!(action.args.bytes("memory"), Some(Bytes::gib(4)));
        assert_eq!(print(&action), "create web --disk 20G --cpus 4 --memory 4G");
        let stop = parsed("stop web --force-after 1m30s").action;
        assert_eq!(
            stop.args.duration("force-after"),
            Some(Duration::from_secs(90))
        );
        assert_eq!(print(&stop), "stop web --force-after 1m30s");
    }

    #[test]
    fn bad_usage_says_what_and_what_to_do() {
        assert!(
            refused("stpo web").contains("stop"),
            "{}",
            refused("stpo web")
        );
        assert!(refused("stop").contains("which instance"));
        assert!(refused("create web --memory lots").contains("--memory"));
        assert!(refused("create web --firmware efi").contains("uefi"));
        assert!(refused("wait web --for nonsense").contains("running"));
        for line in ["stpo web", "stop --frce web", "list --sort"] {
            assert!(!refused(line).contains('\n'), "{line}: {}", refused(line));
        }
    }

    #[test]
    fn unknown_arguments_of_an_action_are_refused() {
        let action = Action::new("stop")
            .on("web".parse().unwrap())
            .with("nonsense", 1);
        assert!(validate(&action).is_err());
        assert!(validate(&Action::new("fly")).is_err());
    }

    proptest! {
        #[test]
        fn quoting_round_trips(list in proptest::collection::vec("\\PC*", 0..5)) {
            let line = list.iter().map(|w| quote(w)).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(tokenize(&line).unwrap(), list);
        }

        #[test]
        fn parsing_never_panics(line in "\\PC*") {
            if let Ok(words) = tokenize(&line) {
                let _ = parse(&words);
            }
        }
    }
}
