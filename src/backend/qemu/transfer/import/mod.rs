//! The import family.

pub(in super::super) mod guard;
mod incoming;
mod make;
pub(super) mod read;

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

pub use make::{Importing, make};

use super::super::create::{self, serial};
use super::super::ctx::Ctx;
use super::super::definition::{Definition, DiskDef, NicDef, mac};
use super::super::families::pinned;
use super::super::image::{self, quoted};
use crate::backend::contract::{
    Changes, CreateRequest, DiskSource, Firmware, ImportRequest, Prepared, ReadCx, TaskCx,
};
use crate::model::{
    Bytes, DiskRole, Error, FirmwareKind, Instance, Outcome, Refusal, Result, Step, shown,
};
use incoming::{Incoming, Reading, look};
use read::Patience;

/// What a new VM has where nothing says.
const CPUS: u32 = 2;
const MEMORY: Bytes = Bytes::gib(2);
/// NICs and disks that the board has room for.
const NICS: usize = 8;
const DISKS: usize = 14;

/// The import family.
#[derive(Clone, Debug)]
pub struct Import(pub Arc<Ctx>);

#[async_trait]
impl Changes<ImportRequest> for Import {
    async fn prepare(&self, cx: &ReadCx, _: &Instance, request: ImportRequest) -> Result<Prepared> {
        match plan(&self.0, cx, &request).await {
            Ok(prepared) => Ok(prepared),
            Err(error) => Ok(Prepared::failed("new", &error)),
        }
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let importing: Importing = prepared.take()?;
        make(&self.0, cx, &importing, &prepared.token).await
    }
}

/// Says what making a VM of it would do.
///
/// # Errors
/// What is wrong with it.
pub async fn plan(ctx: &Ctx, cx: &ReadCx, request: &ImportRequest) -> Result<Prepared> {
    let from = image::absolute(&request.from);
    let mut found = look(&ctx.env, &from, Instant::now() + cx.left().mul_f64(0.5)).await?;
    found.leave_odd_out();
    let wanted = wanted(request, &found);
    let mut refusals = Vec::new();
    let pinned = pinned(ctx).await?;
    let making = create::draft(ctx, &pinned, wanted, &mut refusals).await?;
    let data = found
        .disks
        .iter()
        .filter(|disk| disk.role != DiskRole::Firmware)
        .count();
    if data > DISKS {
        let error =
            Error::unsupported(format!("{data} disks are more than the board has room for"));
        refusals.push(Refusal::from(&error));
    }
    let Some(mut making) = making.filter(|_| refusals.is_empty()) else {
        let mut prepared = Prepared::new("new", Vec::new());
        prepared.refusals = refusals;
        return Ok(prepared);
    };
    let mut notes = found.notes.clone();
    assemble(ctx, request, &found, &mut making.definition, &mut notes)?;
    if !found.not_carried.is_empty() {
        notes.push(format!("not taken in: {}", found.not_carried.join(", ")));
    }
    let mut needs = 0u64;
    for disk in &found.disks {
        if let Reading::Image(source) = &disk.reading {
            let patience = Patience::at_most(cx.left().mul_f64(0.5));
            needs = needs.saturating_add(source.needed(&ctx.env, &patience).await?.0);
        }
    }
    image::room(ctx.store.root(), Bytes(needs))?;
    let token = format!("new {}", stamps(&found)?);
    let importing = Importing {
        making,
        found,
        start: request.start,
    };
    let mut prepared = Prepared::new(token, steps(ctx, &importing)?);
    prepared.notes = notes;
    Ok(prepared.with(importing))
}

/// The create that it is alike.
fn wanted(request: &ImportRequest, found: &Incoming) -> CreateRequest {
    let firmware = request.firmware.or(found.firmware.map(|kind| match kind {
        FirmwareKind::Bios => Firmware::Bios,
        FirmwareKind::Uefi => Firmware::Uefi,
    }));
    let uefi = firmware != Some(Firmware::Bios);
    CreateRequest {
        name: request.name.clone(),
        cpus: request.cpus.or(found.cpus).unwrap_or(CPUS),
        memory: request.memory.or(found.memory).unwrap_or(MEMORY),
        disk_size: None,
        source: DiskSource::Blank,
        cdroms: Vec::new(),
        firmware,
        os: found.os.clone(),
        tpm: found.tpm,
        secure_boot: found.secure_boot && uefi,
        cloud_init: None,
        publish: Vec::new(),
        tags: found.tags.clone(),
        note: found.note.clone(),
        start: request.start,
        set: request.set.clone(),
    }
}

