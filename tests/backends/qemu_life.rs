//! Making, snapshotting and deleting real VMs.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod lab;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use corral::backend::contract::{
    Changes as _, CloudInit, DiskSource, Firmware, PowerRequest, ReadCx, RemoveRequest,
    SnapshotRequest, TakeSnapshot,
};
use corral::backend::qemu::families::{Create, Remove, Snapshots};
use corral::backend::qemu::op::{self, Change, Phase};
use corral::backend::qemu::power::Power;
use corral::backend::qemu::recover::recover;
use corral::backend::qemu::snapshots::record::Record;
use corral::backend::qemu::{process, snapshots};
use corral::model::{Bytes, Consistency, Snapshot, State};
use lab::guest::{guest, has_qemu};
use lab::{Lab, request, task};

const DELETE: RemoveRequest = RemoveRequest {
    keep_disks: false,
    force: false,
};

fn take(name: &str, memory: bool) -> SnapshotRequest {
    SnapshotRequest::Create(TakeSnapshot {
        name: name.into(),
        note: None,
        memory,
        ..TakeSnapshot::default()
    })
}

fn restore(name: &str, stop: bool, start: bool) -> SnapshotRequest {
    SnapshotRequest::Restore {
        name: name.into(),
        stop,
        start,
        keep_present: None,
    }
}

async fn list(lab: &Lab, name: &str) -> Vec<Snapshot> {
    let vm = lab.ctx.store.load(name).unwrap();
    let mut monitor = process::connect(&lab.ctx, &vm).await.unwrap();
    snapshots::list(&lab.ctx, &vm, monitor.as_mut())
        .await
        .unwrap()
}

