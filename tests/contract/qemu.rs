//! Real QEMU with the guest of `tests/lab/`.

use std::sync::Arc;
use std::time::Duration;

use corral::backend::contract::{DiskSource, PowerRequest};

use crate::bench::{Bench, Files};
use crate::beside::Terminal;
use crate::lab::Lab;
use crate::lab::guest::guest;
use crate::suite;

#[tokio::test(flavor = "multi_thread")]
async fn qemu_keeps_the_contract_with_a_real_guest() {
    let Some(disk) = guest() else { return };
    let lab = Lab::new();
    let beside = Terminal::open(lab.root.path());
    let folder = tempfile::tempdir().unwrap();
    let files = Files::new(folder.path());
    let elsewhere = folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::create_dir(folder.path().join("backups")).unwrap();
    let bench = Arc::new(Bench {
        backend: lab.backend(),
        context: "local".to_owned(),
        namespace: None,
        patience: Duration::from_secs(100),
        source: DiskSource::Copy(disk.to_str().unwrap().to_owned()),
        image: disk.to_str().unwrap().to_owned(),
        elsewhere: elsewhere.to_str().unwrap().to_owned(),
        files,
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
        let stopped = bench
            .change(bench.backend.families().power(), row, off)
            .await;
        assert!(stopped.is_ok(), "{} is left behind: {stopped:?}", row.id);
    }
    if let Err(failed) = ended {
        std::panic::resume_unwind(failed.into_panic());
    }
    if let Some(view) = beside {
        view.saw("contract-vm", &["running", "stopped"]);
    }
}
