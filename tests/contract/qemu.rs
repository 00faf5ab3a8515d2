//! The real QEMU with the real guest.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use corral::backend::contract::{Backend, DiskSource, Env};
use corral::backend::registry;
use corral::model::{ContextSpec, Dirs};

use crate::bench::Bench;
use crate::suite;

/// The guest's disk, or why the test is skipped. In CI it must be there.
fn guest() -> Option<PathBuf> {
    let dir = std::env::var("CORRAL_LAB_GUEST").unwrap_or_else(|_| "/var/tmp/corral-lab/guest".to_owned());
    let disk = PathBuf::from(dir).join("guest.qcow2");
    let there = disk.exists() && which::which("qemu-system-x86_64").is_ok();
    if !there {
        assert!(std::env::var_os("CI").is_none(), "the lab guest or QEMU is missing");
        println!("skipped: daemon: needs QEMU and the guest of tests/lab/guest-image.sh");
    }
    there.then_some(disk)
}

#[tokio::test]
async fn qemu_keeps_the_contract() {
    let Some(disk) = guest() else { return };
    // Socket paths are short: the folder must be too.
    let dir = tempfile::Builder::new().prefix("c").tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let env = Arc::new(Env {
        dirs: Dirs::under(dir.path()),
        path: std::env::split_paths(&path).collect(),
        vars: BTreeMap::new(),
        home: dir.path().to_owned(),
    });
    let kind = registry::KINDS.iter().find(|kind| kind.id == "qemu").unwrap();
    let mut spec = ContextSpec::new("local", kind.kind());
    spec.configured = true;
    let backend: Arc<dyn Backend> = (kind.open)(spec, env).unwrap();
    let bench = Bench {
        backend,
        context: "local".to_owned(),
        namespace: None,
        patience: Duration::from_secs(240),
        source: DiskSource::Copy(disk.display().to_string()),
        reacts: true,
        calls: None,
    };
    suite::run(&bench).await;
}
