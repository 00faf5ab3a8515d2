//! What doctor finds of the local QEMU, and mends.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may end where it stands and says what it skips"
)]

mod lab;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use corral::backend::contract::{DiskSource, Firmware, PowerRequest, ReadCx};
use corral::model::{Bytes, Check, CheckStatus, State};
use lab::guest::has_qemu;
use lab::{Lab, READ, request, task};

async fn blank(lab: &Lab, name: &str) {
    let mut wanted = request(name, DiskSource::Blank, Firmware::Bios);
    wanted.disk_size = Some(Bytes::mib(8));
    wanted.memory = Bytes::mib(64);
    lab.make(wanted).await.unwrap();
}

async fn checks(lab: &Lab) -> Vec<Check> {
    lab.backend().doctor(&ReadCx::quiet(READ)).await
}

fn find<'a>(all: &'a [Check], id: &str) -> &'a Check {
    let found = all.iter().find(|check| check.id.starts_with(id));
    found.unwrap_or_else(|| panic!("no {id} in {all:#?}"))
}

async fn mend(lab: &Lab, check: &Check) -> String {
    let id = corral::model::InstanceId::new("local", Some("doctor"), &check.id);
    let done = lab.backend().repair(&task(&id), &check.id).await;
    done.unwrap_or_else(|e| panic!("{}: {e}", check.id))
        .message
        .unwrap()
}

