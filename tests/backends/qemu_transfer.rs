//! Export, import and backups of real VMs, judged by `qemu-img`, `sha256sum`, `tar` and the guest.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod held;
mod lab;
mod transfer;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use corral::backend::contract::PowerRequest;
use corral::model::State;
use held::Held;
use lab::Lab;
use lab::guest::{guest, has_qemu};
use transfer::{
    backups, disk_image, fill, fine, is_filled, is_same, line, member, output, refused, said, tool,
};

#[test]
fn every_form_holds_what_the_disks_hold() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let root = lab.root.path();
    fine(&lab, "create web --disk 64MiB --firmware uefi -y");
    let vm = lab.ctx.store.load("web").unwrap();
    let disk = &vm.disks[0].path;
    fill(disk, 7);
    let at = |name: &str| root.join(name);
    for name in ["dir", "a.qcow2", "a.raw", "a.raw.gz", "a.ova"] {
        fine(&lab, &format!("export web --to {}", at(name).display()));
        let partial = at(&format!("{name}.partial"));
        assert!(!partial.exists(), "{name} left its beginnings");
    }
    tool(&at("dir"), "sha256sum", &["--strict", "-c", "SHA256SUMS"]);
    assert!(is_same(&at("dir/disk0.qcow2"), disk));
    assert!(is_same(
        &at("dir/efivars.qcow2"),
        vm.firmware.vars.as_ref().unwrap()
    ));
    assert!(is_same(&at("a.qcow2"), disk));
    assert!(is_same(&at("a.raw"), disk));
    let raw = fs::metadata(at("a.raw")).unwrap();
    assert_eq!(raw.len(), 64 << 20);
    assert!(raw.blocks() * 512 < 1 << 20, "a hole was filled");
    assert_eq!(raw.mode() & 0o777, 0o600);
    fs::rename(at("a.raw"), at("b.raw")).unwrap();
    tool(root, "gunzip", &["a.raw.gz"]);
    tool(root, "cmp", &["a.raw", "b.raw"]);
    tool(root, "tar", &["xf", "a.ova"]);
    let sums = fs::read_to_string(at("web.mf")).unwrap();
    let wanted: Vec<&str> = sums
        .lines()
        .map(|line| line.split_once("= ").unwrap().1)
        .collect();
    for (file, sum) in ["web.ovf", "web-disk0.vmdk"].iter().zip(wanted) {
        assert!(tool(root, "sha256sum", &[file]).starts_with(sum), "{file}");
    }
    assert!(is_same(&at("web-disk0.vmdk"), disk));

    // What is there is replaced only on request, and what is no export never.
    refused(&lab, &line("export web --to", &at("dir")), "there already");
    fill(disk, 9);
    fine(
        &lab,
        &format!("{} --overwrite", line("export web --to", &at("dir"))),
    );
    assert!(is_same(&at("dir/disk0.qcow2"), disk));
    fs::create_dir(at("mine")).unwrap();
    fs::write(at("mine/letter"), "dear").unwrap();
    let mine = line("export web --overwrite --to", &at("mine"));
    refused(&lab, &mine, "never replaced");
    refused(
        &lab,
        &line("export web --to", &at("x.vmdk")),
        "nothing is exported as",
    );
    refused(&lab, &line("export web --to", &at("no/x.raw")), "mkdir -p");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_guest_is_written_out_as_it_was_at_one_moment() {
    let Some(image) = guest() else {
        return;
    };
    let lab = Lab::new();
    let root = lab.root.path();
    lab.define(&image, "web").await;
    fine(&lab, "snapshot create web --name clean");
    lab.power("web", PowerRequest::Start).await.unwrap();
    let at = lab.login("web", 0).await;
    let write =
        "echo before > /data/x; sync; (while sleep 0.2; do date >> /data/y; sync; done) & true";
    let (_, at) = lab.shell("web", write, at).await;
    fine(&lab, "wait web --for agent");
    let to = root.join("live");
    let said = fine(&lab, &line("export web --to", &to));
    assert!(said.contains("[filesystem]"), "{said}");
    let thawed = lab
        .shell("web", "echo on > /data/z; sync; cat /data/z", at)
        .await;
    assert!(thawed.0.contains("on"));
    tool(&to, "sha256sum", &["--strict", "-c", "SHA256SUMS"]);
    tool(&to, "qemu-img", &["check", "-q", "disk0.qcow2"]);
    // Nothing of it is left in QEMU or beside the disks.
    let dir = lab.ctx.store.dir("web").unwrap();
    let left: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| name.starts_with(".fleece") || name == "op.json")
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(lab.row("web").await.state, State::Running);
    // What was written before that moment is in it, on a machine of its own.
    fine(
        &lab,
        &format!("{} --name web2 --start -y", line("import", &to)),
    );
    let at = lab.login("web2", 0).await;
    let (said, _) = lab.shell("web2", "cat /data/x", at).await;
    assert!(said.contains("before"), "{said}");
    let (one, two) = (
        lab.ctx.store.load("web").unwrap(),
        lab.ctx.store.load("web2").unwrap(),
    );
    assert!(one.uuid != two.uuid && one.nics[0].mac != two.nics[0].mac);
    lab.power_off("web2").await;
    // A snapshot is read beside the guest that writes.
    let clean = root.join("clean.qcow2");
    fine(
        &lab,
        &format!("{} --snapshot clean", line("export web --to", &clean)),
    );
    assert!(is_same(&clean, &image));
    let other = line("export web --snapshot none --to", &root.join("n.qcow2"));
    refused(&lab, &other, "no snapshot none");
    // One machine's backups, made while it runs; onto it only when it is off.
    fine(&lab, "backup create web");
    fine(&lab, "backup create web --keep 1");
    let name = backups(&lab, "web");
    assert_eq!(name.len(), 1, "{name:?}");
    let restore = format!("backup restore {} --confirm web", name[0]);
    refused(&lab, &restore, "corral stop local/web");
    lab.power_off("web").await;
    let disk = lab.ctx.store.load("web").unwrap().disks[0].path.clone();
    fill(&disk, 3);
    let said = fine(&lab, &format!("backup restore {} --dry-run", name[0]));
    assert!(
        said.contains("Lost: all that was written") && said.contains("Lost: 1 snapshot"),
        "{said}"
    );
    refused(
        &lab,
        &format!("backup restore {} -y", name[0]),
        "--confirm web",
    );
    fine(&lab, &restore);
    assert!(!is_filled(&disk, 3));
    tool(root, "qemu-img", &["check", "-q", disk.to_str().unwrap()]);
    let vm = lab.ctx.store.load("web").unwrap();
    assert_eq!(vm.disks[0].backing, None);
    // The rest of the machine is the same, and starts.
    lab.power("web", PowerRequest::Start).await.unwrap();
    lab.power_off("web").await;
}

