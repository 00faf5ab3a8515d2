//! What is done while a guest runs, and what a watch tells of it.

use std::time::Duration;

use corral::backend::contract::{Change, PowerRequest, SnapshotRequest, TakeSnapshot};
use corral::model::{Consistency, InstanceId, Operation, State};
use futures::StreamExt as _;

use crate::bench::Bench;

const POWER_OFF: PowerRequest = PowerRequest::Stop {
    force: true,
    force_after: None,
};

/// Snapshots of a running guest: with memory where that is possible, and back with all extras.
pub async fn snapshots(bench: &Bench, id: &InstanceId) {
    let family = || bench.backend.families().snapshots();
    let row = bench.row(id).await;
    bench
        .change(bench.backend.families().power(), &row, PowerRequest::Start)
        .await
        .unwrap();
    let row = bench.row(id).await;
    let memory = bench
        .backend
        .support(Operation::SnapshotMemory, Some(&row))
        .is_ready();
    let take = SnapshotRequest::Create(TakeSnapshot {
        name: "live".to_owned(),
        note: None,
        memory,
        ..TakeSnapshot::default()
    });
    let outcome = bench.change(family(), &row, take).await.unwrap();
    let said = outcome.consistency.expect("what was taken is not said");
    assert_ne!(said, Consistency::Offline, "it ran");
    assert!(!memory || said == Consistency::Memory);
    let detail = bench.backend.detail(&bench.cx(), id).await.unwrap();
    let live = detail.snapshots.iter().find(|s| s.name == "live").unwrap();
    assert_eq!(live.consistency, Some(said), "read back, it is another");
    assert!(live.current);
    assert_eq!(detail.instance.state, State::Running);

    bench.ready(id).await;
    let row = bench.row(id).await;
    let back = SnapshotRequest::Restore {
        name: "s1".to_owned(),
        stop: true,
        start: true,
        keep_present: Some("kept".to_owned()),
    };
    bench.change(family(), &row, back).await.unwrap();
    let detail = bench.backend.detail(&bench.cx(), id).await.unwrap();
    assert_eq!(detail.instance.state, State::Running);
    assert!(detail.snapshots.iter().any(|s| s.name == "kept"));
    let current: Vec<_> = detail.snapshots.iter().filter(|s| s.current).collect();
    assert_eq!(current.len(), 1);
    assert_eq!(current[0].name, "s1");
    let row = bench.row(id).await;
    bench
        .change(bench.backend.families().power(), &row, POWER_OFF)
        .await
        .unwrap();
}

/// A watch begins with everything and tells of a change, where there is one.
pub async fn watched(bench: &Bench, id: &InstanceId) {
    let Some(mut changes) = bench.backend.clone().watch() else {
        return;
    };
    let first = tokio::time::timeout(bench.patience, changes.next())
        .await
        .expect("a watch tells nothing")
        .unwrap()
        .unwrap();
    let Change::Reset(all) = first else {
        panic!("a watch begins with everything, not {first:?}");
    };
    assert!(all.instances.iter().any(|row| row.id == *id));
    let row = bench.row(id).await;
    bench
        .change(bench.backend.families().power(), &row, PowerRequest::Start)
        .await
        .unwrap();
    let told = async {
        while let Some(change) = changes.next().await {
            let rows = match change.unwrap() {
                Change::Upsert(row) => vec![*row],
                Change::Reset(all) => all.instances,
                _ => continue,
            };
            if rows
                .iter()
                .any(|row| row.id == *id && row.state == State::Running)
            {
                return;
            }
        }
        panic!("the watch ended");
    };
    tokio::time::timeout(bench.patience.max(Duration::from_secs(30)), told)
        .await
        .expect("the watch does not tell that it runs");
    let row = bench.row(id).await;
    bench
        .change(bench.backend.families().power(), &row, POWER_OFF)
        .await
        .unwrap();
}
