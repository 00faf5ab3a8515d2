//! What makes one VM another one than the next: name, marks, copies, its own text. Judged by the
//! files, by `qemu-img`, and from inside of the guest.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod lab;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Output, Stdio};

use lab::Lab;
use lab::guest::has_qemu;

/// Runs corral and gives what it said.
fn corral(lab: &Lab, words: &[&str]) -> Output {
    lab.corral(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Runs corral, which must succeed.
fn run(lab: &Lab, words: &[&str]) -> String {
    let output = corral(lab, words);
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    said(&output)
}

/// Runs corral, which must refuse.
fn refused(lab: &Lab, words: &[&str]) -> String {
    let output = corral(lab, words);
    assert_eq!(
        output.status.code(),
        Some(6),
        "{words:?}: {}",
        said(&output)
    );
    said(&output)
}

fn definition(lab: &Lab, name: &str) -> String {
    fs::read_to_string(lab.ctx.store.dir(name).unwrap().join("vm.toml")).unwrap()
}

fn make(lab: &Lab, name: &str) {
    run(
        lab,
        &[
            "create",
            name,
            "--disk",
            "64M",
            "--firmware",
            "bios",
            "--memory",
            "64M",
        ],
    );
}

#[test]
fn marks_are_in_the_definition_and_hand_edits_stay() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    make(&lab, "web");
    let file = lab.ctx.store.dir("web").unwrap().join("vm.toml");
    let text = format!("# mine\n{}", definition(&lab, "web"));
    fs::write(&file, text).unwrap();

    run(&lab, &["tag", "web", "--add", "prod", "--add", "eu"]);
    run(&lab, &["tag", "web", "--remove", "eu", "--remove", "none"]);
    run(&lab, &["note", "web", "--text", "serves the shop"]);
    let text = definition(&lab, "web");
    assert!(text.starts_with("# mine\n"), "{text}");
    assert!(text.contains("note = \"serves the shop\""), "{text}");
    assert!(run(&lab, &["list", "--filter", "tag:prod", "-o", "name"]).contains("local/web"));
    assert!(!text.contains("\"eu\""), "{text}");
    let again = run(&lab, &["tag", "web", "--add", "prod"]);
    assert!(again.contains("already"), "{again}");
    run(&lab, &["note", "web", "--text", ""]);
    assert!(!definition(&lab, "web").contains("note ="));
    let bad = corral(&lab, &["tag", "web", "--add", "a\u{1b}[2J"]);
    assert!(!bad.status.success() && !said(&bad).contains('\u{1b}'));

    run(&lab, &["template", "web", "--on"]);
    let no = refused(&lab, &["start", "web"]);
    assert!(no.contains("corral clone local/web"), "{no}");
    let list = run(&lab, &["list"]);
    assert!(list.contains("template"), "{list}");
    refused(&lab, &["autostart", "web", "--on"]);
    run(&lab, &["template", "web", "--off"]);
    assert!(definition(&lab, "web").contains("template = false"));
}

/// A `systemctl` that writes down what it is asked.
fn with_systemctl(lab: &Lab) -> String {
    let dir = lab.root.path().join("tools");
    fs::create_dir_all(&dir).unwrap();
    let wants = lab
        .root
        .path()
        .join(".config/systemd/user/default.target.wants");
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> '{dir}/asked'\ncase \"$*\" in *enable*) mkdir -p '{wants}'; ln -sf ../corral-autostart.service '{wants}/';; esac\n",
        dir = dir.display(),
        wants = wants.display()
    );
    let file = dir.join("systemctl");
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", dir.display(), std::env::var("PATH").unwrap())
}

#[test]
fn the_unit_that_doctor_writes_starts_what_is_marked() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let path = with_systemctl(&lab);
    let none = run(&lab, &["autostart", "--run", "--context", "local"]);
    assert!(none.contains("nothing is marked"), "{none}");
    for name in ["a", "b", "c"] {
        make(&lab, name);
    }
    run(&lab, &["autostart", "a", "--on"]);
    let on = run(&lab, &["autostart", "b", "--on", "--dry-run"]);
    assert!(on.contains("corral doctor --fix"), "{on}");
    run(&lab, &["autostart", "b", "--on"]);
    let output = lab
        .corral(&["doctor", "--fix", "-y"])
        .env("PATH", &path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert!(said(&output).contains("enable-linger"), "{}", said(&output));
    let asked = fs::read_to_string(lab.root.path().join("tools/asked")).unwrap();
    assert!(
        asked.contains("--user enable corral-autostart.service"),
        "{asked}"
    );
    let unit = lab
        .root
        .path()
        .join(".config/systemd/user/corral-autostart.service");
    let unit = fs::read_to_string(unit).unwrap();
    let line = unit
        .lines()
        .find_map(|l| l.strip_prefix("ExecStart="))
        .unwrap();
    let words: Vec<String> = line
        .split(' ')
        .map(|w| w.trim_matches('"').to_owned())
        .collect();
    let started = std::process::Command::new(&words[0])
        .args(&words[1..])
        .env_clear()
        .env("HOME", lab.root.path())
        .env("PATH", &path)
        .output()
        .unwrap();
    assert!(started.status.success(), "{}", said(&started));
    let running = run(&lab, &["list", "--filter", "state:running", "-o", "name"]);
    assert!(
        running.contains("local/a") && running.contains("local/b"),
        "{running}"
    );
    assert!(!running.contains("local/c"), "{running}");
    // The unit's words are about what is said of a VM, and no reason for another start.
    run(&lab, &["tag", "a", "--add", "x"]);
    let info = run(&lab, &["info", "a"]);
    assert!(!info.contains("Pending"), "{info}");
    run(&lab, &["stop", "--force", "a"]);
    run(&lab, &["stop", "--force", "b"]);
}