/// Changes one byte of a guest's data.
fn flip(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let at = bytes.len() - 40_000;
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
}

/// What `import` says to a file, which then leaves nothing behind.
fn imported(lab: &Lab, file: &Path, wanted: &str) {
    let said = refused(
        lab,
        &format!("{} --name b -y", line("import", file)),
        wanted,
    );
    assert!(said.lines().count() <= 2, "more than one message: {said}");
    let left: Vec<_> = fs::read_dir(lab.ctx.store.root())
        .map(|all| all.flatten().map(|entry| entry.file_name()).collect())
        .unwrap_or_default();
    assert!(left.is_empty(), "{wanted}: {left:?}");
}

#[test]
fn images_that_are_not_what_they_should_be_are_refused_and_leave_nothing() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let root = lab.root.path();
    let at = |name: &str| root.join(name);
    let img = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        tool(root, "qemu-img", &words);
    };
    // A disk with a partition table that says 64 MiB, and data up to its end.
    let disk = disk_image(&at("disk.raw"), 64 << 20);
    img("convert -f raw -O qcow2 disk.raw disk.qcow2");
    for format in ["qcow2", "vmdk", "vdi", "vpc", "vhdx"] {
        img(&format!(
            "convert -f raw -O {format} disk.raw whole.{format}"
        ));
        let length = fs::metadata(at(&format!("whole.{format}"))).unwrap().len();
        let cut = at(&format!("cut.{format}"));
        fs::copy(at(&format!("whole.{format}")), &cut).unwrap();
        fs::File::options()
            .write(true)
            .open(&cut)
            .unwrap()
            .set_len(length / 2)
            .unwrap();
        imported(&lab, &cut, "again");
    }
    fs::copy(&disk, at("cut.raw")).unwrap();
    fs::File::options()
        .write(true)
        .open(at("cut.raw"))
        .unwrap()
        .set_len(32 << 20)
        .unwrap();
    imported(&lab, &at("cut.raw"), "cut off");
    // What points elsewhere is never followed.
    img("create -q -f qcow2 -F raw -b /etc/shadow overlay.qcow2");
    imported(&lab, &at("overlay.qcow2"), "overlay of another image");
    img("create -q -f qcow2 -o data_file=data.raw,data_file_raw=on data.qcow2 1M");
    imported(&lab, &at("data.qcow2"), "data in another file");
    img("create -q -f vmdk -o subformat=monolithicFlat flat.vmdk 1M");
    imported(&lab, &at("flat.vmdk"), "VMDK in several files");
    img("create -q -f vmdk -F vmdk -b whole.vmdk overlay.vmdk");
    imported(&lab, &at("overlay.vmdk"), "overlay of another image");
    img("create -q -f qed -F raw -b disk.raw overlay.qed");
    imported(&lab, &at("overlay.qed"), "overlay of another image");
    // Headers that lie.
    let head = |name: &str, offset: usize, bytes: &[u8]| {
        let mut image = fs::read(at("whole.qcow2")).unwrap();
        image[offset..offset + bytes.len()].copy_from_slice(bytes);
        fs::write(at(name), image).unwrap();
        at(name)
    };
    imported(
        &lab,
        &head("luks.qcow2", 32, &2u32.to_be_bytes()),
        "is encrypted",
    );
    imported(
        &lab,
        &head("huge.qcow2", 24, &(1u64 << 60).to_be_bytes()),
        "which no disk is",
    );
    imported(&lab, &head("v9.qcow2", 4, &9u32.to_be_bytes()), "version 9");
    fs::write(at("text.img"), "hello").unwrap();
    imported(&lab, &at("text.img"), "no disk image");
    fs::write(at("empty.qcow2"), "").unwrap();
    imported(&lab, &at("empty.qcow2"), "is empty");
    imported(&lab, &at("none"), "there is no");
    imported(&lab, Path::new("/dev/zero"), "device or a pipe");
    tool(root, "mkfifo", &["pipe"]);
    imported(&lab, &at("pipe"), "device or a pipe");
    // Packed ones: half, twice, and one that becomes more than its image says.
    tool(root, "gzip", &["-k", "disk.raw"]);
    let packed = fs::read(at("disk.raw.gz")).unwrap();
    fs::write(at("half.gz"), &packed[..packed.len() / 2]).unwrap();
    imported(&lab, &at("half.gz"), "is damaged");
    tool(root, "cp", &["disk.raw.gz", "x"]);
    tool(root, "gzip", &["x"]);
    imported(&lab, &at("x.gz"), "packed twice");
    let bomb = fs::File::options()
        .write(true)
        .open(head("bomb", 24, &(1u64 << 20).to_be_bytes()));
    bomb.unwrap().set_len(1 << 30).unwrap();
    tool(root, "gzip", &["-1", "bomb"]);
    imported(&lab, &at("bomb.gz"), "larger than");
    // The content decides, not the name; what is whole comes in.
    fs::copy(at("whole.vhdx"), at("lie.qcow2")).unwrap();
    let said = fine(
        &lab,
        &format!("{} --name lie --dry-run", line("import", &at("lie.qcow2"))),
    );
    assert!(said.contains("it is called .qcow2, but is vhdx"), "{said}");
    for (n, file) in [
        "whole.qcow2",
        "whole.vmdk",
        "whole.vdi",
        "whole.vhdx",
        "disk.raw.gz",
    ]
    .iter()
    .enumerate()
    {
        fine(
            &lab,
            &format!(
                "{} --name m{n} --firmware bios -y",
                line("import", &at(file))
            ),
        );
        let vm = lab.ctx.store.load(&format!("m{n}")).unwrap();
        assert!(is_same(&vm.disks[0].path, &disk), "{file}");
        assert_eq!(vm.disks[0].size.0, 64 << 20);
    }
}

