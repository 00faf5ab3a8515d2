//! Every VM of this context, and everything about one.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;

use super::clone::identity::Identity;
use super::ctx::{Ctx, KIND};
use super::definition::{Definition, FirmwareKind};
use super::live::{self, Live};
use super::nics::addresses;
use super::proc;
use super::process::{self, Launch};
use super::resize;
use super::slots::{Slot, Slots};
use super::started;
use super::store::{self, Entry};
use super::unlock;
use crate::backend::contract::ReadCx;
use crate::model::{
    Bytes, Detail, Disk, Error, Instance, InstanceId, InstanceKind, Inventory, Native,
    NativeFormat, Nic, Port, Problem, Result, State, Usage,
};

/// VMs that are asked at the same time: each is a local socket, so this only bounds open files.
const AT_ONCE: usize = 64;
/// One VM may take this long; a hung one holds nobody up.
const EACH: Duration = Duration::from_secs(3);
/// An agent that is there answers within this.
const AGENT: Duration = Duration::from_secs(2);

/// All VMs, asked concurrently.
///
/// # Errors
/// When the definitions cannot be listed.
pub async fn all(ctx: &Arc<Ctx>, cx: &ReadCx) -> Result<Inventory> {
    let store = ctx.store.clone();
    let entries = tokio::task::spawn_blocking(move || store.list())
        .await
        .map_err(|e| Error::backend(format!("internal: {e}")))?
        .map_err(|e| e.in_context(&ctx.spec.name))?;
    // Something is kept back, so that slow rows become unknown before the whole read is given up.
    let limit = EACH.min(cx.left().mul_f64(0.8));
    let host = proc::host_name();
    let instances: Vec<Instance> = futures::stream::iter(entries)
        .map(|entry| row(ctx, entry, limit, &host))
        .buffered(AT_ONCE)
        .collect()
        .await;
    let mut inventory = Inventory::empty(Timestamp::now());
    inventory.problems = problems(ctx, &instances);
    inventory.instances = instances;
    inventory.hosts = vec![super::host::row(ctx)];
    Ok(inventory)
}

fn problems(ctx: &Ctx, instances: &[Instance]) -> Vec<Problem> {
    let broken = instances
        .iter()
        .filter(|row| row.state == State::Broken)
        .map(|row| Problem {
            instance: Some(row.id.clone()),
            message: row.reason.clone().unwrap_or_default(),
            remedy: None,
        });
    let left = super::op::leftovers(&ctx.store).unwrap_or_default();
    broken
        .chain(left.into_iter().map(|left| Problem {
            instance: None,
            message: left.message(),
            remedy: Some("corral doctor --fix".to_owned()),
        }))
        .collect()
}

async fn row(ctx: &Ctx, entry: Entry, limit: Duration, host: &str) -> Instance {
    match entry.definition {
        Ok(vm) => {
            let started = std::time::Instant::now();
            let mut live = live::look(ctx, &vm, limit).await;
            let left = limit.saturating_sub(started.elapsed());
            tell_lost(ctx, &mut live, &vm, left).await;
            let mut row = instance(ctx, &vm, &live, host);
            row.locked = unlock::locked(ctx, &vm.name);
            row
        }
        Err(error) => Instance::broken(
            ctx.id(&entry.name),
            KIND,
            error.to_string(),
            Timestamp::now(),
        ),
    }
}

/// Its files are all there, beside its definition, which was read a moment ago: there is no other file system to wait
/// for.
fn all_near(ctx: &Ctx, vm: &Definition) -> bool {
    let Ok(dir) = ctx.store.dir(&vm.name) else {
        return false;
    };
    store::files(vm)
        .chain(vm.firmware.code.as_deref())
        .all(|file| {
            let own = file.parent() == Some(&dir) || file.starts_with("/usr/share");
            // A link leads anywhere.
            own && std::fs::symlink_metadata(file).is_ok_and(|meta| meta.is_file())
        })
}

/// Says of one that is off why it could not be started. A file system that does not answer holds
/// up this row alone.
async fn tell_lost(ctx: &Ctx, live: &mut Live, vm: &Definition, limit: Duration) {
    if live.state != State::Stopped || live.is_active() {
        return;
    }
    if all_near(ctx, vm) {
        return;
    }
    let vm = vm.clone();
    let look = tokio::task::spawn_blocking(move || store::lost(&vm));
    let lost = match tokio::time::timeout(limit, look).await {
        Ok(Ok(lost)) => lost.map(|error| error.message),
        Ok(Err(_)) => None,
        Err(_) => Some("the file system of its images does not answer".to_owned()),
    };
    if let Some(why) = lost {
        live.reason = Some(format!("it cannot start: {why}"));
    }
}

