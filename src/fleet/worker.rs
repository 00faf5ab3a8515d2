//! One worker per context: asks, watches, backs off. It never disturbs another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use tokio::sync::{Notify, OnceCell, watch};

use super::cache;
use super::hub::{Fleet, Member};
use crate::backend::contract::{Change, ReadCx};
use crate::model::{Error, Inventory, Result};

/// Seconds to connect, unless the context says otherwise.
const CONNECT: u64 = 5;
/// Seconds between polls, unless the context says otherwise.
const INTERVAL: u64 = 5;
/// The first pause after a failure; doubled up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// Load of visible rows is read this often.
const SAMPLE: Duration = Duration::from_secs(5);
/// A long-lived worker writes its cache at most this often.
const SAVE: Duration = Duration::from_secs(10);

/// What a worker shares with the fleet.
pub struct Worker {
    pub(super) member: Arc<Member>,
    wake: Notify,
    /// Attempts that have ended, well or not.
    attempts: watch::Sender<u64>,
    once: OnceCell<bool>,
    woken: AtomicBool,
}

impl Worker {
    pub(super) fn new(member: Arc<Member>) -> Self {
        Self {
            member,
            wake: Notify::new(),
            attempts: watch::channel(0).0,
            once: OnceCell::new(),
            woken: AtomicBool::new(false),
        }
    }

    pub(super) fn wake(&self) {
        self.woken.store(true, Ordering::SeqCst);
        self.wake.notify_one();
    }

    pub(super) async fn first_attempt(&self) {
        let _ = self.attempts.subscribe().wait_for(|n| *n > 0).await;
    }

    fn ended(&self) {
        self.attempts.send_modify(|n| *n += 1);
    }

    fn deadlines(&self) -> (Duration, Duration) {
        let spec = &self.member.spec;
        (
            Duration::from_secs(spec.connect_timeout.unwrap_or(CONNECT)),
            Duration::from_secs(spec.read_timeout.unwrap_or(15)),
        )
    }
}

/// One-shot: asks once; later calls share the answer, except after a wake (a change was made).
pub(super) async fn ask_once(fleet: &Arc<Fleet>, n: usize) {
    let worker = Arc::clone(&fleet.workers[n]);
    let fresh = worker.once.get().is_some() && worker.woken.swap(false, Ordering::SeqCst);
    if fresh {
        attempt(fleet, n).await;
    } else {
        worker
            .once
            .get_or_init(|| async { attempt(fleet, n).await })
            .await;
    }
}

/// Asks once and takes the answer in. A hang ends at the context's own deadlines: the first sign
/// of life (an answer to the probe, or the inventory itself) must come within the connect deadline.
pub(super) async fn attempt(fleet: &Arc<Fleet>, n: usize) -> bool {
    let worker = &fleet.workers[n];
    let begun = Instant::now();
    let result = read(fleet, n).await;
    let ok = result.is_ok();
    match result {
        Ok(inventory) => {
            let latency = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            fleet.with_state(|state| state.reset(n, inventory, Some(latency)));
            save(fleet, n);
        }
        Err(error) => {
            tracing::info!(context = %worker.member.spec.name, %error, "no answer");
            fleet.with_state(|state| state.failed(n, error));
        }
    }
    worker.ended();
    ok
}

async fn read(fleet: &Arc<Fleet>, n: usize) -> Result<Inventory> {
    let worker = &fleet.workers[n];
    let (connect, limit) = worker.deadlines();
    let name = worker.member.spec.name.clone();
    let backend = Arc::clone(&worker.member.backend);
    let cx = ReadCx::quiet(limit);
    let known = fleet.with_state(|state| state.answered_at(n).is_some() && fleet.options.watch);
    let inventory =
        std::panic::AssertUnwindSafe(cx.within(&name, backend.inventory(&cx))).catch_unwind();
    tokio::pin!(inventory);
    let panicked = |_| {
        Error::backend(format!(
            "{name}: corral failed inside while reading it; see its log"
        ))
    };
    let probe = async {
        let cx = ReadCx::quiet(connect);
        cx.within(&name, backend.probe(&cx)).await
    };
    if known {
        return inventory.await.map_err(panicked)?;
    }
    tokio::pin!(probe);
    let silent = tokio::time::sleep(connect);
    tokio::pin!(silent);
    let mut probed = false;
    loop {
        tokio::select! {
            biased;
            result = &mut inventory => return result.map_err(panicked)?,
            facts = &mut probe, if !probed => {
                probed = true;
                match facts {
                    Ok(facts) => fleet.with_state(|state| state.facts(n, facts)),
                    // The inventory's own error says more; a hang of both is the deadline's.
                    Err(error) if error.is_temporary() => {}
                    Err(error) => tracing::debug!(context = %name, %error, "probe failed"),
                }
            }
            () = &mut silent, if !probed || fleet.with_state(|s| !s.has_facts(n)) => {
                return Err(Error::unreachable(format!(
                    "{name} does not answer: no connection in {} s",
                    connect.as_secs()
                ))
                .remedy(format!("Retry: corral context test {name}")));
            }
        }
    }
}

