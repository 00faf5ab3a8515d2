//! Making a VM: a plan that only reads, then a folder that is whole or gone.

mod build;
mod shape;
mod source;

pub use build::{Job, build, claim_folder, define, settled, variables};
pub(super) use shape::comma_free;
pub use shape::{CREATE_FIELDS, serial};

use super::ctx::Ctx;
use super::definition::{
    Definition, DiskDef, FORMAT, FirmwareDef, FirmwareKind, MediumDef, folder_name,
};
use super::firmware::{self, Firmware};
use super::image::stamp;
use super::image::{self, absolute};
use super::images::Shelf;
use super::machine::Offer;
use super::slots::Slot;
use super::store::{DEFINITION, Store, is_there};
use super::{op, recover, remove, tpm};
use crate::backend::contract::{CreateRequest, Env, Firmware as Wanted, Prepared};
use crate::backend::seed::Seed;
use crate::model::{Bytes, Error, InstanceId, Refusal, Result, Step};
pub(super) use shape::disk_size;
use source::{BLANK, Source, source};

/// What the machine decides: pinned into the definition when the VM is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Machine types and CPU models.
    pub offer: Offer,
    /// CPU model, where none is asked for.
    pub cpu_model: String,
}

/// What `prepare` decided, for [`build`].
pub struct Making {
    /// The VM to be.
    pub definition: Definition,
    /// Start it once it is made.
    pub start: bool,
    source: Source,
    firmware: Option<Firmware>,
    seed: Option<Seed>,
}

/// Says what making the VM would do.
///
/// # Errors
/// Only when the store cannot be read; what forbids it is in `refusals`.
pub async fn prepare(ctx: &Ctx, pinned: &Pinned, request: CreateRequest) -> Result<Prepared> {
    let (env, store) = (&*ctx.env, &ctx.store);
    let mut refusals = Vec::new();
    let mut notes = Vec::new();
    if let Err(e) = free_name(store, &ctx.id(&request.name), &request.name) {
        refusals.push(Refusal::from(&e));
    }
    let made = match folder_name(&request.name) {
        Ok(_) => plan(env, store, pinned, request, &mut refusals, &mut notes).await,
        Err(_) => None,
    };
    let Some((making, token)) = made.filter(|_| refusals.is_empty()) else {
        let mut prepared = Prepared::new("new", Vec::new());
        prepared.refusals = refusals;
        return Ok(prepared);
    };
    let mut prepared = Prepared::new(token, steps(env, store, &making)?);
    prepared.notes = notes;
    Ok(prepared.with(making))
}

/// A new VM whose disks come from elsewhere: all that is decided but for them. What forbids it is
/// added to `refusals`.
///
/// # Errors
/// Only when the store cannot be read.
pub async fn draft(
    ctx: &Ctx,
    pinned: &Pinned,
    request: CreateRequest,
    refusals: &mut Vec<Refusal>,
) -> Result<Option<Making>> {
    if let Err(e) = free_name(&ctx.store, &ctx.id(&request.name), &request.name) {
        refusals.push(Refusal::from(&e));
    }
    folder_name(&request.name)?;
    // What is worth knowing of a blank disk is not of one that is filled.
    let mut notes = Vec::new();
    let made = plan(&ctx.env, &ctx.store, pinned, request, refusals, &mut notes).await;
    Ok(made.map(|(making, _)| making))
}

