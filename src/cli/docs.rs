//! Pages made from the rows: `docs/commands.md` and the manual.

use clap::Command;

use crate::action::fleet_api::filter::FIELDS;
use crate::action::{DEMO_KEYS, Row, Run, Targets, grammar, row::Group, rows};
use crate::model::{Field, FieldKind};

/// `docs/commands.md`.
pub fn commands() -> String {
    let mut out = String::from(
        "# Commands\n\nMade from the program itself (`make docs`). `corral VERB --help` says the same.\n",
    );
    let mut groups: Vec<Group> = rows().iter().map(|row| row.group).collect();
    groups.sort();
    groups.dedup();
    for group in groups {
        out.push_str(&format!("\n## {}\n", group.title()));
        for row in rows().iter().filter(|row| row.group == group) {
            out.push_str(&section(row));
        }
    }
    out.push_str("\n## Flags of every command\n\n");
    for field in Row::SCOPE_FLAGS {
        out.push_str(&flag(field, "commands on instances"));
    }
    for field in Row::CHANGE_FLAGS {
        out.push_str(&flag(field, "changes"));
    }
    out.push_str(DEMO);
    for (_, text) in DEMO_KEYS {
        let (example, does) = text.split_once(": ").unwrap_or((text, ""));
        out.push_str(&format!("| `{example}` | {does} |\n"));
    }
    out.push_str(FILTERS);
    for field in FIELDS {
        out.push_str(&format!("| `{}` | {} |\n", field.name, field.takes));
    }
    out
}

const DEMO: &str = "
## The simulated fleet

`--demo` runs any command, and the full-screen view, on a fleet in memory that touches nothing; `--demo=large` has 10 000 \
instances. What follows, separated by `,`, makes it misbehave: `corral --demo=large,down=pve,latency=200ms`.

| word | does |
|---|---|
";

const FILTERS: &str = "
## Filters

`--filter` takes words, separated by blanks; all must hold. `FIELD:VALUE` asks one field, `,` is \"or\" within it, a \
leading `-` is \"not\", `-template` is short for `-template:yes`. A bare word is looked for in name, ID, address, MAC, tag, \
host and note. `*` and `?` make a value a glob over the whole text; `\"…\"` takes every meaning away, with `\\\"` for a \
quote. What is not known is in no range. In the full-screen view `/` takes the same, and also `!` for \"not\" and `mem>8G`, \
`cpu<=4`; Tab completes.

| field | takes |
|---|---|
";

fn section(row: &Row) -> String {
    let mut out = format!(
        "\n### corral {}{}\n\n{}.\n",
        row.name,
        positional(row),
        row.summary
    );
    if !row.aliases.is_empty() {
        let names: Vec<String> = row.aliases.iter().map(|a| format!("`{a}`")).collect();
        out.push_str(&format!("Also: {}.\n", names.join(", ")));
    }
    if !row.details.is_empty() {
        out.push_str(&format!("\n{}\n", row.details));
    }
    let kind = match row.run {
        Run::Read(_) | Run::Follow(_) if !row.is_change() => None,
        Run::Change(_) => Some("A change: planned, asked about, journalled."),
        Run::Open(_) => Some("Opens a live stream."),
        _ => None,
    };
    if let Some(kind) = kind {
        out.push_str(&format!("\n{kind}\n"));
    }
    if !row.fields.is_empty() {
        out.push('\n');
        for field in row.fields {
            out.push_str(&flag(field, ""));
        }
    }
    if !row.examples.is_empty() {
        out.push_str("\n```console\n");
        for example in row.examples {
            out.push_str(&format!("$ corral {example}\n"));
        }
        out.push_str("```\n");
    }
    out
}

fn positional(row: &Row) -> String {
    let Some(word) = row.noun.word() else {
        return String::new();
    };
    match row.targets {
        Targets::None => String::new(),
        Targets::One => format!(" {word}"),
        Targets::Some => format!(" {word}…"),
        Targets::Any => format!(" [{word}…]"),
    }
}

fn flag(field: &Field, of: &str) -> String {
    let short = field.short.map_or(String::new(), |c| format!("-{c}, "));
    let value = match field.kind {
        FieldKind::Flag => String::new(),
        FieldKind::Choice(words) => format!(" {}", words.join("|")),
        kind => format!(" {}", kind.word()),
    };
    let mut facts = Vec::new();
    if !of.is_empty() {
        facts.push(of.to_owned());
    }
    if field.required {
        facts.push("required".to_owned());
    }
    if field.many {
        facts.push("may be repeated".to_owned());
    }
    facts.extend(field.default.map(|default| format!("default {default}")));
    let facts = if facts.is_empty() {
        String::new()
    } else {
        format!(" ({})", facts.join(", "))
    };
    format!("- `{short}--{}{value}`: {}{facts}\n", field.name, field.doc)
}

/// The manual page of the whole program in roff, every verb a section.
pub fn man_page() -> std::io::Result<String> {
    let root = grammar::command();
    let man = clap_mangen::Man::new(root.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    page.extend_from_slice(b".SH COMMANDS\n");
    verbs(&root, "corral", &mut page)?;
    page.extend_from_slice(EXIT_STATUS.as_bytes());
    Ok(String::from_utf8_lossy(&page).into_owned())
}

const EXIT_STATUS: &str = ".SH \"EXIT STATUS\"\n0 all well; 1 all failed; 2 usage; 3 some targets or contexts failed; \
4 a change timed out and may still finish; 5 not found or ambiguous; 6 refused or unsupported; 129, 130, 143 ended by hangup, Ctrl-C, a request to end.\n";

fn verbs(command: &Command, path: &str, page: &mut Vec<u8>) -> std::io::Result<()> {
    for sub in command.get_subcommands() {
        let path = format!("{path} {}", sub.get_name());
        if sub.has_subcommands() {
            verbs(sub, &path, page)?;
            continue;
        }
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        page.extend_from_slice(format!(".SS \"{path}\"\n{}\n", escape(&about)).as_bytes());
        for arg in sub.get_arguments() {
            let Some(long) = arg.get_long() else { continue };
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let text = format!(".TP\n\\fB\\-\\-{}\\fR\n{}\n", escape(long), escape(&help));
            page.extend_from_slice(text.as_bytes());
        }
    }
    Ok(())
}

/// Text for roff: no line begins with a control character, dashes are dashes.
fn escape(text: &str) -> String {
    text.replace('\\', "\\e")
        .replace('-', "\\-")
        .replace("\n.", "\n\\&.")
        .replace("\n'", "\n\\&'")
}
