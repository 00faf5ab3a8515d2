//! The main job on a real QEMU, by keys, with a second shell beside it.

use std::process::Command;

use super::installed::{guest, has_qemu};
use super::tmux::{Pane, is_there};

/// A command of a second shell: the same home, no terminal.
fn beside(pane: &Pane, words: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_corral"))
        .args(words)
        .env_clear()
        .env("HOME", pane.dir.path())
        .env("PATH", std::env::var_os("PATH").unwrap())
        .output()
        .unwrap();
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    (output.status.code(), text)
}

/// Whatever happens, no VM stays behind.
struct Cleared<'a>(&'a Pane);

impl Drop for Cleared<'_> {
    fn drop(&mut self) {
        let _ = beside(self.0, &["delete", "web", "--force", "--confirm", "web"]);
    }
}

#[test]
fn a_real_life_by_keys_with_a_second_shell() {
    let (Some(guest), true) = (guest(), has_qemu() && is_there()) else {
        return;
    };
    let pane = Pane::open(80, 24, &[]);
    let _cleared = Cleared(&pane);
    pane.corral("");
    pane.wait_for("No virtual machines yet");
    // Make and start it.
    pane.text(&format!(
        ":create web --image {} --firmware bios --memory 256M",
        guest.display()
    ));
    pane.keys("Enter");
    pane.wait_question("Create web");
    pane.text("C");
    pane.until("the new VM", |s| s.contains("web") && s.contains("stopped"));
    pane.keys("p");
    pane.wait_for("Power: local/web");
    pane.keys("s");
    pane.until("it to run", |s| {
        s.lines()
            .any(|l| l.contains("web") && l.contains("running"))
    });
    // Snapshot.
    pane.keys("S");
    pane.wait_for("Snapshot create local/web");
    pane.text("s1");
    pane.keys("BTab Enter");
    pane.wait_for("snapshot create local/web: done");
    pane.keys("g s");
    pane.until("the snapshot", |s| {
        s.lines().any(|l| l.contains("s1") && l.contains("crash"))
    });
    pane.keys("Escape");
    // The guest is stopped from a second shell, once it can hear it.
    let (code, text) = beside(
        &pane,
        &["wait", "web", "--for", "agent", "--timeout", "90s"],
    );
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = beside(&pane, &["stop", "web", "--timeout", "90s"]);
    assert_eq!(code, Some(0), "{text}");
    pane.until("the stop to be seen", |s| {
        s.lines()
            .any(|l| l.contains("web") && l.contains("stopped"))
    });
    // Back to the snapshot: what is lost is typed for.
    pane.keys("g s");
    pane.wait_for("you are here");
    pane.keys("R");
    pane.wait_for("Snapshot restore local/web@s1");
    pane.keys("BTab Enter");
    pane.wait_question("Type web");
    pane.text("web");
    pane.keys("BTab Enter");
    pane.wait_for("snapshot restore local/web: done");
    let (_, text) = beside(&pane, &["history"]);
    assert!(text.contains("corral stop web"), "{text}");
    assert!(text.contains("corral snapshot restore local/web"), "{text}");
    // Gone for good.
    pane.keys("Escape");
    pane.keys("D");
    pane.wait_question("Type web");
    pane.text("web");
    pane.keys("BTab Enter");
    pane.wait_for("No virtual machines yet");
    let (code, text) = beside(&pane, &["list", "-o", "json"]);
    assert_eq!(code, Some(0));
    assert!(
        text.contains("\"instances\": []") || text.contains("\"instances\":[]"),
        "{text}"
    );
    let (_, text) = beside(&pane, &["doctor"]);
    assert!(text.contains("would change: nothing"), "{text}");
    pane.text(":q");
    pane.keys("Enter");
    pane.until("the shell", |screen| screen.trim_end().ends_with("READY>"));
}
