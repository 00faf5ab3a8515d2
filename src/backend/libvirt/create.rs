//! A new domain: its volumes in a pool, its definition.

use uuid::Uuid;

use super::change::{check_name, free, scripted};
use super::ctx::Ctx;
use super::disks::{element, make};
use super::domain::Marks;
use super::image::{self, Image};
use super::nics;
use super::remove::seed_name;
use super::script::{Act, Script};
use super::volumes::Pool;
use super::wire::{Call, NAMESPACE, Server};
use super::xml::{escaped, parse};
use super::{accel, disks};
use crate::backend::contract::{
    CreateRequest, DiskSource, Firmware, Prepared, ReadCx, check_note, check_tag,
};
use crate::backend::seed::Seed;
use crate::model::{Bytes, Error, Field, FieldKind, Instance, Result, shown};

scripted!(CreateRequest, create);

/// What `create` takes by `--set`.
pub const CREATE_FIELDS: &[Field] = &[
    Field::new("pool", FieldKind::Name, "Pool of its disks [default]"),
    Field::new(
        "network",
        FieldKind::Name,
        "Network, bridge of the host, user or none [default]",
    ),
    Field::new(
        "bus",
        FieldKind::Choice(&["virtio", "scsi", "sata"]),
        "Disk bus: virtio, scsi or sata [virtio; Windows: sata]",
    ),
    Field::new(
        "nic",
        FieldKind::Choice(&["virtio", "e1000e", "e1000"]),
        "Network card: virtio, e1000e or e1000 [virtio; Windows: e1000e]",
    ),
    Field::new(
        "machine",
        FieldKind::Text,
        "Machine type, such as q35 or pc [q35]",
    ),
    Field::new(
        "cpu-model",
        FieldKind::Text,
        "CPU model that the guest sees [the host's]",
    ),
    Field::new(
        "accel",
        FieldKind::Choice(&["kvm", "emulated"]),
        "How it is run [KVM where it works]",
    ),
    Field::new(
        "max-cpus",
        FieldKind::Count,
        "Up to so many CPUs can be added while it runs [none]",
    ),
    Field::new(
        "max-memory",
        FieldKind::Bytes,
        "Up to so much memory can be added while it runs [none]",
    ),
];

/// The first disk of nothing.
const DISK: Bytes = Bytes::gib(20);
/// Root ports left for devices that are added while it runs.
const PORTS: usize = 12;

/// What a machine is made of.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Name.
    pub name: String,
    /// Its identity.
    pub uuid: Uuid,
    /// CPUs now and at most.
    pub cpus: (u32, u32),
    /// Memory now and at most.
    pub memory: (Bytes, Bytes),
    /// UEFI, with Secure Boot.
    pub uefi: Option<bool>,
    /// TPM 2.0.
    pub tpm: bool,
    /// `linux`, `windows`.
    pub windows: bool,
    /// `q35`, `pc` …
    pub board: String,
    /// Architecture.
    pub arch: String,
    /// KVM, else emulated.
    pub kvm: bool,
    /// CPU model that was asked for.
    pub cpu: Option<String>,
    /// Disks as elements.
    pub disks: Vec<String>,
    /// Media: paths; an empty drive where there is none.
    pub cdroms: Vec<String>,
    /// NICs as elements.
    pub nics: Vec<String>,
    /// Marks.
    pub marks: Marks,
    /// The note.
    pub note: Option<String>,
}

fn given<'a>(set: &'a [(String, String)], key: &str) -> Option<&'a str> {
    set.iter()
        .rev()
        .find(|(known, _)| known == key)
        .map(|(_, value)| value.as_str())
}

