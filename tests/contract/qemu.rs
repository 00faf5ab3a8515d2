//! Real QEMU with the guest of `tests/lab/`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use corral::backend::contract::{Backend, DiskSource, Env, PowerRequest};
use corral::backend::qemu;
use corral::model::{ContextSpec, Dirs};

use crate::bench::Bench;
use crate::guest::guest;
use crate::suite;

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
