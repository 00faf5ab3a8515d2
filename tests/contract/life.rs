//! Copies, other names, stale locks.

use corral::backend::contract::{CloneRequest, RenameRequest, UnlockRequest};
use corral::model::{InstanceId, Operation, State};

use crate::bench::Bench;

/// In the end the instance is gone.
pub async fn all(bench: &Bench, id: &InstanceId, taken: &str) {
    if bench.can(Operation::Unlock) {
        bench
            .is_so(bench.backend.families().unlock(), id, UnlockRequest)
            .await;
    }
    for (operation, linked) in [(Operation::Clone, false), (Operation::LinkedClone, true)] {
        if bench.can(operation) {
            clone(bench, id, operation, linked).await;
        }
    }
    let id = if bench.can(Operation::Rename) {
        rename(bench, id, taken).await
    } else {
        id.clone()
    };
    bench.remove(&id).await;
}

async fn clone(bench: &Bench, id: &InstanceId, operation: Operation, linked: bool) {
    let family = || bench.backend.families().clone_instance();
    let request = |name: &str, snapshot: Option<&str>| CloneRequest {
        name: name.to_owned(),
        linked,
        snapshot: snapshot.map(str::to_owned),
        keep_identity: true,
        start: false,
    };
    let row = bench.row(id).await;
    if !bench.backend.support(operation, Some(&row)).is_ready() {
        bench
            .refuses(family(), id, request("contract-copy", None))
            .await;
        return;
    }
    let copy = bench
        .change(family(), &row, request("contract-copy", None))
        .await;
    let copy = match copy {
        Ok(outcome) => outcome.id.expect("which one is it?"),
        // Possible as such, and not of what it is here: with the remedy.
        Err(error) if linked => {
            assert!(error.remedy.is_some(), "{error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let (old, new) = (bench.detail(id).await, bench.detail(&copy).await);
    assert_eq!(new.instance.name, "contract-copy");
    assert_eq!(new.instance.state, State::Stopped);
    assert_ne!(old.instance.uid, new.instance.uid);
    assert_eq!(old.instance.cpus, new.instance.cpus);
    assert_eq!(old.instance.tags, new.instance.tags);
    assert_eq!(old.disks.len(), new.disks.len());
    assert_eq!(old.disks[0].size_bytes, new.disks[0].size_bytes);
    assert_ne!(old.disks[0].source, new.disks[0].source);
    assert_eq!(new.disks[0].backing.is_some(), linked);
    for nic in &new.nics {
        assert!(old.nics.iter().all(|n| n.mac != nic.mac), "the same MAC");
    }
    assert!(new.snapshots.is_empty());
    let list = bench.backend.inventory(&bench.cx()).await.unwrap();
    assert!(list.instances.iter().any(|row| row.id == copy));
    bench
        .refuses(family(), id, request("bad\u{1b}[2J", None))
        .await;
    bench
        .refuses(family(), id, request("contract-other", Some("never")))
        .await;
    bench.remove(&copy).await;
    assert_eq!(bench.row(id).await.state, State::Stopped);
}

/// Gives the ID from now on.
async fn rename(bench: &Bench, id: &InstanceId, taken: &str) -> InstanceId {
    let family = || bench.backend.families().rename();
    let to = |name: &str| RenameRequest {
        to: name.to_owned(),
    };
    let old = bench.detail(id).await;
    bench.is_so(family(), id, to(&old.instance.name)).await;
    bench.refuses(family(), id, to("bad\u{1b}[2J")).await;
    if id.key() == old.instance.name {
        bench.refuses(family(), id, to(taken)).await;
    }
    let outcome = bench.once(family(), id, to("contract-renamed")).await;
    let new_id = outcome.id.unwrap_or_else(|| id.clone());
    let new = bench.detail(&new_id).await;
    assert_eq!(new.instance.name, "contract-renamed");
    assert_eq!(new.disks.len(), old.disks.len());
    let list = bench.backend.inventory(&bench.cx()).await.unwrap();
    let named = |name: &str| list.instances.iter().any(|row| row.name == name);
    assert!(named("contract-renamed") && !named(&old.instance.name));
    new_id
}
