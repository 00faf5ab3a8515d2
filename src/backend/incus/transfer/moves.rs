//! Export into a file and import from one.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::super::call::{self, Call};
use super::super::create::Create;
use super::super::create::Set;
use super::super::ctx::Ctx;
use super::super::images;
use super::super::json::{Look as _, print_size};
use super::super::life::name_taken;
use super::super::power;
use super::super::row::mac;
use super::super::seen::Seen;
use super::super::work::Work;
use super::super::work::{self, LOOK};
use super::stream;
use crate::backend::contract::{
    Changes, CreateRequest, DiskSource, ExportRequest, ImportRequest, Prepared, ReadCx, TaskCx,
};
use crate::link::files::can_place;
use crate::model::{
    Bytes, Consistency, Error, ErrorKind, Instance, InstanceId, Outcome, Result, Step, shown,
};

/// The export and import families.
#[derive(Clone, Debug)]
pub struct Moves(pub Arc<Ctx>);

struct Exporting {
    id: InstanceId,
    to: PathBuf,
    backup: String,
    overwrite: bool,
}

/// What a snapshot or the present of an instance is like in a backup.
pub fn consistency(seen: &Seen) -> Consistency {
    if seen.state().is_active() {
        Consistency::Crash
    } else {
        Consistency::Offline
    }
}

fn format(request: &ExportRequest) -> Result<()> {
    let named = request.format.as_deref();
    let name = request
        .to
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
        .to_lowercase();
    let wanted = named.map_or_else(
        || {
            ["qcow2", "raw", "ova", "img"]
                .into_iter()
                .find(|end| name.ends_with(&format!(".{end}")))
        },
        |named| (named != "gz").then_some(named),
    );
    match wanted {
        None => Ok(()),
        Some(wanted) => Err(Error::unsupported(format!(
            "the server gives a backup of its own form (tar.gz), and no {wanted}"
        ))
        .remedy("Leave --format out, and name the file .tar.gz")),
    }
}

#[async_trait]
impl Changes<ExportRequest> for Moves {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: ExportRequest,
    ) -> Result<Prepared> {
        let ctx = &*self.0;
        let seen = match Seen::for_plan(ctx, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let (id, token) = (&seen.id, seen.token());
        if let Some(refused) = seen.unclear() {
            return Ok(refused);
        }
        let can = format(&request).and_then(|()| {
            if let Some(snapshot) = &request.snapshot {
                return Err(Error::unsupported(
                    "a backup holds the present and all snapshots, not one alone",
                )
                .remedy(format!(
                    "Make a copy of it first: corral clone {id} --snapshot {} --name NAME",
                    shown(snapshot)
                )));
            }
            if request.to.is_dir() {
                return Err(Error::refused(format!(
                    "{} is a folder",
                    shown(&request.to.display().to_string())
                ))
                .remedy("Name a file: FOLDER/NAME.tar.gz"));
            }
            can_place(&request.to, request.overwrite)
        });
        if let Err(error) = can {
            return Ok(Prepared::failed(token, &error));
        }
        let backup = "corral-export".to_owned();
        let to = shown(&request.to.display().to_string()).into_owned();
        let steps = vec![
            Step::new(
                "Make a backup at the server",
                stream::making(&seen.name, &seen.project, &backup, false).shown(),
            ),
            Step::new(
                format!("Fetch it to {to}"),
                format!("GET {}", stream::place(&seen.name, &seen.project, &backup)),
            ),
            Step::new(
                "Delete it at the server",
                stream::deleting(&seen.name, &seen.project, &backup).shown(),
            ),
        ];
        let mut prepared = Prepared::new(token, steps);
        prepared.notes.push(match consistency(&seen) {
            Consistency::Crash => "Consistency: crash, as after a power cut: it runs on".to_owned(),
            other => format!("Consistency: {}", other.as_str()),
        });
        prepared
            .notes
            .push("the server needs room for it meanwhile".to_owned());
        Ok(prepared.with(Exporting {
            id: id.clone(),
            to: request.to,
            backup,
            overwrite: request.overwrite,
        }))
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let ctx = &*self.0;
        let plan: Exporting = prepared.take()?;
        let seen = Seen::now(ctx, &cx.read(LOOK), &plan.id).await?;
        seen.still(&prepared.token)?;
        cx.checkpoint()?;
        let got = consistency(&seen);
        let (size, sum) = fetched(ctx, cx, &seen, &plan.backup, &plan.to, plan.overwrite).await?;
        let mut outcome = Outcome::changed(format!(
            "{} is in {} ({}, SHA-256 {}…)",
            plan.id,
            shown(&plan.to.display().to_string()),
            Bytes(size),
            &sum[..12]
        ));
        outcome.consistency = Some(got);
        Ok(outcome)
    }
}

