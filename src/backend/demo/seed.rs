//! The fleet that the simulation begins with.

use jiff::{Span, Timestamp};

use super::knobs::DemoSize;
use super::world::Guest;
use crate::model::{
    Address, Bytes, Consistency, ContextSpec, Disk, Instance, InstanceId, InstanceKind, Kind, Nic,
    Port, Snapshot, State, Usage,
};

/// Context, kind, namespace of its instances, hosts, how many plain instances.
type Row = (
    &'static str,
    &'static str,
    Option<&'static str>,
    &'static [&'static str],
    usize,
);

const SMALL: &[Row] = &[
    ("local", "qemu", None, &["laptop"], 3),
    ("hv1", "libvirt", None, &["hv1"], 5),
    ("hv2", "libvirt", None, &["hv2"], 3),
    ("lab", "incus", Some("default"), &["lab1", "lab2"], 6),
    (
        "prod",
        "kubevirt",
        Some("shop"),
        &["node-a", "node-b", "node-c"],
        6,
    ),
    ("pve", "proxmox", None, &["pve1", "pve2", "pve3"], 9),
    ("vbox", "virtualbox", None, &["laptop"], 2),
    ("vc", "vsphere", None, &["esx1", "esx2"], 6),
    ("vc-old", "vsphere", None, &["esx9"], 2),
    ("xs", "xen", None, &["xcp1"], 4),
    ("nx", "nutanix", None, &["ahv1", "ahv2"], 4),
    ("site2", "peer", Some("lab/default"), &["remote1"], 3),
];

const ROLES: &[(&str, &str)] = &[
    ("web", "Debian 13"),
    ("db", "Debian 13"),
    ("mail", "Debian 12"),
    ("ci", "Ubuntu 24.04"),
    ("git", "Alpine 3.22"),
    ("dns", "Debian 13"),
    ("proxy", "Fedora 43"),
    ("backup", "Debian 12"),
    ("win", "Windows Server 2025"),
    ("monitor", "Ubuntu 24.04"),
];

/// Every context with its guests.
pub(super) fn contexts(size: DemoSize, seed: u64) -> Vec<(ContextSpec, Vec<Guest>)> {
    SMALL
        .iter()
        .enumerate()
        .map(|(n, (name, kind, namespace, hosts, count))| {
            let count = match size {
                DemoSize::Small => *count,
                // 10 000 in all over the contexts, the last takes the rest.
                DemoSize::Large if n + 1 == SMALL.len() => 10_000 - (SMALL.len() - 1) * 830,
                DemoSize::Large => 830,
            };
            let mut spec = ContextSpec::new(name, Kind::new(kind));
            spec.configured = *name != "local";
            spec.readonly = *name == "xs";
            spec.protected = *name == "prod";
            let place = Place {
                context: name,
                kind: Kind::new(kind),
                namespace: *namespace,
                hosts,
                number: n,
                seed,
            };
            let mut guests: Vec<Guest> = (0..count).map(|i| plain(&place, i)).collect();
            special(&place, &mut guests);
            (spec, guests)
        })
        .collect()
}

struct Place<'a> {
    context: &'a str,
    kind: Kind,
    namespace: Option<&'a str>,
    hosts: &'a [&'a str],
    number: usize,
    seed: u64,
}

fn made(days: i64) -> Timestamp {
    // A fixed day, so that the same fleet prints the same dates.
    let day: Timestamp = Timestamp::from_second(1_793_000_000).unwrap_or(Timestamp::UNIX_EPOCH);
    day.checked_sub(Span::new().hours(days * 24)).unwrap_or(day)
}

