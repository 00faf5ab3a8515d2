//! What must not be written, deleted or kept without a word: bases of linked clones, damaged images,
//! what others have left, what is protected.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod held;
mod lab;
mod transfer;

use std::fs;

use corral::backend::contract::{Changes as _, EditNative as _, EditRequest, ReadCx};
use corral::backend::qemu::edit::Edit;
use corral::model::{Bytes, ErrorKind};
use held::Held;
use lab::Lab;
use lab::guest::{guest, has_qemu};
use transfer::{fill, fine, is_filled, line, refused, tool};

#[test]
fn a_backup_is_not_put_below_linked_clones() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    fine(&lab, "create web --disk 8MiB --firmware bios -y");
    let disk = lab.ctx.store.load("web").unwrap().disks[0].path.clone();
    fill(&disk, 1);
    fine(&lab, "backup create web");
    fill(&disk, 2);
    fine(&lab, "clone web --name copy --linked -y");
    let copy = lab.ctx.store.load("copy").unwrap().disks[0].path.clone();
    let kept = fine(&lab, "backup list -o json");
    let name = kept
        .split("\"name\": \"")
        .nth(1)
        .or(kept.split("\"name\":\"").nth(1));
    let name = name.unwrap().split('"').next().unwrap().to_owned();
    let words = format!("backup restore web@{name} --confirm web");
    refused(
        &lab,
        &format!("{words} --dry-run"),
        "must stay as it is: copy",
    );
    refused(&lab, &words, "must stay as it is: copy");
    assert!(is_filled(&copy, 2) && is_filled(&disk, 2));
    fine(&lab, "delete copy --confirm copy");
    fine(&lab, &words);
    assert!(is_filled(&disk, 1));
}

/// What doctor says; a warning is no failure.
fn doctor(lab: &Lab) -> String {
    let mut command = lab.corral(&["doctor"]);
    let output = command.stdout(std::process::Stdio::piped()).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn tcp_and_udp_ports_are_not_taken_for_each_other() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let (port, own) = (lab::free_port(), lab::free_port());
    fine(&lab, "create web --disk 1MiB --firmware bios -y");
    fine(&lab, "create dns --disk 1MiB --firmware bios -y");
    fine(&lab, &format!("ports publish web --port {own}:22"));
    fine(&lab, &format!("ports publish dns --port {port}:22/udp"));
    let list = fine(&lab, "list -o json");
    assert!(list.contains(&format!("127.0.0.1:{port}")), "{list}");
    let list = fine(&lab, "list");
    assert!(!list.contains(&format!("127.0.0.1:{port}")), "{list}");
    let info = fine(&lab, "info dns");
    let shown = format!("127.0.0.1:{port}/udp -> 22");
    assert!(info.contains(&shown), "{info}");
    fine(&lab, &format!("ports publish web --port {port}:80"));
    assert!(!doctor(&lab).contains("both publish"), "{}", doctor(&lab));
    // Another program has the same number of the other kind.
    let _udp = std::net::UdpSocket::bind(("127.0.0.1", own)).unwrap();
    assert!(
        !doctor(&lab).contains("another program"),
        "{}",
        doctor(&lab)
    );
    let _tcp = std::net::TcpListener::bind(("127.0.0.1", own)).unwrap();
    let said = doctor(&lab);
    assert!(said.contains("which another program uses"), "{said}");
    refused(
        &lab,
        "ports publish web --port 203.0.113.1:0:22",
        "203.0.113.1 is no address of this machine",
    );
}

