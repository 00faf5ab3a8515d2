//! Makes guests with few words.

use jiff::{SignedDuration, Timestamp};

use super::super::create::relayed;
use super::super::dialect::Dialect;
use super::super::guest::{Guest, Temper, gib};
use super::super::random::Random;
use crate::model::{Address, Bytes, Consistency, InstanceId, InstanceKind, Port, Snapshot, State};

/// The guests of one context while they are being made.
pub(super) struct Cast {
    context: &'static str,
    pub(super) dialect: Dialect,
    pub(super) hosts: &'static [&'static str],
    pub(super) random: Random,
    pub(super) now: Timestamp,
    subnet: u64,
    pub(super) guests: Vec<Guest>,
}

impl Cast {
    pub(super) fn new(
        context: &'static str,
        dialect: Dialect,
        hosts: &'static [&'static str],
        seed: u64,
        now: Timestamp,
    ) -> Self {
        let mut random = Random::new(seed, &format!("cast {context}"));
        Self {
            subnet: 1 + random.below(200),
            context,
            dialect,
            hosts,
            random,
            now,
            guests: Vec::new(),
        }
    }

    /// A running VM; the ID's key is the kind's own.
    pub(super) fn vm(&mut self, name: &str) -> Made<'_> {
        self.add(None, name, InstanceKind::Vm)
    }

    /// A running container.
    pub(super) fn ct(&mut self, name: &str) -> Made<'_> {
        self.add(None, name, InstanceKind::Ct)
    }

    /// A running VM in a namespace or project.
    pub(super) fn vm_in(&mut self, namespace: &str, name: &str) -> Made<'_> {
        self.add(Some(namespace), name, InstanceKind::Vm)
    }

    /// A running container in a namespace or project.
    pub(super) fn ct_in(&mut self, namespace: &str, name: &str) -> Made<'_> {
        self.add(Some(namespace), name, InstanceKind::Ct)
    }

    fn key(&mut self, name: &str) -> String {
        let n = self.guests.len();
        match self.dialect {
            Dialect::Proxmox => (101 + n).to_string(),
            Dialect::Vsphere => format!("vm-{}", 42 + n),
            Dialect::Virtualbox | Dialect::Xen | Dialect::Nutanix => self.random.uuid(),
            _ => name.to_owned(),
        }
    }

    fn add(&mut self, namespace: Option<&str>, name: &str, kind: InstanceKind) -> Made<'_> {
        let key = self.key(name);
        let id = match (self.dialect, namespace) {
            (Dialect::Peer, Some(path)) => relayed(self.context, path, &key),
            _ => InstanceId::new(self.context, namespace, &key),
        };
        let mut guest = Guest::new(self.dialect, id, name, kind, &mut self.random, self.now);
        let n = self.guests.len() as u64;
        guest.base.host = self
            .hosts
            .get(n as usize % self.hosts.len().max(1))
            .map(|h| (*h).to_owned());
        let age = 3 + self.random.below(400);
        guest.base.created_at = Some(self.ago(age * 24));
        guest.base.os = Some("Debian 13".into());
        guest.base.agent = Some(true);
        guest.base.autostart = Some(true);
        // User networks have none that is reached from outside.
        let reached = self.dialect != Dialect::Qemu;
        guest.addresses = Vec::from_iter(reached.then(|| {
            Address {
                ip: format!("10.{}.{}.{}", self.subnet, n / 250, 2 + n % 250),
                nic: guest.nics.first().map(|nic| nic.name.clone()),
                source: Some(
                    if kind == InstanceKind::Ct {
                        "list"
                    } else {
                        "agent"
                    }
                    .into(),
                ),
            }
        }));
        let up = 1 + self.random.below(age * 24);
        let started = self.ago(up);
        guest.enter(State::Running, started);
        self.guests.push(guest);
        let at = self.guests.len() - 1;
        Made {
            now: self.now,
            dialect: self.dialect,
            guest: &mut self.guests[at],
        }
    }

    fn ago(&self, hours: u64) -> Timestamp {
        ago(self.now, hours * 60)
    }
}

fn ago(now: Timestamp, minutes: u64) -> Timestamp {
    now.checked_sub(SignedDuration::from_mins(
        i64::try_from(minutes).unwrap_or(0),
    ))
    .unwrap_or(now)
}

/// A guest that was just made, to be described further.
pub(super) struct Made<'a> {
    now: Timestamp,
    dialect: Dialect,
    pub(super) guest: &'a mut Guest,
}

