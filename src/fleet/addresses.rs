//! Looks for the addresses of running guests, gently.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;

use super::hub::Fleet;
use super::worker::{Worker, read_within};
use crate::model::{Health, InstanceId};

/// At most four details a second and context.
const BETWEEN: Duration = Duration::from_millis(250);
/// An agent that hangs must not hold up the others, nor be asked by many at once.
const AT_ONCE: usize = 4;
/// The pause between two looks for guests that need one.
const ROUND: Duration = Duration::from_secs(2);
/// A guest without a known address is asked again after this many seconds.
const AGAIN_UNKNOWN: i64 = 60;
/// One with a known address, to confirm it.
const AGAIN_KNOWN: i64 = 300;

/// Looks for as long as the fleet lives.
pub(super) async fn keep_looking(fleet: Weak<Fleet>, worker: Arc<Worker>) {
    if !worker.member.spec.addresses {
        return;
    }
    loop {
        tokio::time::sleep(ROUND).await;
        let Some(strong) = fleet.upgrade() else {
            return;
        };
        let ids = due(&strong, &worker, true);
        drop(strong);
        ask(&fleet, &worker, ids).await;
    }
}

/// One look at every guest whose address is not known.
pub(super) async fn sweep(fleet: &Arc<Fleet>, worker: &Arc<Worker>) {
    if worker.member.spec.addresses {
        let ids = due(fleet, worker, false);
        ask(&Arc::downgrade(fleet), worker, ids).await;
    }
}

/// Guests to ask, those on screen first.
fn due(fleet: &Fleet, worker: &Worker, skip_recent: bool) -> Vec<InstanceId> {
    let now = Timestamp::now();
    let visible: std::collections::HashSet<InstanceId> = fleet
        .watched(&worker.member.spec.name)
        .into_iter()
        .collect();
    let ids = fleet.with_slot(worker.key, |slot, _| {
        if slot.view.health != Health::Ok {
            return Vec::new();
        }
        let mut ids = slot.without_addresses();
        ids.retain(|id| match slot.learnt_at(id) {
            Some((at, known)) if skip_recent => {
                let age = now.duration_since(at).as_secs();
                age >= if known { AGAIN_KNOWN } else { AGAIN_UNKNOWN }
            }
            _ => true,
        });
        ids
    });
    let mut ids = ids.unwrap_or_default();
    ids.sort_by_key(|id| !visible.contains(id));
    ids
}

async fn ask(fleet: &Weak<Fleet>, worker: &Arc<Worker>, ids: Vec<InstanceId>) {
    let (_, limit) = worker.deadlines();
    let mut running = FuturesUnordered::new();
    for id in ids {
        while running.len() >= AT_ONCE {
            running.next().await;
        }
        let fleet = fleet.clone();
        let backend = Arc::clone(&worker.member.backend);
        running.push(async move {
            let cx = read_within(limit);
            let answer = tokio::time::timeout(limit, backend.detail(&cx, &id)).await;
            if let Some(fleet) = fleet.upgrade() {
                match answer {
                    Ok(Ok(detail)) => fleet.note_detail(&detail),
                    // Asked, and no answer: the next look at it is a minute away.
                    _ => fleet.note_silence(&id),
                }
            }
        });
        let pause = tokio::time::sleep(BETWEEN);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => break,
                Some(()) = running.next(), if !running.is_empty() => {}
            }
        }
    }
    while running.next().await.is_some() {}
}
