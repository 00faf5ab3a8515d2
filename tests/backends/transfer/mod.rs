//! What the tests of exports, imports and backups share.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::lab::Lab;

/// Runs corral with these words.
pub fn output(lab: &Lab, words: &str) -> Output {
    let words: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
    lab.corral(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// It does it; what it said.
pub fn fine(lab: &Lab, words: &str) -> String {
    let output = output(lab, words);
    assert!(output.status.success(), "{words}: {}", said(&output));
    said(&output)
}

/// It refuses, and says this.
pub fn refused(lab: &Lab, words: &str, wanted: &str) -> String {
    let output = output(lab, words);
    let said = said(&output);
    assert!(!output.status.success(), "{words}: {said}");
    assert!(said.contains(wanted), "{words}: no {wanted:?} in {said}");
    said
}

/// Words and a path.
pub fn line(words: &str, path: &Path) -> String {
    format!("{words} {}", path.display())
}

/// Fills the first bytes of a disk.
pub fn fill(disk: &Path, byte: u8) {
    let command = format!("write -P {byte} 0 64k");
    let disk = disk.to_str().unwrap();
    tool(
        Path::new("/"),
        "qemu-io",
        &["-f", "qcow2", "-c", &command, disk],
    );
}

/// Whether a guest would see the same in both.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let compared = Command::new("qemu-img")
        .args(["compare", "-U"])
        .args([one, other])
        .output()
        .unwrap();
    compared.status.success()
}

/// Runs a tool in a folder; what it said.
pub fn tool(dir: &Path, name: &str, words: &[&str]) -> String {
    let output = Command::new(name)
        .args(words)
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "{name} {words:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