/// Disks and NICs of the new VM.
fn assemble(
    ctx: &Ctx,
    request: &ImportRequest,
    found: &Incoming,
    vm: &mut Definition,
    notes: &mut Vec<String>,
) -> Result<()> {
    let dir = ctx.store.dir(&vm.name)?;
    let given = |key: &str| request.set.iter().any(|(known, _)| known == key);
    let bus = vm
        .disks
        .first()
        .map_or_else(|| "virtio".to_owned(), |disk| disk.bus.clone());
    vm.disks.clear();
    for disk in &found.disks {
        let n = vm.disks.len();
        let own = disk.bus.clone().filter(|_| !given("bus"));
        let seed = disk.role == DiskRole::Seed;
        if disk.role == DiskRole::Firmware {
            continue;
        }
        vm.disks.push(DiskDef {
            name: if seed {
                "seed".to_owned()
            } else {
                format!("disk{n}")
            },
            path: dir.join(if seed {
                "seed.img".to_owned()
            } else {
                format!("disk{n}.qcow2")
            }),
            format: if seed { "raw" } else { "qcow2" }.to_owned(),
            bus: own.unwrap_or_else(|| bus.clone()),
            size: disk.size,
            backing: None,
            owned: true,
            serial: if seed {
                "cidata".to_owned()
            } else {
                serial(&vm.uuid, n as u8)
            },
            readonly: seed,
            slot: None,
        });
    }
    let Some(models) = &found.nics else {
        return Ok(());
    };
    if models.len() > NICS {
        notes.push(format!("{} of its NICs are left out", models.len() - NICS));
    }
    let first = vm.nics.first().cloned();
    vm.nics.clear();
    for (n, model) in models.iter().take(NICS).enumerate() {
        let Some(first) = &first else { break };
        let known = model.clone().filter(|model| {
            !given("nic") && ["virtio", "e1000e", "e1000"].contains(&model.as_str())
        });
        vm.nics.push(NicDef {
            name: format!("net{n}"),
            mac: mac(&vm.uuid, n as u8),
            model: known.unwrap_or_else(|| first.model.clone()),
            forwards: if n == 0 {
                first.forwards.clone()
            } else {
                Vec::new()
            },
            ..first.clone()
        });
    }
    Ok(())
}

/// What must still hold when the plan runs.
fn stamps(found: &Incoming) -> Result<String> {
    let mut all = Vec::new();
    for file in &found.files {
        all.push(image::stamp(file)?);
    }
    Ok(all.join(" "))
}

fn steps(ctx: &Ctx, importing: &Importing) -> Result<Vec<Step>> {
    let vm = &importing.making.definition;
    let dir = ctx.store.dir(&vm.name)?;
    let mut steps = Vec::new();
    if !importing.found.sums.is_empty() {
        let count = importing.found.sums.len();
        steps.push(Step::new(
            format!(
                "Check the checksums of {}",
                crate::model::counted(count, "file")
            ),
            "sha256sum -c",
        ));
    }
    steps.push(
        Step::new("Make its folder", format!("mkdir -m 700 {}", quoted(&dir)))
            .undo(format!("rm -r {}", quoted(&dir))),
    );
    for job in make::jobs(ctx, importing)? {
        steps.push(Step::new(job.title(), job.shown()));
    }
    steps.push(Step::new(
        format!(
            "Define it: {} CPUs, {} memory, {}, {}",
            vm.cpus,
            vm.memory,
            crate::model::counted(vm.disks.len(), "disk"),
            crate::model::counted(vm.nics.len(), "NIC"),
        ),
        format!("write {}", quoted(&dir.join("vm.toml"))),
    ));
    if importing.start {
        steps.push(Step::new(
            format!("Start {}", shown(&vm.name)),
            "qemu-system-x86_64 …",
        ));
    }
    Ok(steps)
}
