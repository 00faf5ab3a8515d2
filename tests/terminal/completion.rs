//! Completion in the real shells: what Tab makes of a line.

use std::process::Command;

use super::tmux::{self, Pane};

/// What was seen by an earlier run, with names that a shell could find something in.
const SEEN: &str = r#"{"instances":[
{"id":"hv1/web","name":"web","state":"running"},
{"id":"hv1/win","name":"win","state":"stopped"},
{"id":"hv1/my%20test%20vm","name":"my test vm","state":"stopped"},
{"id":"hv1/%24%28touch%20x%29","name":"$(touch x)","state":"stopped"},
{"id":"hv1/a:b","name":"a:b","state":"running"}]}"#;

/// What is typed before Tab, and what the line is then.
const LINES: &[(&str, &str)] = &[
    ("corral sna", "corral snapshot"),
    ("corral stop we", "corral stop web"),
    ("corral stop hv1/we", "corral stop hv1/web"),
    ("corral stop my", "corral stop my%20test%20vm"),
    ("corral stop hv1/my", "corral stop hv1/my%20test%20vm"),
    ("corral stop hv1/%24", "corral stop hv1/%24%28touch%20x%29"),
    ("corral stop hv1/a:", "corral stop hv1/a:b"),
    (
        "corral snapshot restore hv1/web@",
        "corral snapshot restore hv1/web@base",
    ),
    (
        "corral snapshot restore hv1/web@b",
        "corral snapshot restore hv1/web@base",
    ),
    ("corral list --cont", "corral list --context"),
    ("corral list --context=", "corral list --context=hv1"),
    ("corral list --context=h", "corral list --context=hv1"),
    (
        "corral list --filter state:runn",
        "corral list --filter state:running",
    ),
];

fn completes(shell: &str, start: &[&str]) {
    if !tmux::is_there() {
        return;
    }
    if Command::new(shell).arg("--version").output().is_err() {
        println!("skipped (platform): {shell} is not installed: apt install {shell}");
        return;
    }
    let pane = Pane::open(120, 30, &[]);
    let home = pane.dir.path();
    let folder = |name: &str| {
        let path = home.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    std::fs::write(folder(".cache/corral/inventory").join("hv1.json"), SEEN).unwrap();
    let snapshots = r#"{"hv1/web":["base"]}"#;
    std::fs::write(
        folder(".cache/corral/snapshots").join("hv1.json"),
        snapshots,
    )
    .unwrap();
    let bin = folder("bin");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_corral"), bin.join("corral")).unwrap();
    pane.line(&format!("export PATH={}:$PATH", bin.display()));
    pane.line(&format!("corral completion {shell} > script"));
    for line in start {
        pane.line(line);
    }
    pane.line("echo LOA''DED");
    pane.wait_for("LOADED");
    for (typed, wanted) in LINES {
        pane.text(typed);
        pane.until(typed, |screen| last(screen).ends_with(typed));
        pane.keys("Tab");
        // fish writes \% for %, which is the same word.
        pane.until(wanted, |screen| {
            last(screen).replace('\\', "").ends_with(wanted)
        });
        pane.keys("C-u");
        pane.until("an empty line", |screen| last(screen).ends_with('>'));
    }
    assert!(!home.join("x").exists(), "a name was run");
}

/// The line being typed.
fn last(screen: &str) -> &str {
    screen
        .trim_end()
        .lines()
        .next_back()
        .unwrap_or("")
        .trim_end()
}

#[test]
fn bash_completes() {
    completes("bash", &["source ./script"]);
}

#[test]
fn bash_completes_with_its_completion_package() {
    let package = "/usr/share/bash-completion/bash_completion";
    if !std::path::Path::new(package).exists() {
        println!(
            "skipped (platform): bash-completion is not installed: apt install bash-completion"
        );
        return;
    }
    completes("bash", &[&format!("source {package}"), "source ./script"]);
}

#[test]
fn zsh_completes() {
    let start = [
        "exec zsh -f",
        "autoload -Uz compinit; compinit -u -D; source ./script",
    ];
    completes("zsh", &start);
}

#[test]
fn fish_completes() {
    let start = [
        "exec fish --no-config",
        "function fish_prompt; echo 'READY> '; end; set -g fish_autosuggestion_enabled 0",
        "source ./script",
    ];
    completes("fish", &start);
}
