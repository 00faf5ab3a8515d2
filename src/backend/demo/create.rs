//! Create.

use async_trait::async_trait;

use super::act::Act;
use super::backend::Demo;
use super::dialect::Dialect;
use super::guest::{Guest, gib};
use super::random::Random;
use super::work::{Work, run};
use crate::backend::contract::{
    Changes, CreateRequest, DiskSource, Firmware, Prepared, ReadCx, TaskCx,
};
use crate::model::{
    Address, Disk, Error, Instance, InstanceId, InstanceKind, Outcome, Port, Result, shown,
};

#[async_trait]
impl Changes<CreateRequest> for Demo {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: CreateRequest,
    ) -> Result<Prepared> {
        let world = &self.world;
        world.answer(cx, "create.prepare").await?;
        let refuse = |message: String, remedy: &str| {
            Ok(Prepared::refused(
                "absent",
                message,
                Some(remedy.to_owned()),
            ))
        };
        if let Some(why) = world.dialect.bad_name(&request.name) {
            return Err(Error::invalid(format!("{:?}: {why}", shown(&request.name)))
                .remedy("Choose another name.")
                .in_context(world.name()));
        }
        let id = self.new_id(&on.id, &request.name);
        if world.taken(|g| {
            *g.id() == id || (g.base.name == request.name && world.dialect.has_unique_names())
        }) {
            return refuse(
                format!(
                    "{} has an instance {} already",
                    world.name(),
                    shown(&request.name)
                ),
                "Choose another name.",
            );
        }
        if !request.publish.is_empty() && !world.dialect.publishes() {
            return refuse(
                "guests here are on the host's network: no port is published".into(),
                "Leave --publish out; use the guest's own address.",
            );
        }
        for (address, host, _) in &request.publish {
            let wanted = format!("{address}:{host}");
            let clash = |g: &Guest| {
                g.base
                    .ports
                    .iter()
                    .flatten()
                    .any(|port| *host != 0 && port.is_tcp() && port.host == wanted)
            };
            if world.taken(clash) {
                return refuse(
                    format!("{wanted} is published already"),
                    "Choose another port, or 0 for any free one.",
                );
            }
        }
        let draft = self.draft(id.clone(), &request);
        let source = match &request.source {
            DiskSource::Blank => String::new(),
            DiskSource::Copy(image) | DiskSource::Backed(image) => image.clone(),
        };
        let mut acts = vec![Act::Define, Act::FillDisk { n: 0, source }];
        if request.start {
            acts.push(Act::Start);
        }
        let mut work = Work::new(acts, format!("{id} is made"));
        work.draft = Some(draft.clone());
        let mut prepared = work.plan(world, &draft);
        if world.taken(|g| g.base.name == request.name) {
            prepared.notes.push(format!(
                "Another instance here has the name {} already",
                shown(&request.name)
            ));
        }
        if matches!(request.source, DiskSource::Backed(_)) {
            prepared
                .notes
                .push("The image must stay where it is: the disk is an overlay of it".into());
        }
        for (key, value) in &request.set {
            prepared.notes.push(format!("{key} = {}", shown(value)));
        }
        "absent".clone_into(&mut prepared.token);
        Ok(prepared)
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        run(&self.world, cx, prepared).await
    }
}

/// The ID of an instance behind a peer: the rest of it is the ID over there.
pub(crate) fn relayed(context: &str, path: &str, key: &str) -> InstanceId {
    let path: Vec<&str> = path.split('/').chain([key]).collect();
    InstanceId::relayed(context, &path)
}

impl Demo {
    /// The ID that the server gives: by name where it has names, else the next of its own keys.
    pub(crate) fn new_id(&self, wanted: &InstanceId, name: &str) -> InstanceId {
        let world = &self.world;
        let context = world.name();
        let namespace = wanted.namespace();
        let or = |default: &str| namespace.clone().unwrap_or_else(|| default.to_owned());
        let next = |prefix: &str, first: u64| {
            let mut number = first;
            while world.taken(|g| g.id().key() == format!("{prefix}{number}")) {
                number += 1;
            }
            format!("{prefix}{number}")
        };
        // Of the name alone, so that preparing again names the same one.
        let uuid = || Random::new(world.knobs.seed, &format!("{context} {name}")).uuid();
        match world.dialect {
            Dialect::Qemu | Dialect::Libvirt => InstanceId::new(context, None, name),
            Dialect::Incus | Dialect::Kubevirt => {
                InstanceId::new(context, Some(&or("default")), name)
            }
            Dialect::Peer => relayed(context, &or("lab/default"), name),
            Dialect::Proxmox => InstanceId::new(context, None, &next("", 100)),
            Dialect::Vsphere => InstanceId::new(context, None, &next("vm-", 1000)),
            Dialect::Virtualbox | Dialect::Xen | Dialect::Nutanix => {
                InstanceId::new(context, None, &uuid())
            }
        }
    }

    pub(crate) fn draft(&self, id: InstanceId, request: &CreateRequest) -> Guest {
        let world = &self.world;
        let dialect = world.dialect;
        let mut random = Random::new(world.knobs.seed, &format!("draft {id}"));
        let now = world.now();
        let key = id.key().to_owned();
        let mut guest = Guest::new(
            dialect,
            id,
            &request.name,
            InstanceKind::Vm,
            &mut random,
            now,
        );
        // Another incarnation each time, even under the ID of one that is gone.
        guest.uid = world.with_random(Random::uuid);
        guest.disks.clear();
        guest.add_disk(dialect, &key, request.disk_size.unwrap_or(gib(20)));
        if let (DiskSource::Backed(image), Some(disk)) = (&request.source, guest.disks.first_mut())
        {
            disk.backing = Some(image.clone());
        }
        for (n, image) in request.cdroms.iter().enumerate() {
            guest.disks.push(Disk {
                name: format!("cdrom{n}"),
                device: "cdrom".into(),
                bus: Some("sata".into()),
                source: Some(image.clone()),
                format: Some("raw".into()),
                size_bytes: None,
                used_bytes: None,
                backing: None,
                owned: false,
                readonly: true,
                snapshots: None,
            });
        }
        let base = &mut guest.base;
        base.cpus = Some(request.cpus);
        base.memory_bytes = Some(request.memory);
        base.tags.clone_from(&request.tags);
        base.note.clone_from(&request.note);
        base.os.clone_from(&request.os);
        base.agent = Some(true);
        base.created_at = Some(now);
        base.host = world.hosts.first().map(|h| h.name.clone());
        if dialect.publishes() {
            let port = |(address, host, port): &(String, u16, u16)| Port {
                guest: *port,
                host: format!(
                    "{address}:{}",
                    if *host == 0 {
                        20_000 + random.below(10_000) as u16
                    } else {
                        *host
                    }
                ),
                protocol: "tcp".to_owned(),
            };
            base.ports = Some(request.publish.iter().map(port).collect());
        }
        guest.firmware = Some(match request.firmware {
            Some(Firmware::Bios) => "bios",
            _ => "uefi",
        });
        let reached = dialect != Dialect::Qemu;
        guest.addresses = Vec::from_iter(reached.then(|| Address {
            ip: format!("10.77.{}.{}", random.below(250), 2 + random.below(250)),
            nic: guest.nics.first().map(|n| n.name.clone()),
            source: Some("agent".into()),
        }));
        guest
    }
}

impl Dialect {
    /// Names are unique where instances are found by them.
    pub(crate) const fn has_unique_names(self) -> bool {
        matches!(
            self,
            Self::Qemu | Self::Libvirt | Self::Virtualbox | Self::Vsphere
        )
    }
}
