//! The suite.

use std::collections::BTreeSet;
use std::time::Duration;

use corral::backend::contract::{
    PauseRequest, PowerRequest, ReadCx, RemoveRequest, RestartMode, SnapshotRequest, TakeSnapshot,
};
use corral::model::{ErrorKind, InstanceId, Operation, State};

use crate::bench::{Bench, refused};
use crate::{around, devices, edit, identity, life, live, marks, running, transfer};

/// Everything, in an order that a real guest can go through once.
pub async fn run(bench: &Bench) {
    law(bench);
    lists(bench).await;
    deadlines(bench).await;
    let name = "contract-vm";
    let id = create(bench, name).await;
    around::all(bench).await;
    let side = bench.small("contract-side").await;
    marks::all(bench, &side).await;
    devices::all(bench, &side).await;
    edit::all(bench, &side).await;
    transfer::all(bench, &side).await;
    life::all(bench, &side, name).await;
    snapshots_offline(bench, &id).await;
    power(bench, &id).await;
    live::snapshots(bench, &id).await;
    live::watched(bench, &id).await;
    running::all(bench, &id).await;
    identity::stale_plans(bench, &id).await;
    delete(bench, &id).await;
    identity::reborn(bench, name).await;
}

/// `support(op, None)` is `No` exactly where the family is absent, always with a reason.
fn law(bench: &Bench) {
    for operation in Operation::ALL {
        let support = bench.backend.support(operation, None);
        let family = bench.backend.families().has(operation.family());
        assert_eq!(support.is_possible(), family, "{operation}");
        if !support.is_ready() {
            let why = support.reason().unwrap_or_default();
            assert!(why.len() > 3, "{operation}: no reason");
        }
    }
}

async fn lists(bench: &Bench) {
    let first = bench.backend.inventory(&bench.cx()).await.unwrap();
    assert!(first.complete);
    let ids: BTreeSet<String> = first
        .instances
        .iter()
        .map(|row| row.id.to_string())
        .collect();
    assert_eq!(
        ids.len(),
        first.instances.len(),
        "an instance is listed twice"
    );
    for row in &first.instances {
        assert_eq!(row.id.context(), bench.context);
        assert_eq!(row.context, bench.context);
        assert_eq!(row.backend, bench.backend.kind());
    }
    let second = bench.backend.inventory(&bench.cx()).await.unwrap();
    let uids = |list: &[corral::model::Instance]| -> BTreeSet<_> {
        list.iter()
            .map(|row| (row.id.to_string(), row.uid.clone()))
            .collect()
    };
    assert_eq!(
        uids(&first.instances),
        uids(&second.instances),
        "a uid changed between two looks"
    );
    let missing = bench
        .backend
        .detail(&bench.cx(), &bench.id("never-made"))
        .await;
    assert_eq!(missing.unwrap_err().kind, ErrorKind::NotFound);
}

/// A read whose time is up ends at once with `TimedOut`.
async fn deadlines(bench: &Bench) {
    let cx = ReadCx::quiet(Duration::ZERO);
    let id = bench.id("never-made");
    let reads = async {
        let listed = bench.backend.inventory(&cx).await;
        let probed = bench.backend.probe(&cx).await;
        let looked = bench.backend.detail(&cx, &id).await;
        [listed.err(), probed.err(), looked.err()]
    };
    let errors = tokio::time::timeout(Duration::from_secs(30), reads)
        .await
        .expect("a read outlived its deadline");
    for error in errors.into_iter().flatten() {
        assert!(
            matches!(error.kind, ErrorKind::TimedOut | ErrorKind::NotFound),
            "{error}"
        );
    }
}

/// Makes an instance; the ID is the server's to give.
pub async fn create(bench: &Bench, name: &str) -> InstanceId {
    let family = bench.backend.families().create().unwrap();
    let stub = bench.stub(name);
    let prepared = family
        .prepare(&bench.cx(), &stub, bench.request(name))
        .await
        .unwrap();
    refused(&prepared).unwrap();
    let listed = bench.backend.inventory(&bench.cx()).await.unwrap();
    assert!(
        listed.instances.iter().all(|row| row.name != name),
        "planning made it"
    );
    let outcome = bench
        .change(Some(family), &stub, bench.request(name))
        .await
        .unwrap();
    assert!(outcome.changed);
    let id = outcome.id.unwrap_or_else(|| bench.id(name));
    let row = bench.row(&id).await;
    assert_eq!(row.name, name);
    assert_eq!(row.state, State::Stopped);
    assert!(row.uid.is_some());
    assert_eq!(row.tags, ["contract"]);
    let again = family
        .prepare(&bench.cx(), &stub, bench.request(name))
        .await
        .unwrap();
    assert!(
        !again.refusals.is_empty() || again.notes.iter().any(|note| note.contains(name)),
        "a taken name was accepted without a word"
    );
    let odd = "bad\u{1b}[2Jname";
    let bad = family
        .prepare(&bench.cx(), &bench.stub(odd), bench.request(odd))
        .await;
    assert!(
        bad.is_err() || !bad.unwrap().refusals.is_empty(),
        "a name with control characters was accepted"
    );
    id
}

