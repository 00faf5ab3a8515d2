//! One grammar for argv, `:`, keymaps and batch files: words in, [`Action`] out, and back.

mod faults;
mod positionals;
mod print;
mod tree;
mod values;
mod words;

use std::time::Duration;

use super::row::{Row, Targets};
use super::rows::{find, rows};
use crate::model::{Action, Consent, Error, Field, GroupNoun, Result, Selector, nearest, shown};
pub use faults::AMBIGUOUS_WORDS;
pub use print::{print, print_run, reaching};
pub use tree::command;
pub use values::read_value;
pub use words::{Word, quote, scan, tokenize};

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

/// Parses a line of a running corral. What holds for the whole run is settled: a line that wants
/// another fleet, another file or other guards than `outer` is refused, never run in this one.
///
/// # Errors
/// As [`parse`].
pub fn parse_line(words: &[String], outer: &Globals) -> Result<Invocation, ParseFailure> {
    let mut invocation = parse(words)?;
    let line = &invocation.globals;
    let differs = [
        ("headless", line.headless && !outer.headless),
        ("demo", line.demo.is_some() && line.demo != outer.demo),
        (
            "config",
            line.config.is_some() && line.config != outer.config,
        ),
        ("no-discover", line.no_discover && !outer.no_discover),
        ("readonly", line.readonly && !outer.readonly),
    ];
    if let Some((flag, _)) = differs.iter().find(|(_, differs)| *differs) {
        let message = format!("--{flag} holds for a whole run, not for one line. Nothing was done");
        let remedy = format!("Start corral with it: corral --{flag} …");
        return Err(Error::invalid(message).remedy(remedy).into());
    }
    invocation.globals = outer.clone();
    Ok(invocation)
}

/// Parses words without the leading `corral`.
pub fn parse(words: &[String]) -> Result<Invocation, ParseFailure> {
    // As elsewhere: `corral help list` is `corral list --help`.
    let asked: Vec<String>;
    let words = match words.split_first() {
        Some((first, rest)) if first == "help" => {
            asked = rest.iter().cloned().chain(["--help".to_owned()]).collect();
            &asked
        }
        _ => words,
    };
    let argv = std::iter::once("corral").chain(words.iter().map(String::as_str));
    let matches = tree::command()
        .try_get_matches_from(argv)
        .map_err(|error| faults::of_clap(&error, words))?;
    let mut leaf = &matches;
    let mut path: Vec<&str> = Vec::new();
    while let Some((word, sub)) = leaf.subcommand() {
        path.push(word);
        leaf = sub;
    }
    let name = path.join(" ");
    let row = if name.is_empty() {
        None
    } else {
        find(&name).or_else(|| tree::listing(&name))
    };
    let mut invocation = Invocation {
        row,
        action: Action::default(),
        run: RunOptions::default(),
        consent: Consent::default(),
        output: Output::default(),
        globals: Globals::default(),
    };
    let globals = values::read_fields(tree::PROGRAM_FLAGS, leaf)?;
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
    invocation.action.args = values::read_fields(row.fields, leaf)?;
    if let Ok(Some(targets)) = leaf.try_get_many::<String>("TARGETS") {
        let words: Vec<&str> = targets.map(String::as_str).collect();
        for target in positionals::read(row, &words, &mut invocation.action.args)? {
            let selector = target.parse::<Selector>();
            let selector = selector.map_err(|error| faults::of_target(row, &target, error))?;
            invocation.action.targets.push(selector);
        }
    }
    for (heading, flags) in tree::row_flags(row) {
        let flags: Vec<Field> = flags
            .iter()
            .filter(|f| row.field(f.name).is_none())
            .copied()
            .collect();
        let args = values::read_fields(&flags, leaf)?;
        match heading {
            "Which" => {
                let scope = &mut invocation.action.scope;
                scope.contexts = args.many("context");
                scope.backends = args.many("backend");
                scope.filter = args.text("filter").map(str::to_owned);
                scope.allow_partial = args.flag("allow-partial");
            }
            "Running it" => {
                if args.flag("wait") && args.flag("no-wait") {
                    return Err(Error::invalid("--wait and --no-wait exclude each other")
                        .remedy("Leave one of them out; without both it waits")
                        .into());
                }
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
    if let Some(wanted) = &invocation.run.wait_for {
        check_readiness(row, &invocation.action, wanted)?;
    }
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

/// Refuses to wait for what cannot come: it would only be said after the whole wait.
fn check_readiness(row: &Row, action: &Action, wanted: &str) -> Result<()> {
    let refuse = |why: String, remedy: String| Err(Error::invalid(why).remedy(remedy));
    let leave = "Leave --for out".to_owned();
    match row.noun {
        GroupNoun::NewInstance | GroupNoun::Source
            if !action.args.flag("start") && wanted != "stopped" =>
        {
            refuse(
                format!("--for {wanted}: without --start it stays off and never is"),
                "Add --start, or leave --for out".to_owned(),
            )
        }
        GroupNoun::NewInstance | GroupNoun::Source | GroupNoun::Instances
            if row.leads_to.is_empty() =>
        {
            if wanted == "gone" {
                return refuse(
                    format!("--for gone: {} deletes no instance", row.name),
                    leave,
                );
            }
            Ok(())
        }
        GroupNoun::NewInstance | GroupNoun::Source | GroupNoun::Instances => {
            if row.leads_to.contains(&wanted) {
                return Ok(());
            }
            refuse(
                format!("--for {wanted}: nothing gets there by {}", row.name),
                format!("One of: {}", row.leads_to.join(", ")),
            )
        }
        // A retry is of some other verb.
        GroupNoun::Tasks => Ok(()),
        _ => refuse(
            format!("--for {wanted}: {} changes no instance", row.name),
            leave,
        ),
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
    use crate::model::Bytes;

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
            for flag in tree::PROGRAM_FLAGS {
                let taken = row.field(flag.name).is_some();
                assert!(!taken, "{} redefines --{}", row.name, flag.name);
            }
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
