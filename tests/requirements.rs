//! Holds `tests/requirements.toml` to the source: every test it names exists, and every planted fault
//! still has a place to be planted. `make mutants` plants them.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    requirement: Vec<Requirement>,
}

#[derive(Deserialize)]
struct Requirement {
    number: u32,
    says: String,
    tests: Vec<String>,
    #[serde(default)]
    mutation: Option<Mutation>,
}

/// One line changed, and what must then fail.
#[derive(Deserialize)]
struct Mutation {
    file: String,
    from: String,
    to: String,
    test: String,
    /// Arguments of `cargo test` that select the test's program.
    target: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read() -> File {
    toml::from_str(&std::fs::read_to_string(root().join("tests/requirements.toml")).unwrap())
        .unwrap()
}

fn sources(dir: &Path, out: &mut String) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_named_test_exists() {
    let mut all = String::new();
    sources(&root().join("src"), &mut all);
    sources(&root().join("tests"), &mut all);
    let mut missing = Vec::new();
    for requirement in read().requirement {
        assert!(!requirement.says.is_empty() && !requirement.tests.is_empty());
        for test in requirement.tests {
            if !all.contains(&format!("fn {test}(")) {
                missing.push(format!("{}: {test}", requirement.number));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_mutation_has_its_place() {
    for requirement in read().requirement {
        if let Some(mutation) = requirement.mutation {
            let text = std::fs::read_to_string(root().join(&mutation.file)).unwrap();
            let count = text.matches(&mutation.from).count();
            assert_eq!(count, 1, "{}: {:?}", requirement.number, mutation.from);
            assert!(!mutation.from.contains('\n') && !mutation.to.contains('\n'));
        }
    }
}

/// `make mutants`.
#[test]
#[ignore = "builds the program once per mutation"]
fn mutations() {
    let copy = root().join("target/mutants/source");
    let _ = std::fs::remove_dir_all(&copy);
    std::fs::create_dir_all(&copy).unwrap();
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root())
        .output()
        .unwrap();
    for name in String::from_utf8(listed.stdout)
        .unwrap()
        .split_terminator('\0')
    {
        let to = copy.join(name);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(root().join(name), to).unwrap();
    }
    let mut survived = Vec::new();
    for requirement in read().requirement {
        let Some(mutation) = requirement.mutation else {
            continue;
        };
        let file = copy.join(&mutation.file);
        let before = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, before.replacen(&mutation.from, &mutation.to, 1)).unwrap();
        let run = |words: &[&str]| {
            Command::new("cargo")
                .arg("test")
                .arg("--quiet")
                .args(mutation.target.split(' '))
                .args(words)
                .current_dir(&copy)
                .env("CARGO_TARGET_DIR", root().join("target/mutants/build"))
                .output()
                .unwrap()
        };
        // A mutation that does not build proves nothing.
        let built = run(&["--no-run"]);
        let result = run(&["--", &mutation.test]);
        let caught = built.status.success() && !result.status.success();
        println!(
            "{:>3} {} {}",
            requirement.number,
            if caught { "caught" } else { "SURVIVED" },
            mutation.test
        );
        if !caught {
            survived.push(requirement.number);
        }
        std::fs::write(&file, before).unwrap();
    }
    assert!(survived.is_empty(), "survived: {survived:?}");
}
