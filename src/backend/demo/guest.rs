//! One simulated guest.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::act::Sizes;
use super::dialect::Dialect;
use super::random::Random;
use crate::model::{
    Address, Bytes, Disk, Instance, InstanceId, InstanceKind, Nic, Snapshot, State, Usage,
};

/// How a guest behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Temper {
    /// Does what it is asked.
    #[default]
    Willing,
    /// Does not react to a shutdown request.
    Stubborn,
    /// Fails to start.
    BadBoot,
}

/// One simulated guest, as its server knows it.
#[derive(Clone, Debug)]
pub(crate) struct Guest {
    /// What is the same in every answer; usage, uptime and age are added by [`Guest::row`].
    pub(crate) base: Instance,
    pub(crate) uid: String,
    /// The row carries the uid: the list does, or a detail was read.
    pub(crate) uid_known: bool,
    /// Grows with every change.
    pub(crate) revision: u64,
    pub(crate) disks: Vec<Disk>,
    pub(crate) nics: Vec<Nic>,
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) firmware: Option<&'static str>,
    pub(crate) pending: Vec<String>,
    pub(crate) temper: Temper,
    pub(crate) started_at: Option<Timestamp>,
    /// The addresses it has while it runs.
    pub(crate) addresses: Vec<Address>,
    /// How far it grows without a restart.
    pub(crate) room: Room,
    /// What is true from the next start on.
    pub(crate) next: Option<Sizes>,
    /// Files that were copied into it.
    pub(crate) files: BTreeMap<String, Timestamp>,
}

/// How far a guest grows without a restart; `None` is not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) cpus: Option<u32>,
    pub(crate) memory: Option<Bytes>,
}

impl Guest {
    /// A stopped guest with one disk and one NIC.
    pub(crate) fn new(
        dialect: Dialect,
        id: InstanceId,
        name: &str,
        kind: InstanceKind,
        random: &mut Random,
        at: Timestamp,
    ) -> Self {
        let mac = random.mac(dialect.mac_prefix());
        let key = id.key().to_owned();
        let mut base = Instance::new(id, dialect.kind(), kind, State::Stopped, at);
        name.clone_into(&mut base.name);
        base.cpus = Some(2);
        base.memory_bytes = Some(gib(2));
        base.autostart = Some(false);
        base.macs = Some(vec![mac.clone()]);
        base.ports = dialect.publishes().then(Vec::new);
        let (slot, network, model) = dialect.nic(kind);
        let mut guest = Self {
            uid: random.uuid(),
            uid_known: dialect.lists_uid(),
            revision: 1,
            disks: Vec::new(),
            nics: vec![Nic {
                name: slot.to_owned(),
                mac: Some(mac),
                network: Some(network.to_owned()),
                model: Some(model.to_owned()),
                addresses: Vec::new(),
            }],
            snapshots: Vec::new(),
            firmware: (kind == InstanceKind::Vm).then_some("uefi"),
            pending: Vec::new(),
            temper: Temper::Willing,
            started_at: None,
            addresses: Vec::new(),
            room: Room::default(),
            next: None,
            files: BTreeMap::new(),
            base,
        };
        guest.add_disk(dialect, &key, gib(20));
        guest
    }

    /// One more disk, a third of it used.
    pub(crate) fn add_disk(&mut self, dialect: Dialect, key: &str, size: Bytes) {
        let (name, bus, format, source) = dialect.disk(self.base.kind, key, self.disks.len());
        self.disks.push(Disk {
            name,
            device: "disk".into(),
            bus: Some(bus.into()),
            source: Some(source),
            format: Some(format.into()),
            size_bytes: Some(size),
            used_bytes: Some(Bytes(size.0 / 3)),
            backing: None,
            owned: true,
            readonly: false,
            snapshots: None,
        });
        self.sum_up();
    }

    /// Brings the row's sums in line with disks and NICs.
    pub(crate) fn sum_up(&mut self) {
        let disks = self.disks.iter().filter(|d| d.device == "disk");
        let sizes = disks.filter_map(|d| d.size_bytes).map(|b| b.0);
        self.base.disk_bytes = Some(Bytes(sizes.sum()));
        if self.base.macs.is_some() {
            self.base.macs = Some(self.nics.iter().filter_map(|n| n.mac.clone()).collect());
        }
    }

    /// Puts a medium into a drive, or takes it out; a drive that is not there is added.
    pub(crate) fn set_medium(&mut self, dialect: Dialect, drive: &str, image: Option<&str>) {
        if !self.disks.iter().any(|d| d.name == drive) {
            self.disks.push(Disk {
                name: drive.to_owned(),
                device: "cdrom".into(),
                bus: Some(dialect.drive().1.into()),
                source: None,
                format: Some("raw".into()),
                size_bytes: None,
                used_bytes: None,
                backing: None,
                owned: false,
                readonly: true,
                snapshots: None,
            });
        }
        if let Some(disk) = self.disks.iter_mut().find(|d| d.name == drive) {
            disk.source = image.map(str::to_owned);
        }
    }

