//! libvirt: the helper processes, what they survive, and what the driver without a daemon can.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr
)]

mod lab;
#[path = "../shared/libvirt.rs"]
mod libvirt_lab;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use corral::backend::contract::{
    Backend, Change, CreateRequest, Destination, DiskSource, Families as _, Firmware,
    MigrateRequest, PauseRequest, PowerRequest, ReadCx, SnapshotRequest, TagsRequest, TakeSnapshot,
};
use corral::backend::libvirt::Libvirt;
use corral::model::{CheckStatus, Error, ErrorKind, InstanceId, Result, State};
use futures::StreamExt as _;
use lab::{READ, task_within};
use libvirt_lab::{env, helper, open, spec, uri, virsh};

/// Helpers are killed and daemons stopped here: one test at a time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn cx() -> ReadCx {
    ReadCx::quiet(READ)
}

/// A domain that boots nothing: no disk, no kernel.
fn define(lab: &Path, daemon: &str, name: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let xml = format!(
        "<domain type='qemu'><name>{name}</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>\
<os><type arch='x86_64' machine='pc'>hvm</type></os><devices/></domain>"
    );
    std::fs::write(file.path(), xml).unwrap();
    virsh(lab, daemon, &["define", file.path().to_str().unwrap()]);
}

fn forget(lab: &Path, daemon: &str, name: &str) {
    virsh(lab, daemon, &["destroy", name]);
    virsh(lab, daemon, &["undefine", name, "--managed-save"]);
}

/// Which libraries a program asks for at its start.
fn needs(program: &Path) -> String {
    let bytes = std::fs::read(program).unwrap();
    let found = bytes.windows(12).any(|window| window == b"libvirt.so.0");
    if found { "libvirt.so.0" } else { "" }.to_owned()
}

#[test]
fn corral_itself_is_not_linked_with_libvirt() {
    assert_eq!(needs(Path::new(env!("CARGO_BIN_EXE_corral"))), "");
    if let Some(helper) = helper() {
        assert_eq!(needs(helper), "libvirt.so.0", "the search finds nothing");
    }
}

#[tokio::test]
async fn without_its_helper_a_context_says_how_to_get_it() {
    let root = tempfile::tempdir().unwrap();
    let mut env = (*env(root.path())).clone();
    env.path = vec![root.path().to_owned()];
    let spec = spec("hv", "qemu:///system", None);
    let backend = Libvirt::new(spec, Arc::new(env)).unwrap();
    let error = backend.inventory(&cx()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.remedy.unwrap().contains("--features libvirt"));
    let checks = backend.doctor(&cx()).await;
    assert_eq!(checks.len(), 1);
    assert_eq!(checks[0].status, CheckStatus::Fail);
}

