//! What goes wrong around a VM: monitors that hang, lie or die, other corrals that do the opposite,
//! definitions edited by hand. One message with a remedy each, and nothing that is not ours is
//! touched.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod lab;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use corral::backend::contract::{
    Changes, DiskSource, Firmware, PauseRequest, PowerRequest, Prepared, ReadCx, RemoveRequest,
    SnapshotRequest, TakeSnapshot,
};
use corral::backend::qemu::families::{Remove, Snapshots};
use corral::backend::qemu::pause::Pause;
use corral::backend::qemu::power::Power;
use corral::model::{Bytes, Check, ErrorKind, Instance, Outcome, Result, State};
use lab::guest::{guest, has_qemu};
use lab::{Lab, READ, request, task};

const START: PowerRequest = PowerRequest::Start;
const STOP: PowerRequest = PowerRequest::Stop {
    force: false,
    force_after: None,
};
const FORCE: PowerRequest = PowerRequest::Stop {
    force: true,
    force_after: None,
};
const DELETE: RemoveRequest = RemoveRequest {
    keep_disks: false,
    force: true,
};

async fn blank(lab: &Lab, name: &str) {
    let mut wanted = request(name, DiskSource::Blank, Firmware::Bios);
    wanted.disk_size = Some(Bytes::mib(8));
    wanted.memory = Bytes::mib(64);
    lab.make(wanted).await.unwrap();
}

async fn checks(lab: &Lab) -> Vec<Check> {
    lab.backend().doctor(&ReadCx::quiet(READ)).await
}

async fn check(lab: &Lab, id: &str) -> Check {
    let all = checks(lab).await;
    let found = all.iter().find(|check| check.id == id);
    found
        .unwrap_or_else(|| panic!("no {id} in {all:?}"))
        .clone()
}

/// How a false monitor behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    /// Takes connections and says nothing.
    Hangs,
    /// Says it is another machine.
    Lies,
    /// Talks nonsense after it has said who it is.
    Raves,
    /// Says who it is and that it runs, and agrees to everything else.
    Nods,
    /// Ends in the middle of its first answer.
    Dies,
}

/// Listens where the VM's monitor would.
fn monitor(lab: &Lab, name: &str, mood: Mood) {
    let vm = lab.ctx.store.load(name).unwrap();
    let paths = lab.ctx.paths(&vm.uuid).unwrap();
    fs::create_dir_all(&paths.dir).unwrap();
    let _ = fs::remove_file(&paths.qmp);
    let listener = UnixListener::bind(&paths.qmp).unwrap();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming().flatten() {
            if mood == Mood::Hangs {
                kept.push(stream);
            } else {
                std::thread::spawn(move || speak(stream, mood, vm.uuid));
            }
        }
    });
}

fn speak(mut stream: UnixStream, mood: Mood, uuid: uuid::Uuid) -> std::io::Result<()> {
    let greeting = include_str!("../fixtures/qemu/greeting.json");
    writeln!(stream, "{}", greeting.replace('\n', ""))?;
    for line in BufReader::new(stream.try_clone()?).lines() {
        let asked: serde_json::Value = serde_json::from_str(&line?).unwrap();
        let id = &asked["id"];
        let answer = match (asked["execute"].as_str().unwrap(), mood) {
            ("qmp_capabilities", _) => serde_json::json!({"return": {}, "id": id}),
            ("query-uuid", Mood::Dies) => {
                write!(stream, "{{\"return\": {{\"UU")?;
                return Ok(());
            }
            ("query-uuid", Mood::Lies) => {
                serde_json::json!({"return": {"UUID": uuid::Uuid::new_v4()}, "id": id})
            }
            ("query-uuid", _) => serde_json::json!({"return": {"UUID": uuid}, "id": id}),
            ("query-status", Mood::Nods) => {
                serde_json::json!({"return": {"status": "running"}, "id": id})
            }
            (_, Mood::Nods) => serde_json::json!({"return": "nonsense", "id": id}),
            _ => serde_json::json!({"return": {"status": ["\u{1b}[2J"], "x": 7}, "id": id}),
        };
        writeln!(stream, "{answer}")?;
    }
    Ok(())
}