/// Whether nobody has this name.
///
/// # Errors
/// `Conflict` naming who or what has it.
pub(super) fn free_name(store: &Store, id: &InstanceId, name: &str) -> Result<()> {
    if !store.taken(name)? {
        return Ok(());
    }
    let dir = store.dir(name)?;
    let shown = crate::model::shown(name);
    if dir.join(remove::KEPT).exists() {
        return Err(Error::conflict(format!(
            "the disks of a deleted VM called \"{shown}\" were kept in {}",
            dir.display()
        ))
        .remedy(format!(
            "If nobody needs them any more (corral doctor says so): rm -r {}. Or choose another name.",
            image::quoted(&dir)
        )));
    }
    if !is_there(&dir.join(DEFINITION)) {
        return Err(match op::read(&dir.join(op::FILE)) {
            Ok(Some(op)) if op.is_alive() => {
                Error::conflict(format!("\"{shown}\" is being made right now"))
                    .remedy("Watch it: corral tasks")
            }
            Ok(None) if recover::foreign(&dir) => Error::conflict(format!(
                "{} is there already, with files that are no VM of corral",
                dir.display()
            ))
            .remedy("Move that folder away, or choose another name."),
            _ => Error::conflict(format!(
                "an interrupted create left a folder for \"{shown}\""
            ))
            .remedy("Clear it: corral doctor --fix"),
        });
    }
    Err(
        Error::conflict(format!("there is already a VM called \"{shown}\"")).remedy(format!(
            "Choose another name, or delete it: corral delete {id}"
        )),
    )
}

async fn plan(
    env: &Env,
    store: &Store,
    pinned: &Pinned,
    mut request: CreateRequest,
    refusals: &mut Vec<Refusal>,
    notes: &mut Vec<String>,
) -> Option<(Making, String)> {
    let mut keep = |result: Result<()>| {
        if let Err(e) = result {
            refusals.push(Refusal::from(&e));
        }
    };
    let dir = store.dir(&request.name).ok()?;
    let uuid = uuid::Uuid::new_v4();
    let set = match shape::Set::read(&request.set) {
        Ok(set) => set,
        Err(e) => {
            keep(Err(e));
            shape::Set::default()
        }
    };
    let machine = match &set.machine {
        Some(wanted) => pinned.offer.machine(wanted),
        None => Ok(pinned.offer.newest().to_owned()),
    };
    let machine = machine.unwrap_or_else(|e| {
        keep(Err(e));
        String::new()
    });
    if let Some(wanted) = &set.cpu_model {
        keep(pinned.offer.cpu_model(wanted));
    }
    keep(shape::limits(&request));
    keep(image::tool(env).map(drop));
    let bios = request.firmware == Some(Wanted::Bios);
    if bios && request.secure_boot {
        keep(Err(
            Error::invalid("Secure Boot needs UEFI").remedy("Leave --firmware bios out.")
        ));
    }
    let firmware = if bios {
        None
    } else {
        match firmware::find(&firmware::descriptor_dirs(env), request.secure_boot) {
            Ok(found) => Some(found),
            Err(e) => {
                keep(Err(e));
                None
            }
        }
    };
    if request.tpm {
        keep(tpm::tool(env).map(drop));
        keep(shape::comma_free(&dir));
    }
    let (source, size, token) = match source(env, store, &request, notes).await {
        Ok(found) => found,
        Err(e) => {
            keep(Err(e));
            (Source::Blank, BLANK, String::new())
        }
    };
    let shelf = Shelf::under(env);
    for medium in &mut request.cdroms {
        let found = shelf.place(medium).and_then(|path| {
            image::readable(&path)?;
            *medium = path.to_string_lossy().into_owned();
            Ok(())
        });
        keep(found);
    }
    let seed = match &request.cloud_init {
        Some(cloud) => match Seed::compose(cloud, &uuid, &request.name) {
            Ok(seed) => Some(seed),
            Err(e) => {
                keep(Err(e));
                None
            }
        },
        None => None,
    };
    match shape::forwards(&request) {
        Ok(open) => notes.extend(open),
        Err(e) => keep(Err(e)),
    }
    let windows = request.os.as_deref() == Some("windows");
    if windows && matches!(source, Source::Blank) && !request.tpm {
        notes.push("Windows 11 wants a TPM and Secure Boot: --tpm --secure-boot".to_owned());
    }
    let bus = set
        .bus
        .clone()
        .unwrap_or_else(|| if windows { "sata" } else { "virtio" }.to_owned());
    let bus_of_drives = bus.clone();
    let mut disks = vec![DiskDef {
        name: "disk0".to_owned(),
        path: dir.join("disk0.qcow2"),
        format: "qcow2".to_owned(),
        bus: bus.clone(),
        size,
        backing: match &source {
            Source::Backed { base, .. } => Some(base.clone()),
            _ => None,
        },
        owned: true,
        serial: shape::serial(&uuid, 0),
        readonly: false,
        slot: None,
    }];
    if seed.is_some() {
        disks.push(DiskDef {
            name: "seed".to_owned(),
            path: dir.join("seed.img"),
            format: "raw".to_owned(),
            bus,
            size: Bytes::mib(2),
            backing: None,
            owned: true,
            serial: "cidata".to_owned(),
            readonly: true,
            slot: None,
        });
    }
    // Disk and seed come first. A Windows that is being installed has no driver for SCSI yet.
    let drives_on_scsi = bus_of_drives == "scsi" && !windows;
    let definition = Definition {
        format: FORMAT,
        uuid,
        cpus: request.cpus,
        max_cpus: set.max_cpus,
        memory: request.memory,
        max_memory: set.max_memory,
        dimms: Vec::new(),
        machine,
        cpu_model: set
            .cpu_model
            .clone()
            .unwrap_or_else(|| pinned.cpu_model.clone()),
        firmware: FirmwareDef {
            kind: if bios {
                FirmwareKind::Bios
            } else {
                FirmwareKind::Uefi
            },
            code: firmware.as_ref().map(|f| f.code.clone()),
            code_format: firmware.as_ref().map(|f| f.code_format.clone()),
            vars: firmware.as_ref().map(|_| dir.join("efivars.qcow2")),
            secure_boot: request.secure_boot,
        },
        tpm: request.tpm,
        os: request.os.clone(),
        tags: shape::tags(&request.tags),
        note: request.note.clone(),
        autostart: false,
        template: false,
        created_at: Some(jiff::Timestamp::now()),
        disks,
        cdroms: request
            .cdroms
            .iter()
            .enumerate()
            .map(|(n, path)| MediumDef {
                name: format!("cdrom{n}"),
                path: Some(absolute(path.as_ref())),
                slot: u8::try_from(n + 2)
                    .ok()
                    .filter(|_| drives_on_scsi)
                    .map(Slot::Scsi),
            })
            .collect(),
        nics: vec![shape::nic(&request, &uuid, set.nic.as_deref(), windows)],
        name: request.name,
    };
    let making = Making {
        definition,
        start: request.start,
        source,
        firmware,
        seed,
    };
    Some((making, format!("new {token}")))
}

