//! Real libvirt: QEMU guests of a daemon, and the driver that needs none.

use std::sync::Arc;
use std::time::Duration;

use corral::backend::contract::{Backend as _, DiskSource, RemoveRequest};
use corral::backend::libvirt::Libvirt;

use crate::bench::{Bench, Files};
use crate::lab::guest::guest;
use crate::libvirt_lab as lab;
use crate::suite;

#[tokio::test(flavor = "multi_thread")]
async fn libvirt_keeps_the_contract_with_a_real_guest() {
    let (Some(dir), Some(disk)) = (lab::lab(), guest()) else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("backups")).unwrap();
    let backend = lab::open(&dir, "a", root.path());
    clean(&backend).await;
    let seen = Arc::clone(&backend);
    let bench = Arc::new(Bench {
        backend: Arc::clone(&backend) as Arc<_>,
        context: "a".to_owned(),
        namespace: None,
        patience: Duration::from_secs(100),
        source: DiskSource::Copy(disk.to_str().unwrap().to_owned()),
        image: disk.to_str().unwrap().to_owned(),
        elsewhere: "second".to_owned(),
        files: Files::new(folder.path()),
        calls: Some(Box::new(move || seen.calls())),
    });
    let ended = {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move { suite::run(&bench).await }).await
    };
    // Whatever failed above, no guest is left behind.
    clean(&backend).await;
    if let Err(failed) = ended {
        std::panic::resume_unwind(failed.into_panic());
    }
}

/// Takes away what an earlier run left.
async fn clean(backend: &Arc<Libvirt>) {
    let cx = || corral::backend::contract::ReadCx::quiet(Duration::from_secs(60));
    let left = backend.inventory(&cx()).await.unwrap();
    let family = corral::backend::contract::Families::remove(backend.as_ref()).unwrap();
    for row in left
        .instances
        .iter()
        .filter(|row| row.name.starts_with("contract-"))
    {
        let request = RemoveRequest {
            keep_disks: false,
            force: true,
        };
        let plan = family.prepare(&cx(), row, request).await.unwrap();
        if plan.refusals.is_empty() && !plan.unchanged {
            let task = crate::lab::task_within(&row.id, Some(Duration::from_secs(60)));
            family.run(&task, plan).await.unwrap();
        }
    }
}