fn qemu_img(args: &[&str]) -> String {
    let output = Command::new("qemu-img").args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn small_image(dir: &Path) -> PathBuf {
    let raw = dir.join("small.raw");
    let mut content = vec![0; 4 << 20];
    content[510..512].copy_from_slice(&[0x55, 0xaa]);
    content[1 << 20..2 << 20].fill(7);
    fs::write(&raw, content).unwrap();
    let image = dir.join("small image.qcow2");
    qemu_img(&[
        "convert",
        "-f",
        "raw",
        "-O",
        "qcow2",
        raw.to_str().unwrap(),
        image.to_str().unwrap(),
    ]);
    image
}

fn copy_of(path: &Path) -> DiskSource {
    DiskSource::Copy(path.to_str().unwrap().to_owned())
}

async fn whole_life(firmware: Firmware) {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let family = Snapshots(lab.ctx.clone());
    let mut wanted = request("my vm", copy_of(&image), firmware);
    wanted.start = true;
    let made = lab.make(wanted).await.unwrap();
    assert_eq!(made.id.unwrap().to_string(), "local/my%20vm");
    let running = lab.instance("my vm", State::Running);
    let stopped = lab.instance("my vm", State::Stopped);
    let at = lab.login("my vm", 0).await;
    let (_, at) = lab
        .shell(
            "my vm",
            "echo one > /data/state; echo ram > /tmp/ram; sync",
            at,
        )
        .await;

    let outcome = lab
        .change(&family, &running, take("with ram", true))
        .await
        .unwrap();
    assert_eq!(outcome.consistency, Some(Consistency::Memory));
    let outcome = lab
        .change(&family, &running, take("disk", false))
        .await
        .unwrap();
    assert_eq!(outcome.consistency, Some(Consistency::Crash));
    let twice = lab
        .change(&family, &running, take("disk", false))
        .await
        .unwrap_err();
    assert!(twice.message.contains("already a snapshot"), "{twice}");
    let (_, _) = lab
        .shell(
            "my vm",
            "echo two > /data/state; echo x > /tmp/ram; sync",
            at,
        )
        .await;

    let refused = lab
        .change(&family, &running, restore("disk", false, false))
        .await
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("local/my%20vm is running; stop it first: corral stop local/my%20vm (or add --stop --start)."),
        "{refused}"
    );
    let seen = list(&lab, "my vm").await;
    let kinds: Vec<_> = seen
        .iter()
        .map(|s| (s.name.as_str(), s.consistency, s.parent.as_deref()))
        .collect();
    assert!(
        kinds.contains(&("with ram", Some(Consistency::Memory), None)),
        "{kinds:?}"
    );
    assert!(
        kinds.contains(&("disk", Some(Consistency::Crash), Some("with ram"))),
        "{kinds:?}"
    );

    // Back to the one with RAM: the shell is still logged in, and RAM and disk are as they were.
    let log = |lab: &Lab| {
        let vm = lab.ctx.store.load("my vm").unwrap();
        fs::metadata(lab.ctx.paths(&vm.uuid).unwrap().serial_log)
            .unwrap()
            .len() as usize
    };
    lab.change(&family, &running, restore("with ram", true, true))
        .await
        .unwrap();
    let (said, _) = lab
        .shell("my vm", "cat /tmp/ram /data/state", log(&lab))
        .await;
    assert!(said.contains("ram\r\none"), "{said}");

    lab.power_off("my vm").await;
    let outcome = lab
        .change(&family, &stopped, take("off", false))
        .await
        .unwrap();
    assert_eq!(outcome.consistency, Some(Consistency::Offline));
    let nothing = lab
        .change(&family, &stopped, take("ram", true))
        .await
        .unwrap_err();
    assert!(nothing.message.contains("no RAM"), "{nothing}");
    lab.change(&family, &stopped, restore("disk", false, false))
        .await
        .unwrap();
    let vm = lab.ctx.store.load("my vm").unwrap();
    for (_, path) in vm.snapshot_nodes() {
        let text = qemu_img(&["snapshot", "-l", path.to_str().unwrap()]);
        for tag in ["with ram", "disk", "off"] {
            assert!(text.contains(tag), "{tag} in {text}");
        }
        qemu_img(&["check", "-q", path.to_str().unwrap()]);
    }
    assert_eq!(
        vm.snapshot_nodes().len(),
        if firmware == Firmware::Uefi { 2 } else { 1 }
    );
    for (name, changed) in [("disk", true), ("disk", false), ("off", true)] {
        let outcome = lab
            .change(
                &family,
                &stopped,
                SnapshotRequest::Delete {
                    names: vec![name.into()],
                },
            )
            .await
            .unwrap();
        assert_eq!(outcome.changed, changed);
    }
    let left: Vec<_> = list(&lab, "my vm")
        .await
        .into_iter()
        .map(|s| s.name)
        .collect();
    assert_eq!(left, ["with ram"]);

    let remove = Remove(lab.ctx.clone());
    lab.change(&remove, &stopped, DELETE).await.unwrap();
    assert_eq!(fs::read_dir(lab.ctx.store.root()).unwrap().count(), 0);
    assert!(image.exists());
    assert!(!lab.change(&remove, &stopped, DELETE).await.unwrap().changed);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_present_is_kept_on_a_restore_and_disks_on_a_delete() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let family = Snapshots(lab.ctx.clone());
    let mut wanted = request("web", copy_of(&image), Firmware::Bios);
    wanted.start = true;
    lab.make(wanted).await.unwrap();
    let running = lab.instance("web", State::Running);
    let stopped = lab.instance("web", State::Stopped);
    let at = lab.login("web", 0).await;
    let (_, at) = lab.shell("web", "echo one > /data/state; sync", at).await;
    lab.change(&family, &running, take("first", true))
        .await
        .unwrap();
    lab.shell("web", "echo two > /data/state; sync", at).await;
    let log = |lab: &Lab| {
        let vm = lab.ctx.store.load("web").unwrap();
        let file = lab.ctx.paths(&vm.uuid).unwrap().serial_log;
        usize::try_from(fs::metadata(file).unwrap().len()).unwrap()
    };
    let back = SnapshotRequest::Restore {
        name: "first".into(),
        stop: true,
        start: true,
        keep_present: Some("kept".into()),
    };
    let prepared = lab.prepare(&family, &running, back.clone()).await;
    assert!(prepared.losses.is_empty(), "{:?}", prepared.losses);
    lab.change(&family, &running, back).await.unwrap();
    let (said, _) = lab.shell("web", "cat /data/state", log(&lab)).await;
    assert!(said.contains("\none"), "{said}");
    let kinds: Vec<_> = list(&lab, "web")
        .await
        .into_iter()
        .map(|s| (s.name, s.consistency, s.parent, s.current))
        .collect();
    let memory = Some(Consistency::Memory);
    assert!(
        kinds.contains(&("kept".into(), memory, Some("first".into()), false)),
        "{kinds:?}"
    );
    assert!(
        kinds.contains(&("first".into(), memory, None, true)),
        "{kinds:?}"
    );
    // And forward again, to what was kept.
    lab.change(&family, &running, restore("kept", true, true))
        .await
        .unwrap();
    let (said, _) = lab.shell("web", "cat /data/state", log(&lab)).await;
    assert!(said.contains("\ntwo"), "{said}");
    // Without --start it stays off.
    lab.change(&family, &running, restore("first", true, false))
        .await
        .unwrap();
    let vm = lab.ctx.store.load("web").unwrap();
    assert!(process::connect(&lab.ctx, &vm).await.unwrap().is_none());

    let told = lab.backend();
    let told = told.families().events().unwrap();
    let cx = ReadCx::quiet(std::time::Duration::from_secs(30));
    let told = told.recorded(&cx, Some(&stopped.id)).await.unwrap();
    let told: Vec<String> = told.into_iter().map(|e| e.message).collect();
    for text in [
        "created",
        "started",
        "snapshot kept taken",
        "its disks are at first",
    ] {
        assert!(told.iter().any(|told| told == text), "{text} in {told:?}");
    }

    let disk = vm.disks[0].path.clone();
    let remove = Remove(lab.ctx.clone());
    let keep = RemoveRequest {
        keep_disks: true,
        force: false,
    };
    let prepared = lab.prepare(&remove, &stopped, keep).await;
    assert!(prepared.losses.is_empty(), "{:?}", prepared.losses);
    let kept = format!("{:?}", prepared.notes);
    assert!(kept.contains("--keep-disks"), "{kept}");
    remove.run(&task(&stopped.id), prepared).await.unwrap();
    assert!(lab.ctx.store.list().unwrap().is_empty());
    assert!(qemu_img(&["snapshot", "-l", disk.to_str().unwrap()]).contains("kept"));
    let taken = lab
        .make(request("web", DiskSource::Blank, Firmware::Bios))
        .await
        .unwrap_err();
    assert!(
        taken.message.contains("were kept in") && taken.remedy.is_some(),
        "{taken}"
    );
    // What was kept makes a VM again.
    let other = request("again", copy_of(&disk), Firmware::Bios);
    lab.make(other).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_life_with_bios() {
    whole_life(Firmware::Bios).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_life_with_uefi() {
    whole_life(Firmware::Uefi).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn req_17_a_running_vm_is_deleted_with_force_alone() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let mut wanted = request(
        "web",
        DiskSource::Backed(image.to_str().unwrap().into()),
        Firmware::Bios,
    );
    wanted.start = true;
    wanted.cloud_init = Some(CloudInit {
        hostname: Some("seeded".into()),
        ..CloudInit::default()
    });
    lab.make(wanted).await.unwrap();
    // The guest takes its host name from the seed, late in its boot.
    let at = lab.login("web", 0).await;
    let (said, _) = lab.shell("web", "for i in 1 2 3 4 5 6 7 8 9; do hostname | grep -q seeded && break; sleep 1; done; hostname", at).await;
    assert!(said.contains("\nseeded"), "{said}");
    let remove = Remove(lab.ctx.clone());
    let on = lab.instance("web", State::Running);
    let refused = lab.change(&remove, &on, DELETE).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("Stop it first: corral stop local/web"),
        "{refused}"
    );
    lab.change(
        &remove,
        &on,
        RemoveRequest {
            force: true,
            ..DELETE
        },
    )
    .await
    .unwrap();
    assert!(image.exists() && !lab.ctx.store.dir("web").unwrap().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_an_image_is_refused_in_one_message_with_a_remedy() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let dir = lab.root.path();
    let good = small_image(dir);
    let corrupt = dir.join("corrupt.qcow2");
    let mut bytes = fs::read(&good).unwrap();
    bytes[40..44].copy_from_slice(b"xxxx");
    fs::write(&corrupt, bytes).unwrap();
    let overlay = dir.join("overlay.qcow2");
    let base = dir.join("base.qcow2");
    fs::copy(&good, &base).unwrap();
    qemu_img(&[
        "create",
        "-q",
        "-f",
        "qcow2",
        "-F",
        "qcow2",
        "-b",
        base.to_str().unwrap(),
        overlay.to_str().unwrap(),
    ]);
    fs::write(dir.join("text.qcow2"), "no image at all").unwrap();
    for (file, wanted) in [
        ("missing.qcow2", "there is no file"),
        ("corrupt.qcow2", "is corrupt"),
        ("overlay.qcow2", "is an overlay of another image"),
        ("text.qcow2", "no disk image"),
        (".", "is a folder"),
    ] {
        let prepared = lab
            .prepare(
                &Create(lab.ctx.clone()),
                &lab.instance("x", State::Provisioning),
                request("x", copy_of(&dir.join(file)), Firmware::Bios),
            )
            .await;
        let [refusal] = prepared.refusals.as_slice() else {
            panic!("{file}: {:?}", prepared.refusals)
        };
        assert!(
            refusal.message.contains(wanted) && refusal.remedy.is_some(),
            "{file}: {refusal:?}"
        );
    }
    assert!(!lab.ctx.store.dir("x").unwrap().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_a_guest_writes_is_in_use() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let mut first = request(
        "first",
        DiskSource::Backed(image.to_str().unwrap().into()),
        Firmware::Bios,
    );
    first.start = true;
    lab.make(first).await.unwrap();
    let disk = lab.ctx.store.load("first").unwrap().disks[0].path.clone();
    let error = lab
        .make(request("second", copy_of(&disk), Firmware::Bios))
        .await
        .unwrap_err();
    assert!(
        error.message.contains("is in use by another program"),
        "{error}"
    );
    lab.power_off("first").await;
    let error = lab
        .make(request(
            "third",
            DiskSource::Backed(disk.to_str().unwrap().into()),
            Firmware::Bios,
        ))
        .await
        .unwrap_err();
    assert!(error.message.contains("is a disk of first"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn req_40_odd_names_and_names_that_are_taken() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    for name in ["web", "my vm", "🐄", "a/b", "web@x", "-rf", "..", "a,b"] {
        let mut wanted = request(name, DiskSource::Blank, Firmware::Uefi);
        wanted.disk_size = Some(Bytes::mib(8));
        wanted.publish.clear();
        lab.make(wanted).await.unwrap();
        let vm = lab.ctx.store.load(name).unwrap();
        assert_eq!((vm.name.as_str(), vm.disks[0].size), (name, Bytes::mib(8)));
        assert!(vm.machine.starts_with("pc-q35-") && vm.nics[0].forwards[0].port > 0);
    }
    assert_eq!(lab.ctx.store.list().unwrap().len(), 8);
    let ports: std::collections::BTreeSet<u16> = lab
        .ctx
        .store
        .list()
        .unwrap()
        .into_iter()
        .map(|e| e.definition.unwrap().nics[0].forwards[0].port)
        .collect();
    assert_eq!(ports.len(), 8);
    let error = lab
        .make(request("web", DiskSource::Blank, Firmware::Bios))
        .await
        .unwrap_err();
    assert!(error.message.contains("already a VM"), "{error}");
    for (name, why) in [
        ("", "is empty"),
        (
            "a\u{1b}[2J",
            "\\x1b[2J\" holds characters that cannot be seen",
        ),
        ("a\nb", "cannot be seen"),
        (" web", "begins or ends with a space"),
        (&"n".repeat(300), "too long"),
        (&"🐄".repeat(60), "too long"),
    ] {
        let on = lab.instance("x", State::Provisioning);
        let wanted = request(name, DiskSource::Blank, Firmware::Bios);
        let prepared = lab.prepare(&Create(lab.ctx.clone()), &on, wanted).await;
        let [refusal] = prepared.refusals.as_slice() else {
            panic!("{name:?}: {prepared:?}")
        };
        assert!(
            refusal.message.contains(why) && refusal.remedy.is_some(),
            "{name:?}: {refusal:?}"
        );
        assert!(refusal.message.len() < 500, "{refusal:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_only_grow_and_windows_gets_what_it_has_drivers_for() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let image = small_image(lab.root.path());
    let mut wanted = request("small", copy_of(&image), Firmware::Bios);
    wanted.disk_size = Some(Bytes::mib(2));
    let error = lab.make(wanted.clone()).await.unwrap_err();
    assert!(error.message.contains("too small"), "{error}");
    wanted.disk_size = Some(Bytes::mib(64));
    wanted.os = Some("windows".into());
    wanted.firmware = None;
    lab.make(wanted).await.unwrap();
    let vm = lab.ctx.store.load("small").unwrap();
    assert_eq!(
        (vm.disks[0].bus.as_str(), vm.nics[0].model.as_str()),
        ("sata", "e1000e")
    );
    assert!(!vm.firmware.secure_boot && vm.firmware.vars.unwrap().exists());
    assert!(qemu_img(&["info", vm.disks[0].path.to_str().unwrap()]).contains("64 MiB"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fills_up_leaves_nothing() {
    if !has_qemu() || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root for a file system of its own size");
        return;
    }
    let lab = Lab::new();
    let image = small_image(lab.root.path());
    let data = lab.ctx.env.dirs.data.clone();
    fs::create_dir_all(&data).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=700k", "tmpfs"])
        .arg(&data)
        .status()
        .unwrap();
    if !mounted.success() {
        eprintln!("skipped: cannot mount a tmpfs here");
        return;
    }
    let on = lab.instance("x", State::Provisioning);
    // Too full from the start: refused by the plan.
    let family = Create(lab.ctx.clone());
    let early = lab
        .change(&family, &on, request("x", copy_of(&image), Firmware::Bios))
        .await;
    // Full in the middle: room when it was planned, none when it ran.
    Command::new("mount")
        .args(["-o", "remount,size=40m"])
        .arg(&data)
        .status()
        .unwrap();
    let prepared = lab
        .prepare(&family, &on, request("x", copy_of(&image), Firmware::Bios))
        .await;
    Command::new("mount")
        .args(["-o", "remount,size=700k"])
        .arg(&data)
        .status()
        .unwrap();
    let late = family.run(&task(&on.id), prepared).await;
    let left = fs::read_dir(lab.ctx.store.root()).map_or(0, Iterator::count);
    Command::new("umount").arg(&data).status().unwrap();
    let early = early.unwrap_err();
    assert!(early.message.contains("not enough space in"), "{early}");
    let late = late.unwrap_err();
    assert!(
        late.message.contains("no space left") && late.message.ends_with("Nothing was created"),
        "{late}"
    );
    assert_eq!(left, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_on_a_full_disk_can_be_deleted() {
    if !has_qemu() || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root for a file system of its own size");
        return;
    }
    let lab = Lab::new();
    let data = lab.ctx.env.dirs.data.clone();
    fs::create_dir_all(&data).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"])
        .arg(&data)
        .status();
    if !mounted.unwrap().success() {
        eprintln!("skipped: cannot mount a tmpfs here");
        return;
    }
    let mut wanted = request("x", DiskSource::Blank, Firmware::Bios);
    wanted.disk_size = Some(Bytes::mib(8));
    let made = lab.make(wanted).await;
    let filled = fs::write(data.join("filler"), vec![1; 8 << 20]);
    let on = lab.instance("x", State::Stopped);
    let request = RemoveRequest {
        keep_disks: false,
        force: false,
    };
    let deleted = lab.change(&Remove(lab.ctx.clone()), &on, request).await;
    let left = fs::read_dir(lab.ctx.store.root()).map_or(0, Iterator::count);
    Command::new("umount").arg(&data).status().unwrap();
    made.unwrap();
    assert!(filled.is_err(), "the disk is not full");
    assert!(deleted.unwrap().changed);
    assert_eq!(left, 0);
}

/// Leaves what a corral killed in this phase would have left.
fn killed(dir: &Path, change: Change, phase: Phase) {
    let op = op::Op {
        format: op::FORMAT,
        change,
        phase,
        pid: u32::MAX - 1,
        pid_start: 1,
        at: jiff::Timestamp::now(),
    };
    fs::write(dir.join(op::FILE), serde_json::to_vec(&op).unwrap()).unwrap();
}

async fn mend(lab: &Lab) -> Vec<String> {
    let mut said = Vec::new();
    for left in op::leftovers(&lab.ctx.store).unwrap() {
        said.push(recover(&lab.ctx, &left).await.unwrap().message.unwrap());
    }
    assert!(op::leftovers(&lab.ctx.store).unwrap().is_empty());
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_every_phase_nothing_is_lost_or_half_made() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let store = &lab.ctx.store;
    // Create: before the definition it is rolled back, after it completed.
    for phase in [Phase::Begun, Phase::Working] {
        let dir = store.dir("new").unwrap();
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("disk0.qcow2"), "half").unwrap();
        killed(&dir, Change::Create, phase);
        let taken = lab
            .make(request("new", DiskSource::Blank, Firmware::Bios))
            .await
            .unwrap_err();
        assert!(taken.to_string().contains("doctor --fix"), "{taken}");
        mend(&lab).await;
        assert!(!dir.exists());
    }
    fs::create_dir_all(store.dir("empty").unwrap()).unwrap();
    mend(&lab).await;
    assert!(!store.dir("empty").unwrap().exists());

    let image = small_image(lab.root.path());
    lab.make(request("web", copy_of(&image), Firmware::Uefi))
        .await
        .unwrap();
    let dir = store.dir("web").unwrap();
    killed(&dir, Change::Create, Phase::Recording);
    assert!(mend(&lab).await[0].contains("made completely"));
    assert!(store.load("web").is_ok());

    // Snapshots: on one image of two it is taken back, on both it is completed.
    let disk = dir.join("disk0.qcow2");
    let disk = disk.to_str().unwrap();
    let vars = dir.join("efivars.qcow2");
    let vars = vars.to_str().unwrap();
    let created = Change::SnapshotCreate {
        record: Box::new(Record {
            name: "s".into(),
            consistency: Some(Consistency::Offline),
            ..Record::default()
        }),
        frozen: false,
    };
    killed(&dir, created.clone(), Phase::Begun);
    mend(&lab).await;
    qemu_img(&["snapshot", "-c", "s", disk]);
    killed(&dir, created.clone(), Phase::Working);
    assert!(mend(&lab).await[0].contains("unfinished snapshot s is removed"));
    assert!(list(&lab, "web").await.is_empty());
    for phase in [Phase::Working, Phase::Recording] {
        qemu_img(&["snapshot", "-c", "s", disk]);
        qemu_img(&["snapshot", "-c", "s", vars]);
        killed(&dir, created.clone(), phase);
        mend(&lab).await;
        assert_eq!(
            list(&lab, "web").await[0].consistency,
            Some(Consistency::Offline)
        );
        qemu_img(&["snapshot", "-d", "s", vars]);
        assert!(list(&lab, "web").await[0].broken.is_some());
        killed(&dir, Change::SnapshotDelete { tag: "s".into() }, phase);
        mend(&lab).await;
        assert!(list(&lab, "web").await.is_empty());
    }
    let family = Snapshots(lab.ctx.clone());
    let on = lab.instance("web", State::Stopped);
    lab.change(&family, &on, take("s", false)).await.unwrap();
    for phase in [Phase::Begun, Phase::Working, Phase::Recording] {
        killed(&dir, Change::SnapshotRestore { tag: "s".into() }, phase);
        mend(&lab).await;
    }
    assert!(list(&lab, "web").await[0].current);

    // Delete: before the first file it did not happen, after it there is no way back.
    let change = Change::Delete {
        files: vec![disk.into(), vars.into(), dir.join("snapshots.toml")],
        keep: vec![],
    };
    killed(&dir, change.clone(), Phase::Begun);
    mend(&lab).await;
    assert!(Path::new(disk).exists());
    fs::remove_file(disk).unwrap();
    killed(&dir, change, Phase::Working);
    assert!(mend(&lab).await[0].contains("deleted, as was begun"));
    assert!(!dir.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tpm_and_secure_boot_come_and_go_with_the_vm() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    if lab.ctx.env.which("swtpm").is_none() {
        assert!(std::env::var_os("CI").is_none(), "swtpm is not installed");
        eprintln!("skipped: no swtpm; apt install swtpm");
        return;
    }
    let mut wanted = request("safe", DiskSource::Blank, Firmware::Uefi);
    (wanted.tpm, wanted.secure_boot, wanted.start) = (true, true, true);
    wanted.disk_size = Some(Bytes::mib(64));
    lab.make(wanted).await.unwrap();
    let vm = lab.ctx.store.load("safe").unwrap();
    let paths = lab.ctx.paths(&vm.uuid).unwrap();
    assert!(paths.tpm.exists());
    let on = lab.instance("safe", State::Running);
    let outcome = lab
        .change(&Snapshots(lab.ctx.clone()), &on, take("s", true))
        .await
        .unwrap();
    assert_eq!(outcome.consistency, Some(Consistency::Memory));
    let remove = Remove(lab.ctx.clone());
    let prepared = lab
        .prepare(
            &remove,
            &on,
            RemoveRequest {
                force: true,
                ..DELETE
            },
        )
        .await;
    assert!(
        format!("{:?}", prepared.losses).contains("1 snapshot")
            && format!("{:?}", prepared.losses).contains("TPM"),
        "{:?}",
        prepared.losses
    );
    remove.run(&task(&on.id), prepared).await.unwrap();
    assert!(!lab.ctx.store.dir("safe").unwrap().exists() && !paths.dir.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_starts_and_info_says_what_it_got() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let mut wanted = request("win", DiskSource::Blank, Firmware::Uefi);
    wanted.disk_size = Some(Bytes::mib(64));
    wanted.os = Some("windows".into());
    lab.make(wanted).await.unwrap();
    let on = lab.instance("win", State::Stopped);
    let power = Power(lab.ctx.clone());
    let prepared = lab.prepare(&power, &on, PowerRequest::Start).await;
    let native = prepared.steps[0].native.clone();
    assert!(native.contains("-rtc base=localtime"), "{native}");
    // Where hints cannot be given the plan says why, and they are not given.
    assert_eq!(
        native.contains("hv_relaxed"),
        !format!("{:?}", prepared.notes).contains("Hyper-V hints"),
        "{prepared:?}"
    );
    power.run(&task(&on.id), prepared).await.unwrap();
    let cx = ReadCx::quiet(std::time::Duration::from_secs(30));
    let detail = lab.backend().detail(&cx, &on.id).await.unwrap();
    assert_eq!(detail.instance.state, State::Running);
    let hints = detail
        .facts
        .iter()
        .find(|(name, _)| name == "Windows hints");
    assert!(!hints.unwrap().1.is_empty());
    lab.power_off("win").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secure_boot_refuses_what_nobody_signed() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let mut wanted = request("safe", copy_of(&image), Firmware::Uefi);
    (wanted.secure_boot, wanted.start) = (true, true);
    lab.make(wanted).await.unwrap();
    let id = lab.ctx.id("safe");
    let cx = ReadCx::quiet(std::time::Duration::from_secs(30));
    let detail = lab.backend().detail(&cx, &id).await.unwrap();
    assert_eq!(detail.firmware.as_deref(), Some("uefi"));
    let said = ("Secure Boot".to_owned(), "on".to_owned());
    assert!(detail.facts.contains(&said), "{:?}", detail.facts);
    // The lab's loader is not signed; without Secure Boot it boots (`whole_life_with_uefi`).
    lab.serial("safe", "Access Denied", 0).await;
    lab.power_off("safe").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_installed_is_named_with_the_line_that_installs_it() {
    let lab = Lab::new();
    let mut env = (*lab.ctx.env).clone();
    env.path = vec![lab.root.path().to_owned()];
    let bare = std::sync::Arc::new(corral::backend::qemu::ctx::Ctx::new(
        lab.ctx.spec.clone(),
        std::sync::Arc::new(env),
    ));
    let on = lab.instance("x", State::Provisioning);
    let prepared = lab
        .prepare(
            &Create(bare),
            &on,
            request("x", DiskSource::Blank, Firmware::Bios),
        )
        .await;
    assert!(
        prepared.refusals[0]
            .remedy
            .as_ref()
            .unwrap()
            .contains("apt install"),
        "{prepared:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_disks_and_odd_names_hold_no_snapshots() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let mut wanted = request("raw", DiskSource::Blank, Firmware::Bios);
    wanted.disk_size = Some(Bytes::mib(8));
    lab.make(wanted).await.unwrap();
    let family = Snapshots(lab.ctx.clone());
    let on = lab.instance("raw", State::Stopped);
    for odd in ["", "7", "a\nb", " x", &"s".repeat(200)] {
        let error = lab
            .change(&family, &on, take(odd, false))
            .await
            .unwrap_err();
        assert!(error.remedy.is_some(), "{error}");
    }
    lab.change(&family, &on, take("-x ü", false)).await.unwrap();
    assert_eq!(list(&lab, "raw").await[0].name, "-x ü");
    // Someone edits the definition between the plan and its run.
    let prepared = lab.prepare(&family, &on, take("late", false)).await;
    let mut vm = lab.ctx.store.load("raw").unwrap();
    vm.cpus = 2;
    lab.ctx.store.save(&vm).unwrap();
    let error = family.run(&task(&on.id), prepared).await.unwrap_err();
    assert_eq!(error.kind, corral::model::ErrorKind::Conflict);
    vm.disks[0].format = "raw".into();
    lab.ctx.store.save(&vm).unwrap();
    let error = lab
        .change(&family, &on, take("s", false))
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("holds no snapshots. Turn it into qcow2"),
        "{error}"
    );
    assert!(list(&lab, "raw").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_was_grown_is_small_again_at_a_snapshot_and_the_plan_says_so() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let mut wanted = request("grown", DiskSource::Blank, Firmware::Bios);
    wanted.disk_size = Some(Bytes::mib(8));
    lab.make(wanted).await.unwrap();
    let family = Snapshots(lab.ctx.clone());
    let on = lab.instance("grown", State::Stopped);
    for name in ["first", "second"] {
        lab.change(&family, &on, take(name, false)).await.unwrap();
    }
    let output = lab
        .corral(&[
            "disk", "grow", "grown", "--disk", "disk0", "--to", "12M", "-y",
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    lab.change(&family, &on, take("large", false))
        .await
        .unwrap();
    let same = lab
        .prepare(&family, &on, restore("large", false, false))
        .await;
    assert_eq!(same.losses.len(), 1, "{:?}", same.losses);
    let prepared = lab
        .prepare(&family, &on, restore("second", false, false))
        .await;
    let losses = prepared.losses.join("\n");
    assert!(
        losses.contains("beyond 8.0 MiB of disk0, which was grown to 12 MiB"),
        "{losses}"
    );
    family.run(&task(&on.id), prepared).await.unwrap();
    let vm = lab.ctx.store.load("grown").unwrap();
    assert_eq!(vm.disks[0].size, Bytes::mib(8));
    let info = qemu_img(&["info", "--output=json", vm.disks[0].path.to_str().unwrap()]);
    assert!(
        info.contains(&format!("\"virtual-size\": {}", 8 << 20)),
        "{info}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_login_port_is_one_that_nobody_has() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let mut wanted = request("web", DiskSource::Blank, Firmware::Bios);
    wanted.disk_size = Some(Bytes::mib(8));
    wanted.publish.clear();
    wanted.start = true;
    let on = lab.instance("web", State::Provisioning);
    let family = Create(lab.ctx.clone());
    let prepared = lab.prepare(&family, &on, wanted).await;
    // Other programs have what would be picked first.
    let _taken: Vec<_> = (2201..2210)
        .filter_map(|port| std::net::TcpListener::bind(("127.0.0.1", port)).ok())
        .collect();
    family.run(&task(&on.id), prepared).await.unwrap();
    let vm = lab.ctx.store.load("web").unwrap();
    assert!(vm.nics[0].forwards[0].port >= 2210);
    lab.power_off("web").await;
}

#[tokio::test]
async fn a_picked_port_that_is_taken_later_is_picked_again_and_told() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let mut wanted = request("later", DiskSource::Blank, Firmware::Bios);
    wanted.disk_size = Some(Bytes::mib(8));
    wanted.memory = Bytes::mib(64);
    wanted.publish.clear();
    lab.make(wanted).await.unwrap();
    let port = |vm: corral::backend::qemu::definition::Definition| vm.nics[0].forwards[0].port;
    let first = port(lab.ctx.store.load("later").unwrap());
    let taken = std::net::TcpListener::bind(("127.0.0.1", first)).unwrap();
    let on = lab.instance("later", State::Stopped);
    let plan = lab
        .prepare(&Power(lab.ctx.clone()), &on, PowerRequest::Start)
        .await;
    let said = format!("{:?}", plan.notes);
    assert!(said.contains("another port is picked"), "{said}");
    let outcome = lab.power("later", PowerRequest::Start).await.unwrap();
    let second = port(lab.ctx.store.load("later").unwrap());
    assert_ne!(second, first);
    let told = outcome.message.unwrap();
    assert!(
        told.contains(&format!("at 127.0.0.1:{second} now, {first} was taken")),
        "{told}"
    );
    lab.power_off("later").await;
    drop(taken);
    // It stays where it is: whoever has noted it finds it there.
    lab.power("later", PowerRequest::Start).await.unwrap();
    assert_eq!(port(lab.ctx.store.load("later").unwrap()), second);
    lab.power_off("later").await;
}
