//! Making an instance: `POST /1.0/instances`.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::call::{self, Call};
use super::ctx::{Ctx, DEFAULT};
use super::json::{Look as _, entry, print_size};
use super::life::name_taken;
use super::row::{TAGS, is_root, port};
use super::server::Server;
use super::source::{self, Origin};
use super::work::{self, Todo, Work};
use super::{devices, publish};
use crate::backend::contract::{
    Changes, CreateRequest, DiskSource, Firmware, Prepared, ReadCx, TaskCx, check_note, check_tag,
};
use crate::backend::seed::Seed;
use crate::model::{Bytes, Error, Field, FieldKind, Instance, Outcome, Refusal, Result, shown};

/// What `create --set` takes.
pub const FIELDS: &[Field] = &[
    Field::new(
        "type",
        FieldKind::Choice(&["container", "vm"]),
        "Container or virtual machine [default: as the image is]",
    ),
    Field::new("project", FieldKind::Name, "The project it is made in"),
    Field::new("profile", FieldKind::Name, "A profile [default: default]").many(),
    Field::new("pool", FieldKind::Name, "The storage pool of its root disk"),
    Field::new("network", FieldKind::Name, "The network of its first NIC"),
    Field::new(
        "member",
        FieldKind::Name,
        "The member of the cluster it is made on",
    ),
    Field::flag("ephemeral", "It is deleted once it is off"),
    Field::flag(
        "stateful",
        "A VM whose RAM can be kept (migration.stateful)",
    ),
];

/// The create family.
#[derive(Clone, Debug)]
pub struct Create(pub Arc<Ctx>);

/// What was said by `--set`.
#[derive(Debug, Default)]
pub struct Set {
    /// `container` or `vm`.
    pub kind: Option<String>,
    /// Where it is made.
    pub project: Option<String>,
    profiles: Vec<String>,
    /// Where its root disk is.
    pub pool: Option<String>,
    network: Option<String>,
    member: Option<String>,
    ephemeral: bool,
    stateful: bool,
}

impl Set {
    /// Sorts the pairs out; they are validated against [`FIELDS`].
    pub fn of(pairs: &[(String, String)]) -> Self {
        let mut set = Self::default();
        for (key, value) in pairs {
            let yes = super::json::is_true(Some(value));
            match key.as_str() {
                "type" => set.kind = Some(value.clone()),
                "project" => set.project = Some(value.clone()),
                "profile" => set.profiles.push(value.clone()),
                "pool" => set.pool = Some(value.clone()),
                "network" => set.network = Some(value.clone()),
                "member" => set.member = Some(value.clone()),
                "ephemeral" => set.ephemeral = yes,
                "stateful" => set.stateful = yes,
                _ => {}
            }
        }
        set
    }
}

/// What profiles give: expanded devices and config.
async fn profiled(
    ctx: &Ctx,
    cx: &ReadCx,
    project: &str,
    names: &[String],
) -> Result<(Map<String, Value>, Map<String, Value>)> {
    let (mut devices, mut config) = (Map::new(), Map::new());
    for name in names {
        let path = call::at(&["profiles", name], project);
        let reply = ctx.api()?.get(cx, &path).await.map_err(|mut error| {
            error.message = format!("the profile {}: {}", shown(name), error.message);
            error
        })?;
        devices.extend(
            reply
                .metadata
                .object("devices")
                .cloned()
                .unwrap_or_default(),
        );
        config.extend(reply.metadata.object("config").cloned().unwrap_or_default());
    }
    Ok((devices, config))
}

struct Draft<'a> {
    ctx: &'a Ctx,
    cx: &'a ReadCx,
    server: Arc<Server>,
    project: String,
    request: CreateRequest,
    set: Set,
}

/// The answer: the body of the call, what came before it, and notes.
struct Drafted {
    before: Vec<Todo>,
    body: Value,
    vm: bool,
    notes: Vec<String>,
}

