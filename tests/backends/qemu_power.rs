//! The local QEMU with a real guest: power, pause, a second corral, hanging and killed processes.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may end where it stands and says what it skips"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use corral::backend::contract::{
    Backend, Change, Changes, Env, NoAsker, PauseRequest, Permit, PermitRequest, PowerRequest,
    Prepared, ReadCx, RestartMode, TaskCx, Way,
};
use corral::backend::qemu::definition::{
    Definition, DiskDef, FORMAT, FirmwareDef, FirmwareKind, Forward, NicDef, mac,
};
use corral::backend::qemu::store::Store;
use corral::backend::qemu::{INFO, ctx::Ctx, locks};
use corral::model::{
    Bytes, Consent, ContextSpec, Dirs, Error, ErrorKind, Gate, Instance, Outcome, Result, State,
    Support,
};
use futures::StreamExt as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Under TCG on a loaded machine a boot takes half a minute.
const BOOT: Duration = Duration::from_secs(240);
const READ: Duration = Duration::from_secs(30);

/// The lab guest's disk, or `None` with a word why the test is skipped.
fn guest() -> Option<PathBuf> {
    let dir = std::env::var_os("CORRAL_LAB_GUEST")
        .map_or_else(|| PathBuf::from("/var/tmp/corral-lab/guest"), PathBuf::from);
    let disk = dir.join("guest.qcow2");
    let here = disk.exists() && which::which("qemu-system-x86_64").is_ok();
    if !here {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "1"),
            "no lab guest at {} or no QEMU",
            disk.display()
        );
        println!("skipped: no lab guest at {} or no QEMU", disk.display());
        return None;
    }
    Some(disk)
}

/// A context in a folder of its own; ends what it started.
struct Lab {
    dir: tempfile::TempDir,
    backend: Arc<dyn Backend>,
    ctx: Ctx,
    disk: PathBuf,
}

impl Lab {
    fn new() -> Option<Self> {
        let disk = guest()?;
        // Short: socket paths are bounded.
        let dir = tempfile::Builder::new()
            .prefix("cq")
            .tempdir_in("/tmp")
            .unwrap();
        let backend = open(dir.path());
        let ctx = Ctx::new(spec(), env(dir.path()));
        Some(Self {
            dir,
            backend,
            ctx,
            disk,
        })
    }

    fn define(&self, name: &str, forwards: Vec<Forward>) -> Definition {
        let store = Store::open(&Dirs::under(self.dir.path()));
        let folder = store.dir(name).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::copy(&self.disk, folder.join("disk0.qcow2")).unwrap();
        let uuid = uuid::Uuid::new_v4();
        let vm = Definition {
            format: FORMAT,
            uuid,
            name: name.to_owned(),
            cpus: 1,
            memory: Bytes::mib(256),
            machine: "q35".into(),
            cpu_model: "qemu64".into(),
            firmware: FirmwareDef {
                kind: FirmwareKind::Bios,
                code: None,
                code_format: None,
                vars: None,
                secure_boot: false,
            },
            tpm: false,
            os: None,
            tags: Vec::new(),
            note: None,
            autostart: false,
            template: false,
            created_at: None,
            disks: vec![DiskDef {
                name: "disk0".into(),
                path: folder.join("disk0.qcow2"),
                format: "qcow2".into(),
                bus: "virtio".into(),
                size: Bytes::mib(162),
                backing: None,
                owned: true,
                serial: String::new(),
                readonly: false,
            }],
            cdroms: Vec::new(),
            nics: vec![NicDef {
                name: "net0".into(),
                mac: mac(&uuid, 0),
                model: "virtio".into(),
                network: "user".into(),
                forwards,
            }],
        };
        store.save(&vm).unwrap();
        vm
    }

    async fn row(&self, name: &str) -> Instance {
        row(&self.backend, name).await
    }

