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
