//! What is installed of the lab: the guest's disk and QEMU.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "each test takes what it needs, and says what it skips"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The guest's disk; `None` (and a line that says so) where it was not built and CI did not ask.
pub fn guest() -> Option<PathBuf> {
    if !has_qemu() {
        return None;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = std::env::var_os("CORRAL_LAB_GUEST")
        .map_or_else(|| root.join("target/lab/guest"), PathBuf::from);
    let disk = dir.join("guest.qcow2");
    if !disk.exists() && std::env::var_os("CI").is_some() {
        let built = Command::new(root.join("tests/lab/guest-image.sh"))
            .arg(&dir)
            .status()
            .unwrap();
        assert!(built.success(), "tests/lab/guest-image.sh failed");
    }
    if disk.exists() {
        return Some(disk);
    }
    eprintln!("skipped: no guest; build it: tests/lab/guest-image.sh");
    None
}

/// Whether QEMU is here; a line that says how to get it where it is not.
pub fn has_qemu() -> bool {
    let there = Command::new("qemu-img").arg("--version").output().is_ok()
        && Command::new("qemu-system-x86_64")
            .arg("--version")
            .output()
            .is_ok();
    if !there {
        assert!(std::env::var_os("CI").is_none(), "QEMU is not installed");
        eprintln!("skipped: no QEMU; apt install qemu-system-x86 qemu-utils ovmf");
    }
    there
}