    async fn until(&self, name: &str, state: State, limit: Duration) -> Instance {
        let until = Instant::now() + limit;
        loop {
            let row = self.row(name).await;
            if row.state == state {
                return row;
            }
            assert!(Instant::now() < until, "{name} is {row:?}, not {state}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Waits until the guest's login prompt has come `times` times.
    async fn booted(&self, vm: &Definition, times: usize) {
        let log = self.ctx.paths(&vm.uuid).unwrap().serial_log;
        let until = Instant::now() + BOOT;
        loop {
            let text = std::fs::read(&log).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            if text.matches("lab-guest login:").count() >= times {
                return;
            }
            assert!(Instant::now() < until, "no prompt: {text}");
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }

    async fn power(&self, name: &str, request: PowerRequest) -> Result<Outcome> {
        let row = self.row(name).await;
        act(self.backend.power().unwrap(), &row, request, BOOT).await
    }

    async fn pause(&self, name: &str, request: PauseRequest) -> Result<Outcome> {
        let row = self.row(name).await;
        act(self.backend.pause().unwrap(), &row, request, BOOT).await
    }

    fn pid(&self, vm: &Definition) -> u32 {
        let file = self.ctx.paths(&vm.uuid).unwrap().pid;
        std::fs::read_to_string(file)
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Whatever a failed test left: by the pid that stands in our own folder.
        let Ok(dirs) = std::fs::read_dir(self.dir.path().join("state/vms")) else {
            return;
        };
        for dir in dirs.flatten() {
            if let Ok(pid) = std::fs::read_to_string(dir.path().join("pid")) {
                signal(pid.trim(), "-KILL");
            }
        }
    }
}

fn signal(pid: &str, which: &str) {
    let _ = std::process::Command::new("kill")
        .args([which, pid])
        .status();
}

fn spec() -> ContextSpec {
    ContextSpec::new("local", INFO.kind())
}

fn env(root: &Path) -> Arc<Env> {
    Arc::new(Env {
        dirs: Dirs::under(root),
        path: std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect(),
        vars: std::collections::BTreeMap::new(),
        home: root.to_owned(),
    })
}

fn open(root: &Path) -> Arc<dyn Backend> {
    (INFO.open)(spec(), env(root)).unwrap()
}

async fn row(backend: &Arc<dyn Backend>, name: &str) -> Instance {
    let all = backend.inventory(&ReadCx::quiet(READ)).await.unwrap();
    all.instances
        .into_iter()
        .find(|row| row.name == name)
        .unwrap()
}

fn task(row: &Instance, timeout: Duration) -> TaskCx {
    let permit = Permit::issue(&PermitRequest {
        readonly: None,
        gate: &Gate::Free,
        consent: &Consent::default(),
        support: &Support::Native,
        command: "test",
    })
    .unwrap();
    let (events, _) = mpsc::unbounded_channel();
    let cancel = CancellationToken::new();
    TaskCx::new(
        permit,
        row.id.clone(),
        events,
        cancel,
        Arc::new(NoAsker),
        Some(timeout),
    )
}

async fn plan<R: Send + Sync + 'static>(
    family: &dyn Changes<R>,
    row: &Instance,
    request: R,
) -> Prepared {
    family
        .prepare(&ReadCx::quiet(READ), row, request)
        .await
        .unwrap()
}

async fn act<R: Send + Sync + 'static>(
    family: &dyn Changes<R>,
    row: &Instance,
    request: R,
    timeout: Duration,
) -> Result<Outcome> {
    let prepared = plan(family, row, request).await;
    if let Some(refusal) = prepared.refusals.first() {
        return Err(Error::refused(format!(
            "{} {}",
            refusal.message,
            refusal.remedy.as_deref().unwrap_or("")
        )));
    }
    if prepared.unchanged {
        return Ok(Outcome::unchanged(prepared.notes.join(" ")));
    }
    family.run(&task(row, timeout), prepared).await
}

const STOP: PowerRequest = PowerRequest::Stop {
    force: false,
    force_after: None,
};
const FORCE: PowerRequest = PowerRequest::Stop {
    force: true,
    force_after: None,
};

/// A free port of this machine, for a guest's SSH.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_lives_its_life() {
    let Some(lab) = Lab::new() else { return };
    let port = free_port();
    let forward = Forward {
        host: "127.0.0.1".into(),
        port,
        guest: 22,
    };
    let vm = lab.define("web", vec![forward]);
    assert_eq!(lab.row("web").await.state, State::Stopped);
    assert!(!lab.power("web", STOP).await.unwrap().changed);
    assert!(lab.power("web", PowerRequest::Start).await.unwrap().changed);
    let running = lab.until("web", State::Running, READ).await;
    assert_eq!(running.uid.as_deref(), Some(vm.uuid.to_string().as_str()));
    assert!(!lab.power("web", PowerRequest::Start).await.unwrap().changed);

    // Another corral finds it again.
    assert_eq!(
        row(&open(lab.dir.path()), "web").await.state,
        State::Running
    );

    assert!(lab.pause("web", PauseRequest::Pause).await.unwrap().changed);
    assert_eq!(lab.row("web").await.state, State::Paused);
    let refused = lab.power("web", PowerRequest::Start).await.unwrap_err();
    assert!(
        refused.message.contains("corral resume local/web"),
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
    lab.until("web", State::Running, READ).await;

    let routes = lab.backend.routes().unwrap();
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

    lab.booted(&vm, 1).await;
    let metrics = lab.backend.metrics().unwrap();
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
    let Some(lab) = Lab::new() else { return };
    let vm = lab.define("slow", Vec::new());
    lab.power("slow", PowerRequest::Start).await.unwrap();
    // It has not booted: the request is lost.
    let row = lab.row("slow").await;
    let short = Duration::from_millis(300);
    let error = act(lab.backend.power().unwrap(), &row, STOP, short)
        .await
        .unwrap_err();
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
    let Some(lab) = Lab::new() else { return };
    let vm = lab.define("web", Vec::new());
    lab.power("web", PowerRequest::Start).await.unwrap();
    let on = lab.row("web").await;
    let family = lab.backend.power().unwrap();
    const COLD: PowerRequest = PowerRequest::Restart(RestartMode::Cold);
    // Before anything was asked.
    for request in [STOP, COLD] {
        let prepared = plan(family, &on, request).await;
        let cx = task(&on, BOOT);
        cx.cancel.cancel();
        let error = family.run(&cx, prepared).await.unwrap_err();
        assert_eq!(error.message, "cancelled");
    }
    // While the guest is waited for: it has not booted and hears nothing.
    for request in [STOP, COLD] {
        let prepared = plan(family, &on, request).await;
        let cx = task(&on, BOOT);
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
    lab.booted(&vm, 1).await;
    let log = lab.ctx.paths(&vm.uuid).unwrap().serial_log;
    let prepared = plan(family, &on, COLD).await;
    let cx = task(&on, BOOT);
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
    lab.until("web", State::Stopped, READ).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(lab.row("web").await.state, State::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_corrals_never_start_two_processes() {
    let Some(lab) = Lab::new() else { return };
    let vm = lab.define("one", Vec::new());
    let other = open(lab.dir.path());
    let stopped = lab.row("one").await;
    let (mine, theirs) = (lab.backend.power().unwrap(), other.power().unwrap());
    let (a, b) = (
        plan(mine, &stopped, PowerRequest::Start).await,
        plan(theirs, &stopped, PowerRequest::Start).await,
    );
    let (cx_a, cx_b) = (task(&stopped, BOOT), task(&stopped, BOOT));
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
    let old = plan(mine, &lab.row("one").await, FORCE).await;
    assert!(lab.power("one", FORCE).await.unwrap().changed);
    let error = mine.run(&task(&stopped, BOOT), old).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(error.message.contains("Nothing was done"), "{error}");

    // While one corral changes it, another says who does.
    let again = plan(mine, &lab.row("one").await, PowerRequest::Start).await;
    let held = locks::vm(&lab.ctx, &vm.uuid, "one").await.unwrap();
    let error = mine.run(&task(&stopped, BOOT), again).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(
        error.message.contains(&std::process::id().to_string()),
        "{error}"
    );
    drop(held);
    assert_eq!(lab.row("one").await.state, State::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_process_hides_no_other() {
    let Some(lab) = Lab::new() else { return };
    let hung = lab.define("hung", Vec::new());
    lab.define("fine", Vec::new());
    let broken = lab.dir.path().join("data/vms/odd");
    std::fs::create_dir_all(&broken).unwrap();
    std::fs::write(broken.join("vm.toml"), "name = [\n").unwrap();
    lab.power("hung", PowerRequest::Start).await.unwrap();
    lab.power("fine", PowerRequest::Start).await.unwrap();
    signal(&lab.pid(&hung).to_string(), "-STOP");
    let all = lab.backend.inventory(&ReadCx::quiet(READ)).await.unwrap();
    let of = |name: &str| all.instances.iter().find(|row| row.name == name).unwrap();
    assert_eq!(of("hung").state, State::Unknown);
    assert!(of("hung").reason.as_deref().unwrap().contains("monitor"));
    assert_eq!(of("fine").state, State::Running);
    assert_eq!(of("odd").state, State::Broken);
    assert!(of("odd").reason.as_deref().unwrap().contains("vm.toml:"));
    let refused = lab.power("hung", STOP).await.unwrap_err();
    assert!(refused.message.contains("corral stop --force"), "{refused}");
    assert!(lab.power("hung", FORCE).await.unwrap().changed);
    assert_eq!(lab.row("hung").await.state, State::Stopped);
    assert!(lab.power("fine", FORCE).await.unwrap().changed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_is_told_and_starts_again() {
    let Some(lab) = Lab::new() else { return };
    let vm = lab.define("dead", Vec::new());
    lab.power("dead", PowerRequest::Start).await.unwrap();
    signal(&lab.pid(&vm).to_string(), "-KILL");
    let row = lab.until("dead", State::Crashed, READ).await;
    assert!(row.reason.unwrap().contains("killed or crashed"));
    let checks = lab.backend.doctor(&ReadCx::quiet(READ)).await;
    let stale = checks
        .iter()
        .find(|check| check.id == "qemu.stale.dead")
        .unwrap();
    assert!(stale.fix.is_some());
    let row = lab.row("dead").await;
    let mended = lab
        .backend
        .repair(&task(&row, BOOT), "qemu.stale.dead")
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
    let Some(lab) = Lab::new() else { return };
    // Port 0 is settled at the first start.
    let open_port = Forward {
        host: "127.0.0.1".into(),
        port: 0,
        guest: 22,
    };
    let vm = lab.define("seen", vec![open_port]);
    let mut first = Arc::clone(&lab.backend).watch().unwrap();
    // A second corral that watches too: it gets no events, and sees the same.
    let mut second = open(lab.dir.path()).watch().unwrap();
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
        let events = lab.backend.events().unwrap();
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
    signal(&lab.pid(&vm).to_string(), "-KILL");
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
    let Some(lab) = Lab::new() else { return };
    let vm = lab.define("web", Vec::new());
    let kinds = async || -> Vec<String> {
        let events = lab.backend.events().unwrap();
        let id = lab.ctx.id("web");
        let told = events.recorded(&ReadCx::quiet(READ), Some(&id)).await;
        let mut told: Vec<_> = told.unwrap().into_iter().map(|event| event.kind).collect();
        // A firmware that is disturbed in its first moments resets once more by itself.
        told.dedup();
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
    lab.booted(&vm, 1).await;
    let pid = lab.pid(&vm).to_string();
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
    signal(&lab.pid(&vm).to_string(), "-KILL");
    lab.until("web", State::Crashed, READ).await;
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