impl Made<'_> {
    pub(super) fn state(self, state: State) -> Self {
        let started = self.guest.started_at.unwrap_or(self.now);
        self.guest.enter(state, started);
        self
    }

    pub(super) fn stopped(self) -> Self {
        let made = self.state(State::Stopped);
        made.guest.base.autostart = Some(false);
        made
    }

    pub(super) fn because(self, reason: &str) -> Self {
        self.guest.base.reason = Some(reason.to_owned());
        self
    }

    /// CPUs, GiB of memory, GiB of disk.
    pub(super) fn size(self, cpus: u32, memory: u64, disk: u64) -> Self {
        self.guest.base.cpus = Some(cpus);
        self.guest.base.memory_bytes = Some(gib(memory));
        let key = self.guest.id().key().to_owned();
        self.guest.disks.clear();
        self.guest.add_disk(self.dialect, &key, gib(disk));
        self
    }

    pub(super) fn on(self, host: &str) -> Self {
        self.guest.base.host = Some(host.to_owned());
        self
    }

    /// One more disk.
    pub(super) fn disk(self, size: u64) -> Self {
        let key = self.guest.id().key().to_owned();
        self.guest.add_disk(self.dialect, &key, gib(size));
        self
    }

    pub(super) fn tags(self, tags: &str) -> Self {
        self.guest.base.tags = tags.split_whitespace().map(str::to_owned).collect();
        self
    }

    pub(super) fn note(self, note: &str) -> Self {
        self.guest.base.note = Some(note.to_owned());
        self
    }

    pub(super) fn os(self, os: &str) -> Self {
        self.guest.base.os = Some(os.to_owned());
        self
    }

    pub(super) fn port(self, guest: u16, host: &str) -> Self {
        let port = Port {
            guest,
            host: host.to_owned(),
            protocol: "tcp".to_owned(),
        };
        self.guest.base.ports.get_or_insert_default().push(port);
        self
    }

    pub(super) fn no_agent(self) -> Self {
        self.guest.base.agent = Some(false);
        self
    }

    pub(super) fn no_address(self) -> Self {
        self.guest.addresses.clear();
        self
    }

    pub(super) fn ipv6(self) -> Self {
        let nic = self.guest.nics.first().map(|n| n.name.clone());
        let host = self.guest.addresses.len() + 0x20;
        self.guest.addresses.push(Address {
            ip: format!("fd00:9::{host:x}"),
            nic,
            source: Some("agent".into()),
        });
        self
    }

    pub(super) fn locked(self, by: &str) -> Self {
        self.guest.base.locked = Some(by.to_owned());
        self
    }

    pub(super) fn protected(self) -> Self {
        self.guest.base.protected = true;
        self
    }

    pub(super) fn template(self) -> Self {
        let made = self.stopped();
        made.guest.base.template = true;
        made
    }

    pub(super) fn stubborn(self) -> Self {
        self.guest.temper = Temper::Stubborn;
        self
    }

    pub(super) fn bad_boot(self) -> Self {
        let made = self.stopped();
        made.guest.temper = Temper::BadBoot;
        made
    }

    pub(super) fn pending(self, change: &str) -> Self {
        self.guest.pending.push(change.to_owned());
        self
    }

    /// A snapshot on top of `parent`, taken `minutes` ago; the last one made is the current one.
    pub(super) fn snapshot(
        self,
        name: &str,
        parent: Option<&str>,
        minutes: u64,
        consistency: Consistency,
        note: Option<&str>,
    ) -> Self {
        for other in &mut self.guest.snapshots {
            other.current = false;
        }
        let snapshot = Snapshot {
            instance: self.guest.id().clone(),
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
            current: true,
            created_at: Some(ago(self.now, minutes)),
            consistency: Some(consistency),
            size_bytes: Some(Bytes(((minutes % 37) + 3) << 26)),
            note: note.map(str::to_owned),
            broken: None,
            expires_at: None,
            policy: None,
        };
        self.guest.snapshots.push(snapshot);
        self
    }

    /// The last snapshot may go since `minutes` ago: a rule made it.
    pub(super) fn expired(self, policy: &str, minutes: u64) -> Self {
        let at = ago(self.now, minutes);
        if let Some(last) = self.guest.snapshots.last_mut() {
            last.expires_at = Some(at);
            last.policy = Some(policy.to_owned());
        }
        self
    }

    /// The last snapshot cannot be restored.
    pub(super) fn broken_snapshot(self, why: &str) -> Self {
        if let Some(last) = self.guest.snapshots.last_mut() {
            last.broken = Some(why.to_owned());
        }
        self
    }
}
