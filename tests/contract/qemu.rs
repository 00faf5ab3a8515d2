//! Real QEMU with the guest of `tests/lab/`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use corral::backend::contract::{Backend, DiskSource, Env, PowerRequest};
use corral::backend::qemu;
use corral::model::{ContextSpec, Dirs};

use crate::bench::Bench;
use crate::suite;

/// The guest's disk; `None` (and a line that says so) where it was not built and CI did not ask.
fn guest() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = std::env::var_os("CORRAL_LAB_GUEST")
        .map_or_else(|| root.join("target/lab/guest"), PathBuf::from);
    let disk = dir.join("guest.qcow2");
    if disk.exists() {
        return Some(disk);
    }
    if std::env::var_os("CI").is_some() {
        let built = std::process::Command::new(root.join("tests/lab/guest-image.sh"))
            .arg(&dir)
            .status()
            .unwrap();
        assert!(built.success(), "tests/lab/guest-image.sh failed");
        return Some(disk);
    }
    eprintln!("skipped: no guest; build it: tests/lab/guest-image.sh");
    None
}

fn open(root: &Path) -> Arc<dyn Backend> {
    let env = Env {
        dirs: Dirs::under(root),
        path: std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect(),
        vars: std::collections::BTreeMap::new(),
        home: root.to_owned(),
    };
    let spec = ContextSpec::new("local", qemu::INFO.kind());
    (qemu::INFO.open)(spec, Arc::new(env)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn qemu_keeps_the_contract_with_a_real_guest() {
    let Some(disk) = guest() else { return };
    // Paths of sockets are short: the folder's name is too.
    let root = tempfile::Builder::new().prefix("cc").tempdir().unwrap();
    let bench = Arc::new(Bench {
        backend: open(root.path()),
        context: "local".to_owned(),
        namespace: None,
        patience: Duration::from_secs(100),
        source: DiskSource::Copy(disk.to_str().unwrap().to_owned()),
        // A row does not tell yet whether a guest is up, so nothing is asked of it here; shutdowns
        // and reboots of this guest are in `tests/backends/`.
        reacts: false,
        calls: None,
    });
    let suite = {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move { suite::run(&bench).await })
    };
    let ended = suite.await;
    // Whatever failed above, no guest is left behind.
    let left = bench.backend.inventory(&bench.cx()).await.unwrap();
    for row in left.instances.iter().filter(|row| row.state.is_active()) {
        let off = PowerRequest::Stop {
            force: true,
            force_after: None,
        };
        let stopped = bench.change(bench.backend.power(), row, off).await;
        assert!(stopped.is_ok(), "{} is left behind: {stopped:?}", row.id);
    }
    if let Err(failed) = ended {
        std::panic::resume_unwind(failed.into_panic());
    }
}