/// A VM's row.
pub fn instance(ctx: &Ctx, vm: &Definition, live: &Live, host: &str) -> Instance {
    let mut row = Instance::new(
        ctx.id(&vm.name),
        KIND,
        InstanceKind::Vm,
        live.state,
        Timestamp::now(),
    );
    row.uid = Some(vm.uuid.to_string());
    row.reason.clone_from(&live.reason);
    let launch = match ctx.paths(&vm.uuid) {
        Ok(paths) if live.is_active() => Launch::read(&paths),
        _ => None,
    };
    if let Some(launch) = &launch
        && live.state == State::Running
        && live.reason.is_none()
        && !started::pending(launch, vm).is_empty()
    {
        row.reason = Some(started::RESTART_NEEDED.to_owned());
    }
    row.native_state.clone_from(&live.native);
    row.host = Some(host.to_owned());
    // A running guest has what it was started with, whatever waits for its next start.
    let (cpus, memory) = launch
        .as_ref()
        .and_then(started::size)
        .unwrap_or((vm.cpus, vm.memory));
    row.cpus = Some(cpus);
    row.memory_bytes = Some(memory);
    row.disk_bytes = Some(Bytes(
        vm.disks
            .iter()
            .fold(0, |sum: u64, disk| sum.saturating_add(disk.size.0)),
    ));
    let ports: Vec<Port> = vm
        .nics
        .iter()
        .flat_map(|nic| &nic.forwards)
        .map(|f| Port {
            guest: f.guest,
            host: format!("{}:{}", f.host, f.port),
            protocol: f.protocol.as_str().to_owned(),
        })
        .collect();
    row.ports = Some(ports);
    row.macs = Some(
        vm.nics
            .iter()
            .map(|nic| nic.mac.to_ascii_lowercase())
            .collect(),
    );
    row.os.clone_from(&vm.os);
    row.agent = live.agent;
    row.tags.clone_from(&vm.tags);
    row.template = vm.template;
    row.autostart = Some(vm.autostart);
    row.note.clone_from(&vm.note);
    row.created_at = vm.created_at;
    if let Some(stat) = live.pid.and_then(proc::Stat::read) {
        row.uptime_seconds = Some(stat.age_seconds);
        row.usage = Some(Usage {
            cpu_percent: None,
            memory_bytes: Some(stat.memory),
        });
    } else {
        // Behind user networking a guest has no address of its own; a stopped one has none at all.
        row.addresses = Some(Vec::new());
    }
    row
}

/// Loads one definition by ID.
///
/// # Errors
/// `NotFound`, or `Invalid` for one that cannot be read.
pub fn load(ctx: &Ctx, id: &InstanceId) -> Result<Definition> {
    if id.namespace().is_some() {
        return Err(Error::not_found(format!("there is no VM {id}"))
            .remedy("IDs of this context have two parts: corral list -o name"));
    }
    ctx.store
        .load(id.key())
        .map_err(|e| e.in_context(&ctx.spec.name))
}

