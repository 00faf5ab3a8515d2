//! A newer QEMU than the installed one: the same life, and the change from one to the other.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may end where it stands and says what it skips"
)]

mod lab;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lab::Lab;
use lab::guest::guest;

/// The folder with the newer programs; a line that says how to get them where they are not there.
fn next() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let bin = root.join("target/lab/qemu-next/bin");
    if !bin.join("qemu-system-x86_64").exists() && std::env::var_os("CI").is_some() {
        let built = Command::new(root.join("tests/lab/qemu-next.sh")).status();
        if !built.unwrap().success() {
            eprintln!("daemon: skipped: tests/lab/qemu-next.sh found no newer QEMU");
            return None;
        }
    }
    if bin.join("qemu-system-x86_64").exists() {
        return Some(bin);
    }
    eprintln!("skipped: no newer QEMU; unpack it: tests/lab/qemu-next.sh");
    None
}

/// The program with the newer QEMU, or with the installed one.
fn corral(lab: &Lab, bin: Option<&Path>, words: &[&str]) -> (bool, String) {
    let mut command = lab.corral(words);
    if let Some(bin) = bin {
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", bin.display()));
    }
    let output = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .current_dir(lab.root.path())
        .output()
        .unwrap();
    let (out, err) = (&output.stdout, &output.stderr);
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    );
    (output.status.success(), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_qemu_does_all_that_the_installed_one_does() {
    let (Some(image), Some(bin)) = (guest(), next()) else {
        return;
    };
    let lab = Lab::new();
    let run = |words: &[&str]| {
        let (done, text) = corral(&lab, Some(&bin), words);
        assert!(done, "{words:?}: {text}");
        text
    };
    let image = image.to_str().unwrap();
    let port = format!("127.0.0.1:{}:22", lab::free_port());
    run(&[
        "create",
        "web",
        "--image",
        image,
        "--firmware",
        "bios",
        "--memory",
        "256M",
        "--publish",
        &port,
        "--yes",
    ]);
    let vm = lab.ctx.store.load("web").unwrap();
    assert!(!vm.machine.ends_with("-7.2"), "{}", vm.machine);
    run(&["start", "web"]);
    let at = lab.login("web", 0).await;
    let (_, at) = lab.shell("web", "echo one > /data/x; sync", at).await;
    run(&["snapshot", "create", "web", "--name", "cold"]);
    run(&[
        "snapshot",
        "create",
        "web",
        "--name",
        "warm",
        "--with-memory",
    ]);
    let (_, at) = lab.shell("web", "echo two > /data/x; sync", at).await;
    run(&["screenshot", "web", "--to", "web.png"]);
    run(&["cp", "web:/data/x", "x"]);
    assert_eq!(
        std::fs::read_to_string(lab.root.path().join("x")).unwrap(),
        "two\n"
    );
    let list = run(&["snapshot", "list", "web"]);
    assert!(list.contains("cold") && list.contains("warm"), "{list}");
    run(&["stop", "web"]);
    run(&[
        "snapshot",
        "restore",
        "web",
        "--name",
        "cold",
        "--yes",
        "--confirm",
        "web",
    ]);
    run(&["start", "web"]);
    let at = lab.login("web", at).await;
    let (text, _) = lab.shell("web", "cat /data/x", at).await;
    assert!(text.contains("one"), "{text}");
    run(&["stop", "--force", "web"]);
    run(&["delete", "web", "--yes", "--confirm", "web"]);
    assert!(lab.ctx.store.load("web").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_keeps_its_hardware_under_a_newer_qemu_and_doctor_tells_what_still_runs() {
    let (true, Some(bin)) = (lab::guest::has_qemu(), next()) else {
        return;
    };
    let lab = Lab::new();
    let run = |newer: bool, words: &[&str]| {
        let (done, text) = corral(&lab, newer.then_some(&*bin), words);
        assert!(done, "{words:?}: {text}");
        text
    };
    run(
        false,
        &[
            "create",
            "old",
            "--disk",
            "8M",
            "--firmware",
            "bios",
            "--memory",
            "64M",
            "--start",
            "--yes",
        ],
    );
    let before = lab.ctx.store.load("old").unwrap();
    let told = run(true, &["doctor"]);
    assert!(
        told.contains("local/old runs on QEMU 7.2") && told.contains("restart --cold"),
        "{told}"
    );
    run(true, &["stop", "--force", "old"]);
    run(true, &["start", "old"]);
    let after = lab.ctx.store.load("old").unwrap();
    assert_eq!(before.machine, after.machine);
    let argv = std::fs::read(format!("/proc/{}/cmdline", lab.pid(&after))).unwrap();
    let argv = String::from_utf8_lossy(&argv);
    assert!(
        argv.contains(&before.machine) && argv.contains("qemu-next"),
        "{argv}"
    );
    let told = run(true, &["doctor"]);
    assert!(!told.contains("local/old runs on QEMU"), "{told}");
    run(true, &["stop", "--force", "old"]);
}