#[test]
fn packages_and_folders_that_lie_are_refused_and_leave_nothing() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let root = lab.root.path();
    let at = |name: &str| root.join(name);
    let other = Lab::new();
    let mine = line("import", &disk_image(&at("disk.raw"), 8 << 20));
    fine(
        &other,
        &format!("{mine} --name web --cpus 3 --memory 512M --firmware bios -y"),
    );
    fine(&other, &line("export web --to", &at("good.ova")));
    fine(&other, &line("export web --to", &at("good")));
    tool(root, "tar", &["xf", "good.ova"]);
    let text = |name: &str| fs::read_to_string(at(name)).unwrap();
    let (ovf, mf) = (text("web.ovf"), text("web.mf"));
    let vmdk = fs::read(at("web-disk0.vmdk")).unwrap();
    let pack = |name: &str, ovf: &str, mf: &str, vmdk: &[u8], entry: (&str, tar::EntryType)| {
        let mut tar = tar::Builder::new(fs::File::create(at(name)).unwrap());
        let all = [
            ("web.ovf", ovf.as_bytes()),
            ("web-disk0.vmdk", vmdk),
            ("web.mf", mf.as_bytes()),
        ];
        for (name, content) in all {
            member(&mut tar, name, tar::EntryType::Regular, content);
        }
        if !entry.0.is_empty() {
            member(&mut tar, entry.0, entry.1, b"");
        }
        tar.finish().unwrap();
        at(name)
    };
    use tar::EntryType::{Link, Regular, Symlink};
    for (name, kind, wanted) in [
        ("../evil", Regular, "leads out of the package"),
        ("/etc/evil", Regular, "leads out of the package"),
        ("web.ovf", Regular, "is in it twice"),
        ("evil", Symlink, "is a link"),
        ("evil", Link, "is a link"),
    ] {
        imported(
            &lab,
            &pack("bad.ova", &ovf, &mf, &vmdk, (name, kind)),
            wanted,
        );
    }
    let plain = ("", Regular);
    for (bad, wanted) in [
        (ovf.replace(">512<", ">99999999999<"), "memory"),
        (
            ovf.replace("8388608", "99999999999999999999"),
            "impossible size",
        ),
        (ovf.replace("8388608", "4096"), "were said to be"),
        (
            ovf.replace("web-disk0.vmdk", "../../../etc/shadow"),
            "a file elsewhere",
        ),
        (ovf.replace("web-disk0.vmdk", "other.vmdk"), "is not in"),
        (
            ovf.replace("<Envelope", "<!DOCTYPE x [<!ENTITY a \"b\">]><Envelope"),
            "document type",
        ),
        ("<a>".repeat(100_000), "nested too deeply"),
        (String::new(), "cannot be read"),
    ] {
        imported(&lab, &pack("bad.ova", &bad, "", &vmdk, plain), wanted);
    }
    let mut flipped = vmdk.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let damaged = pack("bad.ova", &ovf, &mf, &flipped, plain);
    imported(&lab, &damaged, "web-disk0.vmdk in");
    imported(&lab, &damaged, "the checksum is wrong");
    let whole = fs::read(at("good.ova")).unwrap();
    fs::write(at("bad.ova"), &whole[..whole.len() / 2]).unwrap();
    imported(&lab, &at("bad.ova"), "bad.ova");
    // A folder whose files are not those that were written.
    let good = |name: &str| {
        tool(root, "cp", &["-r", "good", name]);
        at(name)
    };
    let one = good("one");
    flip(&one.join("disk0.qcow2"));
    imported(&lab, &one, "one/disk0.qcow2: the checksum is wrong");
    let two = good("two");
    fs::remove_file(two.join("disk0.qcow2")).unwrap();
    imported(&lab, &two, "there is no file");
    std::os::unix::fs::symlink("/etc/shadow", two.join("disk0.qcow2")).unwrap();
    imported(&lab, &two, "is a link");
    let three = good("three");
    let json = text("good/portable.json");
    for (from, to, wanted) in [
        (
            "\"disk0.qcow2\"",
            "\"../good/disk0.qcow2\"",
            "no name of a file in that folder",
        ),
        ("\"qcow2\"", "\"vmdk\"", "as portable.json says"),
        (
            "corral-portable/1",
            "corral-portable/9",
            "this corral knows",
        ),
        ("\"cpus\": 3", "\"cpus\": 70000", "CPUs"),
        ("{", "[", "portable.json"),
    ] {
        fs::write(three.join("portable.json"), json.replace(from, to)).unwrap();
        // It lies with a checksum that fits: there is none.
        let _ = fs::remove_file(three.join("SHA256SUMS"));
        imported(&lab, &three, wanted);
    }
    // The whole ones come in, with what they say.
    for (name, from) in [("a", "good.ova"), ("b", "web.ovf"), ("c", "good")] {
        fine(
            &lab,
            &format!("{} --name {name} -y", line("import", &at(from))),
        );
        let vm = lab.ctx.store.load(name).unwrap();
        assert!(is_same(&vm.disks[0].path, &at("disk.raw")), "{name}");
        assert_eq!(
            (vm.cpus, vm.memory.0, vm.nics.len()),
            (3, 512 << 20, 1),
            "{name}"
        );
        assert!(vm.firmware.vars.is_none(), "{name}");
    }
    let said = fine(
        &lab,
        &format!("{} --dry-run --memory 1G", line("import", &at("good.ova"))),
    );
    assert!(
        said.contains("local/web ") && said.contains("3 CPUs, 1.0 GiB"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_that_were_killed_go_on_or_are_cleaned_away() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let held = Held::new(&lab);
    let root = lab.root.path();
    fine(
        &lab,
        "create web --disk 64MiB --memory 256M --firmware uefi -y",
    );
    let vm = lab.ctx.store.load("web").unwrap();
    let disk = &vm.disks[0].path;
    fill(disk, 5);
    let to = root.join("out");
    let (path, partial) = (to.to_str().unwrap(), root.join("out.partial"));
    let export = ["export", "web", "--to", path];
    let noted = || {
        fs::read_to_string(partial.join(".corral-partial.json"))
            .is_ok_and(|text| text.contains("disk0"))
    };
    held.kill_once(&lab, &export, "before", "out.partial/efivars.qcow2", noted);
    let inode = fs::metadata(partial.join("disk0.qcow2")).unwrap().ino();
    fine(&lab, &line("export web --to", &to));
    tool(&to, "sha256sum", &["--strict", "-c", "SHA256SUMS"]);
    assert!(is_same(&to.join("disk0.qcow2"), disk));
    assert_eq!(
        fs::metadata(to.join("disk0.qcow2")).unwrap().ino(),
        inode,
        "written anew"
    );
    assert!(!partial.exists() && !to.join(".corral-partial.json").exists());
    // Other disks than then: nothing of it is used.
    fs::remove_dir_all(&to).unwrap();
    let noted = || {
        fs::read_to_string(partial.join(".corral-partial.json"))
            .is_ok_and(|text| text.contains("disk0"))
    };
    held.kill_once(&lab, &export, "before", "out.partial/efivars.qcow2", noted);
    fill(disk, 6);
    fine(&lab, &line("export web --to", &to));
    assert!(is_same(&to.join("disk0.qcow2"), disk));
    // A large disk goes on in its middle.
    fine(
        &lab,
        "create big --disk 20GiB --memory 256M --firmware bios -y",
    );
    let big = lab.ctx.store.load("big").unwrap().disks[0].path.clone();
    for write in ["write -P 1 1M 64k", "write -P 2 9G 1M", "write -P 3 19G 1M"] {
        let file = big.to_str().unwrap();
        tool(root, "qemu-io", &["-f", "qcow2", "-c", write, file]);
    }
    let large = root.join("large");
    let words = ["export", "big", "--to", large.to_str().unwrap()];
    held.kill(&lab, &words, "before", "offset=8589934592,");
    let half = root.join("large.partial");
    let note = fs::read_to_string(half.join(".corral-partial.json")).unwrap();
    assert!(note.contains("\"upto\":8589934592"), "{note}");
    let inode = fs::metadata(half.join("disk0.qcow2")).unwrap().ino();
    fine(&lab, &line("export big --to", &large));
    let whole = large.join("disk0.qcow2");
    assert_eq!(fs::metadata(&whole).unwrap().ino(), inode, "written anew");
    assert!(is_same(&whole, &big));
    tool(&large, "qemu-img", &["check", "-q", "disk0.qcow2"]);
    // What another VM has half-written is left alone, whether or not it is known when it is planned.
    fine(&lab, "create other --disk 64MiB --memory 256M -y");
    let there = root.join("there");
    let words = ["export", "web", "--to", there.to_str().unwrap()];
    let file = root.join("there.raw");
    let packs = ["export", "web", "--to", file.to_str().unwrap()];
    for (words, place) in [(words, &there), (packs, &file)] {
        let mut child = held.stopped(&lab, &words, "before", "convert", || true);
        let half = left(root, "there");
        refused(&lab, &line("export other --to", place), "in the way");
        assert_eq!(left(root, "there"), half, "{words:?}");
        held.go();
        assert!(child.wait().unwrap().success());
        fine(
            &lab,
            &format!("{} --overwrite", line("export other --to", place)),
        );
    }
    // Nobody goes on: doctor cleans.
    for name in ["two", "two.ova", "two.raw.gz"] {
        let place = root.join(name);
        let words = ["export", "web", "--to", place.to_str().unwrap()];
        held.kill(&lab, &words, "after", "two");
        fine(&lab, "doctor --fix -y");
        let left: Vec<_> = fs::read_dir(root)
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name().into_string().unwrap())
            .filter(|name| name.starts_with("two"))
            .collect();
        assert!(left.is_empty(), "{name}: {left:?}");
    }
    // Live: QEMU keeps nothing for a corral that is gone.
    lab.power("web", PowerRequest::Start).await.unwrap();
    let place = root.join("live.qcow2");
    let words = ["export", "web", "--to", place.to_str().unwrap()];
    held.kill(&lab, &words, "before", "-m 8 json:");
    fine(&lab, "doctor --fix -y");
    let monitor = corral::backend::qemu::process::connect(&lab.ctx, &vm)
        .await
        .unwrap();
    let mut monitor = monitor.unwrap();
    for (command, key) in [
        ("query-jobs", "id"),
        ("query-block-exports", "id"),
        ("query-named-block-nodes", "node-name"),
    ] {
        let said = monitor
            .execute(command, serde_json::Value::Null, lab::READ)
            .await
            .unwrap();
        let ours = |item: &serde_json::Value| {
            item[key]
                .as_str()
                .is_some_and(|id| id.starts_with("fleece"))
        };
        assert!(
            !said.as_array().unwrap().iter().any(ours),
            "{command}: {said}"
        );
    }
    drop(monitor);
    held.kill(&lab, &words, "before", "-m 8 json:");
    fine(&lab, &line("export web --to", &place));
    assert!(is_same(&place, disk));
    lab.power_off("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_and_restores_that_were_killed_are_whole_or_gone() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let held = Held::new(&lab);
    let root = lab.root.path();
    fine(&lab, "create web --disk 64MiB --firmware uefi -y");
    let disk = lab.ctx.store.load("web").unwrap().disks[0].path.clone();
    fill(&disk, 5);
    let out = root.join("out");
    fine(&lab, &line("export web --to", &out));
    let import = ["import", out.to_str().unwrap(), "--name", "new", "-y"];
    for (when, at) in [
        ("before", "vms/new/disk0.qcow2"),
        ("after", "vms/new/disk0.qcow2"),
        ("after", "vms/new/efivars.qcow2"),
    ] {
        held.kill(&lab, &import, when, at);
        fine(&lab, "doctor --fix -y");
        assert!(!lab.ctx.store.dir("new").unwrap().exists(), "{when} {at}");
    }
    fine(&lab, "backup create web");
    let name = backups(&lab, "web").remove(0);
    let restore = ["backup", "restore", &name, "--confirm", "web"];
    let info = format!("info --output=json -f qcow2 {}", disk.display());
    for (when, at, kept) in [
        ("before", "disk0.qcow2.restored.new", 9),
        ("after", "efivars.qcow2.restored.new", 9),
        ("before", info.as_str(), 5),
    ] {
        fill(&disk, 9);
        held.kill(&lab, &restore, when, at);
        let start = lab.corral(&["start", "web"]).status().unwrap();
        assert!(!start.success(), "started half restored");
        fine(&lab, "doctor --fix -y");
        assert!(is_filled(&disk, kept), "{when} {at}");
        let left: Vec<_> = fs::read_dir(disk.parent().unwrap())
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name().into_string().unwrap())
            .filter(|name| name.starts_with('.') || name == "op.json")
            .collect();
        assert!(left.is_empty(), "{when} {at}: {left:?}");
    }
    // A damaged backup is seen, shown and never restored; others are not hidden by it.
    let kept = lab
        .ctx
        .env
        .dirs
        .data
        .join("backups/web")
        .join(name.rsplit_once('@').unwrap().1);
    flip(&kept.join("disk0.qcow2"));
    fine(&lab, "backup create web");
    let checked = output(&lab, "backup list web --verify");
    let text = said(&checked);
    assert!(
        text.contains("broken: ") && text.contains("whole"),
        "{text}"
    );
    assert_eq!(checked.status.code(), Some(1), "{text}");
    fill(&disk, 9);
    refused(&lab, &restore.join(" "), "the checksum is wrong");
    assert!(is_filled(&disk, 9));
    // Deleted with a yes; of a machine that is gone too. The newest is never the one to go.
    fine(&lab, &format!("backup delete {name} -y"));
    fine(&lab, "delete web --confirm web");
    let last = backups(&lab, "");
    assert_eq!(last.len(), 1, "{last:?}");
    fine(&lab, &format!("backup restore {} --name web2 -y", last[0]));
    let again = lab.ctx.store.load("web2").unwrap();
    assert!(is_filled(&again.disks[0].path, 5));
    fine(&lab, &format!("backup delete {} -y", last[0]));
    assert!(backups(&lab, "").is_empty());
}

