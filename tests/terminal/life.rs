//! The main job by keys: make, start, snapshot, stop, delete.

use super::tmux::{Pane, is_there};

#[test]
fn a_life_by_keys() {
    if !is_there() {
        return;
    }
    let pane = Pane::open(100, 30, &[]);
    pane.corral("--demo=pace=10");
    pane.wait_for("Inventory");
    pane.wait_for("local");
    // Only the local context, then create.
    pane.keys("1");
    pane.wait_for("only context local");
    pane.keys("+");
    pane.wait_for("Create in local");
    pane.text("fresh");
    pane.keys("BTab BTab");
    pane.until("the button", |s| {
        s.contains(" create fresh --context=local")
    });
    pane.keys("Tab");
    pane.keys("Enter");
    pane.wait_question("Create fresh");
    pane.text("C");
    pane.wait_for("create local/fresh: done");
    pane.text("/fresh");
    pane.keys("Enter");
    pane.wait_for("1 of");
    // Start.
    pane.keys("p");
    pane.wait_for("Power: local/fresh");
    pane.keys("s");
    pane.wait_for("start local/fresh: done");
    // Snapshot.
    pane.keys("S");
    pane.wait_for("Snapshot create local/fresh");
    pane.text("s1");
    pane.keys("BTab Enter");
    pane.wait_for("snapshot create local/fresh: done");
    pane.keys("g s");
    pane.wait_for("you are here");
    pane.keys("Escape");
    // Stop: the question shows where; only Shift-S confirms.
    pane.keys("p t");
    pane.wait_question("Stop fresh?");
    pane.text("S");
    pane.wait_for("stop local/fresh: done");
    // Delete: waits for the name.
    pane.keys("D");
    pane.wait_for("Type fresh");
    pane.wait_question("Type fresh");
    pane.text("fresh");
    pane.keys("BTab Enter");
    pane.wait_for("delete local/fresh: done");
    pane.keys("Escape");
    pane.text(":q");
    pane.keys("Enter");
    pane.until("the shell", |screen| screen.trim_end().ends_with("READY>"));
}

#[test]
fn typed_ahead_keys_confirm_nothing() {
    if !is_there() {
        return;
    }
    let pane = Pane::open(80, 24, &[]);
    pane.corral("--demo=pace=10");
    pane.wait_for("Inventory");
    pane.text("/name:scratch");
    pane.keys("Enter");
    pane.wait_for("1 of");
    // All at once, as over a slow link: the confirming key is among them.
    pane.text("ptSSS");
    pane.wait_question("Stop scratch?");
    pane.keys("Enter");
    pane.wait_for("nothing was done");
    pane.text("gt");
    pane.wait_for("No task yet");
}
