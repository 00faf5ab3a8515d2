//! The view over SSH: keys, sizes, colours, and a line that is cut.

use std::process::Command;
use std::time::{Duration, Instant};

use super::sshd::Sshd;
use super::tmux::{Pane, is_there};

fn server() -> Option<Sshd> {
    if !is_there() {
        return None;
    }
    let server = Sshd::start();
    if server.is_none() {
        println!("skipped (daemon): sshd is not installed: apt install openssh-server");
    }
    server
}

const CORRAL: &str = env!("CARGO_BIN_EXE_corral");

#[test]
fn works_over_ssh_and_leaves_the_terminal_as_it_was() {
    let Some(server) = server() else { return };
    let pane = Pane::open(80, 24, &[]);
    pane.line("stty -g > before");
    let before = pane.file("before");
    let state = pane.state();
    pane.line(&format!(
        "{}; stty -g > after",
        server.line(&format!("'exec {CORRAL} --demo'"))
    ));
    pane.wait_for("Inventory");
    pane.wait_for("local");
    assert!(pane.coloured().contains("\u{1b}[3"), "colours come through");
    // The new size goes through to the other side.
    pane.resize("200", "60");
    pane.until("the wide table", |screen| screen.contains("MEM"));
    pane.until("columns of a wide screen", |screen| {
        screen
            .lines()
            .any(|l| l.contains("TAGS") && l.contains("OS"))
    });
    pane.keys("?");
    pane.wait_for("Keys valid here");
    pane.keys("Escape");
    pane.keys("q");
    assert_eq!(pane.file("after"), before);
    pane.until("the shell", |screen| screen.trim_end().ends_with("READY>"));
    assert_eq!(pane.state(), state);
}

#[test]
fn req_28_no_colour_over_ssh() {
    let Some(server) = server() else { return };
    let pane = Pane::open(80, 24, &[("NO_COLOR", "1")]);
    pane.line(&server.line(&format!("'exec {CORRAL} --demo'")));
    pane.wait_for("Inventory");
    let screen = pane.wait_for("running");
    let coloured = pane.coloured();
    for code in ["\u{1b}[3", "\u{1b}[4"] {
        let colour = coloured
            .split(code)
            .skip(1)
            // 9 gives back the terminal's own.
            .any(|rest| rest.starts_with(|c: char| c.is_ascii_digit() && c != '9'));
        assert!(!colour, "a colour was sent\n{coloured:?}");
    }
    // What colour would say is said by glyph and word; no locale came along, so the glyph is ASCII.
    assert!(
        screen.contains("* ") && screen.contains("running"),
        "{screen}"
    );
    pane.keys("q");
}

/// A cut line is a hangup over there: corral ends, it does not spin on a dead terminal.
#[test]
fn a_cut_line_ends_it() {
    let Some(server) = server() else { return };
    let pane = Pane::open(80, 24, &[]);
    let mark = pane.dir.path().join("pid");
    pane.line(&server.line(&format!(
        "'echo $$ > {}; exec {CORRAL} --demo'",
        mark.display()
    )));
    pane.wait_for("Inventory");
    let there = pane.file("pid");
    let there = there.trim();
    let shell = pane.format("#{pane_pid}");
    let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    let client = children.split_whitespace().next().unwrap();
    let killed = Command::new("kill").args(["-KILL", client]).status();
    assert!(killed.unwrap().success());
    let begun = Instant::now();
    while std::path::Path::new(&format!("/proc/{there}")).exists() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "it goes on alone"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}