/// Makes a backup at the server, fetches it, and leaves none there.
///
/// # Errors
/// What the server says; nothing is left at either end.
pub async fn fetched(
    ctx: &Ctx,
    cx: &TaskCx,
    seen: &Seen,
    backup: &str,
    to: &Path,
    overwrite: bool,
) -> Result<(u64, String)> {
    let api = ctx.api()?;
    let (name, project) = (seen.name.as_str(), seen.project.as_str());
    let delete = stream::deleting(name, project, backup);
    // One that an export left that was killed.
    let left = seen
        .value
        .list("backups")
        .iter()
        .filter_map(|b| b.text("name"));
    if left
        .into_iter()
        .any(|there| there.rsplit('/').next() == Some(backup))
    {
        api.change(cx, &delete, None).await?;
    }
    cx.step("Make a backup at the server");
    api.change(cx, &stream::making(name, project, backup, false), None)
        .await?;
    cx.step("Fetch it");
    let got = stream::fetch(ctx, cx, (name, project, backup), to, overwrite).await;
    cx.step("Delete it at the server");
    match (api.change(cx, &delete, None).await, got) {
        (_, Err(error)) => Err(error),
        (Err(error), Ok(got)) => {
            cx.log(format!("the backup stays at the server: {error}"));
            Ok(got)
        }
        (Ok(_), Ok(got)) => Ok(got),
    }
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A backup of a server.
    Backup,
    /// A VM's disk.
    Disk,
}

/// A backup begins with `backup/index.yaml`, packed or not.
fn kind(file: &Path) -> Result<Kind> {
    let odd = |error: std::io::Error| {
        Error::not_found(format!("{}: {error}", shown(&file.display().to_string())))
    };
    if file.is_dir() {
        return Err(Error::unsupported(format!(
            "{} is a folder",
            shown(&file.display().to_string())
        ))
        .remedy("Name the file in it: a backup (tar.gz) or a disk"));
    }
    let opened = std::fs::File::open(file).map_err(odd)?;
    let mut head = Vec::new();
    opened.take(1 << 20).read_to_end(&mut head).map_err(odd)?;
    let mut start = Vec::new();
    if head.starts_with(b"\x1f\x8b") {
        // A piece of a packed file ends too early; its beginning is all that counts.
        let _ = flate2::read::GzDecoder::new(head.as_slice())
            .take(1024)
            .read_to_end(&mut start);
    } else {
        start.extend_from_slice(&head[..head.len().min(1024)]);
    }
    let backup = start.starts_with(b"backup/") || start.starts_with(b"backup");
    // Others cannot be looked into here: the server says what they are.
    let packed = head.starts_with(b"\xfd7zXZ\0")
        || head.starts_with(b"\x28\xb5\x2f\xfd")
        || head.starts_with(b"BZh");
    if backup || packed {
        return Ok(Kind::Backup);
    }
    match images::form(file)? {
        images::Form::Disk => Ok(Kind::Disk),
        images::Form::Whole => Err(Error::invalid(format!(
            "{} is an image, and no backup of an instance",
            shown(&file.display().to_string())
        ))
        .remedy("Make an instance of it: corral create NAME --image FILE")),
    }
}

/// What `run` needs of an import.
pub struct Importing {
    name: String,
    project: String,
    pool: Option<String>,
    from: PathBuf,
    start: bool,
    limits: Value,
}

impl Importing {
    /// Makes the instance; gives its address.
    ///
    /// # Errors
    /// What the server says.
    async fn run(self, ctx: &Ctx, cx: &TaskCx) -> Result<Outcome> {
        let id = ctx.id(&self.project, &self.name);
        cx.step(format!("Make {id}"));
        let odd =
            |error: std::io::Error| Error::invalid(format!("{}: {error}", self.from.display()));
        let file = tokio::fs::File::open(&self.from).await.map_err(odd)?;
        let size = file.metadata().await.map_err(odd)?.len();
        let whose = (
            self.name.as_str(),
            self.project.as_str(),
            self.pool.as_deref(),
        );
        stream::send(ctx, cx, whose, Box::new(file), Some(size)).await?;
        settled(ctx, cx, &id, self.limits, self.start).await
    }
}

/// Gives what was made of a backup an identity of its own, and starts it.
///
/// # Errors
/// What the server says; it is made all the same, and the message says so.
pub async fn settled(
    ctx: &Ctx,
    cx: &TaskCx,
    id: &InstanceId,
    limits: Value,
    start: bool,
) -> Result<Outcome> {
    let made = |mut error: Error| {
        error.message = format!("{id} is made, but: {}", error.message);
        error
    };
    let seen = Seen::now(ctx, &cx.read(LOOK), id).await.map_err(made)?;
    let mut config = limits;
    for (key, value) in own(&seen) {
        config[key] = value;
    }
    if config.as_object().is_some_and(|config| !config.is_empty()) {
        let patch = Call::new("PATCH", seen.path(&[]), json!({"config": config}));
        ctx.api()?.change(cx, &patch, None).await.map_err(made)?;
    }
    let mut outcome = Outcome::changed(format!("{} is made", shown(id.key())));
    if start {
        cx.step(format!("Start {id}"));
        let call = power::call(&seen.path(&[]), "start", json!({}));
        ctx.api()?.change(cx, &call, None).await.map_err(made)?;
        outcome.message = Some(format!("{} is made, running", shown(id.key())));
    }
    outcome.id = Some(id.clone());
    Ok(outcome)
}