#[test]
fn what_finds_no_space_or_is_cancelled_leaves_nothing() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let root = lab.root.path();
    let at = |name: &str| root.join(name);
    let disk = disk_image(&at("disk.raw"), 64 << 20);
    fine(
        &lab,
        &format!("{} --name web --firmware bios -y", line("import", &disk)),
    );
    // A user's limit on files stands for a disk that fills in the middle.
    let limited = |words: &str| {
        let script = format!("ulimit -f 8192; exec \"$CORRAL\" --headless {words}");
        let output = std::process::Command::new("bash")
            .args(["-c", &script])
            .env_clear()
            .env("HOME", root)
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("CORRAL", env!("CARGO_BIN_EXE_corral"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{words}: {said}");
        assert!(
            said.contains("Nothing was") && said.contains("df -h"),
            "{words}: {said}"
        );
    };
    for name in ["x", "x.qcow2", "x.raw.gz"] {
        limited(&line("export web --to", &at(name)));
    }
    limited(&format!(
        "{} --name new -y",
        line("import", &at("disk.raw"))
    ));
    assert!(!lab.ctx.store.dir("new").unwrap().exists());
    limited("backup create web");
    assert!(backups(&lab, "").is_empty());
    let left: Vec<_> = fs::read_dir(root)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| name.starts_with('x'))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Whether anything whose name begins so is there.
fn left(root: &Path, begin: &str) -> Vec<String> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(begin)).collect()
}