fn save(fleet: &Arc<Fleet>, n: usize) {
    if let Some(dir) = &fleet.options.cache {
        let (rows, at) = fleet.with_state(|state| (state.rows(n), state.answered_at(n)));
        let at = at.unwrap_or_else(Timestamp::now);
        cache::save(dir, &fleet.workers[n].member.spec, &rows, at);
    }
}

/// Keeps a worker alive for as long as the fleet is.
pub(super) async fn supervise(fleet: Weak<Fleet>, n: usize) {
    loop {
        let work = std::panic::AssertUnwindSafe(live(fleet.clone(), n))
            .catch_unwind()
            .await;
        let Some(strong) = fleet.upgrade() else {
            return;
        };
        if work.is_err() {
            let name = &strong.workers[n].member.spec.name;
            let error = Error::backend(format!(
                "{name}: corral failed inside while watching it; see its log"
            ));
            strong.with_state(|state| state.failed(n, error));
            strong.workers[n].ended();
        }
        drop(strong);
        tokio::time::sleep(SHORTEST).await;
    }
}

async fn live(fleet: Weak<Fleet>, n: usize) {
    let mut pause = SHORTEST;
    loop {
        let Some(strong) = fleet.upgrade() else {
            return;
        };
        let worker = Arc::clone(&strong.workers[n]);
        let good = match Arc::clone(&worker.member.backend).watch() {
            Some(_) if !attempt(&strong, n).await => false,
            Some(stream) => {
                drop(strong);
                follow(&fleet, n, stream).await
            }
            None => attempt(&strong, n).await,
        };
        let polled = worker.member.spec.interval.unwrap_or(INTERVAL).max(1);
        let wait = if good {
            pause = SHORTEST;
            Duration::from_secs(polled)
        } else {
            let jitter = pause.mul_f64(rand::random_range(0.0..0.3));
            let wait = pause + jitter;
            pause = (pause * 2).min(LONGEST);
            wait
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = worker.wake.notified() => pause = SHORTEST,
        }
    }
}

/// Takes in a watch until it ends. True if it ever said anything good.
async fn follow(
    fleet: &Weak<Fleet>,
    n: usize,
    mut stream: futures::stream::BoxStream<'static, Result<Change>>,
) -> bool {
    let mut good = false;
    let mut saved = Instant::now();
    let Some(worker) = fleet.upgrade().map(|f| Arc::clone(&f.workers[n])) else {
        return false;
    };
    loop {
        let item = tokio::select! {
            item = stream.next() => item,
            () = worker.wake.notified() => {
                // A change was made or the user asked: do not wait for the event.
                let Some(strong) = fleet.upgrade() else { return good };
                attempt(&strong, n).await;
                continue;
            }
        };
        let Some(strong) = fleet.upgrade() else {
            return good;
        };
        match item {
            Some(Ok(Change::Reset(inventory))) => {
                good = true;
                strong.with_state(|state| state.reset(n, inventory, None));
                worker.ended();
            }
            Some(Ok(Change::Upsert(row))) => strong.with_state(|state| state.upsert(n, *row)),
            Some(Ok(Change::Gone(id))) => strong.with_state(|state| state.gone(n, &id)),
            Some(Ok(Change::Event(event))) => strong.emit(event),
            Some(Ok(Change::Degraded(why))) => strong.with_state(|state| state.degraded(n, why)),
            Some(Err(error)) => {
                strong.with_state(|state| state.failed(n, error));
                worker.ended();
                return good;
            }
            None => return good,
        }
        if good && saved.elapsed() > SAVE {
            save(&strong, n);
            saved = Instant::now();
        }
    }
}

/// Reads the load of the rows on screen.
pub(super) async fn sample_loop(fleet: Weak<Fleet>) {
    loop {
        tokio::time::sleep(SAMPLE).await;
        let Some(strong) = fleet.upgrade() else {
            return;
        };
        let ids = strong.watched();
        for worker in &strong.workers {
            let name = &worker.member.spec.name;
            let own: Vec<_> = ids
                .iter()
                .filter(|id| id.context() == name)
                .cloned()
                .collect();
            let Some(family) = worker.member.backend.metrics() else {
                continue;
            };
            if own.is_empty() {
                continue;
            }
            // A slow context delays its own samples only until the next round.
            let cx = ReadCx::quiet(SAMPLE);
            if let Ok(samples) = cx.within(name, family.sample(&cx, &own)).await {
                strong.recorder.sampled(samples);
            }
        }
    }
}