/// A number that looks like chance and is not.
fn mix(place: &Place<'_>, i: usize, salt: u64) -> u64 {
    let mut x = place.seed ^ (place.number as u64) << 32 ^ (i as u64) << 8 ^ salt;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// How the kind addresses its instances.
fn key(place: &Place<'_>, i: usize, name: &str) -> String {
    match place.kind.as_str() {
        "proxmox" => (100 + i).to_string(),
        "vsphere" => format!("vm-{}", 40 + i),
        "xen" | "nutanix" | "virtualbox" => {
            let (a, b) = (mix(place, i, 7), mix(place, i, 8));
            uuid::Uuid::from_u64_pair(a, b).to_string()
        }
        _ => name.to_owned(),
    }
}

fn plain(place: &Place<'_>, i: usize) -> Guest {
    let (role, os) = ROLES[i % ROLES.len()];
    let name = if i < ROLES.len() {
        role.to_owned()
    } else {
        format!("{role}-{:03}", i / ROLES.len())
    };
    let mut guest = guest(place, i, &name);
    guest.row.os = Some(os.to_owned());
    guest
}

fn guest(place: &Place<'_>, i: usize, name: &str) -> Guest {
    let key = key(place, i, name);
    let mut path: Vec<&str> = place
        .namespace
        .iter()
        .flat_map(|ns| ns.split('/'))
        .collect();
    path.push(&key);
    let id = InstanceId::relayed(place.context, &path);
    let container = place.kind.as_str() == "incus" && i.is_multiple_of(2);
    let kind = if container {
        InstanceKind::Ct
    } else {
        InstanceKind::Vm
    };
    let running = mix(place, i, 1) % 10 < 7;
    let state = if running {
        State::Running
    } else {
        State::Stopped
    };
    let mut row = Instance::new(
        id.clone(),
        place.kind.clone(),
        kind,
        state,
        Timestamp::now(),
    );
    name.clone_into(&mut row.name);
    row.uid = Some(uuid::Uuid::from_u64_pair(mix(place, i, 2), mix(place, i, 3)).to_string());
    row.native_state = Some(state.to_string());
    row.host = Some(place.hosts[i % place.hosts.len()].to_owned());
    row.cpus = Some([1, 2, 4, 8][i % 4]);
    row.memory_bytes = Some(Bytes::gib([1, 2, 4, 8, 16][i % 5]));
    row.disk_bytes = Some(Bytes::gib([10, 20, 32, 80][i % 4]));
    let mac = format!(
        "52:54:00:{:02x}:{:02x}:{:02x}",
        place.number,
        i / 256 % 256,
        i % 256
    );
    row.macs = Some(vec![mac.clone()]);
    let mut addresses = Vec::new();
    if running {
        addresses.push(Address {
            ip: format!("10.{}.{}.{}", place.number, i / 200, 10 + i % 200),
            nic: Some("net0".to_owned()),
            source: Some("agent".to_owned()),
        });
        row.usage = Some(Usage {
            cpu_percent: Some((mix(place, i, 4) % 400) as f64 / 10.0),
            memory_bytes: row
                .memory_bytes
                .map(|b| Bytes(b.0 / 100 * (20 + mix(place, i, 5) % 60))),
        });
        row.uptime_seconds = Some(3600 * (1 + mix(place, i, 6) % 900));
        row.agent = Some(i % 5 != 4);
    }
    if place.kind.as_str() == "qemu" {
        addresses.clear();
        let port = Port {
            guest: 22,
            host: format!("127.0.0.1:{}", 2201 + i),
        };
        row.ports = Some(vec![port]);
    }
    row.addresses = Some(addresses.clone());
    row.tags = match i % 3 {
        0 => vec!["prod".to_owned()],
        1 => vec!["test".to_owned(), format!("team-{}", i % 4)],
        _ => Vec::new(),
    };
    row.autostart = Some(running);
    row.created_at = Some(made(i64::try_from(i % 700).unwrap_or(0) + 3));
    let disk = Disk {
        name: if container {
            "root".to_owned()
        } else {
            "disk0".to_owned()
        },
        device: "disk".to_owned(),
        bus: Some("virtio".to_owned()),
        source: Some(format!("pool/{name}-disk0")),
        format: Some("qcow2".to_owned()),
        size_bytes: row.disk_bytes,
        used_bytes: row.disk_bytes.map(|b| Bytes(b.0 / 3)),
        backing: None,
        owned: true,
        readonly: false,
    };
    let nic = Nic {
        name: "net0".to_owned(),
        mac: Some(mac),
        network: Some("default".to_owned()),
        model: Some("virtio".to_owned()),
        addresses: addresses.into_iter().map(|a| a.ip).collect(),
    };
    let snapshots = if i % 4 == 1 {
        tree(&id, kind)
    } else {
        Vec::new()
    };
    Guest {
        row,
        disks: vec![disk],
        nics: vec![nic],
        snapshots,
        revision: 1,
    }
}

fn tree(id: &InstanceId, kind: InstanceKind) -> Vec<Snapshot> {
    let live = if kind == InstanceKind::Ct {
        Consistency::Crash
    } else {
        Consistency::Filesystem
    };
    let one =
        |name: &str, parent: Option<&str>, current, days, consistency, mib, note: Option<&str>| {
            Snapshot {
                instance: id.clone(),
                name: name.to_owned(),
                parent: parent.map(str::to_owned),
                current,
                created_at: Some(made(days)),
                consistency: Some(consistency),
                size_bytes: Some(Bytes::mib(mib)),
                note: note.map(str::to_owned),
                broken: None,
            }
        };
    vec![
        one("base", None, false, 28, Consistency::Offline, 2150, None),
        one(
            "pre-patch",
            Some("base"),
            false,
            2,
            live,
            310,
            Some("kernel 6.12"),
        ),
        one(
            "post-patch",
            Some("pre-patch"),
            true,
            1,
            Consistency::Crash,
            96,
            None,
        ),
    ]
}

/// What life brings: faults, templates, hostile names, the same name twice.
fn special(place: &Place<'_>, guests: &mut Vec<Guest>) {
    let base = guests.len();
    let mut add = |name: &str, change: &dyn Fn(&mut Instance)| {
        let mut guest = guest(place, base + guests.len(), name);
        change(&mut guest.row);
        guests.push(guest);
    };
    let still = |row: &mut Instance, state: State, reason: &str| {
        row.state = state;
        row.native_state = Some(state.to_string());
        row.reason = (!reason.is_empty()).then(|| reason.to_owned());
        row.usage = None;
        if state != State::Paused {
            row.uptime_seconds = None;
            row.addresses = Some(Vec::new());
        }
    };
    match place.context {
        "local" => {
            add("web server ☕", &|row| {
                row.note = Some("spaces and more than ASCII in its name".to_owned());
            });
            add("sandbox", &|row| still(row, State::Stopped, ""));
        }
        "hv1" => {
            add("files", &|row| {
                still(
                    row,
                    State::Paused,
                    "I/O error on vda, pool \"default\" is full",
                );
            });
            add("debian-13-template", &|row| {
                still(row, State::Stopped, "");
                row.template = true;
                row.autostart = Some(false);
            });
            add("stubborn", &|row| {
                row.state = State::Running;
                row.note = Some("does not react to a shutdown request".to_owned());
            });
            add("badboot", &|row| {
                still(row, State::Stopped, "");
                row.note = Some("fails to start".to_owned());
            });
        }
        "lab" => add("\u{1b}[31mred\u{1b}[0m", &|row| {
            row.tags = vec!["hostile\u{7}".to_owned()];
        }),
        "prod" => add("batch", &|row| {
            still(row, State::Crashed, "launcher exited: OOMKilled");
        }),
        "pve" => {
            add("nightly", &|row| row.locked = Some("backup".to_owned()));
            add("old-crm", &|row| still(row, State::Hibernated, ""));
        }
        "vc" => {
            add("漢字サーバー", &|row| {
                row.os = Some("Rocky Linux 10".to_owned());
            });
            add("lost", &|row| {
                still(row, State::Broken, "the item has no config section");
            });
        }
        "nx" => add("vault", &|row| row.protected = true),
        _ => {}
    }
}