#[test]
fn what_is_cancelled_in_the_middle_leaves_nothing() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let held = Held::new(&lab);
    let root = lab.root.path();
    fine(&lab, "create web --disk 64MiB --firmware uefi -y");
    let disk = lab.ctx.store.load("web").unwrap().disks[0].path.clone();
    fill(&disk, 5);
    let raw = disk_image(&root.join("disk.raw"), 8 << 20);
    let place = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let (dir, gz, ova) = (place("x"), place("x.raw.gz"), place("x.ova"));
    let raw = raw.to_str().unwrap();
    for (words, at) in [
        (&["export", "web", "--to", dir.as_str()][..], "convert"),
        (&["export", "web", "--to", gz.as_str()], "convert"),
        (&["export", "web", "--to", ova.as_str()], "convert"),
        (&["backup", "create", "web"], "convert"),
        (&["import", raw, "--name", "new", "-y"], "vms/new"),
        (&["clone", "web", "--name", "new", "-y"], "vms/new"),
    ] {
        let child = held.stopped(&lab, words, "before", at, || true);
        let tasks = root.join(".local/state/corral/tasks");
        let runs = |name: &&String| {
            let text = fs::read_to_string(tasks.join(name)).unwrap_or_default();
            let task: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            task["state"] == "running"
        };
        // What is just being written has another name until it is whole.
        let names = left(&tasks, "");
        let whole = names.iter().filter(|name| !name.starts_with('.'));
        let task = whole.clone().find(runs).unwrap().trim_end_matches(".json");
        fine(&lab, &format!("tasks cancel {task}"));
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{words:?}: {said}");
        assert!(said.contains("cancelled"), "{words:?}: {said}");
        let there = left(root, "x");
        assert!(there.is_empty(), "{words:?}: {there:?}");
        assert!(!lab.ctx.store.dir("new").unwrap().exists(), "{words:?}");
        let dir = disk.parent().unwrap();
        let there = [left(dir, "."), left(dir, "op.json")].concat();
        assert!(there.is_empty(), "{words:?}: {there:?}");
        assert!(is_filled(&disk, 5));
    }
    assert!(backups(&lab, "").is_empty());
    // Who leaves at once leaves it to doctor.
    let words = ["export", "web", "--to", dir.as_str()];
    let child = held.stopped(&lab, &words, "before", "convert", || true);
    for _ in 0..2 {
        interrupt(child.id());
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    fine(&lab, "doctor --fix -y");
    let there = left(root, "x");
    assert!(there.is_empty(), "{there:?}");
}

