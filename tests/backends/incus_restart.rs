//! A server that is frozen, and one that is restarted in the middle of a change. On the lab's second server, so that
//! the other tests keep theirs.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "incus_lab.rs"]
mod incus_lab;
#[path = "lab.rs"]
mod lab;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use corral::backend::contract::{Change, PowerRequest, ReadCx};
use corral::model::{ErrorKind, InstanceId, State};
use futures::StreamExt as _;
use incus_lab::Place;
use lab::task_within;

const PATIENCE: Duration = Duration::from_secs(60);

fn cx() -> ReadCx {
    ReadCx::quiet(PATIENCE)
}

/// The daemon's process, as it says itself.
fn daemon(place: &Place) -> String {
    let said = place.incus(&["query", "/1.0"]);
    let line = said
        .lines()
        .find(|line| line.contains("server_pid"))
        .unwrap();
    line.chars().filter(char::is_ascii_digit).collect()
}

fn signal(name: &str, pid: &str) {
    let sent = Command::new("kill").args([name, pid]).status().unwrap();
    assert!(sent.success());
}

/// Brought up again by the lab's own script.
fn up(place: &Place, vms: bool) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/incus-up.sh");
    let output = Command::new(script)
        .env("LAB_DIR", &place.facts["LAB_DIR"])
        .env("LAB_VM", if vms { "1" } else { "0" })
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_and_restarted_it_is_told_so_and_the_truth_comes_back() {
    let Some(place) = Place::on('b', "restart") else {
        return;
    };
    let vms = place.incus(&["query", "/1.0"]).contains("qemu");
    // A guest that does not react to being asked: its first process takes no signal.
    let deaf = "raw.lxc=lxc.init.cmd = /bin/sleep 9999";
    place.incus(&["launch", "corral-tiny", "web", "-q", "-c", deaf]);
    let backend = place.backend();
    let id = InstanceId::new("lab", Some("restart"), "web");
    let row = backend.detail(&cx(), &id).await.unwrap().instance;
    let mut changes = backend.clone().watch().unwrap();
    assert!(matches!(changes.next().await, Some(Ok(Change::Reset(_)))));

    let pid = daemon(&place);
    signal("-STOP", &pid);
    let begun = Instant::now();
    let error = backend
        .inventory(&ReadCx::quiet(Duration::from_secs(1)))
        .await
        .unwrap_err();
    let waited = begun.elapsed();
    signal("-CONT", &pid);
    assert_eq!(error.kind, ErrorKind::TimedOut, "{error}");
    assert!(
        waited < PATIENCE / 2,
        "a frozen server held its reader for {waited:?}"
    );
    assert_eq!(backend.inventory(&cx()).await.unwrap().instances.len(), 1);

    // It is asked to shut down, and its server goes away meanwhile.
    let power = backend.families().power().unwrap();
    let stop = PowerRequest::Stop {
        force: false,
        force_after: None,
    };
    let plan = power.prepare(&cx(), &row, stop).await.unwrap();
    let asked = {
        let (backend, id) = (backend.clone(), id.clone());
        tokio::spawn(async move {
            let power = backend.families().power().unwrap();
            let task = task_within(&id, Some(Duration::from_secs(20)));
            power.run(&task, plan).await
        })
    };
    tokio::time::sleep(Duration::from_secs(2)).await;
    signal("-TERM", &pid);
    tokio::task::block_in_place(|| {
        let until = Instant::now() + PATIENCE;
        while std::os::unix::net::UnixStream::connect(place.socket()).is_ok()
            && Instant::now() < until
        {
            std::thread::sleep(Duration::from_millis(100));
        }
        up(&place, vms);
    });
    let ended = tokio::time::timeout(PATIENCE * 2, asked)
        .await
        .expect("the task never ended")
        .unwrap();
    let error = ended.unwrap_err();
    assert!(error.remedy.is_some(), "{error}");
    // The watch ended with its line, and says so; the next one tells the truth.
    let last = tokio::time::timeout(PATIENCE, async {
        while let Some(change) = changes.next().await {
            if change.is_err() {
                return;
            }
        }
    });
    assert!(last.await.is_ok(), "the watch hangs on a line that is gone");
    let all = backend.inventory(&cx()).await.unwrap();
    assert_eq!(all.instances[0].state, State::Running, "it was only asked");
    let mut again = backend.clone().watch().unwrap();
    assert!(matches!(again.next().await, Some(Ok(Change::Reset(all))) if all.instances.len() == 1));
}