/// A machine of this shape, without disks and NICs.
///
/// # Errors
/// `Invalid` for what cannot be, `Refused` for what the host cannot.
pub async fn machine(ctx: &Ctx, cx: &ReadCx, request: &CreateRequest) -> Result<Machine> {
    check_name(&request.name)?;
    for tag in &request.tags {
        check_tag(tag)?;
    }
    if let Some(note) = &request.note {
        check_note(note)?;
    }
    let set = |key: &str| given(&request.set, key);
    let max_cpus: u32 = match set("max-cpus") {
        Some(text) => text
            .parse()
            .map_err(|_| Error::invalid(format!("max-cpus={}: no number", shown(text))))?,
        None => request.cpus,
    };
    let max_memory: Bytes = match set("max-memory") {
        Some(text) => text.parse()?,
        None => request.memory,
    };
    if request.cpus == 0 || max_cpus < request.cpus || max_memory < request.memory {
        return Err(Error::invalid("the most is less than what it begins with")
            .remedy("Raise max-cpus and max-memory, or leave them out."));
    }
    if request.memory < Bytes::mib(16) {
        return Err(Error::invalid(format!(
            "{} of memory is too little",
            request.memory
        )));
    }
    if !request.publish.is_empty() {
        return Err(Error::unsupported("libvirt publishes no ports").remedy(
            "Reach it at its own address, or make it with --set network=user on local QEMU",
        ));
    }
    let server: Server = ctx.client.ask(cx, Call::Server {}).await?;
    let arch = arch_of(server.capabilities.as_deref()).unwrap_or_else(|| "x86_64".to_owned());
    let kvm = match set("accel") {
        Some("kvm") => true,
        Some(_) => false,
        None => accel::kvm(ctx, server.capabilities.as_deref()).await,
    };
    let windows = request.os.as_deref() == Some("windows");
    let secure = request.secure_boot;
    let uefi = match request.firmware {
        Some(Firmware::Bios) if secure => {
            return Err(Error::invalid("Secure Boot needs UEFI")
                .remedy("Leave --secure-boot out, or use --firmware uefi."));
        }
        Some(Firmware::Bios) => None,
        Some(Firmware::Uefi) | None => Some(secure),
    };
    let machine = match (set("machine"), arch.as_str()) {
        (Some(machine), _) => machine.to_owned(),
        (None, "x86_64") => "q35".to_owned(),
        (None, _) => "virt".to_owned(),
    };
    Ok(Machine {
        name: request.name.clone(),
        uuid: Uuid::new_v4(),
        cpus: (request.cpus, max_cpus),
        memory: (request.memory, max_memory),
        uefi,
        tpm: request.tpm,
        windows,
        board: machine,
        arch,
        kvm,
        cpu: set("cpu-model").map(str::to_owned),
        disks: Vec::new(),
        cdroms: Vec::new(),
        nics: Vec::new(),
        marks: Marks {
            tags: request.tags.clone(),
            template: false,
        },
        note: request.note.clone().filter(|note| !note.trim().is_empty()),
    })
}

fn arch_of(capabilities: Option<&str>) -> Option<String> {
    let document = parse(capabilities?).ok()?;
    let host = super::xml::at(document.root_element(), &["host", "cpu", "arch"])?;
    super::xml::text(host)
}

/// Whether the server says that KVM is there.
pub fn offers_kvm(capabilities: &str) -> bool {
    super::host::acceleration(capabilities).as_deref() == Some("kvm")
}

