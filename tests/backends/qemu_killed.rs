//! corral killed with -9 in the middle of real changes: `corral doctor --fix` completes them or
//! takes them back, and nothing is lost.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod held;
mod lab;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use corral::backend::contract::{Changes, ReadCx, RemoveRequest, SnapshotRequest, TakeSnapshot};
use corral::backend::qemu::families::{Remove, Snapshots};
use corral::backend::qemu::op::{self, Change, Journal, Leftover, Op, Phase};
use corral::backend::qemu::snapshots::inside;
use corral::backend::qemu::{locks, process, recover};
use corral::model::State;
use held::{Held, fix, mended};
use lab::guest::has_qemu;
use lab::{Lab, READ};

fn run(lab: &Lab, words: &[&str]) {
    let output = lab
        .corral(words)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
}

fn disk(lab: &Lab, name: &str) -> PathBuf {
    lab.ctx.store.load(name).unwrap().disks[0].path.clone()
}

/// Fills the first bytes of a disk.
fn fill(disk: &Path, byte: u8) {
    qemu_io(disk, &format!("write -P {byte} 0 64k"));
}

/// Whether they still are what they were filled with.
fn is_filled(disk: &Path, byte: u8) -> bool {
    let said = qemu_io(disk, &format!("read -P {byte} 0 64k"));
    !said.contains("verification failed")
}