/// What `qemu-img check` itself says.
fn img(file: &Path) -> i32 {
    let status = Command::new("qemu-img")
        .args(["check", "-q"])
        .arg(file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.unwrap().code().unwrap()
}

/// Writes data into a disk, then sets what stands for its first cluster.
fn spoil(file: &Path, entry: u64) {
    let raw = file.with_extension("raw");
    fs::write(&raw, vec![7; 1 << 20]).unwrap();
    let status = Command::new("qemu-img")
        .args(["convert", "-f", "raw", "-O", "qcow2"])
        .args([&raw, &file.to_owned()])
        .status();
    assert!(status.unwrap().success());
    fs::remove_file(raw).unwrap();
    let mut bytes = fs::read(file).unwrap();
    let word = |bytes: &[u8], at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    let l1 = word(&bytes, 40) as usize;
    let l2 = (word(&bytes, l1) & 0x00ff_ffff_ffff_fe00) as usize;
    bytes[l2..l2 + 8].copy_from_slice(&entry.to_be_bytes());
    fs::write(file, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_that_are_off_are_looked_through() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    for name in ["good", "leaky", "torn"] {
        blank(&lab, name).await;
    }
    let disk = |name: &str| lab.ctx.store.load(name).unwrap().disks[0].path.clone();
    let all = checks(&lab).await;
    assert!(
        find(&all, "qemu.check").message.contains("are sound"),
        "{all:#?}"
    );
    spoil(&disk("leaky"), 0);
    // A cluster far behind the end, said to be its only use.
    spoil(&disk("torn"), (1 << 63) | (512 << 20));
    assert_eq!((img(&disk("leaky")), img(&disk("torn"))), (3, 2));

    let all = checks(&lab).await;
    let leaks = find(&all, "qemu.leaks.leaky").clone();
    assert_eq!(leaks.status, CheckStatus::Warn);
    assert!(leaks.fix.is_some());
    let torn = find(&all, "qemu.corrupt.torn");
    assert_eq!(torn.status, CheckStatus::Fail);
    assert!(
        torn.fix.is_none()
            && torn
                .remedy
                .as_ref()
                .unwrap()
                .contains("Copy the file first")
    );
    assert!(mend(&lab, &leaks).await.contains("no leaks"));
    assert_eq!((img(&disk("leaky")), img(&disk("torn"))), (0, 2));

    // One that runs is left alone.
    lab.power("leaky", PowerRequest::Start).await.unwrap();
    let id = corral::model::InstanceId::new("local", Some("doctor"), "x");
    let error = lab
        .backend()
        .repair(&task(&id), &leaks.id)
        .await
        .unwrap_err();
    assert!(error.message.contains("not off"), "{error}");
    lab.power_off("leaky").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_newer_corral_or_anybody_wrote_is_looked_at_only() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    for name in ["newer", "noted", "half", "open", "busy"] {
        blank(&lab, name).await;
    }
    let dir = |name: &str| lab.ctx.store.dir(name).unwrap();
    let file = dir("newer").join("vm.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        text.replace("format = 1\n", "format = 2\nhue = \"red\"\n"),
    )
    .unwrap();
    fs::write(
        dir("noted").join("snapshots.toml"),
        "format = 2\n[[snapshot]]\nname = \"s\"\n",
    )
    .unwrap();
    let op = r#"{"format": 2, "op": "teleport"}"#;
    fs::write(dir("half").join("op.json"), op).unwrap();
    fs::set_permissions(
        dir("open").join("vm.toml"),
        fs::Permissions::from_mode(0o666),
    )
    .unwrap();
    let busy = lab.ctx.store.load("busy").unwrap();
    let port = busy.nics[0].forwards[0].port;
    let _listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let left = dir("busy").join(".abc.new");
    fs::write(&left, "").unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    fs::File::options()
        .write(true)
        .open(&left)
        .unwrap()
        .set_modified(old)
        .unwrap();

    let all = checks(&lab).await;
    assert!(
        find(&all, "qemu.newer.newer")
            .message
            .contains("newer corral")
    );
    assert!(
        find(&all, "qemu.snapshots.noted")
            .message
            .contains("newer corral")
    );
    let half = find(&all, "qemu.unfinished.half");
    assert!(
        half.message.contains("newer corral") && half.fix.is_none(),
        "{half:?}"
    );
    let open = find(&all, "qemu.definition.open");
    assert!(
        open.remedy.as_ref().unwrap().contains("chmod o-w"),
        "{open:?}"
    );
    let taken = find(&all, &format!("qemu.port-taken.{port}"));
    assert!(taken.message.contains("local/busy"), "{taken:?}");
    let rest = find(&all, "qemu.temporary").clone();
    assert!(rest.fix.is_some());
    mend(&lab, &rest).await;
    assert!(!left.exists());

    // All are listed, and nothing of a newer corral is written.
    assert_eq!(lab.row("newer").await.state, State::Stopped);
    assert_eq!(lab.row("open").await.state, State::Broken);
    for words in [
        ["start", "open", "--yes"],
        ["delete", "newer", "--yes"],
        ["delete", "half", "--yes"],
    ] {
        let done = lab.corral(&words).status().unwrap();
        assert!(!done.success(), "{words:?}");
    }
    let words = ["snapshot", "create", "noted", "--name", "t"];
    assert!(!lab.corral(&words).status().unwrap().success());
    assert_eq!(fs::read_to_string(dir("half").join("op.json")).unwrap(), op);
    assert!(fs::read_to_string(&file).unwrap().contains("hue"));
}

/// A VM whose QEMU is a copy of the installed one, which is then replaced as an upgrade does.
#[tokio::test(flavor = "multi_thread")]
async fn a_guest_on_a_replaced_qemu_and_one_without_monitor_are_told() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    blank(&lab, "web").await;
    let bin = lab.root.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let (own, real) = (bin.join("qemu-system-x86_64"), bin.join("qemu-real"));
    let installed = lab.ctx.qemu().unwrap();
    fs::copy(&installed, &real).unwrap();
    let modules = "/usr/lib/x86_64-linux-gnu/qemu";
    let script = format!(
        "#!/bin/sh\nexport QEMU_MODULE_DIR={modules}\nexec {} -L /usr/share/qemu -L /usr/share/seabios -L /usr/lib/ipxe/qemu \"$@\"\n",
        real.display()
    );
    fs::write(&own, script).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let started = lab.corral(&["start", "web"]).env("PATH", path).status();
    assert!(started.unwrap().success());
    let all = checks(&lab).await;
    assert!(
        !all.iter()
            .any(|check| check.id.starts_with("qemu.replaced")),
        "{all:#?}"
    );
    fs::remove_file(&real).unwrap();
    fs::copy(&installed, &real).unwrap();
    let all = checks(&lab).await;
    let told = find(&all, "qemu.replaced.web");
    assert_eq!(told.status, CheckStatus::Warn);
    assert!(
        told.remedy
            .as_ref()
            .unwrap()
            .contains("corral restart --cold local/web")
    );

    // As one that an older corral started.
    let vm = lab.ctx.store.load("web").unwrap();
    let paths = lab.ctx.paths(&vm.uuid).unwrap();
    let launch = fs::read_to_string(&paths.launch).unwrap();
    let mut older: serde_json::Value = serde_json::from_str(&launch).unwrap();
    older.as_object_mut().unwrap().remove("format");
    fs::write(&paths.launch, older.to_string()).unwrap();
    find(&checks(&lab).await, "qemu.older.web");

    fs::remove_file(&paths.qmp).unwrap();
    let all = checks(&lab).await;
    let told = find(&all, "qemu.silent.web");
    assert_eq!(told.status, CheckStatus::Fail);
    assert!(
        told.remedy
            .as_ref()
            .unwrap()
            .contains("corral stop --force local/web")
    );
    assert_eq!(lab.corral(&["doctor"]).status().unwrap().code(), Some(1));
    assert!(
        lab.corral(&["stop", "--force", "web"])
            .status()
            .unwrap()
            .success()
    );
}
