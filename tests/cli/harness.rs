//! Runs the program with a home of its own.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

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
        Output::of(self.command().args(words).output().unwrap())
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
        Output::of(child.wait_with_output().unwrap())
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

    /// The JSON that was printed, held against the schema.
    pub(crate) fn json(&self) -> Value {
        let value: Value = serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("{e}: {}\n{}", self.out, self.err));
        valid(&value);
        value
    }

    /// No escape code anywhere.
    pub(crate) fn plain(self) -> Self {
        for text in [&self.out, &self.err] {
            assert!(!text.contains('\x1b'), "{text:?}");
        }
        self
    }
}

pub(crate) fn valid(value: &Value) {
    let schema = corral::cli::schema::schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}\n{value}");
}
