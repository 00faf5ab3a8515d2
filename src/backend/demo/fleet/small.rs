//! About 60 guests in every state that people meet.

use super::cast::Cast;
use crate::model::{Consistency, State};

const DAY: u64 = 24 * 60;

pub(super) fn fill(context: &str, cast: &mut Cast) {
    match context {
        "local" => local(cast),
        "hv1" => hv1(cast),
        "lab" => lab(cast),
        "prod" => prod(cast),
        "pve" => pve(cast),
        "vbox" => vbox(cast),
        "vc" => vc(cast),
        "xs" => xs(cast),
        "nx" => nx(cast),
        "site2" => site2(cast),
        "hv2" => hv2(cast),
        _ => old(cast),
    }
}

fn local(cast: &mut Cast) {
    cast.vm("web")
        .size(2, 2, 20)
        .port(22, "127.0.0.1:2201")
        .port(80, "127.0.0.1:8080")
        .tags("dev web")
        .note("the shop, as it will be")
        .snapshot("base", None, 28 * DAY, Consistency::Offline, None)
        .snapshot(
            "before-upgrade",
            Some("base"),
            3 * DAY,
            Consistency::Memory,
            Some("Debian 13"),
        );
    cast.vm("win11")
        .stopped()
        .size(4, 8, 64)
        .os("Windows 11")
        .note("licence on the NAS");
    cast.vm("scratch").port(22, "127.0.0.1:2202").no_agent();
    cast.vm("stubborn")
        .stubborn()
        .no_agent()
        .note("ignores the power button");
    cast.vm("badboot").bad_boot().note("its disk is gone");
    cast.vm("my test vm").stopped().note("a name with spaces");
    cast.vm("\u{1f98a} fox").stopped().tags("odd");
    cast.vm("evil\u{1b}[2J\u{7}name")
        .stopped()
        .tags("odd")
        .note("control characters in its name\u{1b}[31m");
}

fn hv1(cast: &mut Cast) {
    cast.vm("web").size(2, 4, 20).tags("prod web");
    cast.vm("db")
        .size(4, 16, 100)
        .tags("prod db")
        .snapshot("base", None, 28 * DAY, Consistency::Offline, None)
        .snapshot(
            "pre-patch",
            Some("base"),
            190,
            Consistency::Filesystem,
            Some("kernel 6.12"),
        )
        .snapshot(
            "post-patch",
            Some("pre-patch"),
            145,
            Consistency::Crash,
            None,
        );
    cast.vm("mailstore")
        .size(4, 8, 200)
        .tags("prod mail")
        .ipv6();
    cast.vm("builder")
        .size(8, 16, 80)
        .state(State::Crashed)
        .because("guest panicked: kernel oops");
    cast.vm("files")
        .size(2, 4, 500)
        .state(State::Paused)
        .because("I/O error on vda: pool \"default\" is full")
        .tags("prod");
    cast.vm("debian-13-template").template().tags("base");
    cast.vm("stubborn")
        .stubborn()
        .no_agent()
        .note("ignores the power button");
    cast.vm("badboot").bad_boot().note("its disk is gone");
    cast.vm("仮想マシン")
        .size(1, 1, 8)
        .os("Rocky 10")
        .tags("odd 東京");
}

fn lab(cast: &mut Cast) {
    cast.ct_in("default", "ci")
        .size(4, 4, 30)
        .tags("ci")
        .port(22, "0.0.0.0:2222");
    cast.ct_in("default", "cache").size(1, 1, 10);
    cast.ct_in("default", "grafana").tags("monitoring").ipv6();
    cast.vm_in("default", "web")
        .size(2, 4, 20)
        .tags("staging web");
    cast.ct_in("default", "frozen")
        .state(State::Paused)
        .because("frozen by an administrator");
    cast.vm_in("default", "stubborn").stubborn();
    cast.ct_in("dev", "alice").stopped().note("on leave");
    cast.ct_in("dev", "bob")
        .snapshot("weekly-31", None, 11 * DAY, Consistency::Crash, None)
        .expired("weekly-{n}", DAY)
        .snapshot(
            "monday",
            Some("weekly-31"),
            4 * DAY,
            Consistency::Crash,
            None,
        );
    cast.ct_in("dev", "half-made")
        .state(State::Broken)
        .because("its storage volume is missing: default/half-made");
}

