//! One worker per context: asks, watches, backs off. It never disturbs another.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::Instant;

use super::backoff::Backoff;
use super::hub::{Fleet, Member};
use crate::backend::contract::{Change, NoAsker, ReadCx};
use crate::model::{Error, Facts, Inventory, Result};

/// Seconds to connect, unless the context says otherwise.
const CONNECT: u64 = 5;
/// Seconds for one read, unless the context says otherwise.
const READ: u64 = 15;
/// What comes before the first question (a secret from a command) has a limit of its own. This one is only
/// for what does not keep it.
const READY: Duration = Duration::from_secs(12);
/// Seconds between polls, unless the context says otherwise.
const INTERVAL: u64 = 5;
/// A watch that held for so long and then ended is begun anew without a word.
const STEADY: Duration = Duration::from_secs(5);
/// A long-lived worker writes its cache at most this often.
const SAVE: Duration = Duration::from_secs(30);

/// What a worker shares with the fleet.
pub(super) struct Worker {
    /// Names its slot: a context that is opened again gets a new one, and whoever still works under the old
    /// one writes nowhere.
    pub(super) key: u64,
    pub(super) member: Arc<Member>,
    /// Other rows came on screen.
    pub(super) looked: Notify,
    wake: Notify,
    /// Number of the last question put to the context.
    asked: AtomicU64,
    /// Number of the last question that was answered or given up.
    answered: watch::Sender<u64>,
    /// Held while one question is under way: refreshes never overlap.
    asking: Mutex<()>,
}

impl Worker {
    /// A long-lived worker has its first question from the start. Where another one asked before, the questions
    /// are counted on: what waits for an answer to an earlier one has it with the first of these.
    pub(super) fn new(
        key: u64,
        member: Arc<Member>,
        long_lived: bool,
        before: Option<u64>,
    ) -> Self {
        let first = before.map_or(u64::from(long_lived), |last| last + 1);
        Self {
            key,
            member,
            looked: Notify::new(),
            wake: Notify::new(),
            asked: AtomicU64::new(first),
            answered: watch::channel(0).0,
            asking: Mutex::new(()),
        }
    }

    /// One more question; its number.
    pub(super) fn ask(&self) -> u64 {
        let question = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.wake.notify_one();
        question
    }

    /// Number of the last question.
    pub(super) fn question(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    /// It asks no more: nobody waits for it.
    pub(super) fn retire(&self) {
        self.answered.send_replace(u64::MAX);
    }

    /// A question waits that no answer was begun for.
    async fn woken(&self) {
        loop {
            self.wake.notified().await;
            if *self.answered.borrow() < self.question() {
                return;
            }
        }
    }

    /// Connect and read deadline.
    pub(super) fn deadlines(&self) -> (Duration, Duration) {
        let spec = &self.member.spec;
        (
            Duration::from_secs(spec.connect_timeout.unwrap_or(CONNECT)),
            Duration::from_secs(spec.read_timeout.unwrap_or(READ)),
        )
    }

    /// Waits for the answer to the last question put so far. A backend that does not even keep its
    /// deadline is not waited for.
    pub(super) async fn settled(&self) {
        let wanted = self.question();
        let (connect, read) = self.deadlines();
        let limit = READY + connect + read + Duration::from_secs(1);
        let mut answered = self.answered.subscribe();
        let answer = answered.wait_for(|n| *n >= wanted);
        let _ = tokio::time::timeout(limit, answer).await;
    }
}

/// A read of at most `limit` that asks nobody.
pub(super) fn read_within(limit: Duration) -> ReadCx {
    ReadCx {
        // By the runtime's clock, which tests can move.
        deadline: (Instant::now() + limit).into_std(),
        asker: Arc::new(NoAsker),
    }
}

/// One-shot: asks unless the last question has its answer already.
pub(super) async fn ask_once(fleet: &Arc<Fleet>, worker: &Arc<Worker>) {
    if worker.question() == 0 {
        let _ = worker
            .asked
            .compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst);
    }
    let (fleet, own) = (Arc::downgrade(fleet), Arc::clone(worker));
    // In a task of its own: one that blocks or panics holds up nobody.
    tokio::spawn(async move {
        let _one_at_a_time = own.asking.lock().await;
        if *own.answered.borrow() < own.question() {
            if is_ready(&fleet, &own).await {
                poll(&fleet, &own).await;
            }
            save(&fleet, &own);
        }
    });
    worker.settled().await;
}

/// Whether there is all that the first question needs; where not, that is the answer.
async fn is_ready(fleet: &Weak<Fleet>, worker: &Worker) -> bool {
    let question = worker.question();
    let name = &worker.member.spec.name;
    let cx = read_within(READY);
    let ready = AssertUnwindSafe(worker.member.backend.ready(&cx)).catch_unwind();
    let error = match tokio::time::timeout(READY, ready).await {
        Ok(Ok(Ok(()))) => return true,
        Ok(Ok(Err(error))) => error,
        Ok(Err(_)) => fault(name),
        Err(_) => Error::timed_out(format!("{name} was not ready in {} s", READY.as_secs())),
    };
    take(fleet, worker, question, None, Err(error));
    false
}