impl Machine {
    /// As libvirt's XML.
    pub fn xml(&self) -> String {
        let virt = if self.kvm { "kvm" } else { "qemu" };
        let (cpus, max) = self.cpus;
        let current = if cpus == max {
            String::new()
        } else {
            format!(" current='{cpus}'")
        };
        let description = self.note.as_ref().map_or_else(String::new, |note| {
            format!("<description>{}</description>", escaped(note))
        });
        let metadata = self.marks.element().map_or_else(String::new, |element| {
            let inside = element
                .strip_prefix("<instance>")
                .and_then(|rest| rest.strip_suffix("</instance>"))
                .unwrap_or_default();
            format!("<metadata><corral:instance xmlns:corral='{NAMESPACE}'>{inside}</corral:instance></metadata>")
        });
        let x86 = self.arch == "x86_64";
        let secure = self.uefi == Some(true);
        let firmware = if self.uefi.is_some() {
            " firmware='efi'"
        } else {
            ""
        };
        let loader = if secure { "<loader secure='yes'/>" } else { "" };
        let smm = if secure { "<smm state='on'/>" } else { "" };
        let features = if x86 {
            format!("<features><acpi/><apic/>{smm}</features>")
        } else {
            "<features><acpi/></features>".to_owned()
        };
        let cpu = match (&self.cpu, self.kvm) {
            (Some(model), _) => format!(
                "<cpu mode='custom' match='exact'><model>{}</model></cpu>",
                escaped(model)
            ),
            (None, true) => "<cpu mode='host-model'/>".to_owned(),
            (None, false) if x86 => {
                "<cpu mode='custom' match='exact'><model>qemu64</model></cpu>".to_owned()
            }
            (None, false) => "<cpu mode='maximum'/>".to_owned(),
        };
        let clock = if self.windows { "localtime" } else { "utc" };
        let pcie = self.board.contains("q35") || self.board.contains("virt");
        let ports = if pcie {
            format!(
                "<controller type='pci' model='pcie-root'/>{}",
                "<controller type='pci' model='pcie-root-port'/>".repeat(PORTS)
            )
        } else {
            String::new()
        };
        let bus = if pcie { "sata" } else { "ide" };
        let drives: String = if self.cdroms.is_empty() {
            drive(None, bus, 0)
        } else {
            self.cdroms
                .iter()
                .enumerate()
                .map(|(n, path)| drive(Some(path), bus, n))
                .collect()
        };
        let tpm = if self.tpm {
            "<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>"
        } else {
            ""
        };
        let serial = if x86 { "isa-serial" } else { "system-serial" };
        let video = if x86 {
            "<model type='vga'/>"
        } else {
            "<model type='virtio'/>"
        };
        format!(
            "<domain type='{virt}'><name>{name}</name><uuid>{uuid}</uuid>{description}{metadata}\
<memory unit='KiB'>{max_memory}</memory><currentMemory unit='KiB'>{memory}</currentMemory>\
<vcpu placement='static'{current}>{max}</vcpu>\
<os{firmware}><type arch='{arch}' machine='{machine}'>hvm</type>{loader}<boot dev='hd'/><boot dev='cdrom'/></os>\
{features}{cpu}<clock offset='{clock}'/><on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>destroy</on_crash>\
<devices>{ports}<controller type='scsi' model='virtio-scsi'/>{disks}{drives}{nics}\
<serial type='pty'><target type='{serial}' port='0'/></serial><console type='pty'><target type='serial' port='0'/></console>\
<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>{tpm}\
<input type='tablet' bus='usb'/><graphics type='vnc' autoport='yes' listen='127.0.0.1'/><video>{video}</video>\
<memballoon model='virtio'><stats period='5'/></memballoon>\
<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng></devices></domain>",
            name = escaped(&self.name),
            uuid = self.uuid,
            max_memory = self.memory.1.0 >> 10,
            memory = self.memory.0.0 >> 10,
            arch = escaped(&self.arch),
            machine = escaped(&self.board),
            disks = self.disks.concat(),
            nics = self.nics.concat(),
        )
    }

    /// The act that defines it.
    pub fn define(&self) -> Act {
        let call = Call::Define {
            name: self.name.clone(),
            xml: self.xml(),
        };
        let back = Call::Undefine {
            dom: self.dom(),
            keep_nvram: false,
        };
        Act::call("Define it", call).back(back)
    }

    /// Names it in calls.
    pub fn dom(&self) -> super::wire::Dom {
        super::wire::Dom {
            uuid: self.uuid.to_string(),
            name: self.name.clone(),
        }
    }

    /// The act that starts it.
    pub fn start(&self) -> Act {
        let call = Call::Start {
            dom: self.dom(),
            paused: false,
            fresh: false,
        };
        Act::call("Start it", call)
    }
}

