//! What others do at a server is on the screen without a poll, and what is on the screen is what is there.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "incus_lab.rs"]
mod incus_lab;

use std::time::{Duration, Instant};

use corral::backend::contract::{Change, ReadCx};
use corral::backend::incus::INFO;
use corral::model::{InstanceId, Result, State};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use incus_lab::Place;

const PATIENCE: Duration = Duration::from_secs(60);

async fn until(
    changes: &mut BoxStream<'static, Result<Change>>,
    what: &str,
    mut seen: impl FnMut(&Change) -> bool,
) {
    let told = async {
        while let Some(change) = changes.next().await {
            if seen(&change.unwrap()) {
                return;
            }
        }
        panic!("the watch ended before {what}");
    };
    tokio::time::timeout(PATIENCE, told)
        .await
        .unwrap_or_else(|_| panic!("never told: {what}"));
}

/// Nothing but events: the next look at all is an hour away.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_incus_client_does_is_seen_without_a_poll() {
    let Some(place) = Place::new("live-watch") else {
        return;
    };
    place.launch("one");
    let mut spec = place.spec();
    spec.interval = Some(3600);
    let backend = (INFO.open)(spec, place.env()).unwrap();
    let mut changes = backend.watch().unwrap();
    until(&mut changes, "all", |change| {
        matches!(change, Change::Reset(_))
    })
    .await;
    let id = |name: &str| InstanceId::new("lab", Some("live-watch"), name);
    let is = |change: &Change, name: &str, state: State| matches!(change, Change::Upsert(row) if row.id == id(name) && row.state == state);
    let mut slowest = Duration::ZERO;
    for (words, state) in [
        (vec!["stop", "--force", "one"], State::Stopped),
        (vec!["start", "one"], State::Running),
        (vec!["pause", "one"], State::Paused),
        (vec!["resume", "one"], State::Running),
        (vec!["stop", "--force", "one"], State::Stopped),
    ] {
        place.incus(&words);
        let begun = Instant::now();
        until(&mut changes, &format!("{words:?}"), |change| {
            is(change, "one", state)
        })
        .await;
        slowest = slowest.max(begun.elapsed());
    }
    eprintln!("seen {slowest:?} after the client was done, at the latest");
    let begun = Instant::now();
    place.incus(&["rename", "one", "two"]);
    until(
        &mut changes,
        "its old name goes",
        |change| matches!(change, Change::Gone(gone) if *gone == id("one")),
    )
    .await;
    until(&mut changes, "its new name comes", |change| {
        is(change, "two", State::Stopped)
    })
    .await;
    place.incus(&["config", "set", "two", "user.corral.tags=blue"]);
    until(
        &mut changes,
        "a tag",
        |change| matches!(change, Change::Upsert(row) if row.tags == ["blue"]),
    )
    .await;
    place.incus(&["delete", "two"]);
    let mut event = false;
    until(&mut changes, "it is gone", |change| {
        event |= matches!(change, Change::Event(event) if event.kind == "instance-deleted");
        matches!(change, Change::Gone(gone) if *gone == id("two"))
    })
    .await;
    assert!(event, "no event says that it was deleted");
    assert!(begun.elapsed() < PATIENCE);
}

/// Fifty at once: nobody is listed twice or forgotten, and the list takes no longer than the client's own.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_fifty_is_whole_and_takes_no_longer_than_the_clients() {
    let Some(place) = Place::new("live-fifty") else {
        return;
    };
    for n in 0..50 {
        place.incus(&["init", "corral-tiny", &format!("n{n:02}"), "-q"]);
    }
    for n in 0..5 {
        place.incus(&["start", &format!("n{n:02}")]);
    }
    let all = place
        .backend()
        .inventory(&ReadCx::quiet(PATIENCE))
        .await
        .unwrap();
    assert_eq!(all.instances.len(), 50);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let begun = Instant::now();
        let output = place.corral(&["list"]).output().unwrap();
        ours.push(begun.elapsed());
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 51);
        let begun = Instant::now();
        place.incus(&["list"]);
        theirs.push(begun.elapsed());
    }
    ours.sort();
    theirs.sort();
    // Said, and not asserted: an unoptimised build on a busy machine measures the machine.
    eprintln!(
        "corral list {:?}, incus list {:?} (medians of 20)",
        ours[10], theirs[10]
    );
}