/// Asks for the inventory once and takes the answer in.
async fn poll(fleet: &Weak<Fleet>, worker: &Worker) -> bool {
    let question = worker.question();
    let begun = Instant::now();
    let backend = &worker.member.backend;
    let cx = read_within(worker.deadlines().1);
    let answer = first_answer(fleet, worker, backend.inventory(&cx)).await;
    take(fleet, worker, question, Some(begun.elapsed()), answer)
}

/// Takes an answer in, or the lack of one. True for a good one.
fn take(
    fleet: &Weak<Fleet>,
    worker: &Worker,
    question: u64,
    took: Option<Duration>,
    answer: Result<Inventory>,
) -> bool {
    let Some(fleet) = fleet.upgrade() else {
        return false;
    };
    let good = answer.is_ok();
    let polled = took.is_some();
    let events = fleet.with_slot(worker.key, |slot, protected| match answer {
        Ok(inventory) => {
            if let Some(took) = took {
                slot.view.latency_ms = u64::try_from(took.as_millis()).ok();
            }
            let events = slot.reset(inventory, polled, protected);
            (events, slot.take_gone())
        }
        Err(error) => {
            tracing::info!(context = %worker.member.spec.name, %error, "no answer");
            slot.failed(error, protected);
            (Vec::new(), Vec::new())
        }
    });
    let (events, gone) = events.unwrap_or_default();
    for event in events {
        fleet.emit(event);
    }
    fleet.recorder.gone(&gone);
    fleet.pending.answered(&worker.member.spec.name, question);
    worker
        .answered
        .send_modify(|answered| *answered = question.max(*answered));
    fleet.mark_dirty();
    good
}

/// Waits for an answer within the context's own deadlines: a first sign of life (an answer to the
/// probe, or the answer itself) within the connect deadline, all of it within the read deadline.
/// Once it is known who is at the other end, nobody is asked for that again.
async fn first_answer<T>(
    fleet: &Weak<Fleet>,
    worker: &Worker,
    answer: impl Future<Output = Result<T>>,
) -> Result<T> {
    let name = &worker.member.spec.name;
    let (connect, limit) = worker.deadlines();
    let answer = AssertUnwindSafe(tokio::time::timeout(limit, answer)).catch_unwind();
    let answer = async {
        match answer.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Error::timed_out(format!(
                "{name} does not answer: no inventory in {} s",
                limit.as_secs()
            ))
            .remedy(format!("Retry: corral context test {name}"))),
            Err(_) => Err(fault(name)),
        }
    };
    tokio::pin!(answer);
    let known = fleet.upgrade().and_then(|fleet| {
        fleet.with_slot(worker.key, |slot, _| {
            slot.view.health.is_ok() && slot.view.facts.is_some()
        })
    });
    if known == Some(true) {
        return answer.await;
    }
    let probe = AssertUnwindSafe(probe(worker, connect)).catch_unwind();
    tokio::pin!(probe);
    let silence = tokio::time::sleep(connect);
    tokio::pin!(silence);
    let mut probed = false;
    let mut alive = false;
    let result = loop {
        tokio::select! {
            biased;
            result = &mut answer => break result,
            facts = &mut probe, if !probed => {
                probed = true;
                if let Ok(Some(facts)) = facts {
                    alive = true;
                    note_facts(fleet, worker, facts);
                }
            }
            () = &mut silence, if !alive => {
                return Err(Error::unreachable(format!(
                    "{name} does not answer: no connection in {} s",
                    connect.as_secs()
                ))
                .remedy(format!("Retry: corral context test {name}")));
            }
        }
    };
    // Support and twins hang on the facts; a probe that hangs delays the answer only so long.
    if result.is_ok()
        && !probed
        && let Ok(Some(facts)) = probe.await
    {
        note_facts(fleet, worker, facts);
    }
    result
}

async fn probe(worker: &Worker, limit: Duration) -> Option<Facts> {
    let cx = read_within(limit);
    let backend = &worker.member.backend;
    match tokio::time::timeout(limit, backend.probe(&cx)).await {
        Ok(Ok(facts)) => Some(facts),
        // The inventory's own error says more.
        Ok(Err(error)) => {
            tracing::debug!(context = %worker.member.spec.name, %error, "the probe failed");
            None
        }
        Err(_) => None,
    }
}

fn note_facts(fleet: &Weak<Fleet>, worker: &Worker, facts: Facts) {
    if let Some(fleet) = fleet.upgrade() {
        fleet.with_slot(worker.key, |slot, _| slot.facts(facts));
        fleet.mark_dirty();
    }
}

fn fault(name: &str) -> Error {
    Error::backend(format!(
        "corral failed inside while reading {name}; its log has more"
    ))
}

/// Keeps what was answered, off the workers' threads.
fn save(fleet: &Weak<Fleet>, worker: &Arc<Worker>) {
    if let Some(fleet) = fleet.upgrade() {
        fleet.save(worker);
    }
}

