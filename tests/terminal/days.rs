//! Ten flows of a day, by keys on the simulated fleet; each looks at what is on the screen.

use super::tmux::{Pane, is_there};

fn open(words: &str) -> Option<Pane> {
    if !is_there() {
        return None;
    }
    let pane = Pane::open(100, 30, &[]);
    pane.corral(words);
    pane.wait_for("Inventory");
    pane.wait_for("local");
    Some(pane)
}

fn filter(pane: &Pane, text: &str, left: &str) {
    pane.text("/");
    pane.keys("C-u");
    pane.text(text);
    pane.keys("Enter");
    pane.wait_for(left);
}

fn command(pane: &Pane, line: &str) {
    pane.text(":");
    pane.text(line);
    pane.keys("Enter");
}

/// Types what the question on the screen wants, and presses its last button.
fn type_and_confirm(pane: &Pane) {
    pane.wait_question(" to go on");
    let screen = pane.screen();
    let wanted = screen
        .split("Type ")
        .nth(1)
        .and_then(|rest| rest.split(" to go on").next())
        .unwrap_or_else(|| panic!("{screen}"))
        .to_owned();
    pane.text(&wanted);
    pane.wait_for(&format!("to go on: {wanted}"));
    pane.keys("BTab Enter");
}

#[test]
fn forty_are_filtered_marked_and_snapshotted() {
    let Some(pane) = open("--demo=large,pace=0") else {
        return;
    };
    filter(&pane, "context:local", "40 of ");
    pane.text("*");
    pane.wait_for("40 marked");
    pane.text("S");
    pane.wait_for("40 instances");
    pane.text("patch");
    pane.keys("BTab Enter");
    pane.wait_for(" snapshot create local/api");
    type_and_confirm(&pane);
    // One of them is locked: which, and why, is told.
    pane.wait_for("snapshot create 39 of 40: partial");
    pane.wait_for("is locked: backup");
    pane.text("gt");
    pane.wait_for("snapshot create");
}

#[test]
fn three_are_taken_back_to_a_snapshot() {
    let Some(pane) = open("--demo=pace=0") else {
        return;
    };
    let three = "local/scratch local/win11 local/web";
    command(&pane, &format!("snapshot create {three} --name pre"));
    pane.wait_question(" snapshot create local/scratch");
    pane.text("C");
    pane.wait_for("snapshot create 3 of 3: done");
    command(
        &pane,
        &format!("snapshot restore {three} --name pre --stop --start"),
    );
    pane.wait_for("Lost:");
    type_and_confirm(&pane);
    pane.wait_for("snapshot restore 3 of 3: done");
}

#[test]
fn a_machine_is_found_by_its_address() {
    let Some(pane) = open("--demo=pace=0") else {
        return;
    };
    filter(&pane, "10.198.0.5", "1 of ");
    let screen = pane.until("its row", |s| {
        s.contains("10.198.0.5") && s.contains(" web ")
    });
    assert!(!screen.contains("grafana"), "{screen}");
    pane.keys("Enter");
    pane.wait_for("lab/default/web");
}

#[test]
fn from_a_host_to_its_instances() {
    let Some(pane) = open("--demo=pace=0") else {
        return;
    };
    // Everybody has answered or failed to: from here on rows stay where they are.
    pane.wait_for("no answer: hv2");
    pane.text("gh");
    // Not those of the inventory: its column of hosts has the same names.
    pane.wait_for("hv2 does not answer");
    pane.wait_for("node-a");
    pane.keys("Down Down");
    pane.text("i");
    pane.wait_for("host:\"lab1\"");
    pane.until("its rows alone", |s| {
        s.contains(" ci ") && !s.contains("grafana")
    });
}

#[test]
fn what_is_wrong_is_hunted_down() {
    let Some(pane) = open("--demo=pace=0") else {
        return;
    };
    pane.text("!");
    pane.wait_for("problems only");
    pane.wait_for("crashed");
    // Everybody has answered or failed to: from here on rows stay where they are.
    pane.wait_for("no answer: hv2");
    pane.text("gp");
    let screen = pane.wait_for("hv1/builder");
    let rows = screen.lines().skip_while(|l| !l.contains("REMEDY")).skip(1);
    let at = rows.take_while(|l| !l.contains("hv1/builder")).count();
    pane.keys("Down ".repeat(at).trim_end());
    pane.keys("Enter");
    pane.wait_for("Summary");
    pane.wait_for("guest panicked");
}