/// Everything about one VM but its snapshots.
///
/// # Errors
/// As [`load`].
pub async fn detail(ctx: &Ctx, cx: &ReadCx, id: &InstanceId) -> Result<(Definition, Detail)> {
    let vm = load(ctx, id)?;
    let limit = EACH.min(cx.left().mul_f64(0.8));
    let mut live = live::look(ctx, &vm, limit).await;
    tell_lost(ctx, &mut live, &vm, limit).await;
    let paths = ctx.paths(&vm.uuid)?;
    let mut problems = Vec::new();
    let disks = disks(&vm, &mut problems);
    let mut facts = vec![
        ("Machine".to_owned(), vm.machine.clone()),
        ("CPU model".to_owned(), vm.cpu_model.clone()),
    ];
    let mut pending = Vec::new();
    if let Some(launch) = Launch::read(&paths).filter(|_| live.is_active()) {
        let word = if launch.accel.kvm {
            "KVM"
        } else {
            "TCG (slow)"
        };
        facts.push((
            "Acceleration".to_owned(),
            format!("{word}: {}", launch.accel.why),
        ));
        let hints = launch
            .accel
            .hints
            .as_ref()
            .or(launch.accel.hintless.as_ref());
        if let Some(hints) = hints.cloned() {
            facts.push(("Windows hints".to_owned(), hints));
        }
        for what in started::pending(&launch, &vm) {
            pending.push(format!(
                "{what} at next cold restart: corral restart --cold {id}"
            ));
        }
    }
    let dir = ctx.store.dir(&vm.name)?;
    pending.extend(Identity::read(&dir).map(|identity| identity.pending()));
    if let Some(pid) = live.pid {
        facts.push(("Process".to_owned(), pid.to_string()));
    }
    if vm.tpm {
        facts.push(("TPM".to_owned(), "2.0".to_owned()));
    }
    if vm.firmware.secure_boot {
        facts.push(("Secure Boot".to_owned(), "on".to_owned()));
    }
    facts.push((
        "Serial log".to_owned(),
        paths.serial_log.display().to_string(),
    ));
    facts.push(("QEMU log".to_owned(), paths.log.display().to_string()));
    let native = ctx.store.read_text(&vm.name).ok().map(|text| Native {
        format: NativeFormat::Toml,
        text,
    });
    let addresses = match live.agent {
        Some(true) => addresses::ask(ctx, &vm, AGENT.min(cx.left().mul_f64(0.5)))
            .await
            .unwrap_or_default(),
        _ => addresses::Addresses::new(),
    };
    let nics: Vec<Nic> = vm
        .nics
        .iter()
        .map(|nic| Nic {
            name: nic.name.clone(),
            mac: Some(nic.mac.to_ascii_lowercase()),
            network: Some(nic.network.clone()),
            model: Some(nic.model.clone()),
            addresses: addresses
                .get(&nic.mac.to_ascii_lowercase())
                .cloned()
                .unwrap_or_default(),
        })
        .collect();
    let firmware = match vm.firmware.kind {
        FirmwareKind::Uefi => "uefi",
        FirmwareKind::Bios => "bios",
    };
    let mut instance = instance(ctx, &vm, &live, &proc::host_name());
    if live.is_active() {
        match size_now(ctx, &vm, cx.left().min(EACH).mul_f64(0.8)).await {
            Ok(now) => {
                instance.cpus = Some(now.cpus);
                instance.memory_bytes = Some(now.usable());
                if now.usable() < now.total() {
                    facts.push((
                        "Balloon".to_owned(),
                        format!(
                            "the guest gave back {} of {}",
                            Bytes(now.total().0 - now.usable().0),
                            now.total()
                        ),
                    ));
                }
            }
            Err(error) => problems.push(format!("its CPUs and memory: {}", error.message)),
        }
    }
    if let Some(max) = vm.max_cpus {
        facts.push(("CPUs up to".to_owned(), max.to_string()));
    }
    if let Some(max) = vm.max_memory {
        facts.push(("Memory up to".to_owned(), max.to_string()));
    }
    let detail = Detail {
        instance,
        disks,
        nics,
        snapshots: Vec::new(),
        firmware: Some(firmware.to_owned()),
        facts,
        pending,
        problems,
        native,
    };
    Ok((vm, detail))
}

/// What a running process really has.
async fn size_now(ctx: &Ctx, vm: &Definition, limit: Duration) -> Result<resize::Now> {
    let mut qmp = process::connect_within(ctx, vm, limit)
        .await?
        .ok_or_else(|| Error::unreachable("it ended meanwhile"))?;
    resize::look(&mut qmp).await
}

fn disks(vm: &Definition, problems: &mut Vec<String>) -> Vec<Disk> {
    use std::os::unix::fs::MetadataExt as _;
    let mut out = Vec::new();
    for disk in &vm.disks {
        let used = match std::fs::metadata(&disk.path) {
            Ok(meta) => Some(Bytes(meta.blocks().saturating_mul(512))),
            Err(error) => {
                problems.push(format!("{}: {}: {error}", disk.name, disk.path.display()));
                None
            }
        };
        out.push(Disk {
            name: disk.name.clone(),
            device: "disk".to_owned(),
            bus: Some(disk.bus.clone()),
            source: Some(disk.path.display().to_string()),
            format: Some(disk.format.clone()),
            size_bytes: Some(disk.size),
            used_bytes: used,
            backing: disk.backing.as_ref().map(|p| p.display().to_string()),
            owned: disk.owned,
            readonly: disk.readonly,
            snapshots: None,
        });
    }
    let slots = Slots::of(vm).unwrap_or_default();
    for (n, medium) in vm.cdroms.iter().enumerate() {
        let scsi = matches!(slots.cdroms.get(n), Some(Slot::Scsi(_)));
        if let Some(Err(error)) = medium.path.as_ref().map(std::fs::metadata) {
            problems.push(format!("{}: {error}", medium.name));
        }
        out.push(Disk {
            name: medium.name.clone(),
            device: "cdrom".to_owned(),
            bus: Some(if scsi { "scsi" } else { "sata" }.to_owned()),
            source: medium.path.as_ref().map(|p| p.display().to_string()),
            format: Some("raw".to_owned()),
            size_bytes: None,
            used_bytes: None,
            backing: None,
            owned: false,
            readonly: true,
            snapshots: None,
        });
    }
    out
}
