//! 10 000 guests, for those who want to see whether it still runs smoothly.

use super::super::dialect::Dialect;
use super::cast::Cast;
use crate::model::{Consistency, State};

const ALL: usize = 10_000;

/// How many of all guests each context has.
fn share(context: &str) -> usize {
    let rest = ["local", "vbox", "site2", "hv1", "hv2", "xs", "nx", "pve-b"];
    match context {
        "local" | "vbox" => 40,
        "site2" => 120,
        "hv1" | "hv2" => 300,
        "xs" | "nx" | "pve-b" => 700,
        "lab" => 1500,
        "prod" => 2000,
        "pve" => 2400,
        _ => {
            let others: usize = rest.into_iter().map(share).sum();
            ALL - others - share("lab") - share("prod") - share("pve")
        }
    }
}

pub(super) fn fill(context: &str, cast: &mut Cast) {
    const ROLES: [&str; 12] = [
        "web", "db", "cache", "queue", "api", "ci", "build", "mail", "dns", "proxy", "log", "vdi",
    ];
    const STAGES: [&str; 4] = ["prod", "stage", "dev", "qa"];
    const SYSTEMS: [&str; 5] = [
        "Debian 13",
        "Ubuntu 24.04",
        "Rocky 10",
        "Windows Server 2022",
        "SLES 15",
    ];
    for n in 0..share(context) {
        let role = cast.random.pick(&ROLES);
        let stage = cast.random.pick(&STAGES);
        let os = cast.random.pick(&SYSTEMS);
        let name = format!("{role}-{stage}-{n:04}");
        let dice = cast.random.below(1000);
        let cpus = 1 << cast.random.below(5);
        let container =
            matches!(cast.dialect, Dialect::Incus | Dialect::Proxmox) && dice.is_multiple_of(3);
        let made = match (cast.dialect, container) {
            (Dialect::Incus, true) => cast.ct_in(stage, &name),
            (Dialect::Incus | Dialect::Kubevirt, _) => cast.vm_in(stage, &name),
            (Dialect::Peer, _) => cast.vm_in("lab/default", &name),
            (_, true) => cast.ct(&name),
            (_, false) => cast.vm(&name),
        };
        let made = made
            .size(cpus, u64::from(cpus) * 2, 10 + dice)
            .os(os)
            .tags(&format!("{stage} {role}"));
        let made = match dice {
            0..220 => made.stopped(),
            220..235 => made
                .state(State::Paused)
                .because("I/O error on its first disk: no space"),
            235..245 => made.state(State::Crashed).because("guest panicked"),
            245..250 => made
                .state(State::Broken)
                .because("its definition cannot be read"),
            250..260 => made.state(State::Hibernated),
            260..270 => made.locked("backup"),
            270..290 => made.template(),
            290..310 => made.no_agent().no_address(),
            _ => made,
        };
        if dice % 10 == 3 {
            made.snapshot("nightly", None, 60 + dice, Consistency::Crash, None);
        }
    }
}