/// Ctrl-C.
fn interrupt(pid: u32) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::INT).unwrap();
}

/// A file system of its own, as large as asked; gone with this.
struct Small<'a>(&'a Path);

impl<'a> Small<'a> {
    /// `None` where this user may mount none.
    fn mounted(at: &'a Path, size: &str) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let options = format!("size={size},mode=700");
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at);
        mount.stderr(std::process::Stdio::null());
        let mounted = mount.status().is_ok_and(|status| status.success());
        if !mounted {
            eprintln!("not tested: this user may not mount a tmpfs");
        }
        mounted.then_some(Self(at))
    }

    /// Nothing more fits in but so many bytes.
    fn crowd(&self, but: u64) {
        let stat = rustix::fs::statvfs(self.0).unwrap();
        let free = stat.f_bavail * stat.f_frsize;
        fs::write(
            self.0.join("ballast"),
            vec![1; free.saturating_sub(but) as usize],
        )
        .unwrap();
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("-l")
            .arg(self.0)
            .status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_ends_a_live_export_and_not_the_guest() {
    let Some(image) = guest() else {
        return;
    };
    let lab = Lab::new();
    let held = Held::new(&lab);
    let root = lab.root.path();
    let vms = lab.ctx.store.root();
    let Some(fs_of_its_own) = Small::mounted(vms, "256M") else {
        return;
    };
    lab.define(&image, "web").await;
    lab.power("web", PowerRequest::Start).await.unwrap();
    let at = lab.login("web", 0).await;
    let write = "dd if=/dev/urandom of=/data/x bs=1M count=24 conv=notrunc && sync";
    let (said, at) = lab.shell("web", write, at).await;
    assert!(said.contains("24+0 records out"), "{said}");
    let to = root.join("x.qcow2");
    let words = ["export", "web", "--to", to.to_str().unwrap()];
    let child = held.stopped(&lab, &words, "before", "-m 8 json:", || true);
    // What the guest overwrites now finds no room.
    fs_of_its_own.crowd(4 << 20);
    let (said, at) = lab.shell("web", write, at).await;
    assert!(said.contains("24+0 records out"), "{said}");
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && told.contains("df -h") && told.contains("Nothing was"),
        "{told}"
    );
    assert_eq!(lab.row("web").await.state, State::Running);
    let errors = "dmesg | grep -c 'I/O error'";
    let (said, _) = lab.shell("web", errors, at).await;
    assert!(said.lines().any(|line| line.trim() == "0"), "{said}");
    assert!(left(root, "x").is_empty() && left(&vms.join("web"), ".fleece").is_empty());
    lab.power_off("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_ends_ends_its_export_which_says_so() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let root = lab.root.path();
    let held = Held::new(&lab);
    lab.define(&image, "web").await;
    lab.power("web", PowerRequest::Start).await.unwrap();
    let to = root.join("x.qcow2");
    let words = ["export", "web", "--to", to.to_str().unwrap()];
    let child = held.stopped(&lab, &words, "before", "-m 8 json:", || true);
    lab.power_off("web").await;
    held.go();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains("ended while its disks were written out") && told.contains("Nothing was"),
        "{told}"
    );
    assert!(!told.contains("partial"), "{told}");
    assert!(left(root, "x").is_empty(), "{told}");
    fine(&lab, &format!("export web --to {}", to.display()));
}

