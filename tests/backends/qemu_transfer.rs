//! Export, import and backups of real VMs, judged by `qemu-img`, `sha256sum`, `tar` and the guest.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod lab;
mod transfer;

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use corral::backend::contract::PowerRequest;
use corral::model::State;
use lab::Lab;
use lab::guest::{guest, has_qemu};
use transfer::{fill, fine, is_same, line, refused, tool};

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
    lab.shell("web", write, at).await;
    let to = root.join("live");
    let said = fine(&lab, &line("export web --to", &to));
    assert!(said.contains("[crash]"), "{said}");
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
    // A snapshot is read beside the guest that writes.
    let clean = root.join("clean.qcow2");
    fine(
        &lab,
        &format!("{} --snapshot clean", line("export web --to", &clean)),
    );
    assert!(is_same(&clean, &image));
    let other = line("export web --snapshot none --to", &root.join("n.qcow2"));
    refused(&lab, &other, "no snapshot none");
    lab.power_off("web").await;
}
