//! The local QEMU with a real guest: power, pause, a second corral, hanging and killed processes.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may end where it stands and says what it skips"
)]

mod lab;

use std::path::Path;
use std::time::{Duration, Instant};

use corral::backend::contract::{
    Change, Changes as _, DiskSource, Firmware, PauseRequest, PowerRequest, Prepared, ReadCx,
    RestartMode, Way,
};
use corral::backend::qemu::ctx::Ctx;
use corral::backend::qemu::definition::Definition;
use corral::backend::qemu::power::Power;
use corral::backend::qemu::{locks, process};
use corral::model::{Bytes, ErrorKind, Instance, Outcome, Result, State};
use futures::StreamExt as _;
use lab::guest::guest;
use lab::{Lab, READ, request, task, task_within};

/// Under TCG on a loaded machine a boot takes half a minute.
const BOOT: Duration = Duration::from_secs(240);

/// Waits until the guest's login prompt has come.
async fn booted(lab: &Lab, vm: &Definition) {
    lab.serial(&vm.name, "lab-guest login:", 0).await;
}

fn signal(pid: &str, which: &str) {
    let _ = std::process::Command::new("kill")
        .args([which, pid])
        .status();
}

async fn stop_within(lab: &Lab, on: &Instance, limit: Duration) -> Result<Outcome> {
    let prepared = plan(lab, on, STOP).await;
    let family = Power(lab.ctx.clone());
    family
        .run(&task_within(&on.id, Some(limit)), prepared)
        .await
}

async fn plan(lab: &Lab, on: &Instance, request: PowerRequest) -> Prepared {
    lab.prepare(&Power(lab.ctx.clone()), on, request).await
}

