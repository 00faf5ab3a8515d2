//! What makes one VM another one than the next: name, marks, copies, its own text. Judged by the
//! files, by `qemu-img`, and from inside of the guest.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod held;
mod lab;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use corral::backend::contract::{Changes as _, CloneRequest};
use corral::backend::qemu::clone::Clone;
use corral::backend::qemu::definition::Definition;
use held::{Held, mended};
use lab::guest::{guest, has_qemu};
use lab::{Lab, task};

/// Runs corral and gives what it said.
fn corral(lab: &Lab, words: &[&str]) -> Output {
    lab.corral(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Runs corral, which must succeed.
fn run(lab: &Lab, words: &[&str]) -> String {
    let output = corral(lab, words);
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    said(&output)
}

/// Runs corral, which must refuse.
fn refused(lab: &Lab, words: &[&str]) -> String {
    let output = corral(lab, words);
    assert_eq!(
        output.status.code(),
        Some(6),
        "{words:?}: {}",
        said(&output)
    );
    said(&output)
}

fn definition(lab: &Lab, name: &str) -> String {
    fs::read_to_string(lab.ctx.store.dir(name).unwrap().join("vm.toml")).unwrap()
}

fn make(lab: &Lab, name: &str) {
    run(
        lab,
        &[
            "create",
            name,
            "--disk",
            "64M",
            "--firmware",
            "bios",
            "--memory",
            "64M",
        ],
    );
}

#[test]
fn marks_are_in_the_definition_and_hand_edits_stay() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    make(&lab, "web");
    let file = lab.ctx.store.dir("web").unwrap().join("vm.toml");
    let text = format!("# mine\n{}", definition(&lab, "web"));
    fs::write(&file, text).unwrap();

    run(&lab, &["tag", "web", "--add", "prod", "--add", "eu"]);
    run(&lab, &["tag", "web", "--remove", "eu", "--remove", "none"]);
    run(&lab, &["note", "web", "--text", "serves the shop"]);
    let text = definition(&lab, "web");
    assert!(text.starts_with("# mine\n"), "{text}");
    assert!(text.contains("note = \"serves the shop\""), "{text}");
    assert!(run(&lab, &["list", "--filter", "tag:prod", "-o", "name"]).contains("local/web"));
    assert!(!text.contains("\"eu\""), "{text}");
    let again = run(&lab, &["tag", "web", "--add", "prod"]);
    assert!(again.contains("already"), "{again}");
    run(&lab, &["note", "web", "--text", ""]);
    assert!(!definition(&lab, "web").contains("note ="));
    let bad = corral(&lab, &["tag", "web", "--add", "a\u{1b}[2J"]);
    assert!(!bad.status.success() && !said(&bad).contains('\u{1b}'));

    run(&lab, &["template", "web", "--on"]);
    let no = refused(&lab, &["start", "web"]);
    assert!(no.contains("corral clone local/web"), "{no}");
    let list = run(&lab, &["list"]);
    assert!(list.contains("template"), "{list}");
    refused(&lab, &["autostart", "web", "--on"]);
    run(&lab, &["template", "web", "--off"]);
    assert!(definition(&lab, "web").contains("template = false"));
}

/// A `systemctl` that writes down what it is asked.
fn with_systemctl(lab: &Lab) -> String {
    let dir = lab.root.path().join("tools");
    fs::create_dir_all(&dir).unwrap();
    let wants = lab
        .root
        .path()
        .join(".config/systemd/user/default.target.wants");
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> '{dir}/asked'\ncase \"$*\" in *enable*) mkdir -p '{wants}'; ln -sf ../corral-autostart.service '{wants}/';; esac\n",
        dir = dir.display(),
        wants = wants.display()
    );
    let file = dir.join("systemctl");
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", dir.display(), std::env::var("PATH").unwrap())
}

