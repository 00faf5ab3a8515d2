//! What doctor says of corral's own home, and what `--fix` mends there.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::harness::Home;

fn put(home: &Home, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = home.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// Checks of corral itself that are not well.
fn found(home: &Home) -> Vec<Value> {
    let output = home.run(&["--headless", "--no-discover", "doctor", "-o", "json"]);
    let json = output.json();
    let mut all: Vec<Value> = json["checks"].as_array().unwrap().clone();
    all.retain(|check| check["status"] != "ok" && check["context"].is_null());
    for check in &all {
        assert!(check["remedy"].is_string(), "no remedy: {check}");
    }
    all
}

fn ids(found: &[Value]) -> Vec<&str> {
    found
        .iter()
        .map(|check| check["id"].as_str().unwrap())
        .collect()
}

const TASK: &str = r#"{"id":"20261130-051402-7f3a","command":"corral stop a/b","verb":"stop","action":{"verb":"stop"},
"state":"running","started_at":"2026-11-30T05:14:02Z","ended_at":null,"targets":[],"log":[],"pid":1,"detachable":false}"#;

#[test]
fn a_home_in_disorder_is_told_with_remedies_and_put_in_order() {
    let home = Home::new();
    assert_eq!(ids(&found(&home)), Vec::<&str>::new(), "a new home is well");
    let config = put(
        &home,
        ".config/corral/config.toml",
        "[[context]]\nname = \"a\"\nbackend = \"qemu\"\nenabled = false\nsecret = { file = \"~/key\" }\n",
        0o600,
    );
    let key = put(&home, "key", "secret\n", 0o644);
    let state = ".local/state/corral";
    let cache = put(&home, ".cache/corral/inventory/gone.json", "{}", 0o600);
    let torn = "{\"format\":1,\"what\":\"sta";
    put(&home, &format!("{state}/journal.jsonl"), torn, 0o600);
    let task = put(
        &home,
        &format!("{state}/tasks/20261130-051402-7f3a.json"),
        TASK,
        0o600,
    );
    let lock = put(
        &home,
        &format!("{state}/tasks/20261130-051402-7f3a.lock"),
        "",
        0o600,
    );
    let half = put(&home, &format!("{state}/.x1.new"), "", 0o600);
    let before = SystemTime::now() - Duration::from_secs(7200);
    let file = std::fs::File::options().write(true).open(&half).unwrap();
    file.set_modified(before).unwrap();

    let seen = found(&home);
    for wanted in [
        "corral.modes",
        "corral.cache",
        "corral.leftovers",
        "corral.journal",
        "corral.orphans",
        "corral.tasks",
    ] {
        assert!(ids(&seen).contains(&wanted), "{wanted}: {seen:?}");
    }
    let modes = seen
        .iter()
        .find(|check| check["id"] == "corral.modes")
        .unwrap();
    assert_eq!(modes["status"], "fail", "{modes}");
    assert!(
        modes["message"].as_str().unwrap().contains("secret"),
        "{modes}"
    );
    let table = home.run(&["--headless", "--no-discover", "doctor"]).plain();
    assert_eq!(table.code, 1, "{}", table.out);
    assert!(
        table.out.contains("1 lines of the history are torn"),
        "{}",
        table.out
    );

    let dry = home.run(&[
        "--headless",
        "--no-discover",
        "doctor",
        "--fix",
        "--dry-run",
    ]);
    assert_eq!(dry.code, 0, "{} {}", dry.out, dry.err);
    assert!(
        cache.exists() && lock.exists() && half.exists(),
        "a dry run touches nothing"
    );
    let fixed = home.run(&["--headless", "--no-discover", "doctor", "--fix", "-y"]);
    assert_eq!(fixed.code, 0, "{} {}", fixed.out, fixed.err);
    let mode = std::fs::metadata(&key).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(!cache.exists() && !lock.exists() && !half.exists());
    assert!(config.exists());
    let task = std::fs::read_to_string(task).unwrap();
    assert!(task.contains("\"interrupted\""), "{task}");
    // What only a person can look after is still told.
    let left = found(&home);
    assert_eq!(ids(&left), ["corral.journal", "corral.tasks"], "{left:?}");
}

#[test]
fn one_check_is_mended_alone() {
    let home = Home::new();
    let cache = put(&home, ".cache/corral/inventory/gone.json", "{}", 0o600);
    let open = put(&home, ".local/state/corral/trust.toml", "", 0o644);
    let words = [
        "--headless",
        "--no-discover",
        "doctor",
        "--fix",
        "--check",
        "corral.modes",
        "-y",
    ];
    let fixed = home.run(&words);
    assert_eq!(fixed.code, 0, "{} {}", fixed.out, fixed.err);
    assert!(cache.exists());
    let mode = std::fs::metadata(&open).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    // Read-only is read-only here, too.
    let mut words = vec!["--readonly"];
    words.extend(["--headless", "--no-discover", "doctor", "--fix", "-y"]);
    let refused = home.run(&words);
    assert_eq!(refused.code, 6, "{}", refused.err);
    assert!(cache.exists());
}

#[test]
fn a_history_from_the_future_means_that_the_clock_went_back() {
    let home = Home::new();
    let line = r#"{"format":1,"what":"start","task":"t","at":"2098-01-01T00:00:00Z","command":"corral stop a/b"}"#;
    put(
        &home,
        ".local/state/corral/journal.jsonl",
        &format!("{line}\n"),
        0o600,
    );
    let seen = found(&home);
    let clock = seen
        .iter()
        .find(|check| check["id"] == "corral.clock")
        .unwrap();
    assert!(
        clock["message"].as_str().unwrap().contains("went back"),
        "{clock}"
    );
}

#[test]
fn two_contexts_to_one_server_are_told() {
    let home = Home::new();
    put(
        &home,
        ".config/corral/config.toml",
        "[[context]]\nname = \"one\"\nbackend = \"qemu\"\n[[context]]\nname = \"two\"\nbackend = \"qemu\"\n",
        0o600,
    );
    let output = home.run(&["--headless", "--no-discover", "doctor", "-o", "json"]);
    let json = output.json();
    let twins: Vec<&Value> = json["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["id"] == "context.server")
        .collect();
    assert_eq!(twins.len(), 1, "{json}");
    assert_eq!(twins[0]["context"], "two");
    assert!(
        twins[0]["remedy"]
            .as_str()
            .unwrap()
            .contains("context disable two")
    );
}

#[test]
fn nothing_to_repair_is_as_wanted() {
    let output = Home::new().run(&["--headless", "doctor", "--fix", "-y"]);
    assert_eq!(output.code, 0, "{} {}", output.out, output.err);
    assert!(
        output.out.contains("nothing that corral can repair"),
        "{} {}",
        output.out,
        output.err
    );
}