fn drive(path: Option<&str>, bus: &str, n: usize) -> String {
    let letter = char::from(b'a' + u8::try_from(n % 26).unwrap_or(0));
    let target = if bus == "ide" {
        format!("hd{letter}")
    } else {
        format!("sd{letter}")
    };
    let source = path.map_or_else(String::new, |path| {
        format!("<source file='{}'/>", escaped(path))
    });
    format!(
        "<disk type='file' device='cdrom'><driver name='qemu' type='raw'/>{source}<target dev='{target}' bus='{bus}'/><readonly/></disk>"
    )
}

/// The place of disk number `n` in the guest: drives come first on SATA.
pub fn target(bus: &str, n: usize, drives: usize) -> String {
    let (prefix, n) = match bus {
        "virtio" => ("vd", n),
        "sata" => ("sd", n + drives.max(1)),
        // Beside those on SATA, which share their names.
        _ => ("sd", n + drives.max(1) + 1),
    };
    format!(
        "{prefix}{}",
        char::from(b'a' + u8::try_from(n % 26).unwrap_or(0))
    )
}

/// The first disk: its acts, path, format.
async fn first_disk(
    ctx: &Ctx,
    cx: &ReadCx,
    request: &CreateRequest,
    pool: &Pool,
) -> Result<(Vec<Act>, String, String)> {
    let raw = pool.kind == "logical";
    match &request.source {
        DiskSource::Blank => {
            let format = image::format_in(pool, "qcow2").to_owned();
            let end = if raw { "" } else { ".qcow2" };
            let name = image::free_name(ctx, cx, pool, &request.name, end).await?;
            let size = request.disk_size.unwrap_or(DISK);
            let acts = make(&pool.name, &name, &format, None, Some(size))?;
            Ok((acts, image::path_in(pool, &name), format))
        }
        DiskSource::Copy(text) => {
            let source = image::find(ctx, cx, text).await?;
            let format = match &source {
                Image::Volume(_) => image::format_in(pool, "qcow2").to_owned(),
                Image::File(_, own, _) => own.clone(),
            };
            if raw && format != "raw" {
                return Err(Error::unsupported(format!(
                    "pool {} holds raw disks, the image is {format}",
                    shown(&pool.name)
                ))
                .remedy("Convert it first: qemu-img convert -O raw"));
            }
            let end = if format == "raw" { ".img" } else { ".qcow2" };
            let name = image::free_name(ctx, cx, pool, &request.name, end).await?;
            let acts = make(&pool.name, &name, &format, Some(&source), request.disk_size)?;
            Ok((acts, image::path_in(pool, &name), format))
        }
        DiskSource::Backed(text) => {
            let Image::Volume(base) = image::find(ctx, cx, text).await? else {
                return Err(
                    Error::refused(format!("{} is not at the host", shown(text)))
                        .remedy("Pull it into a pool first: corral image pull"),
                );
            };
            let name = image::free_name(ctx, cx, pool, &request.name, ".qcow2").await?;
            Ok((
                vec![overlay(pool, &name, &base, request.disk_size)?],
                image::path_in(pool, &name),
                "qcow2".to_owned(),
            ))
        }
    }
}

/// The act that makes a volume on top of another.
///
/// # Errors
/// `Invalid` for a size below that of the base.
pub fn overlay(
    pool: &Pool,
    name: &str,
    base: &super::volumes::Vol,
    size: Option<Bytes>,
) -> Result<Act> {
    let size = size.unwrap_or(base.capacity);
    if size < base.capacity {
        return Err(Error::invalid(format!(
            "{size} is less than the {} of the image",
            base.capacity
        )));
    }
    let format = base.format.as_deref().unwrap_or("raw");
    let call = Call::VolCreate {
        pool: pool.name.clone(),
        name: name.to_owned(),
        xml: image::volume_xml(name, "qcow2", size, Some((&base.path, format))),
    };
    let back = Call::VolDelete {
        pool: pool.name.clone(),
        name: name.to_owned(),
    };
    Ok(Act::call(format!("Make a disk on top of {}", shown(&base.path)), call).back(back))
}

