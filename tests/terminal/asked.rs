//! One-shot commands on a terminal: what they ask, and what becomes of a change that is interrupted.

use super::installed::has_qemu;
use super::tmux::{Pane, is_there};

const CORRAL: &str = env!("CARGO_BIN_EXE_corral");
const DEMO: &str = "--demo=up=hv2+vc-old,pace=0";

/// A command whose exit code comes to a file of its own.
fn run(pane: &Pane, words: &str, code: &str) {
    pane.line("clear");
    // What was asked before is gone: it would be taken for this question.
    pane.until("a screen without questions", |screen| {
        !screen.contains("[y/N]") && !screen.contains(" to go on:")
    });
    pane.line(&format!("{CORRAL} {words}; echo $? > {code}"));
}

#[test]
fn only_the_name_deletes() {
    if !is_there() {
        return;
    }
    let pane = Pane::open(100, 40, &[]);
    run(&pane, &format!("delete hv1/web --force {DEMO}"), "wrong");
    let screen = pane.wait_for("Type web to go on:");
    assert!(screen.contains("Needs: --confirm web"), "{screen}");
    pane.line("wbe");
    assert_eq!(pane.file("wrong"), "6\n");
    run(&pane, &format!("delete hv1/web --force {DEMO}"), "right");
    pane.wait_for("Type web to go on:");
    pane.line("web");
    assert_eq!(pane.file("right"), "0\n");
    pane.wait_for("hv1/web: done");
}

#[test]
fn the_default_of_a_question_is_no() {
    if !is_there() {
        return;
    }
    let pane = Pane::open(100, 40, &[]);
    let stop = format!("stop lab/default/web lab/default/ci {DEMO}");
    for (answer, code) in [("", "6\n"), ("n", "6\n"), ("y", "0\n")] {
        let name = format!("code-{answer}");
        run(&pane, &stop, &name);
        pane.wait_for("[y/N]");
        pane.line(answer);
        assert_eq!(
            pane.file(&name),
            code,
            "answered {answer:?}\n{}",
            pane.screen()
        );
    }
    // Without a terminal there is nobody to ask.
    pane.line("clear");
    pane.line(&format!(
        "setsid -w {CORRAL} {stop} < /dev/null; echo $? > alone"
    ));
    assert_eq!(pane.file("alone"), "6\n", "{}", pane.screen());
}

/// A guest that never hears a shutdown request: there is nothing on its disk.
fn deaf(pane: &Pane) {
    run(
        pane,
        "create deaf --disk 64M --firmware bios --memory 128M --start",
        "created",
    );
    assert_eq!(pane.file("created"), "0\n", "{}", pane.screen());
}

fn end(pane: &Pane) {
    run(pane, "delete deaf --force --confirm deaf", "deleted");
    assert_eq!(pane.file("deleted"), "0\n", "{}", pane.screen());
}

#[test]
fn ctrl_c_says_where_things_stand_and_a_second_one_leaves() {
    if !is_there() || !has_qemu() {
        return;
    }
    let pane = Pane::open(100, 40, &[]);
    deaf(&pane);
    run(&pane, "stop deaf", "stopped");
    pane.wait_for("shut down");
    pane.keys("C-c");
    pane.wait_for("interrupted: 0 done");
    pane.keys("C-c");
    assert_eq!(pane.file("stopped"), "130\n");
    run(&pane, "history", "history");
    let screen = pane.wait_for("corral stop deaf");
    assert!(
        screen
            .lines()
            .any(|l| l.contains("corral stop deaf") && l.contains("interrupted")),
        "{screen}"
    );
    run(&pane, "list -o json", "list");
    pane.wait_for("\"state\": \"running\"");
    end(&pane);
}

#[test]
fn req_22_a_signal_ends_a_change_in_time_and_is_journalled() {
    if !is_there() || !has_qemu() {
        return;
    }
    for (signal, code) in [("TERM", "143\n"), ("HUP", "129\n")] {
        let pane = Pane::open(100, 40, &[]);
        deaf(&pane);
        pane.line("clear");
        pane.line(&format!(
            "( {CORRAL} stop deaf; echo $? > code ) & sleep 2; pkill -{signal} -P $!"
        ));
        assert_eq!(pane.file("code"), code, "{}", pane.screen());
        run(&pane, "history", "history");
        let screen = pane.wait_for("interrupted");
        assert!(screen.contains("corral stop deaf"), "{screen}");
        run(&pane, "doctor", "doctor");
        pane.wait_for("interrupted");
        pane.file("doctor");
        // The next start of the view tells, once.
        pane.line("clear");
        pane.corral("");
        pane.wait_for("interrupted the last time: corral stop deaf");
        pane.keys("q");
        pane.until("the shell", |s| s.trim_end().ends_with("READY>"));
        pane.corral("");
        let screen = pane.wait_for("deaf");
        assert!(!screen.contains("the last time"), "{screen}");
        pane.keys("q");
        pane.until("the shell", |s| s.trim_end().ends_with("READY>"));
        end(&pane);
    }
}