#[test]
fn the_unit_that_doctor_writes_starts_what_is_marked() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let path = with_systemctl(&lab);
    let none = run(&lab, &["autostart", "--run", "--context", "local"]);
    assert!(none.contains("nothing is marked"), "{none}");
    for name in ["a", "b", "c"] {
        make(&lab, name);
    }
    run(&lab, &["autostart", "a", "--on"]);
    let on = run(&lab, &["autostart", "b", "--on", "--dry-run"]);
    assert!(on.contains("corral doctor --fix"), "{on}");
    run(&lab, &["autostart", "b", "--on"]);
    let output = lab
        .corral(&["doctor", "--fix", "-y"])
        .env("PATH", &path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert!(said(&output).contains("enable-linger"), "{}", said(&output));
    let asked = fs::read_to_string(lab.root.path().join("tools/asked")).unwrap();
    assert!(
        asked.contains("--user enable corral-autostart.service"),
        "{asked}"
    );
    let unit = lab
        .root
        .path()
        .join(".config/systemd/user/corral-autostart.service");
    let unit = fs::read_to_string(unit).unwrap();
    let line = unit
        .lines()
        .find_map(|l| l.strip_prefix("ExecStart="))
        .unwrap();
    let words: Vec<String> = line
        .split(' ')
        .map(|w| w.trim_matches('"').to_owned())
        .collect();
    let started = std::process::Command::new(&words[0])
        .args(&words[1..])
        .env_clear()
        .env("HOME", lab.root.path())
        .env("PATH", &path)
        .output()
        .unwrap();
    assert!(started.status.success(), "{}", said(&started));
    let running = run(&lab, &["list", "--filter", "state:running", "-o", "name"]);
    assert!(
        running.contains("local/a") && running.contains("local/b"),
        "{running}"
    );
    assert!(!running.contains("local/c"), "{running}");
    // The unit's words are about what is said of a VM, and no reason for another start.
    run(&lab, &["tag", "a", "--add", "x"]);
    let info = run(&lab, &["info", "a"]);
    assert!(!info.contains("Pending"), "{info}");
    run(&lab, &["stop", "--force", "a"]);
    run(&lab, &["stop", "--force", "b"]);
}

fn disk(lab: &Lab, name: &str) -> PathBuf {
    lab.ctx.store.load(name).unwrap().disks[0].path.clone()
}

fn tool(name: &str, words: &[&str], file: &Path) -> String {
    let output = Command::new(name).args(words).arg(file).output().unwrap();
    assert!(
        output.status.success(),
        "{name} {words:?}: {}",
        said(&output)
    );
    said(&output)
}

fn info(file: &Path) -> String {
    tool("qemu-img", &["info", "-U", "--output=json"], file)
}

fn write(file: &Path, byte: u8) {
    tool(
        "qemu-io",
        &["-f", "qcow2", "-c", &format!("write -P {byte} 1M 64k")],
        file,
    );
}

fn holds(file: &Path, byte: u8) -> bool {
    let said = tool(
        "qemu-io",
        &[
            "-U",
            "-r",
            "-f",
            "qcow2",
            "-c",
            &format!("read -P {byte} 1M 64k"),
        ],
        file,
    );
    !said.contains("verification failed")
}

