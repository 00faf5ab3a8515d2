//! The fleet against backends that hang, fail, flap, panic and count.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use jiff::Timestamp;
use tokio::sync::mpsc;

use super::*;
use crate::backend::contract::{Backend, Change, ReadCx};
use crate::model::{
    Address, Check, ContextSpec, Detail, Error, Facts, FleetView, Health, Host, Instance,
    InstanceId, InstanceKind, Inventory, Kind, Operation, Result, Scope, State, Support,
};

mod arranging;

type Stream = mpsc::UnboundedReceiver<Result<Change>>;

/// What the fake does when asked.
#[derive(Clone)]
enum Mode {
    Answer(Inventory),
    Fail(Error),
    Hang,
    Panic,
}

struct Fake {
    mode: Mutex<Mode>,
    server: Mutex<Option<String>>,
    streams: Mutex<Vec<Stream>>,
    lists: AtomicUsize,
    running: AtomicUsize,
    overlaps: AtomicUsize,
    details: AtomicUsize,
    slow: Duration,
}

impl Fake {
    fn new(mode: Mode) -> Arc<Self> {
        Self::slow(mode, Duration::ZERO)
    }

    fn slow(mode: Mode, slow: Duration) -> Arc<Self> {
        Arc::new(Self {
            mode: Mutex::new(mode),
            server: Mutex::new(None),
            streams: Mutex::new(Vec::new()),
            lists: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            overlaps: AtomicUsize::new(0),
            details: AtomicUsize::new(0),
            slow,
        })
    }

    fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    fn lists(&self) -> usize {
        self.lists.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Backend for Fake {
    fn kind(&self) -> Kind {
        Kind::read("fake")
    }

    fn support(&self, _: Operation, _: Option<&Instance>) -> Support {
        Support::Native
    }

    fn families(&self) -> &dyn crate::backend::contract::Families {
        &crate::backend::contract::NoFamilies
    }

    async fn probe(&self, _: &ReadCx) -> Result<Facts> {
        let mode = self.mode.lock().unwrap().clone();
        match mode {
            Mode::Hang => std::future::pending().await,
            Mode::Fail(error) => Err(error),
            _ => Ok(Facts {
                server: self.server.lock().unwrap().clone(),
                ..Facts::default()
            }),
        }
    }

    async fn inventory(&self, _: &ReadCx) -> Result<Inventory> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        if self.running.fetch_add(1, Ordering::SeqCst) > 0 {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        tokio::time::sleep(self.slow).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        let mode = self.mode.lock().unwrap().clone();
        match mode {
            Mode::Answer(mut inventory) => {
                let now = Timestamp::now();
                inventory.observed_at = now;
                for row in &mut inventory.instances {
                    row.observed_at = now;
                }
                Ok(inventory)
            }
            Mode::Fail(error) => Err(error),
            Mode::Hang => std::future::pending().await,
            Mode::Panic => panic!("a fault in a backend"),
        }
    }

    async fn detail(&self, _: &ReadCx, id: &InstanceId) -> Result<Detail> {
        self.details.fetch_add(1, Ordering::SeqCst);
        let mut instance = row(id.context(), id.key(), State::Running);
        instance.uid = Some(format!("uid-{}", id.key()));
        instance.addresses = Some(vec![Address {
            ip: "10.0.0.7".to_owned(),
            nic: None,
            source: Some("agent".to_owned()),
        }]);
        Ok(Detail {
            instance,
            disks: Vec::new(),
            nics: Vec::new(),
            snapshots: Vec::new(),
            firmware: None,
            facts: Vec::new(),
            pending: Vec::new(),
            problems: Vec::new(),
            native: None,
        })
    }

    fn watch(self: Arc<Self>) -> Option<BoxStream<'static, Result<Change>>> {
        let mut streams = self.streams.lock().unwrap();
        let mut stream = (!streams.is_empty()).then(|| streams.remove(0))?;
        Some(futures::stream::poll_fn(move |cx| stream.poll_recv(cx)).boxed())
    }

    async fn doctor(&self, _: &ReadCx) -> Vec<Check> {
        Vec::new()
    }
}

fn row(context: &str, key: &str, state: State) -> Instance {
    let id = InstanceId::new(context, None, key);
    Instance::new(
        id,
        Kind::read("fake"),
        InstanceKind::Vm,
        state,
        Timestamp::now(),
    )
}

fn rows(context: &str, keys: &[&str]) -> Mode {
    Mode::Answer(list(context, keys))
}

fn list(context: &str, keys: &[&str]) -> Inventory {
    let mut inventory = Inventory::empty(Timestamp::now());
    inventory.instances = keys
        .iter()
        .map(|key| row(context, key, State::Running))
        .collect();
    inventory
}

fn member(name: &str, fake: &Arc<Fake>) -> Member {
    let mut spec = ContextSpec::new(name, Kind::read("fake"));
    spec.configured = true;
    Member {
        spec,
        backend: Arc::clone(fake) as Arc<dyn Backend>,
    }
}

fn long_lived() -> FleetOptions {
    FleetOptions {
        watch: true,
        ..FleetOptions::default()
    }
}

fn ids(view: &FleetView) -> Vec<String> {
    view.instances.iter().map(|r| r.id.to_string()).collect()
}

fn down() -> Mode {
    Mode::Fail(Error::unreachable("nobody there"))
}

/// Waits until the view is as wanted. Time is the runtime's, so a paused clock runs on.
async fn until(fleet: &Fleet, what: &str, wanted: impl Fn(&FleetView) -> bool) -> Arc<FleetView> {
    for _ in 0..20_000 {
        let view = fleet.view();
        if wanted(&view) {
            return view;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never came: {what}; last was {:?}", fleet.view());
}

#[tokio::test(start_paused = true)]
async fn req_01_a_dead_context_is_marked_at_its_own_deadline_and_holds_up_nobody() {
    let dead = Fake::new(Mode::Hang);
    let good = Fake::new(rows("good", &["web"]));
    let fleet = Fleet::start(
        vec![member("dead", &dead), member("good", &good)],
        long_lived(),
    );
    let begun = tokio::time::Instant::now();
    let only_good = Scope {
        contexts: vec!["good".to_owned()],
        ..Scope::default()
    };
    let view = fleet.settle(&only_good).await;
    assert_eq!(ids(&view), ["good/web"]);
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(view.context("dead").unwrap().health, Health::Connecting);
    let view = fleet.settle(&Scope::default()).await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(6));
    let Health::Failed(error) = &view.context("dead").unwrap().health else {
        panic!("{view:?}");
    };
    assert!(
        error.to_string().contains("no connection in 5 s"),
        "{error}"
    );
    assert_eq!(error.context.as_deref(), Some("dead"));
}

#[tokio::test(start_paused = true)]
async fn one_shot_asks_only_what_is_in_scope_and_only_once() {
    let a = Fake::new(rows("a", &["x"]));
    let b = Fake::new(rows("b", &["y"]));
    let fleet = Fleet::start(
        vec![member("a", &a), member("b", &b)],
        FleetOptions::default(),
    );
    let scope = Scope {
        contexts: vec!["a".to_owned()],
        ..Scope::default()
    };
    fleet.settle(&scope).await;
    let view = fleet.settle(&scope).await;
    assert_eq!((a.lists(), b.lists()), (1, 0));
    assert_eq!(ids(&view), ["a/x"]);
    assert!(!view.context("b").unwrap().complete, "never asked");
    fleet.refresh(Some("a"));
    fleet.settle(&Scope::default()).await;
    assert_eq!((a.lists(), b.lists()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn req_06_one_refresh_is_one_call_and_none_overlap() {
    let keys: Vec<String> = (0..300).map(|n| format!("vm{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let fake = Fake::slow(rows("a", &keys), Duration::from_millis(700));
    let fleet = Fleet::start(vec![member("a", &fake)], long_lived());
    fleet.settle(&Scope::default()).await;
    assert_eq!(fake.lists(), 1);
    fleet.refresh(None);
    fleet.settle(&Scope::default()).await;
    assert_eq!(fake.lists(), 2);
    for _ in 0..50 {
        fleet.refresh(None);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    fleet.settle(&Scope::default()).await;
    assert!(fake.lists() <= 4, "{}", fake.lists());
    assert_eq!(fake.overlaps.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn req_04_a_failing_context_keeps_its_rows_as_unknown_and_comes_back() {
    let fake = Fake::new(rows("a", &["web"]));
    let fleet = Fleet::start(vec![member("a", &fake)], long_lived());
    fleet.settle(&Scope::default()).await;
    fake.set(down());
    let view = until(&fleet, "stale", |v| !v.contexts[0].health.is_ok()).await;
    assert!(matches!(view.contexts[0].health, Health::Stale(_)));
    let web = &view.instances[0];
    assert_eq!(web.state, State::Unknown);
    assert_eq!(web.last_state, Some(State::Running));
    assert!(web.stale);
    fake.set(rows("a", &["web"]));
    fleet.refresh(Some("a"));
    let view = fleet.settle(&Scope::default()).await;
    assert_eq!(view.instances[0].state, State::Running);
    assert!(!view.instances[0].stale);
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_and_a_refresh_does_not_wait() {
    let fake = Fake::new(down());
    let fleet = Fleet::start(vec![member("a", &fake)], long_lived());
    tokio::time::sleep(Duration::from_secs(600)).await;
    let tries = fake.lists();
    assert!((10..=20).contains(&tries), "{tries}");
    fleet.refresh(None);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(fake.lists(), tries + 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_stays_in_its_own_context() {
    let bad = Fake::new(Mode::Panic);
    let good = Fake::new(rows("good", &["web"]));
    let fleet = Fleet::start(
        vec![member("bad", &bad), member("good", &good)],
        long_lived(),
    );
    let view = fleet.settle(&Scope::default()).await;
    assert!(matches!(view.contexts[0].health, Health::Failed(_)));
    assert_eq!(ids(&view), ["good/web"]);
    bad.set(rows("bad", &["late"]));
    until(&fleet, "recovered", |v| v.contexts[0].health.is_ok()).await;
}

#[tokio::test(start_paused = true)]
async fn req_15_ids_listed_twice_are_shown_once_with_a_problem() {
    let mut twice = list("a", &["vm10", "vm2", "vm2"]);
    twice.instances[2].name = "other".to_owned();
    let fleet = Fleet::start(
        vec![member("a", &Fake::new(Mode::Answer(twice)))],
        FleetOptions::default(),
    );
    let view = fleet.settle(&Scope::default()).await;
    assert_eq!(ids(&view), ["a/vm2", "a/vm10"]);
    assert_eq!(view.contexts[0].count, 2);
    assert!(view.contexts[0].problems[0].message.contains("twice"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_changes_rows_and_its_end_is_noticed() {
    let fake = Fake::new(rows("a", &["web", "db"]));
    let (tell, stream) = mpsc::unbounded_channel();
    fake.streams.lock().unwrap().push(stream);
    let fleet = Fleet::start(vec![member("a", &fake)], long_lived());
    tell.send(Ok(Change::Reset(list("a", &["web", "db"]))))
        .unwrap();
    fleet.settle(&Scope::default()).await;
    assert_eq!(fake.lists(), 0, "the watch lists by itself");
    let mut stopped = row("a", "web", State::Stopped);
    tell.send(Ok(Change::Upsert(Box::new(stopped.clone()))))
        .unwrap();
    until(&fleet, "stopped", |v| {
        v.instances[1].state == State::Stopped
    })
    .await;
    // An answer that is late changes nothing.
    stopped.observed_at = Timestamp::UNIX_EPOCH;
    stopped.state = State::Crashed;
    tell.send(Ok(Change::Upsert(Box::new(stopped)))).unwrap();
    tell.send(Ok(Change::Gone(InstanceId::new("a", None, "db"))))
        .unwrap();
    let view = until(&fleet, "gone", |v| v.instances.len() == 1).await;
    assert_eq!(view.instances[0].state, State::Stopped);
    tell.send(Ok(Change::Degraded("one node is silent".to_owned())))
        .unwrap();
    until(&fleet, "degraded", |v| !v.contexts[0].complete).await;
    fake.set(down());
    drop(tell);
    let view = until(&fleet, "stale", |v| !v.contexts[0].health.is_ok()).await;
    assert_eq!(view.instances[0].state, State::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_row_missing_from_half_an_answer_stays_as_unknown() {
    let fake = Fake::new(rows("a", &["web", "db"]));
    let fleet = Fleet::start(vec![member("a", &fake)], FleetOptions::default());
    fleet.settle(&Scope::default()).await;
    let mut half = list("a", &["web"]);
    half.complete = false;
    fake.set(Mode::Answer(half));
    fleet.refresh(None);
    let view = fleet.settle(&Scope::default()).await;
    assert_eq!(ids(&view), ["a/db", "a/web"]);
    assert_eq!(view.instances[0].state, State::Unknown);
    assert_eq!(view.instances[1].state, State::Running);
    assert!(!view.contexts[0].complete);
    fake.set(rows("a", &["web"]));
    fleet.refresh(None);
    assert_eq!(ids(&*fleet.settle(&Scope::default()).await), ["a/web"]);
}

#[tokio::test(start_paused = true)]
async fn guests_of_a_silent_host_are_unknown_for_as_long_as_it_is() {
    let mut all = list("a", &["web"]);
    all.instances[0].host = Some("n2".to_owned());
    let fake = Fake::new(Mode::Answer(all));
    let fleet = Fleet::start(vec![member("a", &fake)], FleetOptions::default());
    fleet.settle(&Scope::default()).await;
    let mut half = list("a", &[]);
    half.complete = false;
    half.hosts.push(Host {
        online: false,
        ..Host::new("a", "n2")
    });
    fake.set(Mode::Answer(half));
    for _ in 0..5 {
        fleet.refresh(None);
        let view = fleet.settle(&Scope::default()).await;
        assert_eq!(view.instances[0].state, State::Unknown);
    }
}

#[tokio::test(start_paused = true)]
async fn req_37_pending_stays_until_the_backend_agrees() {
    let fake = Fake::slow(rows("a", &["web"]), Duration::from_millis(300));
    let fleet = Fleet::start(vec![member("a", &fake)], long_lived());
    fleet.settle(&Scope::default()).await;
    let id = InstanceId::new("a", None, "web");
    fleet.set_pending(&id, "stop");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(fleet.pending().get(&id).map(String::as_str), Some("stop"));
    fleet.clear_pending(&id);
    assert!(fleet.pending().contains_key(&id), "nobody has looked yet");
    fleet.settle(&Scope::default()).await;
    assert!(fleet.pending().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_cache_is_shown_first_and_never_as_running() {
    let dir = tempfile::tempdir().unwrap();
    let options = || FleetOptions {
        cache: Some(dir.path().to_owned()),
        ..FleetOptions::default()
    };
    let fake = Fake::new(rows("a", &["web"]));
    let fleet = Fleet::start(vec![member("a", &fake)], options());
    fleet.settle(&Scope::default()).await;
    fleet.sweep_addresses(&Scope::default()).await;
    fleet.shutdown().await;
    let fleet = Fleet::start(vec![member("a", &Fake::new(Mode::Hang))], options());
    let view = fleet.view();
    assert_eq!(ids(&view), ["a/web"]);
    assert!(view.contexts[0].from_cache && view.contexts[0].answered_at.is_some());
    let web = &view.instances[0];
    assert_eq!(
        (web.state, web.last_state),
        (State::Unknown, Some(State::Running))
    );
    assert_eq!(web.uid.as_deref(), Some("uid-web"), "learnt before");
    let view = fleet.settle(&Scope::default()).await;
    assert!(matches!(view.contexts[0].health, Health::Stale(_)));
    assert_eq!(ids(&view), ["a/web"]);
}

#[tokio::test(start_paused = true)]
async fn req_34_addresses_are_looked_for_gently_and_the_last_known_is_marked() {
    let keys: Vec<String> = (0..12).map(|n| format!("vm{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let fake = Fake::new(rows("a", &keys));
    let options = FleetOptions {
        addresses: true,
        ..long_lived()
    };
    let fleet = Fleet::start(vec![member("a", &fake)], options);
    fleet.settle(&Scope::default()).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let asked = fake.details.load(Ordering::SeqCst);
    assert!((1..=5).contains(&asked), "{asked} in about a second");
    let has = |v: &FleetView| v.instances.iter().all(|r| r.addresses.is_some());
    until(&fleet, "all addresses", has).await;
    assert_eq!(fake.details.load(Ordering::SeqCst), 12, "each once");
    let mut silent = row("a", "vm0", State::Running);
    silent.agent = Some(false);
    fake.set(Mode::Answer(Inventory {
        instances: vec![silent],
        ..Inventory::empty(Timestamp::now())
    }));
    fleet.refresh(None);
    let view = fleet.settle(&Scope::default()).await;
    assert!(is_last_known(
        &view.instances[0].addresses.as_ref().unwrap()[0]
    ));
}

#[tokio::test(start_paused = true)]
async fn a_server_reached_twice_is_listed_once_where_one_was_only_found() {
    let (own, found) = (
        Fake::new(rows("own", &["x"])),
        Fake::new(rows("found", &["x"])),
    );
    for fake in [&own, &found] {
        *fake.server.lock().unwrap() = Some("same".to_owned());
    }
    let mut discovered = member("found", &found);
    discovered.spec.configured = false;
    let fleet = Fleet::start(
        vec![discovered, member("own", &own)],
        FleetOptions::default(),
    );
    let view = fleet.settle(&Scope::default()).await;
    assert_eq!(ids(&view), ["own/x"]);
    assert!(
        view.contexts[0].problems[0]
            .message
            .contains("same server as own")
    );
    assert_eq!(view.contexts[0].count, 0);
}

#[tokio::test(start_paused = true)]
async fn protection_is_laid_over_and_taken_off_again() {
    let fake = Fake::new(rows("a", &["web"]));
    let fleet = Fleet::start(vec![member("a", &fake)], FleetOptions::default());
    fleet.settle(&Scope::default()).await;
    fleet.set_protected(std::iter::once("a/web".to_owned()).collect());
    assert!(fleet.view().instances[0].protected);
    fleet.set_protected(std::collections::HashSet::default());
    assert!(!fleet.view().instances[0].protected);
}

#[tokio::test(start_paused = true)]
async fn many_changes_are_few_views_that_share_their_rows() {
    let fake = Fake::new(down());
    let (tell, stream) = mpsc::unbounded_channel();
    fake.streams.lock().unwrap().push(stream);
    let fleet = Fleet::start(vec![member("a", &fake)], long_lived());
    let keys: Vec<String> = (0..2000).map(|n| format!("vm{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    tell.send(Ok(Change::Reset(list("a", &keys)))).unwrap();
    let before = fleet.settle(&Scope::default()).await;
    let mut last = None;
    for n in 0..5000 {
        let mut changed = row("a", "vm7", State::Running);
        changed.cpus = Some(n);
        last = changed.cpus;
        tell.send(Ok(Change::Upsert(Box::new(changed)))).unwrap();
        if n % 500 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let after = until(&fleet, "the last change", |v| v.instances[7].cpus == last).await;
    assert!(after.generation - before.generation < 20);
    assert!(Arc::ptr_eq(&before.instances[8], &after.instances[8]));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let quiet = fleet.view().generation;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        fleet.view().generation,
        quiet,
        "nothing changed, nothing is published"
    );
}

#[tokio::test(start_paused = true)]
async fn state_changes_seen_by_polling_become_events() {
    let dir = tempfile::tempdir().unwrap();
    let fake = Fake::new(rows("a", &["web"]));
    let options = FleetOptions {
        state: Some(dir.path().to_owned()),
        ..long_lived()
    };
    let fleet = Fleet::start(vec![member("a", &fake)], options);
    fleet.settle(&Scope::default()).await;
    let mut events = fleet.events();
    let mut stopped = list("a", &["web"]);
    stopped.instances[0].state = State::Stopped;
    fake.set(Mode::Answer(stopped));
    fleet.refresh(None);
    fleet.settle(&Scope::default()).await;
    assert_eq!(events.try_recv().unwrap().message, "running → stopped");
    let id = InstanceId::new("a", None, "web");
    assert_eq!(fleet.recorded_events(Some(&id), None).await.len(), 1);
    // The writer is a thread: a clock that jumps would take its time away.
    tokio::time::resume();
    fleet.shutdown().await;
    assert!(dir.path().join("events/a.jsonl").exists());
}
