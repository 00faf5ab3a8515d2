//! Disks and media: seen from inside of the guest, by `qemu-img`, and by what lies in the folders.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may end where it stands"
)]

mod held;
mod lab;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use corral::backend::contract::{
    Changes as _, DiskMoveRequest, DiskRequest, DiskSource, Firmware, Growth, PowerRequest, ReadCx,
};
use corral::backend::qemu::disks::moves::How;
use corral::backend::qemu::disks::{DiskMove, Disks};
use corral::backend::qemu::op::{self, Change, Phase};
use corral::model::{Bytes, Detail, ErrorKind, State};
use held::{Held, fix, mended};
use lab::guest::{guest, has_qemu};
use lab::{Lab, READ, free_port, request, task};

/// Where an ISO 9660 image says that it is one.
const DESCRIPTOR: usize = 16 * 2048;

fn says(lab: &Lab, words: &[&str]) -> (bool, String) {
    let output = lab
        .corral(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

/// It is done; what was said.
fn run(lab: &Lab, words: &[&str]) -> String {
    let (done, said) = says(lab, &[words, &["-y"]].concat());
    assert!(done, "{words:?}: {said}");
    said
}

/// It is refused, and nothing is changed by it; why.
fn refused(lab: &Lab, words: &[&str], why: &str) {
    let before = definition(lab);
    let (done, said) = says(lab, &[words, &["-y"]].concat());
    assert!(!done && said.contains(why), "{words:?}: {said}");
    assert_eq!(definition(lab), before, "{words:?}");
}

fn definition(lab: &Lab) -> String {
    let file = lab.ctx.store.dir("web").unwrap().join("vm.toml");
    fs::read_to_string(file).unwrap()
}

fn path(lab: &Lab, disk: &str) -> PathBuf {
    let vm = lab.ctx.store.load("web").unwrap();
    let found = vm.disks.iter().find(|d| d.name == disk);
    found.unwrap_or_else(|| panic!("no {disk}")).path.clone()
}

fn disks(lab: &Lab) -> Vec<String> {
    let vm = lab.ctx.store.load("web").unwrap();
    vm.disks.into_iter().map(|disk| disk.name).collect()
}

async fn detail(lab: &Lab) -> Detail {
    let id = lab.ctx.id("web");
    let detail = lab.backend().detail(&ReadCx::quiet(READ), &id).await;
    detail.unwrap()
}

/// The definition and the process agree, and no image is damaged.
async fn nothing_is_left(lab: &Lab) {
    let detail = detail(lab).await;
    assert!(detail.pending.is_empty(), "{:?}", detail.pending);
    assert!(detail.problems.is_empty(), "{:?}", detail.problems);
    assert!(op::leftovers(&lab.ctx.store).unwrap().is_empty());
}

fn tool(tool: &str, args: &[&str]) -> String {
    let output = Command::new(tool).args(args).output().unwrap();
    assert!(output.status.success(), "{tool} {args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn size(file: &Path) -> u64 {
    let said = tool(
        "qemu-img",
        &["info", "-U", "--output=json", file.to_str().unwrap()],
    );
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    said["virtual-size"].as_u64().unwrap()
}

fn fill(disk: &Path, byte: u8) {
    let write = format!("write -P {byte} 0 64k");
    tool(
        "qemu-io",
        &["-f", "qcow2", "-c", &write, disk.to_str().unwrap()],
    );
}

fn is_filled(disk: &Path, byte: u8) -> bool {
    let read = format!("read -P {byte} 0 64k");
    let said = tool(
        "qemu-io",
        &["-f", "qcow2", "-c", &read, disk.to_str().unwrap()],
    );
    !said.contains("verification failed")
}

/// A disc whose first bytes say which.
fn disc(lab: &Lab, word: &str) -> String {
    let mut bytes = vec![0; DESCRIPTOR + 2048 * 8];
    bytes[..word.len()].copy_from_slice(word.as_bytes());
    bytes[DESCRIPTOR + 1..DESCRIPTOR + 6].copy_from_slice(b"CD001");
    let file = lab.root.path().join(format!("{word}.iso"));
    fs::write(&file, bytes).unwrap();
    file.to_str().unwrap().to_owned()
}

fn folder(lab: &Lab, name: &str) -> String {
    let folder = lab.root.path().join(name);
    fs::create_dir_all(&folder).unwrap();
    folder.to_str().unwrap().to_owned()
}

/// A logged-in guest.
struct Inside<'a> {
    lab: &'a Lab,
    at: usize,
}

impl<'a> Inside<'a> {
    async fn boot(lab: &'a Lab, from: usize) -> Self {
        lab.power("web", PowerRequest::Start).await.unwrap();
        let at = lab.login("web", from).await;
        Self { lab, at }
    }

    async fn shell(&mut self, command: &str) -> String {
        let (said, at) = self
            .lab
            .shell("web", &format!("{command}; echo"), self.at)
            .await;
        self.at = at;
        said
    }

    /// The guest comes to say this within its time.
    async fn comes(&mut self, command: &str, wanted: &str) {
        let until = Instant::now() + READ;
        loop {
            let said = self.shell(command).await;
            // The serial line echoes what is typed.
            let said = said.split_once('\n').map_or("", |(_, rest)| rest);
            if said.contains(wanted) {
                return;
            }
            assert!(Instant::now() < until, "{command}: {said}, not {wanted}");
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_and_media_come_and_go_while_the_guest_runs() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let source = DiskSource::Backed(image.to_str().unwrap().to_owned());
    let mut wanted = request("web", source, Firmware::Bios);
    wanted.set = vec![("bus".to_owned(), "scsi".to_owned())];
    lab.make(wanted).await.unwrap();
    let (one, two) = (disc(&lab, "disc-one"), disc(&lab, "disc-two"));
    run(&lab, &["media", "insert", "web", "--image", &one]);
    let mut inside = Inside::boot(&lab, 0).await;
    nothing_is_left(&lab).await;

    // Added: the guest sees them, writes and reads.
    run(
        &lab,
        &["disk", "add", "web", "--size", "64M", "--bus", "virtio"],
    );
    inside
        .comes("grep vda /proc/partitions", " 65536 vda")
        .await;
    inside
        .shell("echo first-disk | dd of=/dev/vda conv=fsync")
        .await;
    run(
        &lab,
        &["disk", "add", "web", "--size", "32M", "--format", "raw"],
    );
    inside
        .comes("grep sdb /proc/partitions", " 32768 sdb")
        .await;
    inside
        .shell("echo second-disk | dd of=/dev/sdb conv=fsync")
        .await;
    let (first, second) = (path(&lab, "disk1"), path(&lab, "disk2"));
    assert!(fs::read(&second).unwrap().starts_with(b"second-disk"));
    nothing_is_left(&lab).await;

    // Grown: the guest sees it at once. Never smaller.
    run(
        &lab,
        &["disk", "grow", "web", "--disk", "disk1", "--by", "32M"],
    );
    inside
        .comes("grep vda /proc/partitions", " 98304 vda")
        .await;
    assert_eq!(size(&first), 96 << 20);
    refused(
        &lab,
        &["disk", "grow", "web", "--disk", "disk1", "--to", "10M"],
        "only grows",
    );
    assert!(
        run(
            &lab,
            &["disk", "grow", "web", "--disk", "disk1", "--to", "96M"]
        )
        .contains("already")
    );

    // Moved while it is used: what the guest wrote before and writes now is at the new place.
    let there = folder(&lab, "there");
    run(
        &lab,
        &["disk", "move", "web", "--disk", "disk1", "--to", &there],
    );
    let moved = path(&lab, "disk1");
    assert!(!first.exists() && moved.starts_with(&there) && moved.exists());
    inside.shell("echo 3 > /proc/sys/vm/drop_caches").await;
    inside.comes("head -c 10 /dev/vda", "first-disk").await;
    inside
        .shell("echo after-move | dd of=/dev/vda bs=512 seek=1 conv=fsync")
        .await;
    assert_eq!(size(&moved), 96 << 20);
    nothing_is_left(&lab).await;

    // Grown at the new place, and moved once more: the node has another name by then.
    run(
        &lab,
        &["disk", "grow", "web", "--disk", "disk1", "--to", "128M"],
    );
    inside
        .comes("grep vda /proc/partitions", " 131072 vda")
        .await;
    let back = folder(&lab, "back");
    run(
        &lab,
        &["disk", "move", "web", "--disk", "disk1", "--to", &back],
    );
    assert!(!moved.exists());
    nothing_is_left(&lab).await;

    // Detached: gone from the guest, the file stays; attached as it is, its data is there again.
    run(&lab, &["disk", "remove", "web", "--disk", "disk2"]);
    inside.comes("grep -c sdb /proc/partitions", "0").await;
    assert!(second.exists());
    nothing_is_left(&lab).await;
    let file = second.to_str().unwrap();
    let words = [
        "disk",
        "add",
        "web",
        "--image",
        file,
        "--format",
        "raw",
        "--write-protect",
    ];
    run(&lab, &[&words[..], &["--bus", "virtio"]].concat());
    inside.comes("head -c 11 /dev/vdb", "second-disk").await;
    inside
        .comes("echo x | dd of=/dev/vdb conv=fsync 2>&1", "error")
        .await;
    assert!(fs::read(&second).unwrap().starts_with(b"second-disk"));
    refused(&lab, &words, "in use by");
    let own = path(&lab, "disk0");
    refused(
        &lab,
        &["disk", "add", "web", "--image", own.to_str().unwrap()],
        "in use by",
    );
    refused(
        &lab,
        &["disk", "move", "web", "--disk", "disk2", "--to", &there],
        "read-only",
    );
    run(&lab, &["disk", "remove", "web", "--disk", "disk2"]);
    inside.comes("grep -c vdb /proc/partitions", "0").await;

    media(&lab, &mut inside, &one, &two).await;
    never_lets_go(&lab, &mut inside).await;

    // After a cold start: the same disk, at the same place, with all that was written.
    let address = inside.shell("readlink /sys/block/vda").await;
    let serial = inside.shell("cat /sys/block/vda/serial").await;
    lab.power_off("web").await;
    lab.until("web", State::Stopped).await;
    let mut inside = Inside::boot(&lab, inside.at).await;
    let last = |said: &str| said.lines().nth(1).unwrap_or_default().trim().to_owned();
    let now = inside.shell("readlink /sys/block/vda").await;
    assert!(last(&now).contains("virtio"), "{now}");
    let place = |said: &str| {
        let said = last(said);
        said.rsplit_once("/virtio").map(|(at, _)| at.to_owned())
    };
    assert_eq!(place(&now), place(&address));
    assert_eq!(
        last(&inside.shell("cat /sys/block/vda/serial").await),
        last(&serial)
    );
    inside.comes("head -c 10 /dev/vda", "first-disk").await;
    inside
        .comes(
            "dd if=/dev/vda bs=512 skip=1 count=1 2>/dev/null | head -c 10",
            "after-move",
        )
        .await;
    inside.comes("head -c 8 /dev/sr0", "disc-one").await;
    nothing_is_left(&lab).await;

    // Destroyed: what is corral's own, while it runs.
    run(
        &lab,
        &["disk", "add", "web", "--size", "8M", "--storage", &there],
    );
    inside.comes("grep sdb /proc/partitions", " 8192 sdb").await;
    let last = path(&lab, "disk2");
    let before = definition(&lab);
    let disk = lab.ctx.store.load("web").unwrap().disks[2].clone();
    run(
        &lab,
        &[
            "disk",
            "remove",
            "web",
            "--disk",
            "disk2",
            "--delete-data",
            "--confirm",
            "web",
        ],
    );
    // The guest has let go of it, and that was not yet written down: it is.
    unwrite(&lab, &before);
    let removed = Change::DiskRemove { disk, delete: true };
    killed(&lab, removed, Phase::Recording);
    mended(&lab).await;
    assert!(!last.exists() && disks(&lab) == ["disk0", "disk1"]);
    inside.comes("grep -c sdb /proc/partitions", "0").await;
    let backing = size(&image);
    assert_eq!(backing, size(&own));
    nothing_is_left(&lab).await;
}

/// The discs of a running guest.
async fn media(lab: &Lab, inside: &mut Inside<'_>, one: &str, two: &str) {
    let eject: &[&str] = &["media", "eject", "web"];
    let insert = |image| ["media", "insert", "web", "--image", image];
    inside.comes("head -c 8 /dev/sr0", "disc-one").await;
    assert!(run(lab, &insert(one)).contains("already"));
    run(lab, &insert(two));
    inside.comes("head -c 8 /dev/sr0", "disc-two").await;
    run(lab, eject);
    assert!(lab.ctx.store.load("web").unwrap().cdroms[0].path.is_none());
    inside.comes("head -c 8 /dev/sr0 2>&1", "medium").await;
    nothing_is_left(lab).await;
    run(lab, &insert(one));
    inside.comes("head -c 8 /dev/sr0", "disc-one").await;

    // The guest has it open, and the tray locked.
    inside.shell("exec 3</dev/sr0").await;
    inside.shell("head -c 8 <&3").await;
    refused(lab, eject, "locked the tray");
    refused(lab, &insert(two), "locked the tray");
    run(lab, &[eject, &["--force"]].concat());
    inside.shell("exec 3<&-").await;
    let disk = lab.root.path().join("nothing");
    fs::write(&disk, "no disc").unwrap();
    refused(lab, &insert(disk.to_str().unwrap()), "no CD-ROM image");
    run(lab, &insert(one));
    inside.comes("head -c 8 /dev/sr0", "disc-one").await;
    nothing_is_left(lab).await;
}

/// A guest that cannot react is not asked for its disk: it would give it up later, when nobody expects it.
async fn never_lets_go(lab: &Lab, inside: &mut Inside<'_>) {
    run(lab, &["pause", "web"]);
    refused(
        lab,
        &["disk", "remove", "web", "--disk", "disk1"],
        "is paused",
    );
    assert!(path(lab, "disk1").exists());
    assert!(op::leftovers(&lab.ctx.store).unwrap().is_empty());
    run(lab, &["resume", "web"]);
    inside.comes("head -c 10 /dev/vda", "first-disk").await;
}

/// Leaves what a corral killed in this phase would have left.
fn killed(lab: &Lab, change: Change, phase: Phase) {
    let op = op::Op {
        format: op::FORMAT,
        change,
        phase,
        pid: u32::MAX - 1,
        pid_start: 1,
        at: jiff::Timestamp::now(),
    };
    let file = lab.ctx.store.dir("web").unwrap().join(op::FILE);
    fs::write(file, serde_json::to_vec(&op).unwrap()).unwrap();
}

/// What a corral wrote last has not been written.
fn unwrite(lab: &Lab, definition: &str) {
    let file = lab.ctx.store.dir("web").unwrap().join("vm.toml");
    fs::write(file, definition).unwrap();
}

fn make(lab: &Lab) {
    let port = format!("127.0.0.1:{}:22", free_port());
    let words = [
        "create",
        "web",
        "--disk",
        "64M",
        "--firmware",
        "bios",
        "--memory",
        "64M",
    ];
    run(lab, &[&words[..], &["--publish", &port]].concat());
}

/// A folder in another file system.
fn elsewhere() -> Option<tempfile::TempDir> {
    use std::os::unix::fs::MetadataExt as _;
    let there = tempfile::Builder::new()
        .prefix("cl")
        .tempdir_in("/dev/shm")
        .ok()?;
    let dev = |path: &Path| fs::metadata(path).unwrap().dev();
    (dev(there.path()) != dev(&std::env::temp_dir())).then_some(there)
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_of_a_vm_that_is_off_change_whole_or_not_at_all() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    make(&lab);
    run(&lab, &["disk", "add", "web", "--size", "16M"]);
    fill(&path(&lab, "disk1"), 7);
    let on_disk1 = |verb: &'static str| ["disk", verb, "web", "--disk", "disk1"];
    run(&lab, &[&on_disk1("grow")[..], &["--to", "32M"]].concat());
    assert_eq!(size(&path(&lab, "disk1")), 32 << 20);
    let smaller = [&on_disk1("grow")[..], &["--to", "16M"]].concat();
    refused(&lab, &smaller, "only grows");

    // Moved within a file system and out of it: data and snapshots come along, the old file goes.
    run(&lab, &["snapshot", "create", "web", "--name", "early"]);
    let there = folder(&lab, "there");
    let mut places = vec![there.clone()];
    let other = elsewhere();
    places.extend(
        other
            .as_ref()
            .map(|dir| dir.path().to_str().unwrap().to_owned()),
    );
    for place in &places {
        let before = path(&lab, "disk1");
        run(&lab, &[&on_disk1("move")[..], &["--to", place]].concat());
        let now = path(&lab, "disk1");
        assert!(now.starts_with(place) && !before.exists());
        assert!(is_filled(&now, 7));
        let inside = tool("qemu-img", &["snapshot", "-l", now.to_str().unwrap()]);
        assert!(inside.contains("early"), "{inside}");
    }

    // A disk that came after a snapshot: going back to that one says so, and loses nothing of it.
    run(
        &lab,
        &["disk", "add", "web", "--size", "8M", "--storage", &there],
    );
    let late = path(&lab, "disk2");
    assert!(late.starts_with(&there));
    fill(&late, 9);
    refused(
        &lab,
        &[
            "snapshot",
            "restore",
            "web",
            "--name",
            "early",
            "--confirm",
            "web",
        ],
        "disk2",
    );
    assert!(is_filled(&late, 9));
    let destroy = [
        "disk",
        "remove",
        "web",
        "--disk",
        "disk2",
        "--delete-data",
        "--confirm",
        "web",
    ];
    run(&lab, &destroy);
    assert!(!late.exists());
    run(
        &lab,
        &[
            "snapshot",
            "restore",
            "web",
            "--name",
            "early",
            "--confirm",
            "web",
        ],
    );

    // What others need stays as it is.
    run(&lab, &["clone", "web", "--name", "over", "--linked"]);
    let confirmed = ["--delete-data", "--confirm", "web"];
    refused(
        &lab,
        &[&on_disk1("remove")[..], &confirmed].concat(),
        "needed by over",
    );
    refused(
        &lab,
        &[&on_disk1("grow")[..], &["--by", "1M"]].concat(),
        "needed by over",
    );
    refused(
        &lab,
        &[&on_disk1("move")[..], &["--to", &there]].concat(),
        "needed by over",
    );
    let theirs = lab.ctx.store.load("over").unwrap().disks[0].path.clone();
    let theirs = theirs.to_str().unwrap();
    refused(
        &lab,
        &["disk", "add", "web", "--image", theirs],
        "needed by over",
    );

    run(&lab, &["delete", "over", "--confirm", "over"]);

    // Other formats are copied into one that holds all that a disk has.
    let raw = lab.root.path().join("x.img");
    fs::write(&raw, vec![5; 2 << 20]).unwrap();
    let vmdk = lab.root.path().join("x.vmdk");
    let (raw, vmdk) = (raw.to_str().unwrap(), vmdk.to_str().unwrap());
    tool(
        "qemu-img",
        &["convert", "-f", "raw", "-O", "vmdk", raw, vmdk],
    );
    refused(&lab, &["disk", "add", "web", "--image", vmdk], "--copy");
    run(&lab, &["disk", "add", "web", "--image", vmdk, "--copy"]);
    let copied = path(&lab, "disk2");
    tool("qemu-img", &["compare", raw, copied.to_str().unwrap()]);
    assert_eq!(size(&copied), 2 << 20);
    let larger = [
        "disk", "add", "web", "--image", vmdk, "--copy", "--size", "4M",
    ];
    run(&lab, &larger);
    assert_eq!(size(&path(&lab, "disk3")), 4 << 20);
    let smaller = [
        "disk", "add", "web", "--image", vmdk, "--copy", "--size", "1M",
    ];
    refused(&lab, &smaller, "too small");

    // Two corrals at once: one does it.
    let family = Disks(lab.ctx.clone());
    let row = lab.row("web").await;
    let grow = |to| DiskRequest::Grow {
        disk: "disk0".to_owned(),
        size: Growth::To(Bytes::mib(to)),
    };
    let a = lab.prepare(&family, &row, grow(80)).await;
    let b = lab.prepare(&family, &row, grow(96)).await;
    let (cx_a, cx_b) = (task(&row.id), task(&row.id));
    let (a, b) = tokio::join!(family.run(&cx_a, a), family.run(&cx_b, b));
    let lost: Vec<_> = [&a, &b]
        .into_iter()
        .filter_map(|r| r.as_ref().err())
        .collect();
    assert_eq!(lost.len(), 1, "{a:?} {b:?}");
    assert_eq!(lost[0].kind, ErrorKind::Conflict);
    assert_eq!(
        size(&path(&lab, "disk0")),
        if a.is_ok() { 80 << 20 } else { 96 << 20 }
    );
    nothing_is_left(&lab).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_between_plan_and_move_is_kept() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    make(&lab);
    let family = DiskMove(lab.ctx.clone());
    let to = DiskMoveRequest {
        disk: "disk0".to_owned(),
        to: folder(&lab, "there"),
    };
    let before = path(&lab, "disk0");

    // Another VM has come to stand on it.
    let row = lab.row("web").await;
    let prepared = lab.prepare(&family, &row, to.clone()).await;
    run(&lab, &["clone", "web", "--name", "over", "--linked"]);
    let error = family.run(&task(&row.id), prepared).await.unwrap_err();
    assert!(error.message.contains("needed by over"), "{error}");
    assert_eq!(path(&lab, "disk0"), before);
    run(&lab, &["delete", "over", "--confirm", "over"]);

    // A snapshot, which a mirror would leave behind.
    run(&lab, &["start", "web"]);
    let row = lab.row("web").await;
    let prepared = lab.prepare(&family, &row, to).await;
    run(&lab, &["snapshot", "create", "web", "--name", "late"]);
    let error = family.run(&task(&row.id), prepared).await.unwrap_err();
    assert!(error.message.contains("it holds snapshots"), "{error}");
    assert_eq!(path(&lab, "disk0"), before);
    nothing_is_left(&lab).await;
    lab.power_off("web").await;
}

/// What a guest with bad intent writes into its raw disk: the header of an overlay of a file of the host.
#[tokio::test(flavor = "multi_thread")]
async fn a_raw_disk_is_raw_whatever_its_guest_writes_into_it() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    make(&lab);
    run(
        &lab,
        &["disk", "add", "web", "--size", "16M", "--format", "raw"],
    );
    let secret = lab.root.path().join("secret");
    fs::write(&secret, vec![0x53; 1 << 20]).unwrap();
    let evil = lab.root.path().join("evil");
    tool(
        "qemu-img",
        &[
            "create",
            "-q",
            "-f",
            "qcow2",
            "-F",
            "raw",
            "-b",
            secret.to_str().unwrap(),
            evil.to_str().unwrap(),
            "1G",
        ],
    );
    let header = fs::read(&evil).unwrap();
    let mut file = fs::OpenOptions::new()
        .write(true)
        .open(path(&lab, "disk1"))
        .unwrap();
    std::io::Write::write_all(&mut file, &header).unwrap();
    let still = |bytes: u64| {
        let file = path(&lab, "disk1");
        assert_eq!(fs::metadata(&file).unwrap().len(), bytes);
        assert!(fs::read(&file).unwrap().starts_with(&header));
    };

    let seen = detail(&lab).await;
    let disk = seen.disks.iter().find(|disk| disk.name == "disk1").unwrap();
    assert_eq!(
        (disk.size_bytes, disk.snapshots),
        (Some(Bytes::mib(16)), None)
    );
    let on_disk1 = |verb: &'static str| ["disk", verb, "web", "--disk", "disk1"];
    run(&lab, &[&on_disk1("grow")[..], &["--by", "16M"]].concat());
    still(32 << 20);
    run(&lab, &["start", "web"]);
    run(&lab, &[&on_disk1("grow")[..], &["--to", "48M"]].concat());
    let there = folder(&lab, "there");
    run(&lab, &[&on_disk1("move")[..], &["--to", &there]].concat());
    lab.power_off("web").await;
    assert!(path(&lab, "disk1").starts_with(&there));
    still(48 << 20);
    nothing_is_left(&lab).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_fills_up_leaves_the_disk_where_it_was() {
    if !has_qemu() || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root for a file system of its own size");
        return;
    }
    let lab = Lab::new();
    make(&lab);
    let full = folder(&lab, "full");
    let mount = |args: &[&str]| {
        Command::new("mount")
            .args(args)
            .arg(&full)
            .status()
            .unwrap()
    };
    if !mount(&["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).success() {
        eprintln!("skipped: cannot mount a tmpfs here");
        return;
    }
    let disk = path(&lab, "disk0");
    tool(
        "qemu-io",
        &[
            "-f",
            "qcow2",
            "-c",
            "write -P 3 0 24M",
            disk.to_str().unwrap(),
        ],
    );
    let family = DiskMove(lab.ctx.clone());
    let mut ends = Vec::new();
    for live in [false, true] {
        if live {
            run(&lab, &["start", "web"]);
        }
        // Room when it was planned, none when it ran.
        mount(&["-o", "remount,size=64m"]);
        let row = lab.row("web").await;
        let to = DiskMoveRequest {
            disk: "disk0".to_owned(),
            to: full.clone(),
        };
        let prepared = lab.prepare(&family, &row, to).await;
        mount(&["-o", "remount,size=8m"]);
        let done = family.run(&task(&row.id), prepared).await;
        ends.push((
            done,
            fs::read_dir(&full).unwrap().count(),
            lab.row("web").await.state,
        ));
    }
    let early = says(
        &lab,
        &[
            "disk", "move", "web", "--disk", "disk0", "--to", &full, "-y",
        ],
    );
    let status = Command::new("umount").arg(&full).status().unwrap();
    assert!(status.success());
    for (done, left, _) in &ends {
        let error = done.as_ref().unwrap_err();
        assert!(
            error.message.to_lowercase().contains("no space left"),
            "{error}"
        );
        assert_eq!(*left, 0);
    }
    assert_eq!(ends[1].2, State::Running);
    assert!(
        !early.0 && early.1.contains("not enough space"),
        "{}",
        early.1
    );
    assert_eq!(path(&lab, "disk0"), disk);
    nothing_is_left(&lab).await;
    lab.power_off("web").await;
    assert!(is_filled(&disk, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_every_phase_a_disk_is_whole_and_in_one_place() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let held = Held::new(&lab);
    make(&lab);
    let disk0 = path(&lab, "disk0");
    fill(&disk0, 1);
    let there = folder(&lab, "there");
    let grow = ["disk", "grow", "web", "--disk", "disk0", "--by", "1M"];
    let one = disc(&lab, "disc-one");
    for live in [false, true] {
        if live {
            run(
                &lab,
                &["media", "insert", "web", "--image", &disc(&lab, "disc-two")],
            );
            run(&lab, &["start", "web"]);
        }
        // Added: whole or gone.
        let copy = [
            "disk",
            "add",
            "web",
            "--image",
            disk0.to_str().unwrap(),
            "--copy",
        ];
        let blank = ["disk", "add", "web", "--size", "8M"];
        let words: &[&[&str]] = if live { &[&blank] } else { &[&blank, &copy] };
        for words in words {
            for when in ["before", "after"] {
                let before = definition(&lab);
                held.kill(&lab, &[words, &["-y"][..]].concat(), when, "disk1");
                mended(&lab).await;
                assert_eq!(definition(&lab), before);
                let made = lab.ctx.store.dir("web").unwrap().join("disk1.qcow2");
                assert!(!made.exists(), "{words:?} {when}");
            }
        }
        // Plugged in, and not yet written down: it is. Taken out, and not yet written down: so too.
        let before = definition(&lab);
        run(&lab, &blank);
        let vm = lab.ctx.store.load("web").unwrap();
        let disk = vm.disks[1].clone();
        fill_if(&disk.path, !live);
        if live {
            unwrite(&lab, &before);
            let added = Change::DiskAdd {
                disk: disk.clone(),
                made: true,
            };
            killed(&lab, added, Phase::Working);
            mended(&lab).await;
            assert_eq!(disks(&lab), ["disk0", "disk1"]);
            nothing_is_left(&lab).await;
        }
        for (phase, stays) in [
            (Phase::Begun, true),
            (Phase::Working, true),
            (Phase::Recording, false),
        ] {
            // Nobody is in this machine who could have let go of it.
            if live && !stays {
                continue;
            }
            let delete = !stays;
            let removed = Change::DiskRemove {
                disk: disk.clone(),
                delete,
            };
            killed(&lab, removed, phase);
            mended(&lab).await;
            assert_eq!(
                disks(&lab).len(),
                if stays { 2 } else { 1 },
                "{live} {phase:?}"
            );
            assert_eq!(disk.path.exists(), stays);
            nothing_is_left(&lab).await;
        }

        // Grown: the definition says what the image says.
        for when in ["before", "after"].into_iter().filter(|_| !live) {
            held.kill(&lab, &[&grow[..], &["-y"]].concat(), when, "resize");
            mended(&lab).await;
            let vm = lab.ctx.store.load("web").unwrap();
            assert_eq!(vm.disks[0].size.0, size(&disk0), "{when}");
        }
        let before = definition(&lab);
        run(&lab, &grow);
        unwrite(&lab, &before);
        let to = Bytes(size(&disk0));
        killed(
            &lab,
            Change::DiskGrow {
                disk: "disk0".to_owned(),
                to,
            },
            Phase::Working,
        );
        mended(&lab).await;
        assert_eq!(lab.ctx.store.load("web").unwrap().disks[0].size, to);
        nothing_is_left(&lab).await;

        // A medium: the definition says what is in the drive.
        let before = definition(&lab);
        run(&lab, &["media", "insert", "web", "--image", &one]);
        if live {
            unwrite(&lab, &before);
        }
        let change = Change::Media {
            drive: "cdrom0".to_owned(),
            image: Some(one.clone().into()),
        };
        killed(&lab, change, Phase::Working);
        mended(&lab).await;
        let inside = lab.ctx.store.load("web").unwrap().cdroms[0].path.clone();
        assert_eq!(inside.as_deref(), Some(Path::new(&one)));
        nothing_is_left(&lab).await;
    }

    // Moved while it runs, killed at any time: one file, and that is the one which is used.
    for wait in [0, 30, 80, 150, 300, 600] {
        let from = path(&lab, "disk0");
        let to = if from == disk0 {
            there.clone()
        } else {
            back(&disk0)
        };
        let words = ["disk", "move", "web", "-y", "--disk", "disk0", "--to", &to];
        let mut child = lab.corral(&words).spawn().unwrap();
        let op = lab.ctx.store.dir("web").unwrap().join(op::FILE);
        while !op.exists() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(wait));
        let _ = child.kill();
        child.wait().unwrap();
        fix(&lab).await;
        let now = path(&lab, "disk0");
        let files = [&disk0, &Path::new(&there).join("web-disk0.qcow2")];
        let files: Vec<_> = files.into_iter().filter(|file| file.exists()).collect();
        assert_eq!(files, [&now], "{wait} ms");
        nothing_is_left(&lab).await;
        let opened = lab.pid(&lab.ctx.store.load("web").unwrap());
        let opened = fs::read_dir(format!("/proc/{opened}/fd")).unwrap();
        let used = opened
            .flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|f| f == now));
        assert!(used, "{wait} ms: {now:?} is not what is used");
    }
    lab.power_off("web").await;
    let now = path(&lab, "disk0");
    assert!(is_filled(&now, 1));

    // And while it is off, by a copy and by a new name.
    let home = PathBuf::from(back(&disk0));
    let other = Path::new(&there).join("web-disk0.qcow2");
    let (from, to) = if now == other {
        (other, disk0)
    } else {
        (disk0, other)
    };
    let moving = |how| Change::DiskMove {
        disk: "disk0".to_owned(),
        from: from.clone(),
        to: to.clone(),
        how,
        own: true,
    };
    for how in [How::Copy, How::Mirror] {
        fs::copy(&from, &to).unwrap();
        fs::OpenOptions::new()
            .write(true)
            .open(&to)
            .unwrap()
            .set_len(4096)
            .unwrap();
        killed(&lab, moving(how), Phase::Working);
        mended(&lab).await;
        assert!(!to.exists() && path(&lab, "disk0") == from && is_filled(&from, 1));
    }
    killed(&lab, moving(How::Rename), Phase::Working);
    mended(&lab).await;
    assert_eq!(path(&lab, "disk0"), from);
    fs::rename(&from, &to).unwrap();
    killed(&lab, moving(How::Rename), Phase::Working);
    mended(&lab).await;
    assert!(path(&lab, "disk0") == to && is_filled(&to, 1), "{home:?}");
}

fn fill_if(disk: &Path, really: bool) {
    if really {
        fill(disk, 4);
    }
}

fn back(disk: &Path) -> String {
    disk.parent().unwrap().to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_put_to_sleep_keeps_the_machine_it_wakes_up_in() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    make(&lab);
    let one = disc(&lab, "disc-one");
    run(&lab, &["media", "insert", "web", "--image", &one]);
    run(&lab, &["start", "web"]);
    run(&lab, &["hibernate", "web"]);
    let there = folder(&lab, "there");
    let other = lab.root.path().join("other.toml");
    fs::write(
        &other,
        definition(&lab).replace("memory = \"64M\"", "memory = \"128M\""),
    )
    .unwrap();
    let moved: &[&[&str]] = &[
        &["disk", "add", "web", "--size", "8M"],
        &["disk", "remove", "web", "--disk", "disk0"],
        &["disk", "grow", "web", "--disk", "disk0", "--by", "1M"],
        &["disk", "move", "web", "--disk", "disk0", "--to", &there],
        &["media", "eject", "web"],
        &["nic", "add", "web"],
        &["resize", "web", "--cpus", "2"],
        &["edit", "web", "--file", other.to_str().unwrap()],
        &["clone", "web", "--name", "twin", "--linked"],
    ];
    for words in moved {
        refused(&lab, words, "hibernated");
        let (_, said) = says(&lab, &[*words, &["-y"]].concat());
        assert!(said.contains("corral start local/web"), "{said}");
    }
    // A copy is made, without RAM; another name is none of the machine's business.
    let said = run(&lab, &["clone", "web", "--name", "twin"]);
    assert_eq!(lab.row("twin").await.state, State::Stopped, "{said}");
    run(&lab, &["rename", "web", "--to", "site"]);
    assert_eq!(lab.row("site").await.state, State::Hibernated);
    run(&lab, &["rename", "site", "--to", "web"]);
    run(&lab, &["start", "web"]);
    assert_eq!(lab.row("web").await.state, State::Running);
    nothing_is_left(&lab).await;
    run(&lab, &["disk", "add", "web", "--size", "8M"]);
}