#[test]
fn one_is_resized() {
    let Some(pane) = open("--demo=pace=0") else {
        return;
    };
    filter(&pane, "id:local/win11", "1 of ");
    pane.text("er");
    pane.wait_for("Resize local/win11");
    pane.text("eight");
    pane.wait_for("whole number");
    pane.keys("C-u");
    pane.text("8");
    pane.wait_for(" resize local/win11 --cpus=8");
    pane.keys("BTab Enter");
    pane.wait_question(" resize local/win11 --cpus 8");
    pane.text("R");
    pane.wait_for("resize local/win11: done");
}

#[test]
fn a_context_that_is_down_holds_nobody_up() {
    let Some(pane) = open("--demo=pace=0,down=pve") else {
        return;
    };
    filter(&pane, "id:local/scratch", "1 of ");
    pane.text("pt");
    pane.wait_question("Stop scratch?");
    pane.text("S");
    pane.wait_for("stop local/scratch: done");
    pane.text("gx");
    pane.until("its cause", |s| {
        s.lines()
            .any(|l| l.contains(" pve ") && l.contains("no connection"))
    });
}

#[test]
fn leaving_waits_for_what_is_under_way() {
    let Some(pane) = open("--demo=pace=60") else {
        return;
    };
    filter(&pane, "id:local/scratch", "1 of ");
    pane.text("pt");
    pane.wait_question("Stop scratch?");
    pane.text("S");
    pane.wait_for("stop…");
    pane.text("q");
    pane.until("the question", |s| {
        s.contains("Leave corral?") && !s.contains("(wait)")
    });
    pane.text("W");
    pane.until("the shell", |s| s.trim_end().ends_with("READY>"));
}

#[test]
fn a_view_that_is_handed_over_changes_nothing() {
    let Some(pane) = open("--demo=pace=0 --readonly") else {
        return;
    };
    pane.wait_for("READ-ONLY");
    filter(&pane, "id:local/win11", "1 of ");
    pane.text("ps");
    pane.until("the refusal", |s| s.to_lowercase().contains("refused"));
    pane.keys("Escape");
    pane.text("ph");
    pane.until("the refusal", |s| s.to_lowercase().contains("refused"));
    pane.keys("Escape");
    pane.text("gt");
    pane.wait_for("No task yet");
}

#[test]
fn sight_marks_and_lines_are_back_after_the_line_was_cut() {
    if !is_there() {
        return;
    }
    if which::which("qemu-img").is_err() {
        assert!(
            std::env::var_os("CI").is_none(),
            "qemu-img is not installed"
        );
        eprintln!("skipped (daemon): no qemu-img: apt install qemu-utils");
        return;
    }
    let pane = Pane::open(100, 30, &[]);
    let folder = pane.dir.path().join(".config/corral");
    std::fs::create_dir_all(&folder).unwrap();
    let config = "discover = false\n[[context]]\nname = \"local\"\nbackend = \"qemu\"\n";
    std::fs::write(folder.join("config.toml"), config).unwrap();
    for name in ["one", "two"] {
        let words = ["create", name, "--disk", "16M", "--firmware", "bios", "-y"];
        let made = std::process::Command::new(env!("CARGO_BIN_EXE_corral"))
            .args(words)
            .env_clear()
            .env("HOME", pane.dir.path())
            .env("PATH", std::env::var_os("PATH").unwrap())
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
    }
    pane.corral("; echo \"code $?\"");
    pane.wait_for("1 local");
    command(&pane, "sort mem");
    pane.wait_for("sorted by mem");
    filter(&pane, "state:stopped", "Inventory 2");
    pane.text("*");
    pane.wait_for("2 marked");
    filter(&pane, "name:two", "2 marked, 1 of them hidden");
    command(&pane, "info local/nobody");
    pane.wait_for("nobody");
    let shell = pane.format("#{pane_pid}");
    let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    let pid = children.split_whitespace().next().unwrap().to_owned();
    let hung = std::process::Command::new("kill")
        .args(["-HUP", &pid])
        .status();
    assert!(hung.unwrap().success());
    pane.wait_for("code 129");
    pane.line("clear");
    pane.corral("");
    pane.wait_for("by mem");
    pane.wait_for("2 marked, 1 of them hidden");
    pane.wait_for("/ name:two");
    pane.text(":");
    pane.keys("Up");
    pane.wait_for(":info local/nobody");
    pane.keys("Up");
    pane.wait_for(":sort mem");
}