fn qemu_io(disk: &Path, command: &str) -> String {
    let output = Command::new("qemu-io")
        .args(["-f", "qcow2", "-c", command])
        .arg(disk)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The snapshots of a VM as a user sees them: name, and whether every image has it.
async fn snapshots(lab: &Lab, name: &str) -> Vec<(String, bool)> {
    let id = lab.ctx.id(name);
    let detail = lab.backend().detail(&ReadCx::quiet(READ), &id).await;
    let snapshots = detail.unwrap().snapshots;
    snapshots
        .into_iter()
        .map(|s| (s.name, s.broken.is_none()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_was_killed_leaves_nothing() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let held = Held::new(&lab);
    let create = ["create", "web", "--disk", "64MiB", "--firmware", "uefi"];
    for (when, at) in [
        ("before", "disk0.qcow2"),
        ("after", "disk0.qcow2"),
        ("before", "efivars.qcow2"),
        ("after", "efivars.qcow2"),
    ] {
        held.kill(&lab, &create, when, at);
        let again = lab.corral(&create).status().unwrap();
        assert!(!again.success(), "{when} {at}: made over what was left");
        mended(&lab).await;
        assert_eq!(
            fs::read_dir(lab.ctx.store.root()).unwrap().count(),
            0,
            "{when} {at}"
        );
    }
    run(&lab, &create);
    assert!(disk(&lab, "web").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn offline_snapshots_that_were_killed_are_whole_or_gone() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let held = Held::new(&lab);
    run(
        &lab,
        &["create", "web", "--disk", "64MiB", "--firmware", "uefi"],
    );
    let disk = disk(&lab, "web");
    fill(&disk, 1);
    let take = ["snapshot", "create", "web", "--name", "s"];
    for (when, at, whole) in [
        ("before", "-c s", false),
        ("after", "disk0.qcow2", false),
        ("before", "-c s", false),
        ("after", "efivars.qcow2", true),
    ] {
        let at = if at.starts_with('-') {
            at.to_owned()
        } else {
            format!("-c s {}", disk.with_file_name(at).display())
        };
        held.kill(&lab, &take, when, &at);
        mended(&lab).await;
        let expected = if whole {
            vec![("s".to_owned(), true)]
        } else {
            Vec::new()
        };
        assert_eq!(snapshots(&lab, "web").await, expected, "{when} {at}");
    }
    // Going back: whatever was reached, it is completed.
    for (when, at) in [
        ("before", "disk0.qcow2"),
        ("after", "disk0.qcow2"),
        ("after", "efivars.qcow2"),
    ] {
        fill(&disk, 2);
        let at = format!("-a s {}", disk.with_file_name(at).display());
        held.kill(
            &lab,
            &["snapshot", "restore", "web@s", "--confirm", "web"],
            when,
            &at,
        );
        let start = lab.corral(&["start", "web"]).status().unwrap();
        assert!(!start.success(), "started from half a snapshot");
        mended(&lab).await;
        assert!(is_filled(&disk, 1), "{when} {at}");
        assert_eq!(snapshots(&lab, "web").await, [("s".to_owned(), true)]);
    }
    // Deleting: completed.
    for (when, at) in [("before", "disk0.qcow2"), ("after", "disk0.qcow2")] {
        let at = format!("-d s {}", disk.with_file_name(at).display());
        held.kill(&lab, &["snapshot", "delete", "web@s", "-y"], when, &at);
        mended(&lab).await;
        assert!(snapshots(&lab, "web").await.is_empty(), "{when} {at}");
        assert!(is_filled(&disk, 1));
        run(&lab, &take);
    }
}

/// Jobs in the running QEMU, ended or not.
async fn jobs(lab: &Lab) -> serde_json::Value {
    let vm = lab.ctx.store.load("web").unwrap();
    let monitor = process::connect(&lab.ctx, &vm).await.unwrap();
    let mut monitor = monitor.unwrap();
    let asked = monitor.execute("query-jobs", serde_json::Value::Null, READ);
    asked.await.unwrap()
}

/// Kills corral once the change has reached a phase, or a moment later; false: it was done before.
fn killed_in(lab: &Lab, words: &[&str], phase: Phase, then: Duration) -> bool {
    let file = lab.ctx.store.dir("web").unwrap().join(op::FILE);
    let mut child: Child = lab.corral(words).spawn().unwrap();
    let until = Instant::now() + READ * 2;
    loop {
        let reached = op::read(&file).is_ok_and(|op| op.is_some_and(|op| op.phase >= phase));
        if reached || child.try_wait().unwrap().is_some() || Instant::now() >= until {
            break;
        }
    }
    std::thread::sleep(then);
    let _ = child.kill();
    child.wait().unwrap();
    file.exists()
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_of_a_running_vm_that_were_killed_are_whole_or_gone() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    run(
        &lab,
        &[
            "create",
            "web",
            "--disk",
            "64MiB",
            "--memory",
            "512MiB",
            "--firmware",
            "uefi",
            "--start",
            "--publish",
            &format!("{}:22", lab::free_port()),
        ],
    );
    let take = ["snapshot", "create", "web", "--name", "s", "--with-memory"];
    let delete = ["snapshot", "delete", "web@s", "-y"];
    let mut hits = 0;
    for (phase, millis) in [
        (Phase::Begun, 0),
        (Phase::Working, 0),
        (Phase::Working, 20),
        (Phase::Working, 100),
        (Phase::Working, 300),
        (Phase::Recording, 0),
    ] {
        for words in [&take[..], &delete[..]] {
            let hit = killed_in(&lab, words, phase, Duration::from_millis(millis));
            hits += usize::from(hit);
            fix(&lab).await;
            let row = lab.backend().inventory(&ReadCx::quiet(READ)).await.unwrap();
            assert_eq!(
                row.instances[0].state,
                State::Running,
                "{words:?} {phase:?}"
            );
            assert_eq!(
                jobs(&lab).await,
                serde_json::json!([]),
                "{words:?} {phase:?}"
            );
            let seen = snapshots(&lab, "web").await;
            assert!(
                seen.iter().all(|(name, whole)| name == "s" && *whole),
                "{words:?} {phase:?}: {seen:?}"
            );
            if words[1] == "create" && seen.is_empty() {
                run(&lab, &take);
            }
        }
        // The next round begins without it.
        run(&lab, &delete);
    }
    assert!(hits > 3, "it was hardly ever hit: {hits}");
    run(&lab, &["stop", "web", "--force", "-y"]);
    let vm = lab.ctx.store.load("web").unwrap();
    for (_, path) in vm.snapshot_nodes() {
        let sound = Command::new("qemu-img").arg("check").arg(path).status();
        assert!(sound.unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_of_a_running_vm_that_was_killed_is_completed() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    run(
        &lab,
        &[
            "create",
            "web",
            "--disk",
            "64MiB",
            "--memory",
            "512MiB",
            "--firmware",
            "uefi",
            "--publish",
            &format!("{}:22", lab::free_port()),
        ],
    );
    let disk = disk(&lab, "web");
    fill(&disk, 1);
    run(&lab, &["start", "web"]);
    run(
        &lab,
        &["snapshot", "create", "web", "--name", "s", "--with-memory"],
    );
    let restore = [
        "snapshot",
        "restore",
        "web@s",
        "--stop",
        "--start",
        "--confirm",
        "web",
    ];
    let mut hits = 0;
    for (phase, millis) in [
        (Phase::Begun, 0),
        (Phase::Working, 0),
        (Phase::Working, 30),
        (Phase::Recording, 0),
        (Phase::Recording, 100),
        (Phase::Recording, 400),
        (Phase::Recording, 900),
    ] {
        let word = format!("{phase:?} {millis}");
        hits += usize::from(killed_in(
            &lab,
            &restore,
            phase,
            Duration::from_millis(millis),
        ));
        fix(&lab).await;
        assert_eq!(
            snapshots(&lab, "web").await,
            [("s".to_owned(), true)],
            "{word}"
        );
        let state = lab.row("web").await.state;
        assert!(
            matches!(state, State::Running | State::Stopped),
            "{word}: {state}"
        );
        if state == State::Running {
            assert_eq!(jobs(&lab).await, serde_json::json!([]), "{word}");
            run(&lab, &["stop", "web", "--force", "-y"]);
        }
        assert!(is_filled(&disk, 1), "{word}");
        run(&lab, &["start", "web"]);
    }
    run(&lab, &["stop", "web", "--force", "-y"]);
    assert!(hits > 3, "it was hardly ever hit: {hits}");
    // Its RAM was loaded, and the guest did not go on yet.
    let vm = lab.ctx.store.load("web").unwrap();
    process::spawn_halted(&lab.ctx, &vm, None).await.unwrap();
    let mut monitor = process::connect(&lab.ctx, &vm).await.unwrap().unwrap();
    let nodes = inside::nodes(&vm).unwrap();
    inside::load(&mut monitor, &nodes, "s").await.unwrap();
    drop(monitor);
    let dir = lab.ctx.store.dir("web").unwrap();
    let change = Change::SnapshotRestore { tag: "s".into() };
    let mut journal = Journal::begin(&dir, change).unwrap();
    journal.phase(Phase::Recording).unwrap();
    drop(journal);
    mended(&lab).await;
    assert_eq!(lab.row("web").await.state, State::Running);
    run(&lab, &["stop", "web", "--force", "-y"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_that_was_killed_is_completed_or_did_not_happen() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let mut whole = 0;
    let mut gone = 0;
    for round in 0..10 {
        if lab.ctx.store.load("web").is_err() {
            run(
                &lab,
                &["create", "web", "--disk", "64MiB", "--firmware", "uefi"],
            );
            // Something to do for the change.
            let dir = lab.ctx.store.dir("web").unwrap();
            for n in 0..3000 {
                fs::write(dir.join(format!("{n}.log")), "").unwrap();
            }
        }
        let phase = [Phase::Begun, Phase::Working][round % 2];
        let then = Duration::from_millis([0, 0, 2, 5, 10][round / 2]);
        killed_in(&lab, &["delete", "web", "--confirm", "web"], phase, then);
        fix(&lab).await;
        let dir = lab.ctx.store.dir("web").unwrap();
        if dir.exists() {
            let vm = lab.ctx.store.load("web").unwrap();
            assert!(vm.snapshot_nodes().iter().all(|(_, path)| path.exists()));
            whole += 1;
        } else {
            gone += 1;
        }
    }
    eprintln!("{whole} whole, {gone} gone");
    assert!(gone > 0);
    let state = fs::read_dir(lab.ctx.state_dir()).unwrap();
    let folders = state.filter(|entry| entry.as_ref().unwrap().path().is_dir());
    assert!(folders.count() <= 1, "state of deleted VMs is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_qemu_that_dies_while_it_writes_a_snapshot_loses_nothing() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    run(
        &lab,
        &[
            "create",
            "web",
            "--disk",
            "64MiB",
            "--memory",
            "512MiB",
            "--firmware",
            "bios",
            "--start",
            "--publish",
            &format!("{}:22", lab::free_port()),
        ],
    );
    run(&lab, &["snapshot", "create", "web", "--name", "good"]);
    let vm = lab.ctx.store.load("web").unwrap();
    let file = lab.ctx.store.dir("web").unwrap().join(op::FILE);
    let pid = fs::read_to_string(lab.ctx.paths(&vm.uuid).unwrap().pid).unwrap();
    let killer = std::thread::spawn(move || {
        let until = Instant::now() + READ;
        while Instant::now() < until
            && !op::read(&file).is_ok_and(|op| op.is_some_and(|op| op.phase >= Phase::Working))
        {
        }
        let _ = Command::new("kill").args(["-9", pid.trim()]).status();
    });
    let family = Snapshots(lab.ctx.clone());
    let on = lab.instance("web", State::Running);
    let request = SnapshotRequest::Create(TakeSnapshot {
        name: "bad".into(),
        note: None,
        memory: true,
        ..TakeSnapshot::default()
    });
    let error = lab.change(&family, &on, request).await.unwrap_err();
    killer.join().unwrap();
    assert!(error.remedy.is_some(), "{error:?}");
    // Its corral lives on, and all the same it can be mended.
    fix(&lab).await;
    assert_eq!(snapshots(&lab, "web").await, [("good".to_owned(), true)]);
    run(&lab, &["start", "web"]);
    run(&lab, &["stop", "web", "--force", "-y"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_stops_no_guest() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let port = format!("{}:22", lab::free_port());
    let create = "create web --disk 64MiB --memory 256MiB --firmware bios --start --publish";
    let words: Vec<&str> = create.split(' ').chain([&*port]).collect();
    run(&lab, &words);
    run(&lab, &["snapshot", "create", "web", "--name", "s"]);
    let on = lab.instance("web", State::Running);
    let (snapshots, remove) = (Snapshots(lab.ctx.clone()), Remove(lab.ctx.clone()));
    let back = SnapshotRequest::Restore {
        name: "s".into(),
        stop: true,
        start: false,
        keep_present: None,
    };
    let back = lab.prepare(&snapshots, &on, back).await;
    let delete = RemoveRequest {
        force: true,
        keep_disks: false,
    };
    let delete = lab.prepare(&remove, &on, delete).await;
    // Another change is interrupted since both were planned.
    let dir = lab.ctx.store.dir("web").unwrap();
    let other = Change::SnapshotDelete { tag: "s".into() };
    drop(Journal::begin(&dir, other).unwrap());
    let back = snapshots.run(&lab::task(&on.id), back).await;
    let delete = remove.run(&lab::task(&on.id), delete).await;
    for refused in [back, delete] {
        let said = refused.unwrap_err().message;
        assert!(said.contains("was interrupted"), "{said}");
        assert_eq!(lab.row("web").await.state, State::Running);
    }
    mended(&lab).await;
    run(&lab, &["stop", "web", "--force", "-y"]);
}

/// Whether `pid` still runs within `limit`; looks often.
fn outlives(pid: u32, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    while corral::link::signal::is_alive(pid) {
        if Instant::now() > until {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_boot_test_ends_without_its_corral() {
    let kvm = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/kvm");
    if !has_qemu() || kvm.is_err() {
        eprintln!("skipped: no /dev/kvm to test");
        return;
    }
    let lab = Lab::new();
    let dir = lab.root.path().join("held");
    fs::create_dir_all(&dir).unwrap();
    let qemu = which::which("qemu-system-x86_64").unwrap();
    // The test guest itself never begins: it burns nothing, and never ends.
    let script = format!(
        "#!/bin/sh\n\
         case \"$*\" in *isa-debug-exit*) echo $$ > '{dir}/new'; mv '{dir}/new' '{dir}/mark'\n\
         exec '{qemu}' -S \"$@\";; esac\n\
         exec '{qemu}' \"$@\"\n",
        dir = dir.display(),
        qemu = qemu.display()
    );
    let file = dir.join("qemu-system-x86_64");
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let mut corral = lab
        .corral(&["doctor"])
        .env(
            "PATH",
            format!("{}:{}", dir.display(), std::env::var("PATH").unwrap()),
        )
        .spawn()
        .unwrap();
    let mark = dir.join("mark");
    let until = Instant::now() + READ;
    while !mark.exists() {
        assert!(Instant::now() < until, "no boot test was begun");
        std::thread::sleep(Duration::from_millis(5));
    }
    corral.kill().unwrap();
    corral.wait().unwrap();
    let pid: u32 = fs::read_to_string(&mark).unwrap().trim().parse().unwrap();
    if outlives(pid, Duration::from_secs(15)) {
        let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        panic!("the test guest outlives its corral");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_ends_what_a_boot_test_left() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let state = lab.ctx.state_dir();
    fs::create_dir_all(&state).unwrap();
    let (rom, late, fresh) = (
        state.join("probe-aaaaaa"),
        state.join("probe-bbbbbb"),
        state.join("probe-cccccc"),
    );
    // By the number in the name: a corral that has ended, and one that has not.
    let (dead, alive) = (
        state.join(format!("probe-{}-x", u32::MAX - 1)),
        state.join(format!("probe-{}-x", std::process::id())),
    );
    for file in [&rom, &late, &fresh] {
        fs::write(file, vec![0xf4; 65536]).unwrap();
    }
    let guest = |bios: &Path| {
        Command::new("qemu-system-x86_64")
            .args(
                "-S -M q35 -m 16 -nodefaults -display none -device isa-debug-exit,iobase=0xf4,iosize=4 -bios".split(' '),
            )
            .arg(bios)
            .spawn()
            .unwrap()
    };
    let foreign = lab.root.path().join("probe-aaaaaa");
    fs::copy(&rom, &foreign).unwrap();
    let (mut ours, mut other) = (guest(&rom), guest(&foreign));
    tokio::time::sleep(Duration::from_secs(12)).await;
    for file in [&fresh, &dead, &alive] {
        fs::write(file, vec![0xf4; 65536]).unwrap();
    }
    let found = lab.backend().doctor(&ReadCx::quiet(READ)).await;
    let check = found.iter().find(|check| check.id == "qemu.probes");
    assert!(
        check.unwrap().message.contains(&ours.id().to_string()),
        "{found:?}"
    );
    fix(&lab).await;
    let ended = ours.try_wait().unwrap();
    let spared = other.try_wait().unwrap().is_none();
    other.kill().unwrap();
    other.wait().unwrap();
    if ended.is_none() {
        ours.kill().unwrap();
        panic!("the test guest still runs");
    }
    assert!(spared, "a QEMU of another folder was ended");
    assert!(!rom.exists() && !late.exists(), "files are left");
    assert!(!dead.exists(), "the file of a dead corral is left");
    assert!(
        fresh.exists() && alive.exists(),
        "a test that runs right now lost its file"
    );
}

/// What a corral that is gone has left.
fn left(change: Change) -> Op {
    Op {
        format: op::FORMAT,
        change,
        phase: Phase::Working,
        pid: 0,
        pid_start: 0,
        at: "2024-01-01T00:00:00Z".parse().unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_half_done_is_mended_once_and_changed_by_nobody_before() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    run(
        &lab,
        &["create", "web", "--disk", "64MiB", "--firmware", "bios"],
    );
    let vm = lab.ctx.store.load("web").unwrap();
    let file = lab.ctx.store.dir("web").unwrap().join(op::FILE);
    let grow = left(Change::DiskGrow {
        disk: "disk0".to_owned(),
        to: corral::model::Bytes::mib(80),
    });
    let write = |op: &Op| fs::write(&file, serde_json::to_vec(op).unwrap()).unwrap();
    write(&grow);
    for words in [
        "ports publish web --port 0:80",
        "ports unpublish web --port 22",
        "nic add web",
        "nic remove web --nic net0",
        "resize web --cpus 2",
        "disk add web --size 8M",
        "disk grow web --disk disk0 --to 96M",
        "start web",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let mut corral = lab.corral(&words);
        let said = corral
            .stderr(std::process::Stdio::piped())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!said.status.success(), "{words:?}");
        assert!(text.contains("corral doctor --fix"), "{words:?}: {text}");
    }
    assert_eq!(lab.ctx.store.load("web").unwrap(), vm);

    // Who mends it waits for its turn, and then looks again at what there is.
    let hotter = left(Change::DiskGrow {
        disk: "disk1".to_owned(),
        to: corral::model::Bytes::mib(80),
    });
    for (found, then) in [
        (grow.clone(), Some(hotter)),
        (left(Change::Create), None),
        (
            left(Change::Export {
                partial: lab.root.path().join("x"),
                live: None,
                others: Vec::new(),
            }),
            None,
        ),
    ] {
        write(&found);
        let lock = locks::vm(&lab.ctx, &vm.uuid, "web").await.unwrap();
        let leftover = Leftover {
            name: "web".to_owned(),
            op: Some(Ok(found)),
        };
        let ctx = lab.ctx.clone();
        let mending = tokio::spawn(async move { recover::recover(&ctx, &leftover).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        match &then {
            Some(op) => write(op),
            None => fs::remove_file(&file).unwrap(),
        }
        drop(lock);
        let done = mending.await.unwrap().unwrap();
        assert!(!done.changed, "{done:?}");
        assert_eq!(op::read(&file).unwrap(), then);
    }
}