#[test]
fn pulled_images_are_named_wherever_an_image_is_wanted() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let images = lab.root.path().join(".local/share/corral/images");
    fs::create_dir_all(&images).unwrap();
    let mut disc = vec![0; 40960];
    disc[32769..32774].copy_from_slice(b"CD001");
    fs::write(images.join("cdi.iso"), disc).unwrap();
    let base = images.join("base.qcow2");
    let path = base.to_str().unwrap();
    let make = ["create", "-q", "-f", "qcow2", path, "1M"];
    tool(lab.root.path(), "qemu-img", &make);
    fine(&lab, "create web --disk 1MiB --firmware bios -y");
    fine(&lab, "media insert web --image cdi");
    fine(&lab, "disk add web --image base --copy");
    fine(&lab, "disk add web --image base --write-protect");
    let vm = lab.ctx.store.load("web").unwrap();
    let medium = vm.cdroms[0].path.as_ref().unwrap();
    assert!(medium.ends_with("images/cdi.iso"), "{medium:?}");
    assert!(!vm.disks[1].path.starts_with(&images) && vm.disks[2].path == base);
    refused(&lab, "media insert web --image cdx", "Did you mean cdi?");
    refused(&lab, "export web --to -", "standard output");

    // One that was not fetched to its end is told, once nobody writes it.
    let part = fs::File::create(images.join("half.partial")).unwrap();
    part.set_len(4096).unwrap();
    assert!(!doctor(&lab).contains("image half"), "it is being written");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    part.set_modified(old).unwrap();
    let said = doctor(&lab);
    assert!(said.contains("corral image delete half"), "{said}");
    fine(&lab, "image delete half -y");
    assert!(!doctor(&lab).contains("image half"));
}

#[test]
fn damaged_images_are_not_pulled() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let at = |name: &str| lab.root.path().join(name);
    let make = |name: &str, format: &str| {
        let path = at(name);
        let path = path.to_str().unwrap();
        let root = lab.root.path();
        tool(
            root,
            "qemu-img",
            &["create", "-q", "-f", format, path, "64M"],
        );
        tool(
            root,
            "qemu-io",
            &["-f", format, "-c", "write -P 3 0 8M", path],
        );
    };
    make("good.qcow2", "qcow2");
    make("cut.qcow2", "qcow2");
    let file = fs::OpenOptions::new()
        .write(true)
        .open(at("cut.qcow2"))
        .unwrap();
    file.set_len(2 << 20).unwrap();
    fine(
        &lab,
        &format!(
            "image pull file://{} --name good",
            at("good.qcow2").display()
        ),
    );
    refused(
        &lab,
        &format!("image pull file://{} --name cut", at("cut.qcow2").display()),
        "is damaged",
    );
    let listed = fine(&lab, "image list -o name");
    assert!(
        listed.contains("good") && !listed.contains("cut"),
        "{listed}"
    );
    make("good.vmdk", "vmdk");
    fine(
        &lab,
        &format!("image pull file://{} --name vm", at("good.vmdk").display()),
    );
    // A descriptor that names a file of this machine.
    let text = format!(
        "# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID=ffffffff\n\
         createType=\"monolithicFlat\"\nRW 131072 FLAT \"{}\" 0\n",
        at("good.vmdk").display()
    );
    fs::write(at("names.vmdk"), text).unwrap();
    refused(
        &lab,
        &format!(
            "image pull file://{} --name names",
            at("names.vmdk").display()
        ),
        "names other files",
    );
}

#[test]
fn an_export_leaves_what_others_left_to_doctor_who_says_it() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let held = Held::new(&lab);
    fine(&lab, "create web --disk 8MiB --firmware bios -y");
    let at = |name: &str| lab.root.path().join(name);
    for name in ["p1.raw", "p2.raw", "p3.raw"] {
        let to = at(name);
        held.kill(
            &lab,
            &["export", "web", "--to", to.to_str().unwrap()],
            "after",
            name,
        );
    }
    let partials = || {
        let there = |name: &&str| at(&format!("{name}.partial")).exists();
        ["p1.raw", "p2.raw", "p3.raw"]
            .into_iter()
            .filter(there)
            .collect::<Vec<_>>()
    };
    assert_eq!(partials().len(), 3);
    let said = fine(
        &lab,
        &format!("{} --dry-run", line("export web --to", &at("p2.raw"))),
    );
    assert!(
        said.contains("p1.raw.partial") && said.contains("p3.raw.partial"),
        "{said}"
    );
    assert!(said.contains("doctor --fix removes it"), "{said}");
    fine(&lab, &line("export web --to", &at("p2.raw")));
    assert_eq!(partials(), ["p1.raw", "p3.raw"]);
    // Elsewhere, and onto what was begun first.
    fine(&lab, &line("export web --to", &at("p4.raw")));
    fine(&lab, &line("export web --to", &at("p1.raw")));
    assert_eq!(partials(), ["p3.raw"]);
    let plan = fine(&lab, "doctor --fix --dry-run");
    let step = format!("rm {}", at("p3.raw.partial").display());
    assert!(plan.contains(&step), "{plan}");
    assert!(!plan.contains("[corral doctor --fix]"), "{plan}");
    fine(&lab, "doctor --fix -y");
    assert!(partials().is_empty());
    for name in ["p1.raw", "p2.raw", "p4.raw"] {
        assert!(at(name).exists(), "{name}");
    }
}