#[tokio::test]
async fn a_helper_of_another_version_is_not_talked_to() {
    let root = tempfile::tempdir().unwrap();
    let program = root.path().join("corral-libvirt");
    // Its hello, and then silence.
    let hello = r#"{"protocol":999,"build":"9.9.9"}"#;
    let script = format!(
        "#!/bin/sh\nprintf '\\000\\000\\000\\{:o}%s' '{hello}'\nsleep 100\n",
        hello.len()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut env = (*env(root.path())).clone();
    env.path = vec![root.path().to_owned(), "/usr/bin".into(), "/bin".into()];
    let backend = Libvirt::new(spec("hv", "qemu:///system", None), Arc::new(env)).unwrap();
    let error = backend.inventory(&cx()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    assert!(error.message.contains("9.9.9"), "{error}");
}

async fn change<R: Clone + Send + Sync + 'static>(
    backend: &Libvirt,
    family: Option<&dyn corral::backend::contract::Changes<R>>,
    name: &str,
    request: R,
) -> Result<corral::model::Outcome> {
    let id = InstanceId::new(
        name.split('/').next().unwrap(),
        None,
        name.split('/').nth(1).unwrap(),
    );
    let row = backend.detail(&cx(), &id).await?.instance;
    let family = family.unwrap();
    let plan = family.prepare(&cx(), &row, request).await?;
    if let Some(refusal) = plan.refusals.first() {
        return Err(refusal.error());
    }
    family.run(&task_within(&id, Some(READ)), plan).await
}

/// The driver that simulates: no daemon, no guest.
#[tokio::test]
async fn the_driver_without_a_daemon_is_a_context_as_any_other() {
    if helper().is_none() {
        eprintln!("skipped: built without --features libvirt");
        return;
    }
    let _alone = ALONE.lock().await;
    let root = tempfile::tempdir().unwrap();
    let backend = Libvirt::new(spec("t", "test:///default", None), env(root.path())).unwrap();
    let all = backend.inventory(&cx()).await.unwrap();
    assert_eq!(all.instances.len(), 1);
    let row = &all.instances[0];
    assert_eq!((row.name.as_str(), row.state), ("test", State::Running));
    let facts = backend.probe(&cx()).await.unwrap();
    assert!(facts.version.is_some());
    let name = "t/test";
    let state = async || backend.inventory(&cx()).await.unwrap().instances[0].state;
    change(&backend, backend.pause(), name, PauseRequest::Pause)
        .await
        .unwrap();
    assert_eq!(state().await, State::Paused);
    change(&backend, backend.pause(), name, PauseRequest::Resume)
        .await
        .unwrap();
    let tags = TagsRequest {
        add: vec!["blue".to_owned()],
        remove: Vec::new(),
    };
    change(&backend, backend.tags(), name, tags).await.unwrap();
    assert_eq!(
        backend.inventory(&cx()).await.unwrap().instances[0].tags,
        ["blue"]
    );
    let off = PowerRequest::Stop {
        force: true,
        force_after: None,
    };
    change(&backend, backend.power(), name, off).await.unwrap();
    assert_eq!(state().await, State::Stopped);
    change(&backend, backend.power(), name, PowerRequest::Start)
        .await
        .unwrap();
    assert_eq!(state().await, State::Running);
    let picture = backend.screenshot().unwrap();
    assert!(
        picture
            .screenshot(&cx(), row)
            .await
            .unwrap()
            .bytes
            .starts_with(b"\x89PNG")
    );
    let pools = backend.storage().unwrap().pools(&cx()).await.unwrap();
    assert_eq!(pools[0].name, "default-pool");
    let nets = backend.networks().unwrap().networks(&cx()).await.unwrap();
    assert_eq!((nets[0].kind.as_str(), nets[0].active), ("nat", Some(true)));
}

async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}