impl Draft<'_> {
    async fn origin(&self) -> Result<Origin> {
        match &self.request.source {
            DiskSource::Blank => Ok(Origin::nothing()),
            DiskSource::Backed(_) => Err(Error::unsupported(
                "there are no overlays here: an instance is made from an image, and shares its blocks where the pool can",
            )
            .remedy("Use --image")),
            DiskSource::Copy(image) => {
                source::find(self.ctx, self.cx, &self.project, image).await
            }
        }
    }

    fn is_vm(&self, origin: &Origin) -> Result<bool> {
        let wanted = match self.set.kind.as_deref() {
            Some("vm") => Some(true),
            Some(_) => Some(false),
            None => None,
        };
        let vm = match (wanted, origin.vm) {
            (Some(wanted), Some(is)) if wanted != is => {
                let (image, asked) = if is {
                    ("a VM", "a container")
                } else {
                    ("a container", "a VM")
                };
                return Err(
                    Error::refused(format!("the image is of {image}, not of {asked}"))
                        .remedy("Leave type out, or choose another image"),
                );
            }
            (Some(wanted), _) => wanted,
            (None, Some(is)) => is,
            // Nothing to go by: what boots from a CD is a VM.
            (None, None) => !self.request.cdroms.is_empty(),
        };
        if vm && !self.server.runs_vms() && !self.server.drivers.is_empty() {
            return Err(Error::unsupported(format!(
                "{} runs containers only here: its driver is {}",
                self.server.title(),
                self.server.drivers.join(", ")
            ))
            .remedy("corral doctor says why; the server log does too"));
        }
        Ok(vm)
    }

    fn config(&self, vm: bool, inherited: &Map<String, Value>) -> Result<Map<String, Value>> {
        let request = &self.request;
        let mut config = Map::new();
        let mut put = |key: &str, value: String| _ = config.insert(key.to_owned(), json!(value));
        put("limits.cpu", request.cpus.to_string());
        put("limits.memory", print_size(request.memory.0));
        if !request.tags.is_empty() {
            request.tags.iter().try_for_each(|tag| check_tag(tag))?;
            put(TAGS, request.tags.join(","));
        }
        if let Some(cloud) = &request.cloud_init {
            let seed = Seed::compose(cloud, &uuid::Uuid::nil(), &request.name)?;
            for (file, key) in [
                ("user-data", "cloud-init.user-data"),
                ("vendor-data", "cloud-init.vendor-data"),
            ] {
                if let Some(text) = seed.file(file) {
                    put(key, text.to_owned());
                }
            }
        }
        if vm {
            if request.secure_boot {
                put("security.secureboot", "true".to_owned());
            } else if entry(Some(inherited), "security.secureboot").is_none() {
                put("security.secureboot", "false".to_owned());
            }
            if request.firmware == Some(Firmware::Bios) {
                put("security.csm", "true".to_owned());
            }
            if self.set.stateful {
                put("migration.stateful", "true".to_owned());
            }
        }
        Ok(config)
    }

    fn refused_by_kind(&self, vm: bool, notes: &mut Vec<String>) -> Result<()> {
        let request = &self.request;
        if vm {
            return Ok(());
        }
        if request.tpm || request.secure_boot || !request.cdroms.is_empty() || self.set.stateful {
            return Err(Error::unsupported(
                "a container has no firmware, no TPM, no drive and no RAM that is kept",
            )
            .remedy("Make a VM of it: --set type=vm"));
        }
        if request.firmware.is_some() {
            notes.push("a container has no firmware: --firmware says nothing here".to_owned());
        }
        Ok(())
    }

    async fn devices(
        &self,
        vm: bool,
        inherited: &Map<String, Value>,
        before: &mut Vec<Todo>,
        notes: &mut Vec<String>,
    ) -> Result<Map<String, Value>> {
        let request = &self.request;
        let mut own = Map::new();
        self.root(inherited, &mut own)?;
        if let Some(network) = &self.set.network {
            let networks = devices::networks(self.ctx, self.cx, &self.project).await?;
            own.insert("eth0".to_owned(), devices::nic(&networks, network)?);
        }
        if request.tpm {
            own.insert("tpm".to_owned(), json!({"type": "tpm"}));
        }
        let mut used = own.clone();
        used.extend(inherited.clone());
        for (address, listen, guest) in &request.publish {
            let taken: Vec<_> = used.values().filter_map(port).collect();
            let (name, device) = publish::device(address, *listen, *guest, "tcp", vm, &taken)?;
            used.insert(name.clone(), device.clone());
            own.insert(name, device);
        }
        for (n, image) in request.cdroms.iter().enumerate() {
            let pool = self.pool(inherited)?;
            let (todo, volume) =
                devices::iso(self.ctx, self.cx, &self.project, &pool, image).await?;
            before.extend(todo);
            let mut device = json!({"type": "disk", "pool": pool, "source": volume});
            if n == 0 {
                device["boot.priority"] = json!("10");
            }
            own.insert(format!("cdrom{n}"), device);
        }
        if !inherited
            .values()
            .chain(own.values())
            .any(|device| device.text("type") == Some("nic"))
        {
            notes.push("it has no network interface: its profiles give none".to_owned());
        }
        Ok(own)
    }

    fn pool(&self, inherited: &Map<String, Value>) -> Result<String> {
        let root = inherited.values().find(|device| is_root(device));
        self.set
            .pool
            .clone()
            .or_else(|| root?.text("pool").map(str::to_owned))
            .ok_or_else(|| {
                Error::invalid("no profile says in which pool its root disk is")
                    .remedy("Say it: --set pool=NAME; see corral storage list")
            })
    }

    fn root(&self, inherited: &Map<String, Value>, own: &mut Map<String, Value>) -> Result<()> {
        let root = inherited.iter().find(|(_, device)| is_root(device));
        let size = self.request.disk_size.map(|Bytes(size)| print_size(size));
        if root.is_some() && size.is_none() && self.set.pool.is_none() {
            return Ok(());
        }
        let mut device = root.map_or_else(
            || json!({"type": "disk", "path": "/"}),
            |(_, device)| device.clone(),
        );
        device["pool"] = json!(self.pool(inherited)?);
        if let Some(size) = size {
            device["size"] = json!(size);
        }
        let name = root.map_or("root", |(name, _)| name.as_str());
        own.insert(name.to_owned(), device);
        Ok(())
    }

    async fn body(&self) -> Result<Drafted> {
        let request = &self.request;
        let origin = self.origin().await?;
        let vm = self.is_vm(&origin)?;
        let (mut before, mut notes) = (origin.before.clone(), origin.notes.clone());
        self.refused_by_kind(vm, &mut notes)?;
        if let Some(note) = &request.note {
            check_note(note)?;
        }
        let profiles = if self.set.profiles.is_empty() {
            vec![DEFAULT.to_owned()]
        } else {
            self.set.profiles.clone()
        };
        let (devices, config) = profiled(self.ctx, self.cx, &self.project, &profiles).await?;
        let config = self.config(vm, &config)?;
        let devices = self.devices(vm, &devices, &mut before, &mut notes).await?;
        let mut body = json!({
            "name": request.name,
            "type": if vm { "virtual-machine" } else { "container" },
            "source": origin.source,
            "profiles": profiles,
            "config": config,
            "devices": devices,
        });
        if let Some(note) = &request.note {
            body["description"] = json!(note);
        }
        if self.set.ephemeral {
            body["ephemeral"] = json!(true);
        }
        Ok(Drafted {
            before,
            body,
            vm,
            notes,
        })
    }
}

