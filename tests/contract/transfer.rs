//! Data out and in again.

use corral::backend::contract::{BackupRequest, ExportRequest, ImportRequest};
use corral::model::{InstanceId, Operation, State};

use crate::bench::Bench;

pub async fn all(bench: &Bench, id: &InstanceId) {
    if bench.can(Operation::Export) {
        export(bench, id).await;
    }
    if bench.can(Operation::Backup) {
        backup(bench, id).await;
    }
}

async fn export(bench: &Bench, id: &InstanceId) {
    let family = || bench.backend.families().export();
    let to = bench.files.folder.join("exported");
    let request = |overwrite| ExportRequest {
        to: to.clone(),
        format: None,
        snapshot: None,
        overwrite,
    };
    let row = bench.row(id).await;
    bench.change(family(), &row, request(false)).await.unwrap();
    bench.refuses(family(), id, request(false)).await;
    let old = bench.detail(id).await;
    assert_eq!(old.instance.state, State::Stopped);
    if !bench.can(Operation::Import) {
        return;
    }
    let import = |name: &str| ImportRequest {
        name: name.to_owned(),
        from: to.clone(),
        firmware: None,
        cpus: None,
        memory: None,
        start: false,
        set: Vec::new(),
    };
    let stub = bench.stub("contract-in");
    let outcome = bench
        .change(
            bench.backend.families().import(),
            &stub,
            import("contract-in"),
        )
        .await
        .unwrap();
    let new = bench.detail(&outcome.id.expect("which one is it?")).await;
    assert_eq!(new.instance.name, "contract-in");
    assert_eq!(new.instance.state, State::Stopped);
    assert_ne!(new.instance.uid, old.instance.uid);
    assert_eq!(new.instance.memory_bytes, old.instance.memory_bytes);
    assert_eq!(new.disks[0].size_bytes, old.disks[0].size_bytes);
    bench.remove(&new.instance.id).await;
}

async fn backup(bench: &Bench, id: &InstanceId) {
    let family = || bench.backend.families().backup();
    let place = bench.files.folder.join("backups");
    let place = place.to_str().unwrap().to_owned();
    let listed = async || {
        let row = bench.row(id).await;
        let backups = bench.backend.families().backups().unwrap();
        let backups = backups
            .backups(&bench.cx(), Some(&row), Some(&place), true)
            .await
            .unwrap();
        assert!(backups.iter().all(|b| b.broken.is_none()));
        backups.into_iter().map(|b| b.name).collect::<Vec<_>>()
    };
    let create = BackupRequest::Create {
        at: jiff::Timestamp::now(),
        to: Some(place.clone()),
        keep: std::num::NonZeroU32::new(1),
    };
    for _ in 0..2 {
        let row = bench.row(id).await;
        bench.change(family(), &row, create.clone()).await.unwrap();
        assert_eq!(listed().await.len(), 1, "more are kept than asked for");
    }
    let name = listed().await.remove(0);
    let restore = BackupRequest::Restore {
        backup: name.clone(),
        from: Some(place.clone()),
        name: Some("contract-back".to_owned()),
        of: Some(bench.row(id).await.name),
        start: false,
    };
    let outcome = bench
        .change(family(), &bench.stub("contract-back"), restore)
        .await
        .unwrap();
    let back = bench.detail(&outcome.id.expect("which one is it?")).await;
    let old = bench.detail(id).await;
    assert_eq!(back.instance.name, "contract-back");
    assert_eq!(back.disks[0].size_bytes, old.disks[0].size_bytes);
    bench.remove(&back.instance.id).await;
    let delete = BackupRequest::Delete {
        backup: name,
        from: Some(place.clone()),
    };
    let row = bench.row(id).await;
    bench.change(family(), &row, delete.clone()).await.unwrap();
    assert!(listed().await.is_empty());
    let again = bench.change(family(), &bench.row(id).await, delete).await;
    assert!(again.is_err() || !again.unwrap().changed);
}