async fn snapshots_offline(bench: &Bench, id: &InstanceId) {
    let take = |name: &str| {
        SnapshotRequest::Create(TakeSnapshot {
            name: name.to_owned(),
            note: Some("note".to_owned()),
            memory: false,
            ..TakeSnapshot::default()
        })
    };
    let family = || bench.backend.families().snapshots();
    for name in ["s1", "s2"] {
        let row = bench.row(id).await;
        bench.change(family(), &row, take(name)).await.unwrap();
    }
    let detail = bench.backend.detail(&bench.cx(), id).await.unwrap();
    let names: BTreeSet<&str> = detail.snapshots.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["s1", "s2"]));
    for snapshot in &detail.snapshots {
        assert_eq!(
            snapshot.consistency,
            Some(corral::model::Consistency::Offline),
            "{}",
            snapshot.name
        );
        assert!(snapshot.created_at.is_some());
    }
    let row = bench.row(id).await;
    let twice = family()
        .unwrap()
        .prepare(&bench.cx(), &row, take("s1"))
        .await
        .unwrap();
    assert!(!twice.refusals.is_empty(), "the same snapshot twice");
    let odd = family()
        .unwrap()
        .prepare(&bench.cx(), &row, take("bad\u{7}"))
        .await;
    assert!(odd.is_err() || !odd.unwrap().refusals.is_empty());
    let gone = SnapshotRequest::Delete {
        names: vec!["never".to_owned()],
    };
    assert!(
        !bench.change(family(), &row, gone).await.unwrap().changed,
        "a missing snapshot is gone already"
    );
    let back = |name: &str| SnapshotRequest::Restore {
        name: name.to_owned(),
        stop: false,
        start: false,
        keep_present: None,
    };
    let missing = family()
        .unwrap()
        .prepare(&bench.cx(), &row, back("never"))
        .await;
    assert!(missing.is_err() || !missing.unwrap().refusals.is_empty());
    bench.change(family(), &row, back("s1")).await.unwrap();
    let row = bench.row(id).await;
    bench
        .change(
            family(),
            &row,
            SnapshotRequest::Delete {
                names: vec!["s2".to_owned()],
            },
        )
        .await
        .unwrap();
    let detail = bench.backend.detail(&bench.cx(), id).await.unwrap();
    assert_eq!(detail.snapshots.len(), 1);
}

async fn power(bench: &Bench, id: &InstanceId) {
    let backend = &bench.backend;
    let row = bench.row(id).await;
    bench
        .change(backend.families().power(), &row, PowerRequest::Start)
        .await
        .unwrap();
    let row = bench.row(id).await;
    assert_eq!(row.state, State::Running);
    assert!(
        !bench
            .change(backend.families().power(), &row, PowerRequest::Start)
            .await
            .unwrap()
            .changed
    );
    let restore = SnapshotRequest::Restore {
        name: "s1".to_owned(),
        stop: false,
        start: false,
        keep_present: None,
    };
    let error = bench
        .change(backend.families().snapshots(), &row, restore)
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains(&format!("top it first: corral stop {id}")),
        "{error}"
    );
    let remove = RemoveRequest {
        keep_disks: false,
        force: false,
    };
    assert!(
        bench
            .change(backend.families().remove(), &row, remove)
            .await
            .is_err(),
        "a running instance was deleted"
    );
    if backend.families().pause().is_some() {
        bench
            .change(backend.families().pause(), &row, PauseRequest::Pause)
            .await
            .unwrap();
        let row = bench.row(id).await;
        assert_eq!(row.state, State::Paused);
        let error = bench
            .change(backend.families().power(), &row, PowerRequest::Start)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("resume"), "{error}");
        assert!(
            !bench
                .change(backend.families().pause(), &row, PauseRequest::Pause)
                .await
                .unwrap()
                .changed
        );
        bench
            .change(backend.families().pause(), &row, PauseRequest::Resume)
            .await
            .unwrap();
    }
    let row = bench.row(id).await;
    assert_eq!(row.state, State::Running);
    if let Some(metrics) = backend.families().metrics() {
        let ids = [id.clone(), bench.id("never-made")];
        let samples = metrics.sample(&bench.cx(), &ids).await.unwrap();
        assert!(samples.iter().all(|(of, _)| of == id), "sampled a ghost");
    }
    for mode in [RestartMode::Force, RestartMode::Cold, RestartMode::Guest] {
        bench.ready(id).await;
        let row = bench.row(id).await;
        let restart = PowerRequest::Restart(mode);
        bench
            .change(backend.families().power(), &row, restart)
            .await
            .unwrap();
        assert_eq!(bench.row(id).await.state, State::Running, "{mode:?}");
    }
    bench.ready(id).await;
    let row = bench.row(id).await;
    assert_eq!(row.state, State::Running);
    bench
        .change(
            backend.families().power(),
            &row,
            PowerRequest::Stop {
                force: false,
                force_after: None,
            },
        )
        .await
        .unwrap();
    let row = bench.row(id).await;
    assert_eq!(row.state, State::Stopped);
    let again = PowerRequest::Stop {
        force: false,
        force_after: None,
    };
    assert!(
        !bench
            .change(backend.families().power(), &row, again)
            .await
            .unwrap()
            .changed
    );
}

pub async fn delete(bench: &Bench, id: &InstanceId) {
    let row = bench.row(id).await;
    let remove = RemoveRequest {
        keep_disks: false,
        force: false,
    };
    assert!(
        bench
            .change(bench.backend.families().remove(), &row, remove)
            .await
            .unwrap()
            .changed
    );
    let listed = bench.backend.inventory(&bench.cx()).await.unwrap();
    assert!(listed.instances.iter().all(|row| row.id != *id));
    assert!(
        !bench
            .change(bench.backend.families().remove(), &row, remove)
            .await
            .unwrap()
            .changed,
        "gone already is success"
    );
}