#[test]
fn a_clone_shares_nothing_and_a_linked_one_holds_its_base_still() {
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
            "64M",
            "--firmware",
            "uefi",
            "--memory",
            "64M",
            "--user",
            "admin",
            "--hostname",
            "web",
            "--publish",
            "18080:80",
            "--tag",
            "prod",
        ],
    );
    write(&disk(&lab, "web"), 1);
    run(&lab, &["snapshot", "create", "web", "--name", "s,1"]);
    write(&disk(&lab, "web"), 2);
    let plan = run(&lab, &["clone", "web", "--name", "full", "--dry-run"]);
    for word in [
        "qemu-img convert",
        "snapshots are not copied",
        "18080",
        "cloud-init",
    ] {
        assert!(plan.contains(word), "{word}: {plan}");
    }
    run(&lab, &["clone", "web", "--name", "full"]);
    let (web, full) = (
        lab.ctx.store.load("web").unwrap(),
        lab.ctx.store.load("full").unwrap(),
    );
    assert!(
        holds(&full.disks[0].path, 2) && !info(&full.disks[0].path).contains("backing-filename\"")
    );
    assert!(!info(&full.disks[0].path).contains("\"snapshots\""));
    assert_ne!(web.uuid, full.uuid);
    assert_ne!(web.nics[0].mac, full.nics[0].mac);
    assert_ne!(web.disks[0].serial, full.disks[0].serial);
    assert_ne!(web.firmware.vars, full.firmware.vars);
    assert!(
        full.firmware
            .vars
            .as_ref()
            .is_some_and(|vars| vars.exists())
    );
    let ports =
        |vm: &Definition| -> Vec<u16> { vm.nics[0].forwards.iter().map(|f| f.port).collect() };
    assert!(
        ports(&full)
            .iter()
            .all(|port| *port != 0 && !ports(&web).contains(port))
    );
    assert_eq!(full.tags, ["prod"]);
    // Its seed is another instance's, with the same user.
    let seed = fs::read(&full.disks[1].path).unwrap();
    let seed = String::from_utf8_lossy(&seed);
    assert!(
        seed.contains(&format!("instance-id: {}", full.uuid))
            && seed.contains("local-hostname: full")
    );
    assert!(seed.contains("name: admin"));
    let again = corral(&lab, &["clone", "web", "--name", "full"]);
    assert!(
        said(&again).contains("already a VM called"),
        "{}",
        said(&again)
    );

    run(
        &lab,
        &["clone", "web@s,1", "--name", "old", "--keep-identity"],
    );
    assert!(holds(&disk(&lab, "old"), 1));
    assert!(
        !lab.ctx
            .store
            .dir("old")
            .unwrap()
            .join("identity.json")
            .exists()
    );
    let none = corral(&lab, &["clone", "web", "--snapshot", "nope", "--name", "x"]);
    assert!(said(&none).contains("no snapshot"), "{}", said(&none));

    run(&lab, &["clone", "web", "--name", "thin", "--linked"]);
    let backing = info(&disk(&lab, "thin"));
    assert!(
        backing.contains(&disk(&lab, "web").display().to_string()),
        "{backing}"
    );
    assert!(run(&lab, &["info", "thin"]).contains("web/disk0.qcow2"));
    for words in [
        &["start", "web"][..],
        &["snapshot", "restore", "web@s,1", "--confirm", "web"],
    ] {
        let no = corral(&lab, words);
        assert!(
            !no.status.success() && said(&no).contains("thin"),
            "{}",
            said(&no)
        );
    }
    // Whoever renames it takes the overlay along.
    run(&lab, &["rename", "web", "--to", "base"]);
    let backing = info(&disk(&lab, "thin"));
    assert!(
        backing.contains("/base/disk0.qcow2") && !backing.contains("/web/"),
        "{backing}"
    );
    tool("qemu-img", &["check"], &disk(&lab, "thin"));
    assert!(holds(&disk(&lab, "thin"), 2));
    run(&lab, &["delete", "base", "--confirm", "base"]);
    assert!(holds(&disk(&lab, "thin"), 2), "its base is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_moves_everything_or_nothing() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    make(&lab, "web");
    make(&lab, "other");
    run(
        &lab,
        &[
            "snapshot", "create", "web", "--name", "s1", "--note", "mine",
        ],
    );
    run(&lab, &["protect", "web", "--on"]);
    let before = lab.ctx.store.load("web").unwrap();
    let taken = corral(
        &lab,
        &["rename", "web", "--to", "other", "--confirm", "web"],
    );
    assert!(said(&taken).contains("already a VM"), "{}", said(&taken));
    let odd = corral(
        &lab,
        &["rename", "web", "--to", "a\u{7}b", "--confirm", "web"],
    );
    assert!(!odd.status.success() && !said(&odd).contains('\u{7}'));
    run(
        &lab,
        &["rename", "web", "--to", "my shop", "--confirm", "web"],
    );
    let after = lab.ctx.store.load("my shop").unwrap();
    assert_eq!(before.uuid, after.uuid);
    assert_eq!(before.nics, after.nics);
    assert!(after.disks[0].path.exists() && !before.disks[0].path.exists());
    let list = run(&lab, &["snapshot", "list", "name:my shop"]);
    assert!(list.contains("s1") && list.contains("mine"), "{list}");
    let list = run(&lab, &["list", "--filter", "protected:yes", "-o", "name"]);
    assert_eq!(
        list.trim().lines().next(),
        Some("local/my%20shop"),
        "{list}"
    );
    run(
        &lab,
        &["protect", "name:my shop", "--off", "--confirm", "my shop"],
    );

    run(&lab, &["rename", "name:my shop", "--to", "web"]);
    run(&lab, &["start", "web"]);
    let no = refused(&lab, &["rename", "web", "--to", "x"]);
    assert!(no.contains("corral stop local/web"), "{no}");
    // A copy of what runs is none; of a snapshot it is one.
    let no = refused(&lab, &["clone", "web", "--name", "x"]);
    assert!(no.contains("corral snapshot create local/web"), "{no}");
    run(&lab, &["clone", "web", "--name", "x", "--snapshot", "s1"]);
    tool("qemu-img", &["check"], &disk(&lab, "x"));
    run(&lab, &["stop", "--force", "web"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_killed_is_completed_or_taken_back() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let held = Held::new(&lab);
    run(
        &lab,
        &[
            "create",
            "web",
            "--disk",
            "64M",
            "--firmware",
            "uefi",
            "--memory",
            "64M",
        ],
    );
    write(&disk(&lab, "web"), 3);
    for (when, at) in [
        ("before", "new/disk0.qcow2"),
        ("after", "new/disk0.qcow2"),
        ("after", "new/efivars.qcow2"),
    ] {
        held.kill(&lab, &["clone", "web", "--name", "new"], when, at);
        mended(&lab).await;
        assert!(!lab.ctx.store.dir("new").unwrap().exists(), "{when} {at}");
    }
    run(&lab, &["clone", "web", "--name", "thin", "--linked"]);
    for (when, from, to) in [("before", "web", "shop"), ("after", "shop", "web")] {
        held.kill(&lab, &["rename", from, "--to", to], when, "rebase");
        let half = corral(&lab, &["start", "thin"]);
        assert_eq!(half.status.code(), Some(6), "{when}: {}", said(&half));
        assert!(
            said(&half).contains("overlay of"),
            "{when}: {}",
            said(&half)
        );
        mended(&lab).await;
        assert!(lab.ctx.store.load(from).is_err(), "{when}");
        assert!(
            info(&disk(&lab, "thin")).contains(&format!("/{to}/disk0.qcow2")),
            "{when}"
        );
        assert!(holds(&disk(&lab, "thin"), 3), "{when}");
        run(&lab, &["info", to]);
    }
    // Between the record and the move, and between the move and the name.
    run(&lab, &["delete", "thin", "--confirm", "thin"]);
    for moved in [false, true] {
        let (web, shop) = (
            lab.ctx.store.dir("web").unwrap(),
            lab.ctx.store.dir("shop").unwrap(),
        );
        let record = r#"{"op":"rename","from":"web","to":"shop","overlays":[],"phase":"working","pid":1,"pid_start":1,"at":"2026-01-01T00:00:00Z"}"#;
        fs::write(web.join("op.json"), record).unwrap();
        if moved {
            fs::rename(&web, &shop).unwrap();
        }
        mended(&lab).await;
        let name = if moved { "shop" } else { "web" };
        assert_eq!(lab.ctx.store.load(name).unwrap().name, name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_that_cannot_be_is_not_begun_and_one_that_cannot_go_on_leaves_nothing() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    make(&lab, "web");
    let file = disk(&lab, "web");
    tool("qemu-io", &["-f", "qcow2", "-c", "write -P 5 0 32M"], &file);
    // Two at once: one name, one VM.
    let both: Vec<_> = (0..2)
        .map(|_| {
            lab.corral(&["clone", "web", "--name", "twin"])
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let ended: Vec<Output> = both
        .into_iter()
        .map(|child| child.wait_with_output().unwrap())
        .collect();
    assert_eq!(
        ended.iter().filter(|o| o.status.success()).count(),
        1,
        "{ended:?}"
    );
    tool("qemu-img", &["check"], &disk(&lab, "twin"));

    // While it is copied the original does not start, and a cancel stops the copy.
    let tools = lab.root.path().join("slow");
    fs::create_dir_all(&tools).unwrap();
    let mark = tools.join("mark");
    let slow = format!(
        "#!/bin/sh\ncase \"$*\" in *convert*) echo > '{}'; exec sleep 1000;; esac\nexec '{}' \"$@\"\n",
        mark.display(),
        which::which("qemu-img").unwrap().display()
    );
    fs::write(tools.join("qemu-img"), slow).unwrap();
    fs::set_permissions(tools.join("qemu-img"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut ctx = (*lab.ctx).clone();
    let mut env = (*ctx.env).clone();
    env.path.insert(0, tools);
    ctx.env = Arc::new(env);
    let family = Clone(Arc::new(ctx));
    let web = lab.row("web").await;
    let request = CloneRequest {
        name: "slow".to_owned(),
        linked: false,
        snapshot: None,
        keep_identity: true,
        start: false,
    };
    let prepared = lab.prepare(&family, &web, request).await;
    assert!(prepared.refusals.is_empty(), "{prepared:?}");
    let cx = task(&web.id);
    let cancel = cx.cancel.clone();
    let cloning = tokio::spawn(async move { family.run(&cx, prepared).await });
    while !mark.exists() {
        assert!(!cloning.is_finished());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let no = corral(&lab, &["start", "web"]);
    let holder = format!("process {}", std::process::id());
    assert!(
        !no.status.success() && said(&no).contains(&holder),
        "{}",
        said(&no)
    );
    cancel.cancel();
    let error = cloning.await.unwrap().unwrap_err();
    assert!(
        error.message.contains("cancelled. Nothing was created"),
        "{error}"
    );
    assert!(!lab.ctx.store.dir("slow").unwrap().exists());

    let length = fs::metadata(&file).unwrap().len();
    fs::OpenOptions::new()
        .write(true)
        .open(&file)
        .unwrap()
        .set_len(length / 2)
        .unwrap();
    let bad = corral(&lab, &["clone", "web", "--name", "bad"]);
    assert!(
        !bad.status.success() && said(&bad).contains("corrupt"),
        "{}",
        said(&bad)
    );
    fs::remove_file(&file).unwrap();
    let gone = corral(&lab, &["clone", "web", "--name", "bad"]);
    assert!(
        !gone.status.success() && said(&gone).contains("is missing"),
        "{}",
        said(&gone)
    );
    assert!(!lab.ctx.store.dir("bad").unwrap().exists());
}

#[test]
fn a_full_disk_is_told_before_and_leaves_nothing() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let root = lab.ctx.store.root().to_owned();
    fs::create_dir_all(&root).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=48m", "tmpfs"])
        .arg(&root)
        .output();
    if !mounted.is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: cannot mount a tmpfs here");
        return;
    }
    make(&lab, "web");
    tool(
        "qemu-io",
        &["-f", "qcow2", "-c", "write -P 5 0 16M"],
        &disk(&lab, "web"),
    );
    let ballast = root.join("ballast");
    fs::write(&ballast, vec![0; 20 << 20]).unwrap();
    let before = refused(&lab, &["clone", "web", "--name", "new"]);
    // qemu-img is told of room that is not there once it writes.
    fs::remove_file(&ballast).unwrap();
    let held = Held::new(&lab);
    let path = std::env::var("PATH").unwrap();
    let full = format!(
        "#!/bin/sh\ncase \"$*\" in *convert*) head -c 20971520 /dev/zero > '{}';; esac\nexec '{}' \"$@\"\n",
        ballast.display(),
        which::which("qemu-img").unwrap().display()
    );
    fs::write(held.dir.join("qemu-img"), full).unwrap();
    let during = lab
        .corral(&["clone", "web", "--name", "new"])
        .env("PATH", format!("{}:{path}", held.dir.display()))
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    let left = lab.ctx.store.dir("new").unwrap().exists();
    let unmounted = Command::new("umount").arg(&root).status();
    assert!(unmounted.unwrap().success());
    assert!(
        before.contains("not enough space") && before.contains("Nothing was created"),
        "{before}"
    );
    let during = said(&during);
    assert!(
        during.contains("no space left") && during.contains("Nothing was created"),
        "{during}"
    );
    assert!(!left);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_is_another_machine_from_inside() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    lab.define(&image, "web").await;
    run(&lab, &["clone", "web", "--name", "web2", "--linked"]);
    assert!(run(&lab, &["info", "web2"]).contains("made anew at the first start"));
    let started = run(&lab, &["start", "web2"]);
    assert!(started.contains("its own machine ID"), "{started}");
    let vm = lab.ctx.store.load("web2").unwrap();
    let at = lab.login("web2", 0).await;
    let words = "cat /etc/machine-id; hostname; ip link show";
    let (seen, _) = lab.shell("web2", words, at).await;
    assert!(seen.contains(&vm.uuid.simple().to_string()), "{seen}");
    assert!(seen.contains("\nweb2"), "{seen}");
    assert!(seen.contains(&vm.nics[0].mac), "{seen}");
    assert!(!run(&lab, &["info", "web2"]).contains("made anew"));
    lab.power_off("web2").await;
}

/// Edits a definition by `--file`, with `from` replaced by `to`.
fn edit(lab: &Lab, name: &str, from: &str, to: &str) -> Output {
    let text = definition(lab, name);
    assert!(text.contains(from), "{from}: {text}");
    let file = lab.root.path().join("new.toml");
    fs::write(&file, text.replacen(from, to, 1)).unwrap();
    corral(lab, &["edit", name, "--file", file.to_str().unwrap()])
}

#[test]
fn a_definition_is_edited_byte_for_byte_and_mistakes_have_a_place() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    make(&lab, "web");
    let before = definition(&lab, "web");
    let json = run(
        &lab,
        &["info", "web", "-o", "jsonpath={.instances[0].native.text}"],
    );
    assert_eq!(json.trim_end(), before.trim_end());
    let same = edit(&lab, "web", "cpus", "cpus");
    assert!(said(&same).contains("already"), "{}", said(&same));
    for (from, to, what) in [
        ("cpus = 2", "cpus = 2 2", "new.toml:4:"),
        (
            "cpus = 2",
            "cpus = 0",
            "new.toml:4:1: 0 CPUs are not possible",
        ),
        (
            "cpus = 2",
            "cpus = 2\ncpsu = 3",
            "new.toml:5:1: there is no key \"cpsu\"; did you mean cpus",
        ),
        (
            "name = \"web\"",
            "name = \"shop\"",
            "corral rename local/web --to shop",
        ),
        (
            "format = 1",
            "format = 2",
            "new.toml:1:1: the format cannot be changed",
        ),
        ("bus = \"virtio\"", "bus = \"mfm\"", "mfm"),
        ("guest = 22", "guest = 0", "no port of a guest"),
        ("mac = \"52", "mac = \"53", "no MAC"),
        ("size = \"64M\"", "size = \"65M\"", "corral disk grow"),
        ("machine = \"pc", "machine = \"xy", "new.toml:"),
        (
            &uuid_line(&before),
            &format!("uuid = \"{}\"", uuid::Uuid::new_v4()),
            "uuid is its identity",
        ),
    ] {
        let no = edit(&lab, "web", from, to);
        assert!(
            !no.status.success() && said(&no).contains(what),
            "{to}: {}",
            said(&no)
        );
        assert_eq!(definition(&lab, "web"), before, "{to}");
    }
    // With comments and odd layout, to the byte.
    let wanted = format!(
        "# mine\n\n{}\n# end",
        before.replace("cpus = 2", "cpus   =   3 # more")
    );
    let file = lab.root.path().join("good.toml");
    fs::write(&file, &wanted).unwrap();
    let file = file.to_str().unwrap();
    let plan = run(&lab, &["edit", "web", "--file", file, "--dry-run"]);
    assert!(
        plan.contains("- cpus = 2") && plan.contains("+ cpus   =   3 # more"),
        "{plan}"
    );
    let stale = corral(&lab, &["edit", "web", "--file", file, "--base", "0000"]);
    assert!(
        said(&stale).contains("was changed since"),
        "{}",
        said(&stale)
    );
    run(&lab, &["edit", "web", "--file", file]);
    assert_eq!(definition(&lab, "web"), wanted);

    // What comes on standard input and is refused is kept.
    let mut child = lab
        .corral(&["edit", "web", "--file", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"precious = [")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = said(&output);
    let kept = text
        .split_whitespace()
        .find(|word| word.contains("/edits/stdin-"))
        .unwrap();
    let kept = kept.split(".txt").next().unwrap();
    assert_eq!(
        fs::read_to_string(format!("{kept}.txt")).unwrap(),
        "precious = ["
    );

    // While it runs it waits for the next start, and what only is said of it does not.
    run(&lab, &["start", "web"]);
    let noted = edit(&lab, "web", "tags = []", "tags = [\"x\"]");
    assert!(noted.status.success() && !run(&lab, &["info", "web"]).contains("Pending"));
    let plan = edit(&lab, "web", "memory = \"64M\"", "memory = \"96M\"");
    assert!(plan.status.success(), "{}", said(&plan));
    let info = run(&lab, &["info", "web"]);
    assert!(
        info.contains("Pending") && info.contains("restart --cold"),
        "{info}"
    );
    run(&lab, &["stop", "--force", "web"]);

    // One that cannot be read is mended by the same way.
    let path = lab.ctx.store.dir("web").unwrap().join("vm.toml");
    let good = definition(&lab, "web");
    fs::write(&path, good.replace("cpus   =   3", "cpus   =   x")).unwrap();
    assert!(run(&lab, &["list", "--filter", "state:broken", "-o", "name"]).contains("local/web"));
    let mended = edit(&lab, "web", "cpus   =   x", "cpus   =   3");
    assert!(mended.status.success(), "{}", said(&mended));
    assert_eq!(definition(&lab, "web"), good);
}

fn uuid_line(text: &str) -> String {
    text.lines()
        .find(|line| line.starts_with("uuid"))
        .unwrap()
        .to_owned()
}

#[test]
fn the_editor_has_the_terminal_and_what_it_leaves_is_planned() {
    if !has_qemu() || which::which("script").is_err() {
        return;
    }
    let lab = Lab::new();
    make(&lab, "web");
    let editor = lab.root.path().join("my editor");
    fs::write(
        &editor,
        "#!/bin/sh\ntest -t 0 && test -t 1 || exit 9\nsed -i \"$WHAT\" \"$1\"\n",
    )
    .unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    let line = format!("'{}' edit web", env!("CARGO_BIN_EXE_corral"));
    let by_hand = |what: &str| {
        let output = Command::new("script")
            .args(["-qefc", &line, "/dev/null"])
            .env_clear()
            .env("HOME", lab.root.path())
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("TERM", "xterm")
            .env("EDITOR", format!("'{}'", editor.display()))
            .env("WHAT", what)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        (output.status.success(), said(&output))
    };
    let (good, text) = by_hand("s/nothing/such/");
    assert!(good && text.contains("Nothing was changed"), "{text}");
    let edits = lab.root.path().join(".local/state/corral/edits");
    assert_eq!(fs::read_dir(&edits).unwrap().count(), 0);
    let (good, text) = by_hand("s/^cpus = 2/cpus = 3/");
    assert!(good, "{text}");
    assert!(definition(&lab, "web").contains("cpus = 3"));
    assert_eq!(fs::read_dir(&edits).unwrap().count(), 0);
    let (good, text) = by_hand("s/^cpus = 3/cpus = many/");
    assert!(
        !good && text.contains("kept in") && text.contains(".toml:4:"),
        "{text}"
    );
    assert_eq!(fs::read_dir(&edits).unwrap().count(), 1);
}

#[test]
fn what_nobody_holds_is_released_and_a_living_holder_is_named() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    make(&lab, "web");
    assert!(run(&lab, &["unlock", "web"]).contains("nothing of local/web is held"));
    let dir = lab.ctx.store.dir("web").unwrap();
    let record = r#"{"op":"snapshot-delete","tag":"x","phase":"begun","pid":1,"pid_start":1,"at":"2026-01-01T00:00:00Z"}"#;
    for text in [record, "{\"op\": \"cre"] {
        fs::write(dir.join("op.json"), text).unwrap();
        let list = run(&lab, &["list", "--filter", "locked:yes", "-o", "name"]);
        assert!(list.contains("local/web"), "{list}");
        run(&lab, &["unlock", "web"]);
        assert!(!dir.join("op.json").exists());
    }
    let vm = lab.ctx.store.load("web").unwrap();
    let lock = lab.ctx.paths(&vm.uuid).unwrap().dir;
    fs::create_dir_all(&lock).unwrap();
    let held = corral::link::files::lock(&lock.join("vm.lock"), "web", Duration::ZERO).unwrap();
    let no = refused(&lab, &["unlock", "web"]);
    let own = format!("process {}", std::process::id());
    assert!(no.contains(&own) && no.contains("qemu_ident"), "{no}");
    drop(held);
    run(&lab, &["unlock", "web"]);
}

/// Hundredths of a second of CPU, and how often its threads slept, so far.
fn busy(pid: u32) -> (u64, u64) {
    let (mut ticks, mut slept) = (0, 0);
    for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let task = task.unwrap().path();
        let stat = fs::read_to_string(task.join("stat")).unwrap();
        let after = stat.rsplit_once(')').unwrap().1;
        let fields: Vec<&str> = after.split_whitespace().collect();
        ticks += fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        let status = fs::read_to_string(task.join("status")).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        slept += line.unwrap().trim().parse::<u64>().unwrap();
    }
    (ticks, slept)
}

#[test]
fn a_copy_that_goes_on_costs_nothing_meanwhile() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let held = Held::new(&lab);
    make(&lab, "web");
    let to = lab.root.path().join("copy.qcow2").display().to_string();
    for words in [
        &["clone", "web", "--name", "copy"][..],
        &["export", "web", "--to", &to],
    ] {
        let mut child = held.stopped(&lab, words, "before", "convert", || true);
        // What came before it is done with.
        std::thread::sleep(std::time::Duration::from_millis(500));
        let (ticks, slept) = busy(child.id());
        std::thread::sleep(std::time::Duration::from_secs(2));
        let (ticks, slept) = (busy(child.id()).0 - ticks, busy(child.id()).1 - slept);
        assert!(ticks <= 2, "{words:?} took {ticks}0 ms of 2 s");
        assert!(slept <= 40, "{words:?} woke up {slept} times in 2 s");
        held.go();
        assert!(child.wait().unwrap().success(), "{words:?}");
    }
}
