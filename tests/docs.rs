//! Generated pages are what the program says, and every example in them works.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "shared/sources.rs"]
mod sources;

use std::path::{Path, PathBuf};
use std::process::Command;

use corral::action::{grammar, rows};
use corral::cli::{docs, schema};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Writes the page anew; a difference fails the test, so that a stale page cannot be committed.
fn page(path: &str, text: &str) {
    let file = root().join(path);
    let before = std::fs::read_to_string(&file).unwrap_or_default();
    if before != text {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        assert!(
            std::env::var_os("CORRAL_WRITE_DOCS").is_some(),
            "{path} was out of date; it is written anew: look at it and commit it"
        );
    }
}

fn corral(words: &[&str]) -> (i32, String) {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_corral"))
        .args(words)
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code().unwrap(), text)
}

#[test]
fn commands_page_is_the_rows() {
    page("docs/commands.md", &docs::commands());
}

#[test]
fn backends_page_is_the_matrix() {
    let (code, text) = corral(&["--headless", "matrix", "-o", "markdown"]);
    assert_eq!(code, 0);
    page("docs/backends.md", &text);
}

#[test]
fn schema_is_the_types() {
    let text = serde_json::to_string_pretty(&schema::schema()).unwrap() + "\n";
    page("docs/schema/corral-1.json", &text);
}

#[test]
fn every_example_of_a_row_is_understood() {
    for row in rows() {
        assert!(!row.examples.is_empty(), "{} has no example", row.name);
        for example in row.examples {
            let words = grammar::tokenize(example).unwrap();
            match grammar::parse(&words) {
                Ok(parsed) => assert_eq!(parsed.row.unwrap().name, row.name, "{example}"),
                Err(grammar::ParseFailure::Bad(error)) => panic!("corral {example}: {error}"),
                Err(grammar::ParseFailure::Show(_)) => panic!("corral {example}: only help"),
            }
        }
    }
}

fn examples(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file)
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("$ corral "))
        .map(|line| line.split("   #").next().unwrap().trim().to_owned())
        .collect()
}

#[test]
fn every_example_in_the_docs_is_understood() {
    let mut count = 0;
    for file in ["README.md", "docs/commands.md", "docs/json.md"] {
        for example in examples(&root().join(file)) {
            let words = grammar::tokenize(&example).unwrap();
            if let Err(grammar::ParseFailure::Bad(error)) = grammar::parse(&words) {
                panic!("{file}: corral {example}: {error}");
            }
            count += 1;
        }
    }
    assert!(count > 20, "{count} examples were found");
}

#[test]
fn questions_in_the_readme_are_answered_by_the_simulated_fleet() {
    for example in examples(&root().join("README.md")) {
        let words = grammar::tokenize(&example).unwrap();
        let Ok(parsed) = grammar::parse(&words) else {
            continue;
        };
        let Some(row) = parsed.row else { continue };
        if !matches!(row.shape(&parsed.action), corral::action::Run::Read(_)) {
            continue;
        }
        let mut argv: Vec<&str> = vec!["--headless", "--demo=up=hv2+vc-old,pace=0"];
        argv.extend(
            words
                .iter()
                .map(String::as_str)
                .filter(|w| !w.starts_with("--demo") && *w != "--headless"),
        );
        let (code, _) = corral(&argv);
        // A doctor that finds something wrong has done its work.
        assert!(
            code == 0 || row.name == "doctor",
            "corral {example}: exit {code}"
        );
    }
}

/// Commands that stand in texts of the program: after `corral `, a verb there is, and flags it has.
fn named_commands(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("corral ") {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || "-_./".contains(c)) {
            continue;
        }
        let rest = &text[at + "corral ".len()..];
        let rest = rest
            .split(['\n', '\\', '"', '`', ';', '|', '('])
            .next()
            .unwrap();
        let (mut verb, mut flags) = (Vec::new(), Vec::new());
        for word in rest.split(' ') {
            let bare = word.trim_end_matches(['.', ',', ':', ')', '\\', '\'']);
            match bare.strip_prefix("--") {
                // Filled in at run time.
                Some(flag) if flag.starts_with('{') => {}
                Some(flag) => flags.push(flag.split('=').next().unwrap().to_owned()),
                None if flags.is_empty() && verb.len() < 2 => verb.push(bare.to_owned()),
                None => {}
            }
            if bare != word {
                break;
            }
        }
        let is_verb = |words: &[String]| {
            let name = words.join(" ");
            let known =
                |row: &&&corral::action::Row| row.name == name || row.aliases.contains(&&*name);
            rows().iter().find(known).map(|row| row.name.to_owned())
        };
        if let Some(name) = is_verb(&verb).or_else(|| is_verb(&verb[..verb.len().min(1)])) {
            found.push((name, flags));
        }
    }
    found
}

/// A remedy with a flag that does not exist is worse than none.
#[test]
fn every_command_that_a_message_names_has_its_flags() {
    let files = sources::rust_files(&root().join("src"));
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in files {
        for (verb, flags) in named_commands(&std::fs::read_to_string(&file).unwrap()) {
            seen += 1;
            let mut words: Vec<String> = verb.split(' ').map(str::to_owned).collect();
            words.push("--help".to_owned());
            let Err(grammar::ParseFailure::Show(help)) = grammar::parse(&words) else {
                panic!("{verb} has no help");
            };
            for flag in flags {
                let has = |tail: &str| help.contains(&format!("--{flag}{tail}"));
                if !["\n", " ", "=", "[", ",", "/"].iter().any(|tail| has(tail)) {
                    wrong.push(format!("{}: corral {verb} --{flag}", file.display()));
                }
            }
        }
    }
    assert!(seen > 100, "only {seen} were found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