/// Keeps a worker alive for as long as the fleet is.
pub(super) async fn supervise(fleet: Weak<Fleet>, worker: Arc<Worker>) {
    let mut backoff = Backoff::new();
    while fleet.strong_count() > 0 {
        let question = worker.question();
        let life = live(&fleet, &worker);
        if AssertUnwindSafe(life).catch_unwind().await.is_err() {
            let error = Err(fault(&worker.member.spec.name));
            take(&fleet, &worker, question, None, error);
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

async fn live(fleet: &Weak<Fleet>, worker: &Arc<Worker>) {
    let mut backoff = Backoff::new();
    let mut saved: Option<Instant> = None;
    let interval = worker.member.spec.interval.unwrap_or(INTERVAL).max(1);
    while fleet.strong_count() > 0 {
        if !is_ready(fleet, worker).await {
            // No retry of its own accord: a password manager would ask its user again and again.
            worker.woken().await;
            continue;
        }
        worker.looked.notify_one();
        let end = match Arc::clone(&worker.member.backend).watch() {
            Some(stream) => follow(fleet, worker, stream, &mut saved).await,
            None if poll(fleet, worker).await => End::Polled,
            None => End::Failed,
        };
        save_now_and_then(fleet, worker, &mut saved);
        let wait = match end {
            End::Steady => {
                backoff.reset();
                continue;
            }
            End::Polled => {
                backoff.reset();
                Duration::from_secs(interval)
            }
            End::Failed => backoff.pause(),
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = worker.woken() => backoff.reset(),
        }
    }
}

fn save_now_and_then(fleet: &Weak<Fleet>, worker: &Arc<Worker>, saved: &mut Option<Instant>) {
    if saved.is_none_or(|at| at.elapsed() >= SAVE) {
        save(fleet, worker);
        *saved = Some(Instant::now());
    }
}

/// How a round ended.
enum End {
    /// A good answer; the next question is due after the interval.
    Polled,
    /// A watch that held ended: begin anew at once.
    Steady,
    /// No answer.
    Failed,
}

/// Takes in a watch until it ends.
async fn follow(
    fleet: &Weak<Fleet>,
    worker: &Arc<Worker>,
    mut stream: BoxStream<'static, Result<Change>>,
    saved: &mut Option<Instant>,
) -> End {
    let name = &worker.member.spec.name;
    let question = worker.question();
    let begun = Instant::now();
    let mut early = Vec::new();
    let first = async {
        loop {
            match stream.next().await {
                Some(Ok(Change::Reset(inventory))) => return Ok(inventory),
                Some(Ok(change)) => early.push(change),
                Some(Err(error)) => return Err(error),
                None => return Err(Error::backend(format!("{name} ended the connection"))),
            }
        }
    };
    let first = first_answer(fleet, worker, first).await;
    if let (Ok(_), Some(fleet)) = (&first, fleet.upgrade()) {
        let latency = u64::try_from(begun.elapsed().as_millis()).ok();
        fleet.with_slot(worker.key, |slot, _| slot.view.latency_ms = latency);
    }
    if !take(fleet, worker, question, None, first) {
        return End::Failed;
    }
    for change in early {
        change_one(fleet, worker, change);
    }
    let held = Instant::now();
    loop {
        let question = worker.question();
        let item = tokio::select! {
            item = stream.next() => item,
            () = worker.woken() => {
                // A change was made or the user asked: do not wait for the event.
                if poll(fleet, worker).await {
                    continue;
                }
                return End::Failed;
            }
        };
        match item {
            Some(Ok(Change::Reset(inventory))) => {
                take(fleet, worker, question, None, Ok(inventory));
            }
            Some(Ok(change)) => change_one(fleet, worker, change),
            Some(Err(error)) => {
                take(fleet, worker, question, None, Err(error));
                return End::Failed;
            }
            None if held.elapsed() >= STEADY => return End::Steady,
            None => {
                let error = Error::unreachable(format!("{name} ended the connection"));
                take(fleet, worker, question, None, Err(error));
                return End::Failed;
            }
        }
        if fleet.strong_count() == 0 {
            return End::Failed;
        }
        save_now_and_then(fleet, worker, saved);
    }
}

fn change_one(fleet: &Weak<Fleet>, worker: &Worker, change: Change) {
    let Some(fleet) = fleet.upgrade() else { return };
    match change {
        Change::Upsert(row) => {
            let id = row.id.clone();
            let taken = fleet.with_slot(worker.key, |slot, protected| slot.upsert(*row, protected));
            if taken == Some(true) {
                fleet.pending.reported(&id);
            }
        }
        Change::Gone(id) => {
            let gone = fleet.with_slot(worker.key, |slot, _| {
                slot.gone(&id);
                slot.take_gone()
            });
            fleet.recorder.gone(&gone.unwrap_or_default());
            fleet.pending.reported(&id);
        }
        Change::Event(event) => fleet.emit(event),
        Change::Degraded(why) => {
            fleet.with_slot(worker.key, |slot, _| slot.degraded(why));
        }
        Change::Reset(_) => {}
    }
    fleet.mark_dirty();
}