/// What others do is told by events: the whole list is asked for again only after minutes.
#[tokio::test(flavor = "multi_thread")]
async fn what_virsh_does_is_seen_without_a_poll() {
    let Some(dir) = libvirt_lab::lab() else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    let backend = open(&dir, "b", root.path());
    forget(&dir, "b", "watched");
    define(&dir, "b", "watched");
    let mut changes = (backend.clone() as Arc<dyn Backend>).watch().unwrap();
    let first = changes.next().await.unwrap().unwrap();
    assert!(matches!(first, Change::Reset(_)));
    let mut told = async |wanted: State| {
        let told = async {
            loop {
                match changes.next().await.unwrap().unwrap() {
                    Change::Upsert(row) if row.name == "watched" && row.state == wanted => return,
                    Change::Reset(_) => panic!("it was polled"),
                    _ => {}
                }
            }
        };
        let told = tokio::time::timeout(Duration::from_secs(60), told).await;
        told.unwrap_or_else(|_| panic!("{wanted} is not told"));
    };
    virsh(&dir, "b", &["start", "watched"]);
    told(State::Running).await;
    virsh(&dir, "b", &["suspend", "watched"]);
    told(State::Paused).await;
    virsh(&dir, "b", &["destroy", "watched"]);
    told(State::Stopped).await;
    virsh(&dir, "b", &["undefine", "watched"]);
    let id = InstanceId::new("b", None, "watched");
    let gone = async {
        loop {
            if let Change::Gone(gone) = changes.next().await.unwrap().unwrap()
                && gone == id
            {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone)
        .await
        .expect("gone is not told");
}

fn helpers(of: u32) -> Vec<u32> {
    let output = Command::new("pgrep")
        .args(["-P", &of.to_string(), "corral-libvirt"])
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect()
}

/// In a process of its own, so that its children are its helpers alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_helper_costs_one_answer_and_leaves_no_zombie() {
    let Some(dir) = libvirt_lab::lab() else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    let backend = open(&dir, "b", root.path());
    backend.inventory(&cx()).await.unwrap();
    let own = std::process::id();
    let before = helpers(own);
    assert!(!before.is_empty());
    for pid in &before {
        let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
    }
    // The one that was killed is noticed, and the next answer comes from another.
    until("an answer after the kill", async || {
        backend.inventory(&cx()).await.ok()
    })
    .await;
    until("the killed are gone", async || {
        let now = helpers(own);
        before.iter().all(|pid| !now.contains(pid)).then_some(())
    })
    .await;
}

/// A daemon that stands still: its own reads end at their deadline, another's answer as ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_stands_still_holds_up_nobody_else() {
    let Some(dir) = libvirt_lab::lab() else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    let (a, b) = (open(&dir, "a", root.path()), open(&dir, "b", root.path()));
    a.inventory(&cx()).await.unwrap();
    b.inventory(&cx()).await.unwrap();
    let pid = std::fs::read_to_string(dir.join("b/run/libvirtd.pid")).unwrap();
    let signal = |word: &str| {
        let done = Command::new("kill")
            .args([word, pid.trim()])
            .status()
            .unwrap();
        assert!(done.success());
    };
    signal("-STOP");
    let short = ReadCx::quiet(Duration::from_secs(2));
    let long = cx();
    let (stuck, other) = tokio::join!(b.inventory(&short), a.inventory(&long));
    // Before anything can panic.
    signal("-CONT");
    let error: Error = stuck.unwrap_err();
    assert!(
        matches!(error.kind, ErrorKind::TimedOut | ErrorKind::Unreachable),
        "{error}"
    );
    other.unwrap();
    until("it goes on", async || b.inventory(&cx()).await.ok()).await;
}

/// Each kind of snapshot is what libvirt says that it is, and what cannot be gone back to is refused before any call.
#[tokio::test(flavor = "multi_thread")]
async fn snapshots_outside_of_the_disks_are_kept_apart() {
    let Some(dir) = libvirt_lab::lab() else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    let backend = open(&dir, "b", root.path());
    let disk = dir.join("images/outside.qcow2");
    let clean = || {
        forget(&dir, "b", "outside");
        virsh(
            &dir,
            "b",
            &["snapshot-delete", "outside", "out", "--metadata"],
        );
        virsh(&dir, "b", &["undefine", "outside", "--snapshots-metadata"]);
        for entry in std::fs::read_dir(dir.join("images")).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("outside.") {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        virsh(&dir, "b", &["pool-refresh", "default"]);
    };
    clean();
    let made = Command::new("qemu-img")
        .args(["create", "-q", "-f", "qcow2", disk.to_str().unwrap(), "16M"])
        .status()
        .unwrap();
    assert!(made.success());
    let xml = format!(
        "<domain type='qemu'><name>outside</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>\
<os><type arch='x86_64' machine='pc'>hvm</type></os><devices><disk type='file' device='disk'>\
<driver name='qemu' type='qcow2'/><source file='{}'/><target dev='vda' bus='virtio'/></disk></devices></domain>",
        disk.display()
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), xml).unwrap();
    virsh(&dir, "b", &["pool-refresh", "default"]);
    virsh(&dir, "b", &["define", file.path().to_str().unwrap()]);
    let name = "b/outside";
    change(&backend, backend.power(), name, PowerRequest::Start)
        .await
        .unwrap();
    let take = |name: &str, memory| {
        SnapshotRequest::Create(TakeSnapshot {
            memory,
            ..TakeSnapshot::named(name)
        })
    };
    let outcome = change(&backend, backend.snapshots(), name, take("out", false))
        .await
        .unwrap();
    assert_eq!(outcome.consistency, Some(corral::model::Consistency::Crash));
    let listed = virsh(&dir, "b", &["snapshot-list", "outside", "--name"]);
    assert_eq!(listed.trim(), "out");
    // Inside beside outside is refused before any call.
    let calls = backend.calls().len();
    let error = change(&backend, backend.snapshots(), name, take("in", true))
        .await
        .unwrap_err();
    assert!(error.message.contains("outside of the disks"), "{error}");
    let back = SnapshotRequest::Restore {
        name: "out".to_owned(),
        stop: true,
        start: false,
        keep_present: None,
    };
    let error = change(&backend, backend.snapshots(), name, back)
        .await
        .unwrap_err();
    assert!(
        error.message.contains("outside.out"),
        "names its files: {error}"
    );
    assert_eq!(backend.calls().len(), calls, "something was called");
    let drop = SnapshotRequest::Delete {
        names: vec!["out".to_owned()],
    };
    change(&backend, backend.snapshots(), name, drop)
        .await
        .unwrap();
    assert_eq!(
        virsh(&dir, "b", &["snapshot-list", "outside", "--name"]).trim(),
        ""
    );
    clean();
}

