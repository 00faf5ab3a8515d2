//! Runs the program with a home of its own.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::Value;

/// A home directory and what is run in it.
pub(crate) struct Home {
    root: tempfile::TempDir,
}

/// What came out.
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_corral"));
        command
            .env_clear()
            .env("HOME", self.path())
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        let output = Output::of(self.command().args(words).output().unwrap());
        output.keeps_the_schema(words);
        output
    }

    /// Against a simulated fleet without delays.
    pub(crate) fn demo(&self, words: &[&str]) -> Output {
        let mut all = vec!["--headless", "--demo=up=hv2+vc-old,pace=0,latency=0ms"];
        all.extend(words);
        self.run(&all)
    }

    pub(crate) fn pipe(&self, words: &[&str], input: &str) -> Output {
        let mut child = self
            .command()
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        let output = Output::of(child.wait_with_output().unwrap());
        output.keeps_the_schema(words);
        output
    }

    /// Files below the home.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        walk(self.path(), &mut found);
        found
    }
}

fn walk(dir: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path.display().to_string());
        }
    }
}

impl Output {
    fn of(output: std::process::Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Whatever JSON or YAML was printed is as the schema says; asked after every run.
    fn keeps_the_schema(&self, words: &[&str]) {
        let joined = words.join(" ");
        if joined.contains("jsonpath") {
            return;
        }
        if joined.contains("json") || self.out.starts_with('{') {
            for value in serde_json::Deserializer::from_str(&self.out).into_iter() {
                let value: Value = value.unwrap_or_else(|e| panic!("{words:?}: {e}: {}", self.out));
                valid(&value);
            }
        }
        if joined.contains("--progress json") || joined.contains("--progress=json") {
            for line in self.err.lines().filter(|line| line.starts_with('{')) {
                let event: Value = serde_json::from_str(line).unwrap();
                assert!(events().is_valid(&event), "{line}");
            }
        }
    }

    /// The JSON that was printed.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("{e}: {}\n{}", self.out, self.err))
    }

    /// No escape code anywhere.
    pub(crate) fn plain(self) -> Self {
        for text in [&self.out, &self.err] {
            assert!(!text.contains('\x1b'), "{text:?}");
        }
        self
    }
}

/// The schema that is committed: the page that others build upon.
fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schema/corral-1.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    })
}

fn answers() -> &'static Validator {
    static VALIDATOR: OnceLock<Validator> = OnceLock::new();
    VALIDATOR.get_or_init(|| jsonschema::validator_for(schema()).unwrap())
}

fn events() -> &'static Validator {
    static VALIDATOR: OnceLock<Validator> = OnceLock::new();
    VALIDATOR.get_or_init(|| {
        let defs = &schema()["$defs"];
        let events = serde_json::json!({"$defs": defs, "$ref": "#/$defs/TaskEvent"});
        jsonschema::validator_for(&events).unwrap()
    })
}

pub(crate) fn is_valid(value: &Value) -> bool {
    answers().is_valid(value)
}

pub(crate) fn valid(value: &Value) {
    let errors: Vec<String> = answers()
        .iter_errors(value)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}\n{value}");
}