/// Keys that make it another one than it was made of: its own UUID, and MAC addresses that nobody else has.
fn own(seen: &Seen) -> Vec<(String, Value)> {
    let uuid = uuid::Uuid::new_v4().to_string();
    let mut keys = vec![
        ("volatile.uuid".to_owned(), json!(uuid)),
        ("volatile.uuid.generation".to_owned(), json!(uuid)),
    ];
    for (name, device) in seen.all_devices().into_iter().flatten() {
        if device.text("type") != Some("nic") || device.text("hwaddr").is_some() {
            continue;
        }
        if mac(name, device, seen.config()).is_some() {
            let tail = uuid::Uuid::new_v4();
            let [a, b, c, ..] = tail.into_bytes();
            let fresh = format!("10:66:6a:{a:02x}:{b:02x}:{c:02x}");
            keys.push((format!("volatile.{name}.hwaddr"), json!(fresh)));
        }
    }
    keys
}

fn limits(request: &ImportRequest) -> Value {
    let mut limits = json!({});
    if let Some(cpus) = request.cpus {
        limits["limits.cpu"] = json!(cpus.to_string());
    }
    if let Some(memory) = request.memory {
        limits["limits.memory"] = json!(print_size(memory.0));
    }
    limits
}

/// A disk becomes an image, and that a VM.
fn created(request: ImportRequest) -> CreateRequest {
    CreateRequest {
        name: request.name,
        cpus: request.cpus.unwrap_or(2),
        memory: request.memory.unwrap_or(Bytes::gib(2)),
        disk_size: None,
        source: DiskSource::Copy(request.from.to_string_lossy().into_owned()),
        cdroms: Vec::new(),
        firmware: request.firmware,
        os: None,
        tpm: false,
        secure_boot: false,
        cloud_init: None,
        publish: Vec::new(),
        tags: Vec::new(),
        note: None,
        start: request.start,
        set: request.set,
    }
}

#[async_trait]
impl Changes<ImportRequest> for Moves {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: ImportRequest,
    ) -> Result<Prepared> {
        let ctx = &*self.0;
        let set = Set::of(&request.set);
        let (placed, _) = ctx.place(&on.id);
        let project = set.project.clone().unwrap_or(placed);
        if let Some(error) = name_taken(ctx, cx, &project, &request.name).await? {
            return Ok(Prepared::failed("new", &error));
        }
        let kind = match kind(&request.from) {
            Ok(kind) => kind,
            Err(error) => return Ok(Prepared::failed("new", &error)),
        };
        if kind == Kind::Disk {
            let create = Create(Arc::clone(&self.0));
            let mut prepared = create.prepare(cx, on, created(request)).await?;
            if !prepared.refusals.is_empty() {
                return Ok(prepared);
            }
            let work: Work = prepared.take()?;
            return Ok(prepared.with(Plan::Disk(work)));
        }
        if request.firmware.is_some() {
            let error = Error::unsupported("a backup says itself what it is made of")
                .remedy("Leave --firmware out");
            return Ok(Prepared::failed("new", &error));
        }
        let size = std::fs::metadata(&request.from)
            .map(|meta| meta.len())
            .unwrap_or_default();
        let id = ctx.id(&project, &request.name);
        let mut steps = vec![
            Step::new(
                format!(
                    "Make {id} of {} ({})",
                    shown(&request.from.display().to_string()),
                    Bytes(size)
                ),
                stream::sending(&request.name, &project),
            )
            .undo(format!("corral delete {id}")),
            Step::new(
                "Give it an identity of its own",
                format!(
                    "PATCH {} config: volatile.uuid, MAC addresses",
                    call::instance(&request.name, &project, &[])
                ),
            ),
        ];
        if request.start {
            let path = call::instance(&request.name, &project, &[]);
            steps.push(Step::new(
                format!("Start {id}"),
                power::call(&path, "start", json!({})).shown(),
            ));
        }
        let importing = Importing {
            limits: limits(&request),
            name: request.name,
            project,
            pool: set.pool,
            from: request.from,
            start: request.start,
        };
        Ok(Prepared::new("new", steps).with(Plan::Backup(importing)))
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let ctx = &*self.0;
        match prepared.take::<Plan>()? {
            Plan::Disk(work) => work::carry_out(ctx, cx, work, &prepared.token).await,
            Plan::Backup(importing) => {
                let looked = cx.read(LOOK);
                let taken = name_taken(ctx, &looked, &importing.project, &importing.name).await?;
                if let Some(error) = taken {
                    return Err(Error::new(ErrorKind::Conflict, error.message));
                }
                cx.checkpoint()?;
                importing.run(ctx, cx).await
            }
        }
    }
}

/// How it is made.
enum Plan {
    Backup(Importing),
    Disk(Work),
}