#[async_trait]
impl Changes<CreateRequest> for Create {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: CreateRequest,
    ) -> Result<Prepared> {
        let ctx = &*self.0;
        let set = Set::of(&request.set);
        let (placed, _) = ctx.place(&on.id);
        let project = set.project.clone().unwrap_or(placed);
        let server = ctx.server(cx).await?;
        if let Some(error) = name_taken(ctx, cx, &project, &request.name).await? {
            return Ok(Prepared::failed("new", &error));
        }
        let name = request.name.clone();
        let start = request.start;
        let member = set.member.clone();
        let draft = Draft {
            ctx,
            cx,
            server,
            project,
            request,
            set,
        };
        let drafted = match draft.body().await {
            Ok(drafted) => drafted,
            Err(error) => {
                let mut prepared = Prepared::new("new", Vec::new());
                prepared.refusals.push(Refusal::from(&error));
                return Ok(prepared);
            }
        };
        let project = &draft.project;
        let new = ctx.id(project, &name);
        let mut path = call::at(&["instances"], project);
        if let Some(member) = member {
            path = format!("{path}&target={}", super::json::encoded(&member));
        }
        let what = if drafted.vm {
            "virtual machine"
        } else {
            "container"
        };
        let mut todos = drafted.before;
        todos.push(
            Todo::call(
                format!("Make the {what} {new}"),
                Call::new("POST", path, drafted.body),
            )
            .undo(format!("corral delete {new}")),
        );
        let mut said = format!("{} is made", shown(&name));
        if start {
            let at = call::instance(&name, project, &[]);
            todos.push(
                Todo::call(
                    format!("Start {new}"),
                    super::power::call(&at, "start", json!({})),
                )
                .undo(format!("corral stop {new}")),
            );
            said.push_str(", running");
        }
        let work = Work {
            on: None,
            todos,
            said,
            id: Some(new),
        };
        let mut prepared = work.plan("new", "");
        prepared.notes = drafted.notes;
        Ok(prepared)
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        work::run(&self.0, cx, prepared).await
    }
}