fn steps(env: &Env, store: &Store, making: &Making) -> Result<Vec<Step>> {
    let vm = &making.definition;
    let dir = store.dir(&vm.name)?;
    let mut steps = vec![
        Step::new(
            "Make its folder",
            format!("mkdir -m 700 {}", image::quoted(&dir)),
        )
        .undo(format!("rm -r {}", image::quoted(&dir))),
    ];
    for job in build::jobs(env, making)? {
        steps.push(Step::new(job.title, job.cmd.shown()));
    }
    if making.seed.is_some() {
        let seed = dir.join("seed.img");
        steps.push(Step::new(
            "Write the first-boot seed",
            format!("write {} (0600)", image::quoted(&seed)),
        ));
    }
    let file = dir.join(DEFINITION);
    steps.push(Step::new(
        format!(
            "Define it: {} CPUs, {} memory, {}, {}",
            vm.cpus,
            vm.memory,
            match vm.firmware.kind {
                FirmwareKind::Uefi if vm.firmware.secure_boot => "UEFI with Secure Boot",
                FirmwareKind::Uefi => "UEFI",
                FirmwareKind::Bios => "BIOS",
            },
            vm.machine
        ),
        format!("write {}", image::quoted(&file)),
    ));
    if making.start {
        steps.push(Step::new("Start it", "qemu-system-x86_64 …"));
    }
    Ok(steps)
}