    /// Back to what was kept of it; the row's address and incarnation stay.
    pub(crate) fn become_again(&mut self, kept: Self) {
        let base = Instance {
            id: self.base.id.clone(),
            name: self.base.name.clone(),
            host: self.base.host.clone(),
            tags: self.base.tags.clone(),
            ..kept.base
        };
        *self = Self {
            base: Instance {
                state: State::Stopped,
                native_state: None,
                ..base
            },
            uid: self.uid.clone(),
            uid_known: self.uid_known,
            revision: self.revision,
            snapshots: std::mem::take(&mut self.snapshots),
            started_at: None,
            ..kept
        };
    }

    /// What waited for a restart is true now.
    pub(crate) fn settle(&mut self) {
        self.pending.clear();
        if let Some(next) = self.next.take() {
            self.base.cpus = next.cpus.or(self.base.cpus);
            self.base.memory_bytes = next.memory.or(self.base.memory_bytes);
        }
    }

    pub(crate) fn disk(&self, slot: &str) -> Option<&Disk> {
        self.disks
            .iter()
            .find(|d| d.name == slot && d.device == "disk")
    }

    pub(crate) fn id(&self) -> &InstanceId {
        &self.base.id
    }

    pub(crate) fn state(&self) -> State {
        self.base.state
    }

    /// What a plan depends on.
    pub(crate) fn token(&self) -> String {
        format!("{}:{}", self.uid, self.revision)
    }

    /// Moves to `state`; the reason of the old state goes.
    pub(crate) fn enter(&mut self, state: State, at: Timestamp) {
        self.base.state = state;
        self.base.reason = None;
        self.revision += 1;
        if matches!(state, State::Running) {
            self.started_at.get_or_insert(at);
        } else if !state.is_active() {
            self.started_at = None;
        }
        if state == State::Stopped && self.next.is_some() {
            self.settle();
        }
    }

    /// The row as its server lists it at `now`.
    pub(crate) fn row(&self, dialect: Dialect, now: Timestamp, seed: u64) -> Instance {
        let mut row = self.base.clone();
        let up = row.state.is_active();
        row.uid = self.uid_known.then(|| self.uid.clone());
        row.native_state
            .get_or_insert_with(|| dialect.native_state(row.state).to_owned());
        row.observed_at = now;
        row.addresses = if up && !dialect.lists_addresses() {
            None
        } else if up && row.state != State::Starting {
            Some(self.addresses.clone())
        } else {
            Some(Vec::new())
        };
        if !up {
            row.agent = None;
        }
        row.uptime_seconds = self
            .started_at
            .filter(|_| up)
            .map(|at| u64::try_from(now.as_second() - at.as_second()).unwrap_or(0));
        row.usage = up.then(|| self.usage(now, seed));
        row
    }

    /// Load that wanders: two slow waves of the guest's own and a little noise.
    pub(crate) fn usage(&self, now: Timestamp, seed: u64) -> Usage {
        let mut own = Random::new(seed, &self.uid);
        let (level, swing) = (own.unit(), own.unit());
        let (phase, period) = (
            own.unit() * std::f64::consts::TAU,
            40.0 + own.unit() * 300.0,
        );
        let seconds = now.as_second() as f64;
        let wave = (seconds / period + phase).sin() * 0.7 + (seconds / (period * 5.3)).sin() * 0.3;
        let noise = Random::new(seed ^ now.as_second().unsigned_abs(), &self.uid).unit();
        let cpu = if self.base.state == State::Running {
            (level * level * 60.0 + wave * swing * 15.0 + noise * 3.0).clamp(0.1, 100.0)
        } else {
            0.0
        };
        let memory = self.base.memory_bytes.map(|all| {
            let share = (0.25 + level * 0.5 + wave * swing * 0.08).clamp(0.05, 0.98);
            Bytes((all.0 as f64 * share) as u64)
        });
        Usage {
            cpu_percent: Some((cpu * 10.0).round() / 10.0),
            memory_bytes: memory,
        }
    }

    /// The snapshot that the present state descends from.
    pub(crate) fn current_snapshot(&self) -> Option<&Snapshot> {
        self.snapshots.iter().find(|s| s.current)
    }

    pub(crate) fn snapshot(&self, name: &str) -> Option<&Snapshot> {
        self.snapshots.iter().find(|s| s.name == name)
    }
}

/// `n` GiB.
pub(crate) const fn gib(n: u64) -> Bytes {
    Bytes(n << 30)
}