#[test]
fn a_target_that_is_full_in_the_middle_keeps_nothing() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let held = Held::new(&lab);
    let root = lab.root.path();
    let disk = disk_image(&root.join("disk.raw"), 16 << 20);
    fine(
        &lab,
        &format!("{} --name web --firmware bios -y", line("import", &disk)),
    );
    tool(root, "gzip", &["-k", "disk.raw"]);
    let small = root.join("small");
    let Some(fs_of_its_own) = Small::mounted(&small, "64M") else {
        return;
    };
    // Full once the plan was made: while a disk is written, and while it is packed.
    for (name, when) in [
        ("x", "before"),
        ("x.qcow2", "before"),
        ("x.raw", "before"),
        ("x.ova", "after"),
        ("x.raw.gz", "after"),
    ] {
        let to = small.join(name);
        let words = ["export", "web", "--to", to.to_str().unwrap()];
        let child = held.stopped(&lab, &words, when, "convert", || true);
        fs_of_its_own.crowd(1 << 20);
        held.go();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{name}: {said}");
        assert!(
            said.contains("Nothing was") && said.contains("df -h"),
            "{name}: {said}"
        );
        let there = left(&small, "x");
        assert!(there.is_empty(), "{name}: {there:?}");
        fs::remove_file(small.join("ballast")).unwrap();
    }
    // A home that is too small for what is packed in a file.
    let home = small.join("home");
    fs::create_dir(&home).unwrap();
    fs_of_its_own.crowd(6 << 20);
    let output = lab
        .corral(&["import", root.join("disk.raw.gz").to_str().unwrap()])
        .args(["--name", "new", "-y"])
        .env("HOME", &home)
        .stderr(std::process::Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("space") && said.contains("df -h"),
        "what was full is not said: {said}"
    );
    let there = left(&home.join(".local/share/corral/vms"), "");
    assert!(there.is_empty(), "{there:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_come_as_bytes_offline_and_live() {
    use tokio::io::AsyncReadExt as _;
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let root = lab.root.path();
    let disk = disk_image(&root.join("disk.raw"), 16 << 20);
    fine(
        &lab,
        &format!(
            "{} --name web --memory 64M --firmware bios -y",
            line("import", &disk)
        ),
    );
    fine(&lab, "snapshot create web --name then");
    let vm = lab.ctx.store.load("web").unwrap();
    fill(&vm.disks[0].path, 7);
    let now = root.join("now.raw");
    let convert = ["convert", "-O", "raw", vm.disks[0].path.to_str().unwrap()];
    tool(
        root,
        "qemu-img",
        &[&convert[..], &[now.to_str().unwrap()]].concat(),
    );
    let qemu = lab.backend();
    for (runs, snapshot, same) in [
        (false, None, &now),
        (false, Some("then"), &disk),
        (true, Some("then"), &disk),
        (true, None, &now),
    ] {
        if runs && snapshot.is_some() {
            lab.power("web", PowerRequest::Start).await.unwrap();
        } else if runs {
            fine(&lab, "snapshot delete web@then -y");
            // What QEMU calls a disk is another name from then on.
            let moved = root.join("moved");
            fs::create_dir(&moved).unwrap();
            fine(&lab, &line("disk move web --disk disk0 -y --to", &moved));
        }
        let on = lab.row("web").await;
        let cx = lab::task(&on.id);
        let taken = qemu
            .families()
            .portable()
            .unwrap()
            .portable(&cx, &on, snapshot)
            .await;
        let taken = taken.unwrap();
        let known = taken.portable().disks[0].clone();
        assert_eq!(
            (known.size_bytes.0, known.format.as_str()),
            (16 << 20, "raw")
        );
        if runs && snapshot.is_none() {
            // What is written meanwhile is not in it.
            let mut monitor = corral::backend::qemu::process::connect(&lab.ctx, &vm)
                .await
                .unwrap()
                .unwrap();
            let write = serde_json::json!({"command-line": "qemu-io -d /machine/peripheral/disk0-dev/virtio-backend \"write -P 9 0 8M\""});
            let written = monitor.execute("human-monitor-command", write, lab::READ);
            let said = written.await.unwrap().to_string();
            assert!(!said.contains("Error"), "{said}");
        } else if !runs && snapshot.is_none() {
            refused(&lab, "start web --timeout 10s", "");
        } else if snapshot.is_some() {
            refused(&lab, "snapshot delete web@then -y", "under way");
        }
        let mut stream = taken.open(&cx, &known.name).await.unwrap();
        let mut bytes = Vec::new();
        stream.bytes.read_to_end(&mut bytes).await.unwrap();
        let copy = root.join("copy.raw");
        fs::write(&copy, bytes).unwrap();
        let sum = stream.sum.get().unwrap().clone();
        assert!(tool(root, "sha256sum", &["copy.raw"]).starts_with(&sum));
        tool(
            root,
            "qemu-img",
            &["compare", "-q", "copy.raw", same.to_str().unwrap()],
        );
        let error = taken.open(&cx, "none").await.err().unwrap();
        assert!(error.message.contains("has no disk none"), "{error}");
        drop((stream, taken));
        // It is let go in the background.
        let dir = lab.ctx.store.dir("web").unwrap();
        let until = std::time::Instant::now() + lab::READ;
        while !left(&dir, "op.json").is_empty() || !left(&dir, ".").is_empty() {
            assert!(std::time::Instant::now() < until, "it is never let go");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    lab.power_off("web").await;
}