/// The one refusal of a plan, which names a remedy.
async fn refused<R: Send + Sync + 'static>(
    lab: &Lab,
    family: &dyn Changes<R>,
    on: &Instance,
    request: R,
) -> String {
    let prepared = lab.prepare(family, on, request).await;
    let [refusal] = prepared.refusals.as_slice() else {
        panic!("{prepared:?}")
    };
    assert!(refusal.remedy.is_some(), "{refusal:?}");
    format!("{} {}", refusal.message, refusal.remedy.as_ref().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_monitor_that_is_not_its_own_is_left_alone() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    blank(&lab, "web").await;
    blank(&lab, "other").await;
    let vm = lab.ctx.store.load("web").unwrap();
    let paths = lab.ctx.paths(&vm.uuid).unwrap();
    for (mood, word) in [
        (Mood::Hangs, "monitor"),
        (Mood::Lies, "another machine's"),
        (Mood::Raves, "status"),
    ] {
        monitor(&lab, "web", mood);
        let began = Instant::now();
        let seen = lab.row("web").await;
        assert_eq!(seen.state, State::Unknown, "{mood:?} {seen:?}");
        let why = seen.reason.clone().unwrap();
        assert!(
            why.contains(word) && !why.contains('\u{1b}'),
            "{mood:?} {why}"
        );
        assert!(began.elapsed() < Duration::from_secs(20), "{mood:?}");
        assert_eq!(lab.row("other").await.state, State::Stopped);
        let told = check(&lab, "qemu.silent.web").await;
        assert!(told.remedy.is_some() && told.fix.is_none(), "{told:?}");
        if mood == Mood::Raves {
            continue;
        }
        let (power, pause) = (Power(lab.ctx.clone()), Pause(lab.ctx.clone()));
        refused(&lab, &power, &seen, START).await;
        refused(&lab, &power, &seen, STOP).await;
        refused(&lab, &power, &seen, FORCE).await;
        refused(&lab, &pause, &seen, PauseRequest::Pause).await;
        refused(&lab, &Remove(lab.ctx.clone()), &seen, DELETE).await;
        let take = SnapshotRequest::Create(TakeSnapshot {
            name: "s".into(),
            note: None,
            memory: false,
            ..TakeSnapshot::default()
        });
        refused(&lab, &Snapshots(lab.ctx.clone()), &seen, take).await;
        assert!(paths.qmp.exists() && vm.disks[0].path.exists(), "{mood:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_monitor_that_dies_in_mid_answer_is_a_vm_that_is_off() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    blank(&lab, "web").await;
    monitor(&lab, "web", Mood::Dies);
    assert_eq!(lab.row("web").await.state, State::Stopped);
    let told = check(&lab, "qemu.stale.web").await;
    assert!(told.fix.is_some(), "{told:?}");
    let on = lab.row("web").await;
    let mended = lab.backend().repair(&task(&on.id), "qemu.stale.web").await;
    assert!(mended.unwrap().changed);
    assert!(checks(&lab).await.iter().all(|check| check.fix.is_none()));
    let power = Power(lab.ctx.clone());
    assert!(lab.change(&power, &on, START).await.unwrap().changed);
    lab.power_off("web").await;
}

async fn both<A: Send + Sync + 'static, B: Send + Sync + 'static>(
    lab: &Lab,
    on: &Instance,
    one: (&dyn Changes<A>, Prepared),
    two: (&dyn Changes<B>, Prepared),
) -> [Result<Outcome>; 2] {
    let (cx_one, cx_two) = (task(&on.id), task(&on.id));
    let (a, b) = tokio::join!(one.0.run(&cx_one, one.1), two.0.run(&cx_two, two.1));
    for lost in [&a, &b].into_iter().filter_map(|r| r.as_ref().err()) {
        assert!(
            matches!(lost.kind, ErrorKind::Conflict | ErrorKind::NotFound),
            "{lost:?}"
        );
        assert!(lost.remedy.is_some(), "{lost:?}");
    }
    let found = checks(lab).await;
    assert!(found.iter().all(|check| check.fix.is_none()), "{found:?}");
    [a, b]
}

#[tokio::test(flavor = "multi_thread")]
async fn two_corrals_that_want_the_opposite_leave_one_whole_state() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let power = Power(lab.ctx.clone());
    let other = Power(lab.ctx.clone());
    let remove = Remove(lab.ctx.clone());
    for round in 0..4 {
        blank(&lab, "web").await;
        // Off, and one wants it on while the other deletes it.
        let on = lab.row("web").await;
        let start = lab.prepare(&power, &on, START).await;
        let delete = lab.prepare(&remove, &on, DELETE).await;
        let [started, deleted] = if round % 2 == 0 {
            both(&lab, &on, (&power, start), (&remove, delete)).await
        } else {
            let [b, a] = both(&lab, &on, (&remove, delete), (&power, start)).await;
            [a, b]
        };
        assert!(
            started.is_ok() != deleted.is_ok(),
            "{started:?} {deleted:?}"
        );
        if deleted.is_ok() {
            assert!(!lab.ctx.store.dir("web").unwrap().exists());
            continue;
        }
        // On, and one wants it off while the other starts it (again), resets it, pauses it.
        let on = lab.row("web").await;
        assert_eq!(on.state, State::Running);
        let stop = lab.prepare(&power, &on, FORCE).await;
        let pause = Pause(lab.ctx.clone());
        let halt = lab.prepare(&pause, &on, PauseRequest::Pause).await;
        let [stopped, _] = both(&lab, &on, (&power, stop), (&pause, halt)).await;
        if stopped.is_err() {
            assert_eq!(lab.row("web").await.state, State::Paused);
            lab.power_off("web").await;
        }
        let on = lab.row("web").await;
        assert_eq!(on.state, State::Stopped);
        let start = lab.prepare(&power, &on, START).await;
        let stop = lab.prepare(&other, &on, FORCE).await;
        assert!(stop.unchanged, "{stop:?}");
        power.run(&task(&on.id), start).await.unwrap();
        let on = lab.row("web").await;
        let stop = lab.prepare(&power, &on, FORCE).await;
        let delete = lab.prepare(&remove, &on, DELETE).await;
        let [_, deleted] = both(&lab, &on, (&power, stop), (&remove, delete)).await;
        deleted.unwrap();
        assert!(!lab.ctx.store.dir("web").unwrap().exists());
    }
}

fn edit(lab: &Lab, name: &str, from: &str, to: &str) {
    let file = lab.ctx.store.dir(name).unwrap().join("vm.toml");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(from), "{from} in {text}");
    fs::write(file, text.replace(from, to)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_edited_by_hand_are_told_and_harm_no_other() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    for name in ["broken", "typed", "odd", "fine"] {
        blank(&lab, name).await;
    }
    edit(&lab, "broken", "format = 1", "format = 1\nnote = \"");
    edit(&lab, "typed", "cpus = 1", "cpus = \"one\"");
    edit(&lab, "odd", "cpus = 1", "cpus = 1\ncpu = 4");
    edit(
        &lab,
        "odd",
        "bus = \"virtio\"",
        "bus = \"virtio\"\ncahce = \"none\"",
    );
    for (name, word) in [("broken", "vm.toml:2:"), ("typed", "vm.toml:4:")] {
        let seen = lab.row(name).await;
        assert_eq!(seen.state, State::Broken, "{name}");
        assert!(seen.reason.as_deref().unwrap().contains(word), "{seen:?}");
        let told = check(&lab, &format!("qemu.definition.{name}")).await;
        assert!(
            told.message.contains(word) && told.remedy.is_some(),
            "{told:?}"
        );
        let why = refused(&lab, &Power(lab.ctx.clone()), &seen, START).await;
        assert!(why.contains(word), "{why}");
        let why = refused(&lab, &Remove(lab.ctx.clone()), &seen, DELETE).await;
        assert!(why.contains(word), "{why}");
    }
    let told = check(&lab, "qemu.keys.odd").await;
    assert!(
        told.message.contains("cpu, ") && told.message.contains("disks.0.cahce"),
        "{told:?}"
    );
    for name in ["odd", "fine"] {
        let on = lab.row(name).await;
        assert_eq!(on.state, State::Stopped);
        let power = Power(lab.ctx.clone());
        assert!(lab.change(&power, &on, START).await.unwrap().changed);
        lab.power_off(name).await;
    }
    // Another user's file decides nothing here.
    if rustix::process::geteuid().is_root() {
        let file = lab.ctx.store.dir("fine").unwrap().join("vm.toml");
        std::os::unix::fs::chown(&file, Some(12345), None).unwrap();
        let seen = lab.row("fine").await;
        assert_eq!(seen.state, State::Broken);
        let why = refused(&lab, &Power(lab.ctx.clone()), &seen, START).await;
        assert!(
            why.contains("another user") && why.contains("chown"),
            "{why}"
        );
    }
    // What was written by hand is still there.
    edit(&lab, "odd", "cpu = 4\n", "");
    assert!(check(&lab, "qemu.keys.odd").await.message.contains("cahce"));
}

#[tokio::test(flavor = "multi_thread")]
async fn twins_are_both_left_alone_until_one_is_changed() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    blank(&lab, "web").await;
    let on = lab.row("web").await;
    let power = Power(lab.ctx.clone());
    lab.change(&power, &on, START).await.unwrap();
    let from = lab.ctx.store.dir("web").unwrap();
    let to = lab.ctx.store.dir("copy").unwrap();
    fs::create_dir(&to).unwrap();
    for file in ["vm.toml", "disk0.qcow2"] {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
    edit(&lab, "copy", "name = \"web\"", "name = \"copy\"");
    let uuid = on.uid.unwrap();
    for name in ["web", "copy"] {
        let seen = lab.row(name).await;
        assert_eq!(seen.state, State::Broken);
        let told = check(&lab, &format!("qemu.definition.{name}")).await;
        assert!(told.message.contains(&uuid), "{told:?}");
        assert!(told.remedy.unwrap().contains("uuid = \""));
        refused(&lab, &power, &seen, FORCE).await;
        refused(&lab, &Remove(lab.ctx.clone()), &seen, DELETE).await;
    }
    let new = uuid::Uuid::new_v4().to_string();
    edit(&lab, "copy", &uuid, &new);
    assert_eq!(lab.row("web").await.state, State::Running);
    assert_eq!(lab.row("copy").await.state, State::Stopped);
    lab.power_off("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_disk_of_two_vms_is_written_by_one_and_deleted_by_none() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    for name in ["web", "thief", "broken"] {
        blank(&lab, name).await;
    }
    let disk = lab.ctx.store.load("web").unwrap().disks[0].path.clone();
    let path = format!("path = \"{}\"", disk.display());
    edit(&lab, "thief", "path = \"disk0.qcow2\"", &path);
    let id = format!(
        "qemu.disk.{}",
        corral::model::encode_segment(&disk.to_string_lossy())
    );
    let told = check(&lab, &id).await;
    assert!(
        told.message.contains("local/web") && told.message.contains("local/thief"),
        "{told:?}"
    );
    let power = Power(lab.ctx.clone());
    let web = lab.row("web").await;
    lab.change(&power, &web, START).await.unwrap();
    let thief = lab.row("thief").await;
    let error = lab.change(&power, &thief, START).await.unwrap_err();
    assert!(
        error.message.contains("lock") && error.remedy.is_some(),
        "{error:?}"
    );
    lab.power_off("web").await;
    // Even one that cannot be read keeps what it names.
    edit(&lab, "broken", "path = \"disk0.qcow2\"", &path);
    edit(&lab, "broken", "cpus = 1", "cpus = [");
    let remove = Remove(lab.ctx.clone());
    for name in ["thief", "web"] {
        let on = lab.row(name).await;
        lab.change(&remove, &on, DELETE).await.unwrap();
        assert!(disk.exists(), "gone with {name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn torn_records_are_told_and_change_nothing() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    blank(&lab, "web").await;
    let dir = lab.ctx.store.dir("web").unwrap();
    let family = Snapshots(lab.ctx.clone());
    let on = lab.row("web").await;
    let take = |name: &str| {
        SnapshotRequest::Create(TakeSnapshot {
            name: name.into(),
            note: None,
            memory: false,
            ..TakeSnapshot::default()
        })
    };
    lab.change(&family, &on, take("a")).await.unwrap();
    fs::write(dir.join("snapshots.toml"), "snapshot = 3").unwrap();
    let told = check(&lab, "qemu.snapshots.web").await;
    assert!(told.remedy.is_some(), "{told:?}");
    let error = lab.change(&family, &on, take("b")).await.unwrap_err();
    assert!(error.remedy.is_some(), "{error:?}");
    fs::remove_file(dir.join("snapshots.toml")).unwrap();
    lab.change(&family, &on, take("b")).await.unwrap();

    fs::write(dir.join("op.json"), "{\"op\": \"snap").unwrap();
    let told = check(&lab, "qemu.unfinished.web").await;
    assert!(
        told.remedy.is_some() && told.fix.is_none(),
        "a person must look: {told:?}"
    );
    let error = lab.change(&family, &on, take("c")).await.unwrap_err();
    assert!(error.message.contains("op.json"), "{error:?}");
    refused(&lab, &Power(lab.ctx.clone()), &on, START).await;
    fs::remove_file(dir.join("op.json")).unwrap();
    let vm = lab.ctx.store.load("web").unwrap();
    let paths = lab.ctx.paths(&vm.uuid).unwrap();
    let power = Power(lab.ctx.clone());
    lab.change(&power, &on, START).await.unwrap();
    for file in [&paths.launch, &paths.journal] {
        fs::write(file, "{\"pid\": \u{1}").unwrap();
    }
    assert_eq!(lab.row("web").await.state, State::Running);
    lab.power_off("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_qemu_whose_definition_is_gone_is_found() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    blank(&lab, "web").await;
    let on = lab.row("web").await;
    let power = Power(lab.ctx.clone());
    lab.change(&power, &on, START).await.unwrap();
    let vm = lab.ctx.store.load("web").unwrap();
    let paths = lab.ctx.paths(&vm.uuid).unwrap();
    let pid = fs::read_to_string(&paths.pid).unwrap().trim().to_owned();
    let dir = lab.ctx.store.dir("web").unwrap();
    let away = lab.root.path().join("away");
    fs::rename(&dir, &away).unwrap();
    let id = format!(
        "qemu.orphan.{}",
        paths.dir.file_name().unwrap().to_string_lossy()
    );
    let told = check(&lab, &id).await;
    assert!(
        told.message.contains(&pid) && told.fix.is_none(),
        "{told:?}"
    );
    let touched = lab.backend().repair(&task(&on.id), &id).await.unwrap_err();
    assert!(touched.remedy.unwrap().contains(&pid));
    fs::rename(&away, &dir).unwrap();
    assert_eq!(lab.row("web").await.state, State::Running);
    lab.power_off("web").await;
    fs::remove_dir_all(&dir).unwrap();
    assert!(check(&lab, &id).await.fix.is_some());
    let tidy = lab.backend().repair(&task(&on.id), &id).await.unwrap();
    assert!(tidy.changed && !paths.dir.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_other_formats_are_converted_and_locked_ones_are_told() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let other = lab.root.path().join("guest.vmdk");
    convert(&image, "vmdk", &other);
    let made = lab
        .make(request(
            "vmdk",
            DiskSource::Copy(other.to_str().unwrap().into()),
            Firmware::Bios,
        ))
        .await;
    assert!(made.unwrap().changed);
    let vm = lab.ctx.store.load("vmdk").unwrap();
    let head = fs::read(&vm.disks[0].path).unwrap();
    assert!(head.starts_with(b"QFI\xfb") && vm.disks[0].format == "qcow2");
    // Its base goes away after it was made: told at the start, before anything runs.
    let base = lab.root.path().join("base.qcow2");
    fs::copy(&image, &base).unwrap();
    let made = lab
        .make(request(
            "over",
            DiskSource::Backed(base.to_str().unwrap().into()),
            Firmware::Bios,
        ))
        .await;
    made.unwrap();
    fs::remove_file(&base).unwrap();
    let on = lab.row("over").await;
    let why = refused(&lab, &Power(lab.ctx.clone()), &on, START).await;
    assert!(why.contains("base.qcow2"), "{why}");
}

fn convert(from: &Path, format: &str, to: &Path) {
    let done = std::process::Command::new("qemu-img")
        .args(["convert", "-O", format])
        .args([from, to])
        .status();
    assert!(done.unwrap().success());
}

/// What `corral` says on standard error, with its exit code. It may not hang.
fn says(lab: &Lab, words: &[&str]) -> (i32, String) {
    let mut child = lab
        .corral(words)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(12);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{words:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), text)
}

fn qemu_img(dir: &Path, line: &str) {
    let done = std::process::Command::new("qemu-img")
        .args(line.split(' '))
        .current_dir(dir)
        .stdout(std::process::Stdio::null())
        .status();
    assert!(done.unwrap().success(), "qemu-img {line}");
}

#[test]
fn an_image_that_is_none_is_named_at_once() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let dir = lab.root.path();
    let fifo = std::process::Command::new("mkfifo")
        .arg(dir.join("pipe.qcow2"))
        .status();
    assert!(fifo.unwrap().success());
    let _socket = UnixListener::bind(dir.join("socket.qcow2")).unwrap();
    qemu_img(dir, "create -q -f qcow2 a.qcow2 1M");
    qemu_img(dir, "create -q -f qcow2 -F qcow2 -b a.qcow2 b.qcow2");
    qemu_img(dir, "rebase -u -F qcow2 -b b.qcow2 a.qcow2");
    qemu_img(
        dir,
        "create -q -f qcow2 -o data_file=gone.raw data.qcow2 1M",
    );
    fs::remove_file(dir.join("gone.raw")).unwrap();
    qemu_img(dir, "create -q -f qcow2 base.qcow2 1M");
    qemu_img(dir, "create -q -f qcow2 -F qcow2 -b base.qcow2 mid.qcow2");
    qemu_img(dir, "create -q -f qcow2 -F qcow2 -b mid.qcow2 top.qcow2");
    fs::remove_file(dir.join("base.qcow2")).unwrap();
    std::os::unix::fs::symlink("b.qcow2", dir.join("link.qcow2")).unwrap();
    for (file, words) in [
        ("pipe.qcow2", &["is a pipe", "Name a file"][..]),
        ("socket.qcow2", &["is a socket", "Name a file"]),
        ("/dev/zero", &["is a device", "Name a file"]),
        (
            "a.qcow2",
            &["is an overlay of another image", "qemu-img convert"],
        ),
        ("link.qcow2", &["is an overlay of another image"]),
        ("data.qcow2", &["keeps its data in another file"]),
        (
            "top.qcow2",
            &["is an overlay of another image", "qemu-img convert"],
        ),
    ] {
        let path = dir.join(file);
        let path = path.to_str().unwrap();
        for flag in ["--image", "--backing"] {
            let (code, text) = says(&lab, &["create", "x", flag, path, "--firmware", "bios"]);
            assert_ne!(code, 0, "{file}");
            for word in words {
                assert!(text.contains(word), "{file}: {text}");
            }
            assert!(!text.contains("corrupt"), "{file}: {text}");
        }
    }
    let pipe = dir.join("pipe.qcow2");
    let (_, text) = says(&lab, &["create", "x", "--cdrom", pipe.to_str().unwrap()]);
    assert!(text.contains("is a pipe"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_gone_is_seen_before_the_start() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let dir = lab.root.path();
    qemu_img(dir, "create -q -f qcow2 base.qcow2 1M");
    qemu_img(dir, "create -q -f qcow2 mid.qcow2 1M");
    fs::write(dir.join("cd.iso"), vec![0; 65536]).unwrap();
    let mid = dir.join("mid.qcow2");
    let mut wanted = request(
        "web",
        DiskSource::Backed(mid.to_str().unwrap().to_owned()),
        Firmware::Bios,
    );
    wanted.cdroms = vec![dir.join("cd.iso").to_str().unwrap().to_owned()];
    lab.make(wanted).await.unwrap();
    // Somebody puts a base below the base.
    qemu_img(dir, "rebase -u -f qcow2 -F qcow2 -b base.qcow2 mid.qcow2");
    assert_eq!(lab.row("web").await.reason, None);
    assert!(
        !checks(&lab)
            .await
            .iter()
            .any(|c| c.id.starts_with("qemu.files."))
    );

    // The base of the base: only doctor follows the chain.
    fs::rename(dir.join("base.qcow2"), dir.join("away")).unwrap();
    let deep = check(&lab, "qemu.files.web").await;
    assert!(
        deep.message.contains("base.qcow2, which is gone"),
        "{deep:?}"
    );
    fs::rename(dir.join("away"), dir.join("base.qcow2")).unwrap();

    // A chain without an end is told as one, in time: QEMU would follow it for ever.
    qemu_img(dir, "rebase -u -f qcow2 -F qcow2 -b mid.qcow2 base.qcow2");
    let deep = check(&lab, "qemu.files.web").await;
    assert!(deep.message.contains("have no end"), "{deep:?}");
    assert!(
        deep.remedy.is_some_and(|r| r.contains("rebase -u -b BASE")),
        "no way out"
    );
    qemu_img(dir, "rebase -u -f qcow2 -b  base.qcow2");
    // So is what a base keeps its data in.
    let away = dir.join("base.away");
    fs::rename(dir.join("base.qcow2"), &away).unwrap();
    qemu_img(
        dir,
        "create -q -f qcow2 -o data_file=base.data,data_file_raw=on base.qcow2 1M",
    );
    fs::remove_file(dir.join("base.data")).unwrap();
    let deep = check(&lab, "qemu.files.web").await;
    assert!(deep.message.contains("base.data"), "{deep:?}");
    fs::rename(&away, dir.join("base.qcow2")).unwrap();

    for (file, what) in [
        (mid.clone(), "overlay of"),
        (dir.join("cd.iso"), "cdrom0: its image"),
    ] {
        let away = dir.join("away");
        fs::rename(&file, &away).unwrap();
        let row = lab.row("web").await;
        let reason = row.reason.clone().unwrap();
        assert_eq!(row.state, State::Stopped);
        let name = file.to_str().unwrap();
        assert!(reason.contains(what) && reason.contains(name), "{reason}");
        let found = check(&lab, "qemu.files.web").await;
        assert!(found.message.contains(name) && found.remedy.is_some());
        for (family, text) in [
            (
                "start",
                refused(&lab, &Power(lab.ctx.clone()), &row, START).await,
            ),
            (
                "snapshot",
                refused(
                    &lab,
                    &Snapshots(lab.ctx.clone()),
                    &row,
                    SnapshotRequest::Create(TakeSnapshot::named("s")),
                )
                .await,
            ),
        ] {
            assert!(
                text.contains(name) && !text.contains("qemu-img: "),
                "{family}: {text}"
            );
        }
        fs::rename(&away, &file).unwrap();
    }
    assert_eq!(lab.row("web").await.reason, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_and_cpus_are_those_of_this_qemu() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    for (set, words) in [
        ("machine=pc-q35-99.9", &["pc-q35-99.9", "pc-q35-"][..]),
        ("machine=pc-i440fx-7.2", &["no q35", "One of: pc-q35-"]),
        ("cpu-model=bogus", &["no CPU called \"bogus\"", "-cpu help"]),
        ("cpu-model=qemu65", &["Did you mean qemu64?"]),
    ] {
        let (code, text) = says(&lab, &["create", "x", "--firmware", "bios", "--set", set]);
        assert_ne!(code, 0, "{set}");
        for word in words {
            assert!(text.contains(word), "{set}: {text}");
        }
    }
    let mut wanted = request("x", DiskSource::Blank, Firmware::Bios);
    wanted.set = vec![
        ("machine".into(), "q35".into()),
        ("cpu-model".into(), "Nehalem".into()),
    ];
    lab.make(wanted).await.unwrap();
    let vm = lab.ctx.store.load("x").unwrap();
    assert!(vm.machine.starts_with("pc-q35-"), "{}", vm.machine);
    assert_eq!(vm.cpu_model, "Nehalem");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_does_not_wait_for_what_it_does_not_bring() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    blank(&lab, "web").await;
    let words = ["snapshot", "create", "local/web", "--name", "s", "-y"];
    for wanted in ["agent", "running"] {
        let (code, text) = says(&lab, &[&words[..], &["--for", wanted]].concat());
        assert_eq!(code, 6, "{text}");
        assert!(
            text.contains("is stopped and stays so") && text.contains("Nothing was done"),
            "{text}"
        );
    }
    let (code, text) = says(&lab, &[&words[..], &["--for", "stopped"]].concat());
    assert_eq!(code, 0, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_in_place_of_the_monitor_is_not_believed() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    blank(&lab, "web").await;
    lab.power("web", START).await.unwrap();
    let vm = lab.ctx.store.load("web").unwrap();
    let pid: u32 = lab.pid(&vm).parse().unwrap();
    monitor(&lab, "web", Mood::Nods);
    let row = lab.row("web").await;
    assert_eq!(row.state, State::Unknown, "{row:?}");
    assert!(
        row.reason
            .clone()
            .unwrap()
            .contains(&format!("its QEMU is process {pid}"))
    );
    let power = Power(lab.ctx.clone());
    refused(&lab, &power, &row, STOP).await;
    let gentle = RemoveRequest {
        keep_disks: false,
        force: false,
    };
    let text = refused(&lab, &Remove(lab.ctx.clone()), &row, gentle).await;
    assert!(
        text.contains("cannot be asked") && text.contains("stop --force"),
        "{text}"
    );
    let told = check(&lab, "qemu.silent.web").await;
    assert_eq!(told.message.matches("local/web").count(), 1, "{told:?}");
    assert!(corral::link::signal::is_alive(pid));
    // Only what is meant to end it does.
    assert!(lab.power("web", FORCE).await.unwrap().changed);
    assert!(!corral::link::signal::is_alive(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_someone_elses_is_not_offered_to_doctor() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let dir = lab.ctx.store.dir("mine").unwrap();
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("thesis.txt"), "x").unwrap();
    let told = check(&lab, "qemu.unfinished.mine").await;
    assert!(
        told.fix.is_none() && told.message.contains("holds files"),
        "{told:?}"
    );
    let (code, text) = says(
        &lab,
        &["create", "mine", "--disk", "1M", "--firmware", "bios"],
    );
    assert_ne!(code, 0);
    assert!(
        text.contains("no VM of corral") && !text.contains("--fix"),
        "{text}"
    );
    // An empty one is what a killed create leaves.
    fs::remove_file(dir.join("thesis.txt")).unwrap();
    assert!(check(&lab, "qemu.unfinished.mine").await.fix.is_some());
}

/// The program as a user who is not root, where this one is: root may enter everything.
fn as_other(lab: &Lab, words: &[&str]) -> std::process::Output {
    let plain = lab.corral(words);
    let mut command = std::process::Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(plain.get_program())
        .args(plain.get_args())
        .env_clear()
        .env("HOME", lab.root.path())
        .env("PATH", std::env::var_os("PATH").unwrap())
        .stdin(std::process::Stdio::null());
    command.output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_whose_folder_is_closed_is_broken_and_not_gone() {
    let root = rustix::process::geteuid().is_root();
    if !has_qemu() || !root || which::which("setpriv").is_err() {
        eprintln!("skipped: needs root and setpriv");
        return;
    }
    let lab = Lab::new();
    blank(&lab, "web").await;
    let vm = lab.ctx.store.load("web").unwrap();
    let state = lab.ctx.paths(&vm.uuid).unwrap().dir;
    fs::create_dir_all(&state).unwrap();
    let owned = std::process::Command::new("chown")
        .args(["-R", "65534:65534"])
        .arg(lab.root.path())
        .status();
    assert!(owned.unwrap().success());
    let dir = lab.ctx.store.dir("web").unwrap();
    std::os::unix::fs::chown(&dir, Some(0), Some(0)).unwrap();
    let listed = as_other(&lab, &["list", "-o", "json"]);
    let Ok(list) = serde_json::from_slice::<serde_json::Value>(&listed.stdout) else {
        eprintln!("skipped: another user cannot run this program: {listed:?}");
        return;
    };
    assert_eq!(list["instances"][0]["state"], "broken", "{list}");
    let fixed = as_other(&lab, &["doctor", "--fix", "-y"]);
    assert!(state.exists(), "{fixed:?}");
    let made = as_other(
        &lab,
        &["create", "web", "--disk", "1M", "--firmware", "bios"],
    );
    let text = String::from_utf8_lossy(&made.stderr);
    assert!(!text.contains("interrupted"), "{text}");
}

/// [`says`], with the answer yes: whether it did it, and what it said.
fn said(lab: &Lab, words: &[&str]) -> (bool, String) {
    let (code, text) = says(lab, &[words, &["-y"]].concat());
    (code == 0, text)
}

fn img(args: &[&str]) -> String {
    let output = std::process::Command::new("qemu-img")
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_image_from_outside_brings_no_file_of_this_machine() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let path = |name: &str| lab.root.path().join(name).to_str().unwrap().to_owned();
    let secret = path("secret");
    fs::write(&secret, vec![b's'; 1 << 20]).unwrap();
    let (over, data, vmdk) = (path("over.qcow2"), path("data.qcow2"), path("x.vmdk"));
    img(&[
        "create", "-q", "-f", "qcow2", "-b", &secret, "-F", "raw", &over,
    ]);
    let apart = format!("data_file={},data_file_raw=on", path("apart"));
    img(&["create", "-q", "-f", "qcow2", "-o", &apart, &data, "1M"]);
    // QEMU takes this for a VMDK; the name of its data stands in it.
    let mut text = format!(
        "#\nversion=1\nCID=fffffffe\nparentCID=ffffffff\ncreateType=\"monolithicFlat\"\nRW 2048 FLAT \"{secret}\" 0\n"
    )
    .into_bytes();
    text.resize(1 << 20, b'\n');
    text[510..512].copy_from_slice(&[0x55, 0xaa]);
    fs::write(&vmdk, text).unwrap();
    assert!(
        said(
            &lab,
            &["create", "web", "--disk", "1M", "--firmware", "bios"]
        )
        .0
    );
    for file in [&over, &data] {
        for words in [
            &["create", "x", "--firmware", "bios", "--image", file][..],
            &["create", "x", "--firmware", "bios", "--backing", file],
            &["disk", "add", "web", "--image", file],
            &["disk", "add", "web", "--image", file, "--copy"],
        ] {
            let (done, text) = said(&lab, words);
            assert!(!done && text.contains("another"), "{words:?}: {text}");
            assert!(text.contains("qemu-img convert"), "{words:?}: {text}");
        }
    }
    // What is no format that corral knows is a raw disk, whatever QEMU would make of it.
    let (done, text) = said(&lab, &["disk", "add", "web", "--image", &vmdk, "--copy"]);
    assert!(done, "{text}");
    let copy = lab.ctx.store.load("web").unwrap().disks[1].path.clone();
    let back = path("back");
    img(&["convert", "-O", "raw", copy.to_str().unwrap(), &back]);
    assert!(fs::read(&back).unwrap().starts_with(b"#\nversion"));

    // Overlays of its own making stay what they are: clones of clones, detached and attached again.
    for words in [
        &["clone", "web", "--name", "over", "--linked"][..],
        &["disk", "remove", "over", "--disk", "disk1"],
    ] {
        let (done, text) = said(&lab, words);
        assert!(done, "{words:?}: {text}");
    }
    let detached = lab.ctx.store.dir("over").unwrap().join("disk1.qcow2");
    let detached = detached.to_str().unwrap();
    let (done, text) = said(&lab, &["disk", "add", "over", "--image", detached]);
    assert!(done, "{text}");
    let (done, text) = said(&lab, &["clone", "over", "--name", "whole"]);
    assert!(done, "{text}");
    // But not one that the guest of a raw disk wrote into it.
    let (done, text) = said(
        &lab,
        &["disk", "add", "web", "--size", "2M", "--format", "raw"],
    );
    assert!(done, "{text}");
    let raw = lab.ctx.store.load("web").unwrap().disks[2].path.clone();
    let raw = raw.to_str().unwrap();
    fs::copy(&over, raw).unwrap();
    assert!(said(&lab, &["disk", "remove", "web", "--disk", "disk2"]).0);
    let (done, text) = said(&lab, &["disk", "add", "web", "--image", raw]);
    assert!(!done && text.contains("overlay"), "{text}");
}

#[test]
fn a_raw_disk_is_cloned_whatever_is_in_it() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let make = ["create", "web", "--disk", "1M", "--firmware", "bios"];
    assert!(said(&lab, &make).0);
    let add = ["disk", "add", "web", "--size", "1M", "--format", "raw"];
    assert!(said(&lab, &add).0);
    let secret = lab.root.path().join("secret");
    fs::write(&secret, vec![b's'; 1 << 20]).unwrap();
    let raw = lab.ctx.store.load("web").unwrap().disks[1].path.clone();
    // Blank, and with what looks like an overlay: the guest wrote that.
    for n in 0..2 {
        if n == 1 {
            let over = lab.root.path().join("over.qcow2");
            let (over, secret) = (over.to_str().unwrap(), secret.to_str().unwrap());
            img(&[
                "create", "-q", "-f", "qcow2", "-b", secret, "-F", "raw", over,
            ]);
            let mut bytes = fs::read(over).unwrap();
            bytes.resize(1 << 20, 0);
            fs::write(&raw, bytes).unwrap();
        }
        for linked in [false, true] {
            let name = format!("c{n}{linked}");
            let mut words = vec!["clone", "web", "--name", &name];
            words.extend(linked.then_some("--linked"));
            let (done, text) = said(&lab, &words);
            assert!(done, "{words:?}: {text}");
            let copy = lab.ctx.store.load(&name).unwrap().disks[1].path.clone();
            let back = lab.root.path().join("back");
            img(&[
                "convert",
                "-O",
                "raw",
                copy.to_str().unwrap(),
                back.to_str().unwrap(),
            ]);
            assert_eq!(fs::read(&back).unwrap(), fs::read(&raw).unwrap(), "{name}");
            let (done, text) = said(&lab, &["delete", &name, "--confirm", &name]);
            assert!(done, "{text}");
        }
    }
}

#[test]
fn a_paused_guest_is_not_asked_to_let_go_of_a_disk() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    for words in [
        &[
            "create",
            "web",
            "--disk",
            "1M",
            "--firmware",
            "bios",
            "--memory",
            "64M",
        ][..],
        &["disk", "add", "web", "--size", "1M"],
        &["start", "web"],
        &["pause", "web"],
    ] {
        let (done, text) = said(&lab, words);
        assert!(done, "{words:?}: {text}");
    }
    let (done, text) = said(&lab, &["disk", "remove", "web", "--disk", "disk1"]);
    let (stopped, _) = said(&lab, &["stop", "web", "--force"]);
    assert!(!done && text.contains("corral resume local/web"), "{text}");
    assert!(stopped);
    assert_eq!(lab.ctx.store.load("web").unwrap().disks.len(), 2);
}

#[test]
fn a_detached_disk_is_told_of_and_comes_back() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let plan = |words: &[&str]| {
        let output = lab
            .corral(&[words, &["--dry-run"]].concat())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .output()
            .unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let file = lab.ctx.store.dir("web").unwrap().join("disk1.qcow2");
    let path = file.to_str().unwrap();
    for words in [
        &["create", "web", "--disk", "1M", "--firmware", "bios"][..],
        &["disk", "add", "web", "--size", "1M"],
        &["snapshot", "create", "web", "--name", "s1"],
        &["disk", "remove", "web", "--disk", "disk1"],
    ] {
        let (done, text) = said(&lab, words);
        assert!(done, "{words:?}: {text}");
    }
    let doctor = |wanted: &str| {
        let output = lab
            .corral(&["doctor"])
            .stdout(std::process::Stdio::piped())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().contains(wanted)
    };
    assert!(doctor("that no VM uses") && doctor("corral disk add local/web --image"));
    let text = plan(&["snapshot", "restore", "web@s1"]);
    assert!(text.contains("does not come back"), "{text}");
    let text = plan(&["snapshot", "delete", "web@s1"]);
    assert!(text.contains("qemu-img snapshot -d s1"), "{text}");
    let (done, text) = said(&lab, &["disk", "add", "web", "--image", path]);
    assert!(done, "{text}");
    assert!(!doctor("that no VM uses"));
    let (done, text) = said(&lab, &["delete", "web", "--confirm", "web"]);
    assert!(done, "{text}");
    assert!(!file.exists() && !file.parent().unwrap().exists());
    let (done, text) = said(
        &lab,
        &["create", "web", "--disk", "1M", "--firmware", "bios"],
    );
    assert!(done, "{text}");
}
