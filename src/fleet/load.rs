//! Reads the load of the rows on screen, each context at its own pace.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::hub::Fleet;
use super::worker::{Worker, read_within};
use crate::model::{Health, Usage};

/// Between two readings. Rates are over this time.
const EVERY: Duration = Duration::from_secs(5);
/// Scrolling asks at once, but no more often than this.
const LEAST: Duration = Duration::from_secs(1);

/// Samples for as long as the fleet lives.
pub(super) async fn sample(fleet: Weak<Fleet>, worker: Arc<Worker>) {
    loop {
        while worker.member.backend.families().metrics().is_none() {
            // It may come: a backend that is not ready has no families yet. Being ready is told here too.
            worker.looked.notified().await;
        }
        if !round(&fleet, &worker).await {
            return;
        }
        let Some(next) = fleet.upgrade().map(|fleet| next(fleet.began)) else {
            return;
        };
        tokio::time::sleep(LEAST).await;
        // Ends early when other rows come on screen.
        let _ = tokio::time::timeout_at(next, worker.looked.notified()).await;
    }
}

/// All contexts read at the same moments: what they find is one new view, not one for each.
fn next(began: Instant) -> Instant {
    let now = Instant::now();
    let nanos = EVERY.as_nanos() - (now - began).as_nanos() % EVERY.as_nanos();
    let left = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    now + if left < LEAST { left + EVERY } else { left }
}

async fn round(fleet: &Weak<Fleet>, worker: &Worker) -> bool {
    let name = &worker.member.spec.name;
    let Some(strong) = fleet.upgrade() else {
        return false;
    };
    let ids = strong.watched(name);
    let healthy = strong.with_slot(worker.key, |slot, _| slot.view.health == Health::Ok);
    drop(strong);
    let Some(family) = worker.member.backend.families().metrics() else {
        return false;
    };
    if ids.is_empty() || healthy != Some(true) {
        return true;
    }
    let cx = read_within(EVERY);
    let Ok(Ok(samples)) = tokio::time::timeout(EVERY, family.sample(&cx, &ids)).await else {
        return true;
    };
    let Some(strong) = fleet.upgrade() else {
        return false;
    };
    strong.with_slot(worker.key, |slot, protected| {
        for (id, sample) in &samples {
            let usage = Usage {
                cpu_percent: sample.cpu_percent,
                memory_bytes: sample.memory_bytes,
            };
            slot.usage(id, usage, protected);
        }
    });
    strong.recorder.sampled(samples);
    strong.mark_dirty();
    true
}
