//! A plan holds for one incarnation in one state, and for nothing else.

use corral::backend::contract::{PowerRequest, RemoveRequest, SnapshotRequest, TakeSnapshot};
use corral::model::{ErrorKind, InstanceId, State};

use crate::bench::Bench;
use crate::suite;

/// A plan for a state that is no more is a conflict, and nothing is done.
pub async fn stale_plans(bench: &Bench, id: &InstanceId) {
    let row = bench.row(id).await;
    let snapshots = bench.backend.families().snapshots().unwrap();
    let take = SnapshotRequest::Create(TakeSnapshot {
        name: "late".to_owned(),
        note: None,
        memory: false,
        ..TakeSnapshot::default()
    });
    let prepared = snapshots.prepare(&bench.cx(), &row, take).await.unwrap();
    bench
        .change(bench.backend.families().power(), &row, PowerRequest::Start)
        .await
        .unwrap();
    let before = bench.calls.as_ref().map(|calls| calls());
    let error = snapshots.run(&bench.task(id), prepared).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert_eq!(before, bench.calls.as_ref().map(|calls| calls()));
    let detail = bench.backend.detail(&bench.cx(), id).await.unwrap();
    assert!(detail.snapshots.iter().all(|s| s.name != "late"));

    // Planning looks and does nothing else.
    let row = bench.row(id).await;
    let off = PowerRequest::Stop {
        force: true,
        force_after: None,
    };
    let power = bench.backend.families().power().unwrap();
    let first = power.prepare(&bench.cx(), &row, off.clone()).await.unwrap();
    let second = power.prepare(&bench.cx(), &row, off.clone()).await.unwrap();
    assert_eq!(first.token, second.token, "planning changed something");
    assert_eq!(first.steps, second.steps);
    assert_eq!(before, bench.calls.as_ref().map(|calls| calls()));
    assert_eq!(bench.row(id).await.state, State::Running);

    // Of two plans for the same thing one runs.
    power.run(&bench.task(id), first).await.unwrap();
    let error = power.run(&bench.task(id), second).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
}

/// Another machine under the same ID is not the one that a plan was made for.
pub async fn reborn(bench: &Bench, name: &str) {
    let id = suite::create(bench, name).await;
    let old = bench.row(&id).await;
    let power = bench.backend.families().power().unwrap();
    let plan = power
        .prepare(&bench.cx(), &old, PowerRequest::Start)
        .await
        .unwrap();
    let family = bench.backend.families().remove().unwrap();
    let remove = RemoveRequest {
        keep_disks: false,
        force: true,
    };
    let token = family
        .prepare(&bench.cx(), &old, remove)
        .await
        .unwrap()
        .token;
    suite::delete(bench, &id).await;
    let again = suite::create(bench, name).await;
    let new = bench.row(&again).await;
    assert_ne!(old.uid, new.uid, "the same uid for another machine");
    let error = power.run(&bench.task(&id), plan).await.unwrap_err();
    assert!(
        matches!(error.kind, ErrorKind::Conflict | ErrorKind::NotFound),
        "{error}"
    );
    if again == id {
        // Refused outright, or a plan that the engine sees to be another one by its token.
        match family.prepare(&bench.cx(), &old, remove).await {
            Err(error) => assert_eq!(error.kind, ErrorKind::Conflict, "{error}"),
            Ok(prepared) => assert_ne!(prepared.token, token, "two machines, one token"),
        }
    }
    assert_eq!(bench.row(&again).await.state, State::Stopped);
    suite::delete(bench, &again).await;
}