async fn create(ctx: &Ctx, cx: &ReadCx, _: &Instance, request: CreateRequest) -> Result<Prepared> {
    let mut machine = machine(ctx, cx, &request).await?;
    free(ctx, cx, &request.name).await?;
    let set = |key: &str| given(&request.set, key);
    let pool = image::pool_for(ctx, cx, set("pool"), None).await?;
    let bus = set("bus").unwrap_or(if machine.windows { "sata" } else { "virtio" });
    let drives = request.cdroms.len();
    let (mut acts, path, format) = first_disk(ctx, cx, &request, &pool).await?;
    let block = pool.kind == "logical";
    machine.disks.push(element(
        &path,
        &format,
        block,
        &target(bus, 0, drives),
        bus,
        false,
    ));
    for text in &request.cdroms {
        let place = if std::path::Path::new(text).is_absolute() {
            text.clone()
        } else {
            match image::find(ctx, cx, text).await? {
                Image::Volume(vol) => vol.path,
                Image::File(path, ..) => path.display().to_string(),
            }
        };
        machine.cdroms.push(place);
    }
    if let Some(cloud) = &request.cloud_init {
        let seed = Seed::compose(cloud, &machine.uuid, &machine.name)?;
        let name = seed_name(&machine.name);
        acts.extend(seed_acts(ctx, cx, &pool, &name, &seed).await?);
        let place = image::path_in(&pool, &name);
        machine.disks.push(disks::element(
            &place,
            "raw",
            block,
            &target(bus, 1, drives),
            bus,
            true,
        ));
    }
    if set("network") != Some("none") {
        let source = nics::source(ctx, cx, set("network")).await?;
        let model = set("nic").unwrap_or(if machine.windows { "e1000e" } else { "virtio" });
        machine
            .nics
            .push(nics::element(&source, model, &nics::new_mac()));
    }
    let id = ctx.id(&machine.name);
    let said = if request.start {
        "made, running"
    } else {
        "made"
    };
    let script = Script::new(
        id,
        &machine.name,
        format!("{} is {said}", shown(&machine.name)),
    )
    .acts(acts)
    .act(machine.define())
    .acts(request.start.then(|| machine.start()));
    let mut plan = script.prepared(ctx, cx).await?;
    if !machine.kvm {
        plan.notes.push("runs without KVM, slowly".to_owned());
    }
    Ok(plan)
}

/// The seed as a file that is sent; the file is kept until it was.
async fn seed_acts(
    ctx: &Ctx,
    cx: &ReadCx,
    pool: &Pool,
    name: &str,
    seed: &Seed,
) -> Result<Vec<Act>> {
    if super::volumes::named(ctx, cx, &pool.name, name)
        .await?
        .is_some()
    {
        return Err(Error::refused(format!(
            "{}/{} is there already",
            shown(&pool.name),
            shown(name)
        ))
        .remedy(format!(
            "Delete it: virsh vol-delete {} --pool {}",
            shown(name),
            shown(&pool.name)
        )));
    }
    let dir = ctx.env.dirs.state.join("libvirt-seeds");
    crate::link::files::make_dir(&dir)?;
    sweep(&dir);
    let file = dir.join(format!("{}.img", Uuid::new_v4().simple()));
    seed.write(&file)?;
    let size = std::fs::metadata(&file)
        .map_err(|e| crate::link::files::fault("read", &file, e))?
        .len();
    make(
        &pool.name,
        name,
        "raw",
        Some(&Image::File(file, "raw".to_owned(), Bytes(size))),
        None,
    )
}

/// Seeds of plans that were never run hold keys and passwords: none is kept for longer than a plan lives.
fn sweep(dir: &std::path::Path) {
    let old = std::time::Duration::from_secs(3600);
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|meta| meta.modified());
        if age.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > old)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
