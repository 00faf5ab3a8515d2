//! Looking at a real guest, typing into it, and files in and out, by the program itself.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may end where it stands and says what it skips"
)]

mod lab;

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use corral::model::State;
use lab::Lab;
use lab::guest::guest;

/// The program, to its end.
fn corral(lab: &Lab, words: &[&str]) -> Output {
    lab.corral(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .current_dir(lab.root.path())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    )
}

fn works(lab: &Lab, words: &[&str]) -> String {
    let output = corral(lab, words);
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    said(&output)
}

fn refused(lab: &Lab, words: &[&str]) -> String {
    let output = corral(lab, words);
    assert!(!output.status.success(), "{words:?}: {}", said(&output));
    said(&output)
}

/// Until the screen or a log is as wanted.
fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !seen() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_is_looked_at_and_typed_into() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    lab.define(&image, "web").await;
    off(&lab);
    works(&lab, &["start", "web"]);
    lab.until("web", State::Running).await;
    let at = lab.login("web", 0).await;

    logs(&lab);
    pictures(&lab);
    keys(&lab, at).await;
    lab.power_off("web").await;
}

fn off(lab: &Lab) {
    for words in [&["screenshot", "web"][..], &["sendkey", "web", "a"]] {
        let text = refused(lab, words);
        assert!(text.contains("corral start local/web"), "{text}");
    }
    assert!(works(lab, &["logs", "web"]).contains("empty"));
}

fn logs(lab: &Lab) {
    let text = works(lab, &["logs", "web"]);
    assert!(text.contains("lab-guest login:"), "{text}");
    assert!(!text.contains('\r') && !text.contains('\u{1b}'), "{text:?}");
    assert_eq!(
        works(lab, &["logs", "web", "--tail", "2"]).lines().count(),
        2
    );
    let text = works(lab, &["logs", "web", "--source", "qemu"]);
    assert!(text.contains("-name guest=web"), "{text}");
    assert!(works(lab, &["logs", "web", "--list"]).contains("serial"));
    let text = refused(lab, &["logs", "web", "--source", "seriel"]);
    assert!(text.contains("Did you mean --source serial?"), "{text}");
    let raw = corral(lab, &["logs", "web", "--raw"]);
    assert!(raw.stdout.contains(&b'\r'), "{}", said(&raw));
}

fn pictures(lab: &Lab) {
    let words = ["screenshot", "web", "--to", "web.png"];
    works(lab, &words);
    let file = lab.root.path().join("web.png");
    let first = std::fs::read(&file).unwrap();
    assert!(first.starts_with(b"\x89PNG") && first.ends_with(b"IEND\xaeB`\x82"));
    let text = refused(lab, &words);
    assert!(text.contains("--overwrite"), "{text}");
    assert_eq!(std::fs::read(&file).unwrap(), first);
    works(
        lab,
        &["screenshot", "web", "--to", "web.png", "--overwrite"],
    );
    let piped = corral(lab, &["screenshot", "web", "--to", "-"]);
    assert!(piped.stdout.starts_with(b"\x89PNG"), "{}", said(&piped));
    let text = refused(lab, &["screenshot", "web", "--to", "no/where.png"]);
    assert!(text.contains("there is no folder no"), "{text}");
    let vm = lab.ctx.store.load("web").unwrap();
    let dir = lab.ctx.paths(&vm.uuid).unwrap().dir;
    assert!(!names(&dir).iter().any(|name| name.starts_with("screen-")));
}

fn names(dir: &Path) -> Vec<String> {
    let all = std::fs::read_dir(dir).unwrap().flatten();
    all.map(|e| e.file_name().to_string_lossy().into_owned())
        .collect()
}

async fn keys(lab: &Lab, at: usize) {
    let text = refused(lab, &["sendkey", "web", "ctrl-alt-delte"]);
    assert!(text.contains("Did you mean delete?"), "{text}");
    let text = refused(lab, &["sendkey", "web", "--text", "ü"]);
    assert!(text.contains("US keyboard"), "{text}");
    works(lab, &["sendkey", "web", "--text", "root", "ret"]);
    // The console's password prompt is on the screen only.
    let screen = || corral(lab, &["screenshot", "web", "--to", "-"]).stdout;
    let before = screen();
    until("the screen changes", || screen() != before);
    tokio::time::sleep(Duration::from_secs(2)).await;
    works(lab, &["sendkey", "web", "--text", "corral-test", "ret"]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let line = r#"echo "A~b_C'd|{}9#" >/tmp/typed"#;
    works(lab, &["sendkey", "web", "--text", line, "ret"]);
    let (text, _) = lab
        .shell(
            "web",
            "until test -s /tmp/typed; do sleep 1; done; cat /tmp/typed",
            at,
        )
        .await;
    assert!(text.contains("A~b_C'd|{}9#"), "{text}");
    // What was typed may have been a password.
    let history = works(lab, &["history", "-o", "json"]);
    assert!(!history.contains("corral-test"), "{history}");
}