fn prod(cast: &mut Cast) {
    cast.vm_in("shop", "web")
        .size(4, 8, 40)
        .tags("prod web")
        .protected();
    cast.vm_in("shop", "api")
        .size(4, 8, 40)
        .tags("prod")
        .snapshot("nightly", None, 9 * 60, Consistency::Filesystem, None);
    cast.vm_in("shop", "queue")
        .size(2, 4, 20)
        .state(State::Migrating);
    cast.vm_in("infra", "importer")
        .state(State::Provisioning)
        .because("DataVolume importer-disk0: 42 % imported");
    cast.vm_in("infra", "win-ad")
        .os("Windows Server 2022")
        .size(4, 16, 120)
        .no_agent();
    cast.vm_in("infra", "loop")
        .state(State::Crashed)
        .because("CrashLoopBackOff: 7 restarts");
}

fn pve(cast: &mut Cast) {
    cast.vm("db")
        .size(4, 8, 32)
        .tags("prod db")
        .protected()
        .ipv6()
        .pending("memory 16 GiB")
        .snapshot("base", None, 30 * DAY, Consistency::Offline, None)
        .snapshot(
            "pre-patch",
            Some("base"),
            180,
            Consistency::Memory,
            Some("before 9.0.3"),
        );
    cast.vm("web").stopped().size(2, 4, 32).disk(100);
    cast.vm("mail")
        .size(2, 8, 120)
        .locked("backup")
        .tags("prod mail")
        .on("pve2");
    cast.ct("dns1").size(1, 1, 4).tags("infra");
    cast.ct("dns2")
        .size(1, 1, 4)
        .state(State::Unknown)
        .because("node pve3 is offline")
        .on("pve3");
    cast.ct("proxy")
        .on("pve1")
        .size(1, 2, 8)
        .snapshot("first", None, 9 * DAY, Consistency::Crash, None)
        .snapshot("second", Some("first"), 2 * DAY, Consistency::Crash, None);
    cast.vm("debian13-template")
        .template()
        .note("one-way template");
    cast.vm("half-restored").stopped().locked("snapshot-delete");
}

fn vbox(cast: &mut Cast) {
    cast.vm("Windows 10 (IE11)")
        .stopped()
        .os("Windows 10")
        .size(2, 4, 50);
    cast.vm("kali")
        .size(2, 4, 40)
        .os("Kali")
        .port(22, "127.0.0.1:2022");
    cast.vm("old laptop")
        .state(State::Hibernated)
        .os("Ubuntu 16.04");
    cast.vm("<inaccessible>")
        .state(State::Broken)
        .because("Could not find /home/demo/VMs/usb/usb.vbox: No such file or directory");
}

fn vc(cast: &mut Cast) {
    cast.vm("SAP-PRD-01")
        .size(16, 128, 500)
        .os("SLES 15")
        .tags("prod sap");
    cast.vm("SAP-QAS-01")
        .size(8, 64, 500)
        .os("SLES 15")
        .tags("qa sap");
    cast.vm("file server")
        .size(2, 8, 2000)
        .os("Windows Server 2019");
    cast.vm("print").stopped().os("Windows Server 2012");
    cast.vm("appliance")
        .no_agent()
        .note("no VMware Tools in it");
    cast.vm("web")
        .size(2, 4, 40)
        .snapshot("deploy", None, 50, Consistency::Filesystem, None);
}

fn xs(cast: &mut Cast) {
    cast.vm("xoa").size(2, 4, 20);
    cast.vm("erp").size(8, 32, 200).tags("prod").snapshot(
        "quarter",
        None,
        60 * DAY,
        Consistency::Crash,
        None,
    );
    cast.vm("citrix-01")
        .os("Windows Server 2019")
        .state(State::Paused)
        .because("paused by an administrator");
    cast.vm("suspended")
        .state(State::Hibernated)
        .note("saved before the move");
    cast.vm("router")
        .size(1, 1, 4)
        .no_agent()
        .no_address()
        .os("OpenWrt");
}

fn nx(cast: &mut Cast) {
    cast.vm("vdi-001")
        .os("Windows 11")
        .size(2, 8, 60)
        .tags("vdi");
    cast.vm("vdi-002")
        .os("Windows 11")
        .size(2, 8, 60)
        .tags("vdi");
    cast.vm("vdi-003")
        .stopped()
        .os("Windows 11")
        .size(2, 8, 60)
        .tags("vdi");
    cast.vm("move-appliance").stopped().no_agent();
}

fn site2(cast: &mut Cast) {
    cast.ct_in("lab/default", "web").tags("branch web");
    cast.vm_in("pve", "201").note("backup target");
    cast.vm_in("local", "kiosk")
        .stopped()
        .snapshot(
            "clean",
            None,
            12 * DAY,
            Consistency::Offline,
            Some("no longer opens"),
        )
        .broken_snapshot("its image is missing");
}

fn hv2(cast: &mut Cast) {
    cast.vm("mail");
    cast.vm("backup");
}

fn old(cast: &mut Cast) {
    cast.vm("legacy-crm").os("Windows Server 2008");
    cast.vm("license-server").os("CentOS 7");
}
