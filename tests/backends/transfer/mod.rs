//! What the tests of exports, imports and backups share.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::io::Write;
use std::path::{Path, PathBuf};
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

/// All that it said.
pub fn said(output: &Output) -> String {
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

/// Whether they still are what they were filled with.
pub fn is_filled(disk: &Path, byte: u8) -> bool {
    let command = format!("read -P {byte} 0 64k");
    let output = Command::new("qemu-io")
        .args(["-f", "qcow2", "-c", &command])
        .arg(disk)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = said.contains("verification failed");
    assert!(failed || output.status.success(), "{output:?}");
    !failed
}

/// A raw disk with one partition up to its end, and data all over it.
pub fn disk_image(path: &Path, size: u64) -> PathBuf {
    let mut bytes: Vec<u8> = (0..size as usize / 8)
        .flat_map(|n| (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .collect();
    bytes[..512].fill(0);
    bytes[450] = 0x83;
    bytes[454..458].copy_from_slice(&8u32.to_le_bytes());
    bytes[458..462].copy_from_slice(&(size as u32 / 512 - 8).to_le_bytes());
    bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
    std::fs::write(path, bytes).unwrap();
    path.to_owned()
}

/// A member of a package with any name and of any kind.
pub fn member(
    tar: &mut tar::Builder<impl Write>,
    name: &str,
    kind: tar::EntryType,
    content: &[u8],
) {
    let mut header = tar::Header::new_ustar();
    // The library itself writes no such names.
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    if matches!(kind, tar::EntryType::Symlink | tar::EntryType::Link) {
        header.set_link_name("/etc/shadow").unwrap();
    }
    header.set_cksum();
    tar.append(&header, content).unwrap();
}

/// `ID@NAME` of the backups that are listed.
pub fn backups(lab: &Lab, of: &str) -> Vec<String> {
    let output = output(lab, &format!("backup list {of} -o name"));
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(str::to_owned).collect()
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