/// The URI that a context is given is the one that is connected to.
#[tokio::test(flavor = "multi_thread")]
async fn two_contexts_of_one_daemon_know_that_it_is_one() {
    let Some(dir) = libvirt_lab::lab() else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    let one = open(&dir, "a", root.path());
    let two = Libvirt::new(spec("again", &uri(&dir, "a"), None), env(root.path())).unwrap();
    let other = open(&dir, "b", root.path());
    let server = async |backend: &Libvirt| backend.probe(&cx()).await.unwrap().server.unwrap();
    assert_eq!(server(&one).await, server(&two).await);
    assert_ne!(server(&one).await, server(&other).await);
}

/// Words to the agent of a guest, as virsh sends them; what its command wrote.
fn in_guest(lab: &Path, daemon: &str, domain: &str, script: &str) -> Option<String> {
    let ask = |text: String| -> Option<serde_json::Value> {
        let said = virsh(lab, daemon, &["qemu-agent-command", domain, &text]);
        serde_json::from_str::<serde_json::Value>(&said)
            .ok()?
            .get("return")
            .cloned()
    };
    let run = serde_json::json!({"execute": "guest-exec", "arguments":
        {"path": "/bin/sh", "arg": ["-c", script], "capture-output": true}});
    let pid = ask(run.to_string())?["pid"].as_i64()?;
    for _ in 0..200 {
        let status = serde_json::json!({"execute": "guest-exec-status", "arguments": {"pid": pid}});
        let status = ask(status.to_string())?;
        if status["exited"].as_bool() == Some(true) {
            use base64::Engine as _;
            let out = status["out-data"].as_str().unwrap_or_default();
            let out = base64::engine::general_purpose::STANDARD.decode(out).ok()?;
            return Some(String::from_utf8_lossy(&out).trim().to_owned());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    None
}

fn moving(to: &str, lab: &Path, address: Option<&str>) -> MigrateRequest {
    MigrateRequest {
        to: Destination::Context(Box::new(spec(to, &uri(lab, to), None))),
        copy_storage: false,
        peer: false,
        tunnelled: false,
        postcopy: false,
        unsafe_too: true,
        address: address.map(str::to_owned),
    }
}

/// A guest that counts goes on counting over there, and back again.
#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_counts_moves_to_another_server_and_back() {
    let (Some(dir), Some(disk)) = (libvirt_lab::lab(), lab::guest::guest()) else {
        return;
    };
    let _alone = ALONE.lock().await;
    let root = tempfile::tempdir().unwrap();
    let (a, b) = (open(&dir, "a", root.path()), open(&dir, "b", root.path()));
    for daemon in ["a", "b"] {
        forget(&dir, daemon, "counts");
        virsh(&dir, daemon, &["pool-refresh", "default"]);
    }
    virsh(
        &dir,
        "a",
        &["vol-delete", "counts.qcow2", "--pool", "default"],
    );
    let source = DiskSource::Copy(disk.to_str().unwrap().to_owned());
    let request = CreateRequest {
        start: true,
        publish: Vec::new(),
        ..lab::request("counts", source, Firmware::Bios)
    };
    let stub = corral::model::Instance::new(
        InstanceId::new("a", None, "counts"),
        a.kind(),
        corral::model::InstanceKind::Vm,
        State::Provisioning,
        jiff::Timestamp::now(),
    );
    let plan = a
        .create()
        .unwrap()
        .prepare(&cx(), &stub, request)
        .await
        .unwrap();
    assert!(plan.refusals.is_empty(), "{:?}", plan.refusals);
    let task = task_within(&stub.id, Some(Duration::from_secs(120)));
    a.create().unwrap().run(&task, plan).await.unwrap();
    let counted = async |daemon: &str| {
        until("the guest answers", async || {
            in_guest(&dir, daemon, "counts", "cat /tmp/n").and_then(|n| n.parse::<u64>().ok())
        })
        .await
    };
    until("the guest is up", async || {
        let begin =
            "(n=0; while :; do n=$((n+1)); echo $n >/tmp/n; sleep 0.1; done) >/dev/null 2>&1 &";
        in_guest(&dir, "a", "counts", begin)
    })
    .await;

    // What speaks against it is refused before any call.
    let calls = a.calls().len();
    let nowhere = MigrateRequest {
        copy_storage: true,
        ..moving("b", &dir, Some("127.0.0.1"))
    };
    let error = change(&a, a.migrate(), "a/counts", nowhere)
        .await
        .unwrap_err();
    assert!(error.message.contains("a copy would go over it"), "{error}");
    let error = change(&a, a.migrate(), "a/counts", moving("a", &dir, None))
        .await
        .unwrap_err();
    assert!(error.message.contains("same host"), "{error}");
    define(&dir, "b", "counts");
    let error = change(&a, a.migrate(), "a/counts", moving("b", &dir, None))
        .await
        .unwrap_err();
    assert!(error.message.contains("already"), "{error}");
    forget(&dir, "b", "counts");
    assert_eq!(a.calls().len(), calls, "something was called");

    // Cancelled before it began: it runs on.
    let id = InstanceId::new("a", None, "counts");
    let row = a.detail(&cx(), &id).await.unwrap().instance;
    let family = a.migrate().unwrap();
    let plan = family
        .prepare(&cx(), &row, moving("b", &dir, Some("127.0.0.1")))
        .await
        .unwrap();
    let cancelled = task_within(&id, Some(READ));
    cancelled.cancel.cancel();
    assert!(family.run(&cancelled, plan).await.is_err());
    assert_eq!(
        a.detail(&cx(), &id).await.unwrap().instance.state,
        State::Running
    );

    let before = counted("a").await;
    let outcome = change(
        &a,
        a.migrate(),
        "a/counts",
        moving("b", &dir, Some("127.0.0.1")),
    )
    .await
    .unwrap();
    let there = outcome.id.unwrap();
    assert_eq!(there.to_string(), "b/counts");
    let row = b.detail(&cx(), &there).await.unwrap().instance;
    assert_eq!(row.state, State::Running);
    assert_eq!(
        a.detail(&cx(), &id).await.unwrap_err().kind,
        ErrorKind::NotFound
    );
    let after = counted("b").await;
    assert!(after > before, "it began anew: {after} after {before}");

    // Back, the daemons speaking to each other.
    let back = MigrateRequest {
        peer: true,
        ..moving("a", &dir, Some("127.0.0.1"))
    };
    change(&b, b.migrate(), "b/counts", back).await.unwrap();
    assert!(counted("a").await > after);
    let off = corral::backend::contract::RemoveRequest {
        keep_disks: false,
        force: true,
    };
    change(&a, a.remove(), "a/counts", off).await.unwrap();
}
