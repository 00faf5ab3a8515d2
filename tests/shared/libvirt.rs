//! The libvirt lab: two daemons of `tests/lab/libvirt-up.sh`, and contexts on them.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use corral::backend::contract::Env;
use corral::backend::libvirt::{INFO, Libvirt};
use corral::model::{ContextSpec, Dirs};

/// The helper that was built with these tests.
pub fn helper() -> Option<&'static Path> {
    option_env!("CARGO_BIN_EXE_corral-libvirt").map(Path::new)
}

/// The folder of the lab; `None` (and a line that says so) where it is not up.
pub fn lab() -> Option<PathBuf> {
    let skip = |why: &str| {
        assert!(std::env::var_os("CI").is_none(), "{why}");
        eprintln!("skipped: {why}");
        if let Some(log) = std::env::var_os("CORRAL_SKIP_LOG") {
            use std::io::Write as _;
            let log = std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(log);
            let _ = writeln!(log.unwrap(), "daemon\tlibvirt\t{why}");
        }
        None
    };
    if helper().is_none() {
        return skip("the tests were built without --features libvirt (libvirt-dev, pkg-config)");
    }
    let dir = std::env::var_os("CORRAL_LAB_LIBVIRT").map(PathBuf::from);
    match dir.filter(|dir| dir.join("libvirt.env").exists()) {
        Some(dir) => Some(dir),
        None => skip("no lab: sudo tests/lab/libvirt-up.sh DIR, and CORRAL_LAB_LIBVIRT=DIR"),
    }
}

/// Where daemon `a` or `b` is.
pub fn uri(lab: &Path, daemon: &str) -> String {
    format!(
        "qemu+unix:///system?socket={}/{daemon}/run/libvirt-sock",
        lab.display()
    )
}

/// What a backend is given, in a home of its own; the helper is on its path.
pub fn env(root: &Path) -> Arc<Env> {
    let mut path: Vec<PathBuf> =
        std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect();
    path.extend(helper().and_then(Path::parent).map(PathBuf::from));
    Arc::new(Env {
        dirs: Dirs::under(root),
        path,
        vars: BTreeMap::new(),
        home: root.to_owned(),
    })
}

/// A context.
pub fn spec(name: &str, uri: &str, lab: Option<(&Path, &str)>) -> ContextSpec {
    let mut spec = ContextSpec::new(name, INFO.kind());
    spec.fields.insert("uri".to_owned(), uri.into());
    if let Some((lab, daemon)) = lab {
        let logs = lab.join(daemon).join("log/qemu");
        spec.fields
            .insert("logs".to_owned(), logs.display().to_string().into());
    }
    spec
}

/// A backend on daemon `a` or `b`.
pub fn open(lab: &Path, daemon: &str, root: &Path) -> Arc<Libvirt> {
    let spec = spec(daemon, &uri(lab, daemon), Some((lab, daemon)));
    Arc::new(Libvirt::new(spec, env(root)).unwrap())
}

/// `virsh` at a daemon; what it printed.
pub fn virsh(lab: &Path, daemon: &str, words: &[&str]) -> String {
    let output = Command::new("virsh")
        .args(["-q", "-c", &uri(lab, daemon)])
        .args(words)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}