#[test]
fn what_a_protected_instance_loses_on_the_way_is_asked_for() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    fine(&lab, "create web --disk 8MiB --firmware bios -y");
    fine(&lab, "protect web --on");
    let rule = "snapshot create web --name-template {instance}-{n} --keep 1";
    // Nothing is deleted yet: nothing is asked.
    fine(&lab, rule);
    fine(&lab, "backup create web --keep 1");
    fine(&lab, "snapshot create web --name plain");
    let words = "backup create web --keep 1";
    refused(&lab, words, "--confirm");
    refused(&lab, &format!("{words} -y"), "--confirm");
    fine(&lab, &format!("{words} --confirm web"));
    fine(&lab, "protect web --off --confirm web");
    fine(&lab, words);
}

#[test]
fn an_edit_says_what_the_verbs_refuse() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    for name in ["a", "b"] {
        let words = "--disk 8MiB --firmware bios -y --publish 127.0.0.1:0:22";
        fine(&lab, &format!("create {name} {words}"));
    }
    let (a, b) = (
        lab.ctx.store.load("a").unwrap(),
        lab.ctx.store.load("b").unwrap(),
    );
    let text = lab.ctx.store.text("a");
    let file = lab.root.path().join("new.toml");
    let edit = line("edit a --file", &file);
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from), "{from} in {text}");
        fs::write(&file, text.replace(from, to)).unwrap();
    };
    let foreign = b.disks[0].path.to_str().unwrap();
    changed("path = \"disk0.qcow2\"", &format!("path = \"{foreign}\""));
    refused(&lab, &edit, "two that write it destroy it");
    assert_eq!(lab.ctx.store.text("a"), text);
    changed(&a.nics[0].mac, &b.nics[0].mac);
    let said = fine(&lab, &format!("{edit} --dry-run"));
    assert!(said.contains("is that of b"), "{said}");
    let port = |vm: &corral::backend::qemu::definition::Definition| {
        format!("port = {}", vm.nics[0].forwards[0].port)
    };
    changed(&port(&a), &port(&b));
    let said = fine(&lab, &format!("{edit} --dry-run"));
    assert!(said.contains("is published by b"), "{said}");
}

