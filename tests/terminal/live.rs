//! A corral in use while its configuration changes.

use super::tmux::{Pane, is_there};

fn context(name: &str, more: &str) -> String {
    format!("[[context]]\nname = \"{name}\"\nbackend = \"qemu\"\n{more}\n")
}

#[test]
fn the_first_frame_waits_for_no_secret_and_an_edited_file_is_followed() {
    if !is_there() {
        return;
    }
    let pane = Pane::open(100, 30, &[]);
    let folder = pane.dir.path().join(".config/corral");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("config.toml");
    let slow = context("stuck", "secret = { command = [\"sleep\", \"3600\"] }");
    std::fs::write(
        &file,
        format!("discover = false\n{slow}{}", context("fast", "")),
    )
    .unwrap();
    pane.corral("");
    // The password manager never answers: until its limit nothing else would be on the screen.
    pane.until("the first frame", |screen| {
        screen.contains("2 fast") && !screen.contains("login")
    });
    // Another program writes it.
    let more = context("more", "");
    std::fs::write(
        &file,
        format!("discover = false\n{}{more}", context("fast", "")),
    )
    .unwrap();
    pane.wait_for("2 more");
    pane.until("stuck to go", |screen| !screen.contains("stuck"));
    std::fs::write(&file, "discover = = false\n").unwrap();
    pane.wait_for("config.toml:1:12");
    pane.wait_for("2 more");
    pane.keys("Escape");
    pane.text(":context disable more");
    pane.keys("Enter");
    pane.wait_for("config.toml");
}

#[test]
fn a_secret_is_asked_for_in_the_view_and_never_shown() {
    if !is_there() {
        return;
    }
    let pane = Pane::open(100, 30, &[]);
    pane.corral("--no-discover");
    pane.wait_for("Inventory");
    pane.text(":context add lab --backend qemu --secret-stdin");
    pane.keys("Enter");
    pane.wait_question("Add the context lab?");
    pane.text("A");
    pane.wait_for("Context lab asks");
    pane.wait_for("Enter answers");
    pane.text("canary-77");
    let screen = pane.until("dots", |screen| screen.contains("> •••••••••"));
    assert!(!screen.contains("canary"), "{screen}");
    pane.keys("Enter");
    pane.wait_for("context add");
    pane.wait_for("1 lab");
    let file = pane.dir.path().join(".config/corral/secrets/lab");
    assert_eq!(
        std::fs::read_to_string(file).unwrap().trim_end(),
        "canary-77"
    );
}

#[test]
fn ten_thousand_changes_a_second_of_one_context_hold_up_no_key_and_no_other_context() {
    if !is_there() {
        return;
    }
    let pane = Pane::open(100, 30, &[]);
    pane.corral("--demo=large,up=hv2,flicker=hv1:10000");
    pane.wait_for("1 local");
    // It is really told: a row is now this, now that.
    pane.text("/context:hv1");
    pane.keys("Enter");
    pane.wait_for("/ context:hv1 ─");
    let rows = |screen: &str| screen.lines().skip(3).take(20).collect::<String>();
    let before = rows(&pane.screen());
    pane.until("a change", |screen| rows(screen) != before);
    for key in ["Down", "Down", "Up"] {
        pane.keys(key);
    }
    pane.text("/");
    pane.keys("C-u");
    pane.text("context:local");
    pane.keys("Enter");
    pane.until("another context alone", |screen| {
        let rows: Vec<&str> = screen.lines().skip(3).take(10).collect();
        rows.iter().all(|row| row.contains(" local "))
    });
    pane.text("ps");
    pane.wait_for("runs already");
    pane.text(":q");
    pane.keys("Enter");
    pane.until("the shell", |s| s.trim_end().ends_with("READY>"));
}
