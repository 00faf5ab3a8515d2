//! The terminal is given back as it was, however the view ends.

use std::process::{Command, Stdio};

use super::tmux::{Pane, is_there};

/// Runs corral between two looks at the terminal.
fn between(pane: &Pane, end: impl Fn(&Pane)) {
    pane.line("stty -g > before");
    let before = pane.file("before");
    let state = pane.state();
    pane.line(&format!(
        "{} --demo; echo \"code $?\" > code; stty -g > after",
        env!("CARGO_BIN_EXE_corral")
    ));
    pane.wait_for("Inventory");
    pane.wait_for("local");
    assert!(pane.state().contains("alt 1"));
    // With everything on that could be left on.
    pane.keys("m");
    pane.wait_for("mouse on");
    assert!(pane.state().contains("mouse 1"), "{}", pane.state());
    end(pane);
    assert_eq!(pane.file("after"), before);
    pane.until("the shell", |screen| screen.trim_end().ends_with("READY>"));
    assert_eq!(pane.state(), state);
}

/// The process in the foreground of the pane.
fn pid(pane: &Pane) -> String {
    let shell = pane.format("#{pane_pid}");
    let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    children.split_whitespace().next().unwrap().to_owned()
}

fn signal(pane: &Pane, name: &str) {
    let status = Command::new("kill")
        .args([name, &pid(pane)])
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn req_21_after_leaving() {
    if !is_there() {
        return;
    }
    let pane = Pane::open(80, 24, &[]);
    between(&pane, |pane| pane.keys("q"));
    assert_eq!(pane.file("code"), "code 0\n");
}

#[test]
fn req_21_after_sigterm_and_sighup() {
    if !is_there() {
        return;
    }
    for (name, code) in [("-TERM", "code 143\n"), ("-HUP", "code 129\n")] {
        let pane = Pane::open(80, 24, &[]);
        between(&pane, |pane| signal(pane, name));
        assert_eq!(pane.file("code"), code);
    }
}

#[test]
fn req_21_while_suspended_and_after() {
    if !is_there() {
        return;
    }
    let pane = Pane::open(80, 24, &[]);
    pane.line("stty -g > before");
    let before = pane.file("before");
    let state = pane.state();
    pane.corral("--demo");
    pane.wait_for("Inventory");
    pane.keys("C-z");
    pane.wait_for("Stopped");
    assert_eq!(pane.state(), state);
    pane.line("stty -g > meanwhile");
    assert_eq!(pane.file("meanwhile"), before);
    pane.line("fg");
    pane.wait_for("Inventory");
    pane.wait_gone("Stopped");
    pane.keys("g x");
    pane.wait_for("Contexts");
    // The same by a signal from outside.
    signal(&pane, "-TSTP");
    pane.wait_for("Stopped");
    assert_eq!(pane.state(), state);
    pane.line("fg");
    pane.wait_for("Contexts");
    pane.keys("q q");
    pane.until("the shell", |screen| screen.trim_end().ends_with("READY>"));
    assert_eq!(pane.state(), state);
}

#[test]
fn req_28_no_colour_where_none_is_wanted() {
    if !is_there() {
        return;
    }
    for vars in [&[("NO_COLOR", "1")][..], &[("TERM", "dumb")][..]] {
        let pane = Pane::open(80, 24, vars);
        pane.corral("--demo");
        pane.wait_for("Inventory");
        pane.wait_for("running");
        let text = pane.coloured();
        for part in text.split("\u{1b}[").skip(1) {
            let (sgr, _) = part.split_once('m').unwrap();
            for code in sgr.split(';') {
                let number: u32 = code.parse().unwrap_or(0);
                let colour =
                    (30..=38).contains(&number) || (40..=48).contains(&number) || number >= 90;
                assert!(!colour, "{sgr:?} in {text}");
            }
        }
        assert!(
            text.contains("\u{1b}[7m"),
            "the cursor is seen without colour"
        );
    }
}

#[test]
fn req_29_an_unknown_terminal_is_taken_for_a_plain_one() {
    if !is_there() {
        return;
    }
    let pane = Pane::open(80, 24, &[("TERM", "no-such-terminal")]);
    pane.corral("--demo");
    pane.wait_for("Inventory");
    pane.keys("q");
    pane.until("the shell", |screen| screen.trim_end().ends_with("READY>"));
}

#[test]
fn req_29_without_a_terminal_one_line_and_exit_2() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_corral"))
        .env("HOME", dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1);
}

#[test]
fn req_26_it_follows_a_new_size() {
    if !is_there() {
        return;
    }
    let pane = Pane::open(80, 24, &[]);
    pane.corral("--demo");
    pane.wait_for("Inventory");
    for (width, height) in [("20", "5"), ("200", "60"), ("3", "2"), ("80", "24")] {
        pane.resize(width, height);
    }
    pane.wait_for("Inventory");
    pane.keys("q");
    pane.until("the shell", |screen| screen.trim_end().ends_with("READY>"));
}

/// Runs inside a pane, by the test below.
#[test]
#[ignore = "takes the terminal it runs on"]
fn helper_takes_the_terminal_and_panics() {
    let terminal = corral::tui::terminal::Terminal::take(true).unwrap();
    assert!(std::env::var("CORRAL_TEST_PANIC").is_err(), "planted");
    drop(terminal);
}

#[test]
fn req_21_after_a_panic() {
    if !is_there() {
        return;
    }
    let pane = Pane::open(80, 24, &[("CORRAL_TEST_PANIC", "1")]);
    pane.line("stty -g > before");
    let before = pane.file("before");
    let state = pane.state();
    let own = std::env::current_exe().unwrap();
    pane.line(&format!(
        "{} --ignored --exact --nocapture restored::helper_takes_the_terminal_and_panics; stty -g > after",
        own.display()
    ));
    assert_eq!(pane.file("after"), before);
    // What went wrong is on the shell's screen, not lost with the other one.
    pane.wait_for("planted");
    assert_eq!(pane.state(), state);
}

#[test]
fn a_stop_that_cannot_be_caught_is_mended_when_it_goes_on() {
    if !is_there() {
        return;
    }
    let pane = Pane::open(80, 24, &[]);
    let state = pane.state();
    pane.corral("--demo");
    pane.wait_for("Inventory");
    signal(&pane, "-STOP");
    pane.wait_for("Stopped");
    pane.line("fg");
    pane.wait_gone("Stopped");
    pane.wait_for("Inventory");
    // Keys arrive one by one again, and are not echoed.
    pane.keys("g x");
    pane.wait_for("Contexts");
    pane.keys("q q");
    pane.until("the shell", |screen| screen.trim_end().ends_with("READY>"));
    assert_eq!(pane.state(), state);
}

#[test]
fn a_view_whose_terminal_is_gone_ends_also_where_no_signal_says_so() {
    if !is_there() {
        return;
    }
    // Several: who sees it first, the signal or the end of the input, is a matter of luck.
    for without_signal in [true, true, true, false, false, false] {
        let pane = Pane::open(80, 24, &[]);
        let line = format!(
            "sh -c 'echo $$ > pid; exec {} --demo'",
            env!("CARGO_BIN_EXE_corral")
        );
        // In a session of its own a process has no controlling terminal, and hears of no hang-up.
        pane.line(&format!(
            "{}{line}",
            if without_signal { "setsid -w " } else { "" }
        ));
        pane.wait_for("local");
        let pid = pane.file("pid");
        pane.hang_up();
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).ok()?;
            stat.rsplit(") ").next()?.chars().next()
        };
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while state().is_some_and(|state| state != 'Z') {
            assert!(std::time::Instant::now() < until, "{pid} is still there");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