#[test]
fn what_must_not_start_is_not_marked_to_start_and_limits_are_named() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    fine(&lab, "create web --disk 8MiB --firmware bios -y");
    refused(&lab, "resize web --memory 100T", "16 MiB to 8 TiB");
    refused(
        &lab,
        "create big --disk 9999999T --firmware bios -y",
        "1 MiB to 64 PiB",
    );
    refused(
        &lab,
        "disk grow web --disk disk0 --to 9999999T",
        "64 PiB at most",
    );
    refused(
        &lab,
        "snapshot create web --name s --expires 0s",
        "expire as it is made",
    );
    refused(
        &lab,
        "snapshot create web --name s --expires 7",
        "Write it like 90s, 5m, 2h or 7d",
    );
    refused(
        &lab,
        "image search nosuchthing",
        "no image of the catalogue fits",
    );
    fine(&lab, "autostart web --on");
    let said = fine(&lab, "template web --on --dry-run");
    assert!(said.contains("corral autostart local/web --on"), "{said}");
    fine(&lab, "autostart web --off");
    fine(&lab, "clone web --name copy --linked -y");
    refused(&lab, "autostart web --on", "must stay as it is: copy");
    let away = lab.root.path().join("away");
    fs::create_dir(&away).unwrap();
    fs::write(away.join("copy-disk0.qcow2"), "").unwrap();
    let said = refused(
        &lab,
        &line("disk move copy --disk disk0 --to", &away),
        "is there already",
    );
    assert!(!said.contains("--image"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ram_that_is_taken_back_brings_its_memory_with_it() {
    let Some(image) = guest() else {
        return;
    };
    let lab = Lab::new();
    let words = format!(
        "create web --image {} --firmware bios --memory 256M -y",
        image.display()
    );
    fine(&lab, &words);
    fine(&lab, "resize web --memory 320M --max-memory 512M -y");
    fine(&lab, "start web --for agent");
    fine(&lab, "resize web --memory 256M -y");
    let memory = || lab.ctx.store.load("web").unwrap().memory;
    let then = memory();
    assert_eq!(then, Bytes::mib(256));
    fine(&lab, "snapshot create web --name ram --with-memory");
    fine(&lab, "pause web");
    let paused = "snapshot create web --name q --quiesce --require filesystem";
    refused(&lab, paused, "corral resume local/web");
    fine(&lab, "resume web");
    fine(&lab, "resize web --memory 320M -y");
    assert_eq!(memory(), Bytes::mib(320));
    fine(
        &lab,
        "snapshot restore web@ram --stop --start --confirm web",
    );
    assert_eq!(memory(), then);
    let said = fine(&lab, "info web");
    assert!(!said.contains("Pending"), "{said}");
    fine(&lab, "hibernate web -y");
    refused(&lab, "template web --on -y", "hibernated");
    fine(&lab, "delete web --confirm web");
}

#[test]
fn what_another_shell_came_to_need_meanwhile_is_not_deleted() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let held = Held::new(&lab);
    fine(&lab, "create base --disk 8MiB --firmware bios -y");
    let disk = lab.ctx.store.load("base").unwrap().disks[0].path.clone();
    fill(&disk, 1);
    let words = ["clone", "base", "--name", "thin", "--linked", "-y"];
    let mut clone = held.stopped(&lab, &words, "before", "thin/disk0", || true);
    // It waits for the clone, having planned before there was one.
    let mut delete = lab.corral(&["delete", "base", "--confirm", "base"]);
    let delete = delete.stderr(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    held.go();
    assert!(clone.wait().unwrap().success());
    let deleted = delete.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&deleted.stderr);
    assert!(!deleted.status.success() && said.contains("thin"), "{said}");
    let thin = lab.ctx.store.load("thin").unwrap().disks[0].path.clone();
    assert!(is_filled(&disk, 1) && is_filled(&thin, 1));
    // Asked again, it goes without what is needed.
    let kept = fine(&lab, "delete base --confirm base --dry-run");
    assert!(kept.contains("thin needs it"), "{kept}");
    fine(&lab, "delete base --confirm base");
    assert!(is_filled(&thin, 1));
}

#[test]
fn one_image_is_given_to_one_of_two_that_want_it_at_once() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    fine(&lab, "create one --disk 8MiB --firmware bios -y");
    fine(&lab, "create two --disk 8MiB --firmware bios -y");
    for n in 0..6 {
        let image = lab.root.path().join(format!("{n}.qcow2"));
        let path = image.to_str().unwrap();
        let root = lab.root.path();
        tool(
            root,
            "qemu-img",
            &["create", "-q", "-f", "qcow2", path, "1M"],
        );
        let both: Vec<_> = ["one", "two"]
            .iter()
            .map(|vm| {
                let words = ["disk", "add", vm, "--image", path];
                lab.corral(&words).spawn().unwrap()
            })
            .collect();
        let got: Vec<bool> = both
            .into_iter()
            .map(|mut child| child.wait().unwrap().success())
            .collect();
        let has = |vm: &str| {
            let vm = lab.ctx.store.load(vm).unwrap();
            vm.disks.iter().any(|disk| disk.path == image)
        };
        assert_eq!(got, [has("one"), has("two")]);
        assert!(got[0] != got[1], "{got:?}");
    }
}