const STOP: PowerRequest = PowerRequest::Stop {
    force: false,
    force_after: None,
};
const FORCE: PowerRequest = PowerRequest::Stop {
    force: true,
    force_after: None,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_lives_its_life() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let source = DiskSource::Backed(image.to_str().unwrap().to_owned());
    lab.make(request("web", source, Firmware::Bios))
        .await
        .unwrap();
    let vm = lab.ctx.store.load("web").unwrap();
    let port = vm.nics[0].forwards[0].port;
    assert_eq!(lab.row("web").await.state, State::Stopped);
    assert!(!lab.power("web", STOP).await.unwrap().changed);
    assert!(lab.power("web", PowerRequest::Start).await.unwrap().changed);
    let running = lab.until("web", State::Running).await;
    assert_eq!(running.uid.as_deref(), Some(vm.uuid.to_string().as_str()));
    assert!(!lab.power("web", PowerRequest::Start).await.unwrap().changed);

    // Another corral finds it again.
    let again = Ctx::new(lab.ctx.spec.clone(), lab.ctx.env.clone());
    let found = process::connect(&again, &vm).await.unwrap();
    assert!(found.is_some());
    drop(found);

    assert!(lab.pause("web", PauseRequest::Pause).await.unwrap().changed);
    assert_eq!(lab.row("web").await.state, State::Paused);
    let refused = lab.power("web", PowerRequest::Start).await.unwrap_err();
    assert!(
        refused.to_string().contains("corral resume local/web"),
        "{refused}"
    );
    let refused = lab.power("web", STOP).await.unwrap_err();
    assert!(refused.message.contains("is paused"), "{refused}");
    assert!(
        lab.pause("web", PauseRequest::Resume)
            .await
            .unwrap()
            .changed
    );
    lab.until("web", State::Running).await;

    let backend = lab.backend();
    let routes = backend.families().routes().unwrap();
    let ways = routes
        .routes(&ReadCx::quiet(READ), &running, 22)
        .await
        .unwrap();
    assert!(matches!(&ways[0].way, Way::Tcp(host, p) if host == "127.0.0.1" && *p == port));
    assert!(
        routes
            .routes(&ReadCx::quiet(READ), &running, 80)
            .await
            .is_err()
    );

    booted(&lab, &vm).await;
    let metrics = backend.families().metrics().unwrap();
    let ids = [running.id.clone()];
    metrics.sample(&ReadCx::quiet(READ), &ids).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let samples = metrics.sample(&ReadCx::quiet(READ), &ids).await.unwrap();
    assert!(samples[0].1.cpu_percent.is_some() && samples[0].1.memory_bytes > Some(Bytes::mib(20)));

    // Asked by the power button: the guest shuts down by itself.
    assert!(lab.power("web", STOP).await.unwrap().changed);
    assert_eq!(lab.row("web").await.state, State::Stopped);
    let paths = lab.ctx.paths(&vm.uuid).unwrap();
    let log = String::from_utf8_lossy(&std::fs::read(&paths.serial_log).unwrap()).into_owned();
    assert!(log.contains("lab-guest: poweroff"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_does_not_react_is_never_killed_unasked() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let vm = lab.define(&image, "slow").await;
    lab.power("slow", PowerRequest::Start).await.unwrap();
    // It has not booted: the request is lost.
    let row = lab.row("slow").await;
    let short = Duration::from_millis(300);
    let error = stop_within(&lab, &row, short).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TimedOut);
    let text = error.to_string();
    assert!(text.contains("is still running"), "{text}");
    assert!(text.contains("corral stop --force local/slow"), "{text}");
    assert_eq!(lab.row("slow").await.state, State::Running);
    let pid = lab.pid(&vm);
    assert!(
        lab.power("slow", PowerRequest::Restart(RestartMode::Force))
            .await
            .unwrap()
            .changed
    );
    assert_eq!(lab.pid(&vm), pid, "a reset keeps the process");
    let soon = PowerRequest::Stop {
        force: false,
        force_after: Some(Duration::from_millis(200)),
    };
    assert!(lab.power("slow", soon).await.unwrap().changed);
    assert_eq!(lab.row("slow").await.state, State::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_and_a_restart_can_be_cancelled_and_say_where_they_stand() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let vm = lab.define(&image, "web").await;
    lab.power("web", PowerRequest::Start).await.unwrap();
    let on = lab.row("web").await;
    let family = Power(lab.ctx.clone());
    const COLD: PowerRequest = PowerRequest::Restart(RestartMode::Cold);
    // Before anything was asked.
    for request in [STOP, COLD] {
        let prepared = plan(&lab, &on, request).await;
        let cx = task(&on.id);
        cx.cancel.cancel();
        let error = family.run(&cx, prepared).await.unwrap_err();
        assert_eq!(error.message, "cancelled");
    }
    // While the guest is waited for: it has not booted and hears nothing.
    for request in [STOP, COLD] {
        let prepared = plan(&lab, &on, request).await;
        let cx = task(&on.id);
        let later = cx.cancel.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(700)).await;
            later.cancel();
        });
        let error = family.run(&cx, prepared).await.unwrap_err();
        assert!(
            error.message.contains("cancelled; local/web was asked") && error.remedy.is_some(),
            "{error:?}"
        );
        assert_eq!(lab.row("web").await.state, State::Running);
    }
    // After the guest went down: it is not started again.
    booted(&lab, &vm).await;
    let log = lab.ctx.paths(&vm.uuid).unwrap().serial_log;
    let prepared = plan(&lab, &on, COLD).await;
    let cx = task(&on.id);
    let later = cx.cancel.clone();
    let ends = tokio::spawn(async move {
        loop {
            let text = std::fs::read(&log).unwrap_or_default();
            if String::from_utf8_lossy(&text).contains("lab-guest: poweroff") {
                return later.cancel();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let error = family.run(&cx, prepared).await.unwrap_err();
    assert!(error.message.contains("cancelled; local/web"), "{error:?}");
    assert!(error.remedy.is_some());
    ends.await.unwrap();
    lab.until("web", State::Stopped).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(lab.row("web").await.state, State::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_corrals_never_start_two_processes() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let vm = lab.define(&image, "one").await;
    let stopped = lab.row("one").await;
    let (mine, theirs) = (Power(lab.ctx.clone()), Power(lab.ctx.clone()));
    let (a, b) = (
        plan(&lab, &stopped, PowerRequest::Start).await,
        plan(&lab, &stopped, PowerRequest::Start).await,
    );
    let (cx_a, cx_b) = (task(&stopped.id), task(&stopped.id));
    let (a, b) = tokio::join!(mine.run(&cx_a, a), theirs.run(&cx_b, b));
    let changed = [&a, &b]
        .iter()
        .filter(|r| r.as_ref().is_ok_and(|o| o.changed))
        .count();
    assert_eq!(changed, 1, "{a:?} {b:?}");
    for lost in [&a, &b] {
        match lost {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind, ErrorKind::Conflict),
        }
    }
    // A plan of before is worth nothing now.
    let old = plan(&lab, &lab.row("one").await, FORCE).await;
    assert!(lab.power("one", FORCE).await.unwrap().changed);
    let error = mine.run(&task(&stopped.id), old).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(error.message.contains("Nothing was done"), "{error}");

    // While one corral changes it, another says who does.
    let again = plan(&lab, &lab.row("one").await, PowerRequest::Start).await;
    let held = locks::vm(&lab.ctx, &vm.uuid, "one").await.unwrap();
    let error = mine.run(&task(&stopped.id), again).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(
        error.message.contains(&std::process::id().to_string()),
        "{error}"
    );
    drop(held);
    assert_eq!(lab.row("one").await.state, State::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_start_again_is_not_stopped_for_a_restart() {
    if !lab::guest::has_qemu() {
        return;
    }
    let lab = Lab::new();
    let disc = lab.root.path().join("disc.iso");
    let mut bytes = vec![0; 17 * 2048];
    bytes[32769..32774].copy_from_slice(b"CD001");
    std::fs::write(&disc, bytes).unwrap();
    let made = lab
        .corral(&["create", "web", "--disk", "64M", "--firmware", "bios"])
        .args(["--memory", "64M", "--cdrom", disc.to_str().unwrap()])
        .status();
    assert!(made.unwrap().success());
    lab.power("web", PowerRequest::Start).await.unwrap();
    let row = lab.row("web").await;
    let cold = PowerRequest::Restart(RestartMode::Cold);
    let planned = plan(&lab, &row, cold.clone()).await;
    assert!(planned.refusals.is_empty(), "{:?}", planned.refusals);
    std::fs::remove_file(&disc).unwrap();
    let planned = plan(&lab, &row, cold).await;
    assert!(
        planned.refusals[0].message.contains("is missing"),
        "{:?}",
        planned.refusals
    );
    assert_eq!(lab.row("web").await.state, State::Running);
    lab.power_off("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_process_hides_no_other() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let hung = lab.define(&image, "hung").await;
    lab.define(&image, "fine").await;
    let broken = lab.ctx.store.root().join("odd");
    std::fs::create_dir_all(&broken).unwrap();
    std::fs::write(broken.join("vm.toml"), "name = [\n").unwrap();
    lab.power("hung", PowerRequest::Start).await.unwrap();
    lab.power("fine", PowerRequest::Start).await.unwrap();
    signal(&lab.pid(&hung), "-STOP");
    let all = lab.backend().inventory(&ReadCx::quiet(READ)).await.unwrap();
    let of = |name: &str| all.instances.iter().find(|row| row.name == name).unwrap();
    assert_eq!(of("hung").state, State::Unknown);
    assert!(of("hung").reason.as_deref().unwrap().contains("monitor"));
    assert_eq!(of("fine").state, State::Running);
    assert_eq!(of("odd").state, State::Broken);
    assert!(of("odd").reason.as_deref().unwrap().contains("vm.toml:"));
    let refused = lab.power("hung", STOP).await.unwrap_err();
    assert!(
        refused.to_string().contains("corral stop --force"),
        "{refused}"
    );
    assert!(lab.power("hung", FORCE).await.unwrap().changed);
    assert_eq!(lab.row("hung").await.state, State::Stopped);
    assert!(lab.power("fine", FORCE).await.unwrap().changed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_is_told_and_starts_again() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let vm = lab.define(&image, "dead").await;
    lab.power("dead", PowerRequest::Start).await.unwrap();
    signal(&lab.pid(&vm), "-KILL");
    let row = lab.until("dead", State::Crashed).await;
    assert!(row.reason.unwrap().contains("killed or crashed"));
    let checks = lab.backend().doctor(&ReadCx::quiet(READ)).await;
    let stale = checks
        .iter()
        .find(|check| check.id == "qemu.stale.dead")
        .unwrap();
    assert!(stale.fix.is_some());
    let row = lab.row("dead").await;
    let mended = lab
        .backend()
        .repair(&task(&row.id), "qemu.stale.dead")
        .await
        .unwrap();
    assert!(mended.changed);
    assert_eq!(lab.row("dead").await.state, State::Stopped);
    assert!(
        lab.power("dead", PowerRequest::Start)
            .await
            .unwrap()
            .changed
    );
    assert!(lab.power("dead", FORCE).await.unwrap().changed);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_do_is_seen_as_it_happens() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let vm = lab.define(&image, "seen").await;
    let mut first = lab.backend().watch().unwrap();
    // A second corral that watches too: it gets no events, and sees the same.
    let mut second = lab.backend().watch().unwrap();
    for watch in [&mut first, &mut second] {
        wait_for(watch, State::Stopped).await;
    }
    lab.power("seen", PowerRequest::Start).await.unwrap();
    for watch in [&mut first, &mut second] {
        wait_for(watch, State::Running).await;
    }
    let row = lab.row("seen").await;
    let port = row.ports.unwrap()[0].host.clone();
    assert!(!port.ends_with(":0"), "{port}");
    lab.pause("seen", PauseRequest::Pause).await.unwrap();
    let until = Instant::now() + READ * 2;
    loop {
        let ids = [row.id.clone()];
        let backend = lab.backend();
        let events = backend.families().events().unwrap();
        let cx = ReadCx::quiet(READ);
        let told = events.recorded(&cx, Some(&ids[0])).await.unwrap();
        if told.iter().any(|event| event.kind == "STOP") {
            break;
        }
        assert!(Instant::now() < until, "no STOP in {told:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // The one that does not hold the event socket is told all the same, and only what is new.
    for watch in [&mut first, &mut second] {
        let told = events_until(watch, "STOP").await;
        assert_eq!(told.iter().filter(|kind| *kind == "STOP").count(), 1);
    }
    signal(&lab.pid(&vm), "-KILL");
    for watch in [&mut first, &mut second] {
        wait_for(watch, State::Crashed).await;
    }
}

/// The kinds of the events that come, up to the one that is waited for.
async fn events_until(
    watch: &mut futures::stream::BoxStream<'static, Result<Change>>,
    last: &str,
) -> Vec<String> {
    let mut kinds = Vec::new();
    let seen = async {
        while let Some(change) = watch.next().await {
            if let Change::Event(event) = change.unwrap() {
                kinds.push(event.kind);
                if kinds.last().is_some_and(|kind| kind == last) {
                    return;
                }
            }
        }
        panic!("the watch ended");
    };
    tokio::time::timeout(READ * 2, seen).await.unwrap();
    kinds
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_shot_commands_do_and_see_is_recorded() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let vm = lab.define(&image, "web").await;
    let kinds = async || -> Vec<String> {
        let backend = lab.backend();
        let events = backend.families().events().unwrap();
        let id = lab.ctx.id("web");
        let told = events.recorded(&ReadCx::quiet(READ), Some(&id)).await;
        let mut told: Vec<_> = told.unwrap().into_iter().map(|event| event.kind).collect();
        // A firmware that is disturbed in its first moments resets once more by itself.
        told.dedup();
        assert_eq!(told.remove(0), "CREATED");
        told
    };
    lab.power("web", PowerRequest::Start).await.unwrap();
    assert_eq!(kinds().await, ["STARTED"]);
    lab.pause("web", PauseRequest::Pause).await.unwrap();
    lab.pause("web", PauseRequest::Resume).await.unwrap();
    lab.power("web", PowerRequest::Restart(RestartMode::Force))
        .await
        .unwrap();
    assert_eq!(kinds().await, ["STARTED", "STOP", "RESUME", "RESET"]);
    lab.power("web", FORCE).await.unwrap();
    assert_eq!(kinds().await[4..], ["SHUTDOWN"]);
    lab.row("web").await;
    assert_eq!(kinds().await.len(), 5, "its end is told once");
    // The guest goes down by itself while nobody looks.
    lab.power("web", PowerRequest::Start).await.unwrap();
    booted(&lab, &vm).await;
    let pid = lab.pid(&vm);
    let paths = lab.ctx.paths(&vm.uuid).unwrap();
    {
        let mut qmp = corral::backend::qemu::process::connect(&lab.ctx, &vm)
            .await
            .unwrap()
            .unwrap();
        let asked = qmp.execute("system_powerdown", serde_json::Value::Null, READ);
        asked.await.unwrap();
    }
    let until = Instant::now() + BOOT;
    while paths.pid.exists() || Path::new("/proc").join(&pid).join("exe").exists() {
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(kinds().await[5..], ["STARTED"]);
    for _ in 0..2 {
        assert_eq!(lab.row("web").await.state, State::Stopped);
    }
    assert_eq!(kinds().await[5..], ["STARTED", "ENDED"]);
    // And once it is killed by someone.
    lab.power("web", PowerRequest::Start).await.unwrap();
    signal(&lab.pid(&vm), "-KILL");
    lab.until("web", State::Crashed).await;
    assert_eq!(kinds().await[7..], ["STARTED", "ENDED"]);
}

async fn wait_for(watch: &mut futures::stream::BoxStream<'static, Result<Change>>, state: State) {
    let seen = async {
        while let Some(change) = watch.next().await {
            if let Change::Reset(all) = change.unwrap()
                && all.instances.iter().all(|row| row.state == state)
            {
                return;
            }
        }
        panic!("the watch ended");
    };
    tokio::time::timeout(READ * 2, seen).await.unwrap();
}