#[test]
fn what_was_kept_or_detached_holds_the_image_below_it() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let image = lab.root.path().join("base.qcow2");
    let path = image.to_str().unwrap();
    let root = lab.root.path();
    tool(
        root,
        "qemu-img",
        &["create", "-q", "-f", "qcow2", path, "8M"],
    );
    fine(&lab, &format!("image pull file://{path} --name tw"));
    fine(&lab, "create other --disk 8MiB --firmware bios -y");
    refused(&lab, "disk add other --image tw", "is a pulled image");
    for name in ["kept", "detached"] {
        fine(
            &lab,
            &format!("create {name} --backing tw --firmware bios -y"),
        );
    }
    fine(&lab, "delete kept --keep-disks --confirm kept");
    refused(&lab, "image delete tw -y", "kept");
    fine(&lab, "disk remove detached --disk disk0");
    let unused = fine(&lab, "image list --unused");
    assert!(!unused.contains("tw "), "{unused}");
    refused(&lab, "image delete tw -y", "detached");
}

#[test]
fn a_folder_with_a_disk_of_another_vm_does_not_move() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    fine(&lab, "create aa --disk 8MiB --firmware bios -y");
    fine(&lab, "create bb --disk 8MiB --firmware bios -y");
    fine(&lab, "disk add aa --size 4M");
    fine(&lab, "disk remove aa --disk disk1");
    let disk = lab.ctx.store.dir("aa").unwrap().join("disk1.qcow2");
    fine(&lab, &format!("disk add bb --image {}", disk.display()));
    refused(&lab, "rename aa --to ac --dry-run", "local/bb uses");
    refused(&lab, "rename aa --to ac", "local/bb uses");
    assert!(disk.exists());
    fine(&lab, "disk remove bb --disk disk1");
    fine(&lab, "rename aa --to ac");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_takes_no_disk_that_another_vm_was_given_meanwhile() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    fine(&lab, "create one --disk 8MiB --firmware bios -y");
    fine(&lab, "create two --disk 8MiB --firmware bios -y");
    let image = lab.root.path().join("both.qcow2");
    let path = image.to_str().unwrap();
    let root = lab.root.path();
    tool(
        root,
        "qemu-img",
        &["create", "-q", "-f", "qcow2", path, "1M"],
    );
    let family = Edit(lab.ctx.clone());
    let on = lab.row("one").await;
    let now = family.native(&ReadCx::quiet(lab::READ), &on).await.unwrap();
    let own = lab.ctx.store.load("one").unwrap();
    let disk = &own.disks[0];
    // Another one like the first, in a place and with a name of its own.
    let table = now.text.split("[[disks]]").nth(1).unwrap();
    let table = table.split("\n[").next().unwrap();
    let mut other: toml::Table = table.parse().unwrap();
    other.insert("name".to_owned(), "disk1".into());
    other.insert("path".to_owned(), path.into());
    other.insert("size".to_owned(), "1M".into());
    other.insert("owned".to_owned(), false.into());
    other.insert("serial".to_owned(), "another-one".into());
    other.remove("slot");
    let text = now.text.replacen(
        &format!("[[disks]]{table}"),
        &format!("[[disks]]{table}\n[[disks]]\n{other}\n"),
        1,
    );
    assert_eq!(disk.name, "disk0");
    let request = EditRequest {
        text,
        base: now.token,
        label: "vm.toml".to_owned(),
    };
    let prepared = lab.prepare(&family, &on, request).await;
    assert!(prepared.refusals.is_empty(), "{:?}", prepared.refusals);
    fine(&lab, &format!("disk add two --image {path}"));
    let error = family.run(&lab::task(&on.id), prepared).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert!(error.message.contains("two"), "{error}");
    assert_eq!(lab.ctx.store.load("one").unwrap(), own);
}
