//! Carries an import out: all of it, or nothing stays.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::super::super::create::{self, Job, Making};
use super::super::super::ctx::Ctx;
use super::super::super::definition::FirmwareKind;
use super::super::super::families::first_start;
use super::super::super::image::{self, quoted};
use super::super::super::op::{Change, Journal};
use super::super::super::{events, store};
use super::super::convert::internal;
use super::guard::{self, Content, Slice};
use super::incoming::{Incoming, Reading};
use super::read::{Patience, Source};
use super::stamps;
use crate::backend::contract::TaskCx;
use crate::backend::portable::folder::open_plain;
use crate::backend::portable::{gzip, sums};
use crate::link::files::fault;
use crate::model::{Bytes, DiskRole, Error, EventLevel, Outcome, Result, shown};

/// What `prepare` decided.
pub struct Importing {
    /// The VM to be.
    pub making: Making,
    /// What it is made of.
    pub found: Incoming,
    /// Start it once it is made.
    pub start: bool,
}

/// One step that makes a file of the new VM.
pub enum Work {
    /// A command of create's.
    Create(Job),
    /// An empty disk.
    Blank(Job),
    /// A copy of an image; the number of the disk.
    Copy(usize, Source, PathBuf, &'static str),
    /// Unpack, then copy.
    Unpack(usize, Slice, Bytes, PathBuf),
}

impl Work {
    /// In words.
    pub fn title(&self) -> String {
        match self {
            Self::Create(job) | Self::Blank(job) => job.title.to_owned(),
            Self::Copy(_, source, ..) => format!("Copy {}", shown(&source.slice.name)),
            Self::Unpack(_, slice, ..) => format!("Unpack and copy {}", shown(&slice.name)),
        }
    }

    /// The command line.
    pub fn shown(&self) -> String {
        match self {
            Self::Create(job) | Self::Blank(job) => job.cmd.shown(),
            Self::Copy(_, source, to, format) => {
                source.copy(Path::new("qemu-img"), to, format).shown()
            }
            Self::Unpack(_, slice, _, to) => format!(
                "gunzip < {} > {}; qemu-img convert … {}",
                quoted(&slice.path),
                quoted(&unpacked(to)),
                quoted(to)
            ),
        }
    }
}

fn unpacked(to: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(to.file_name().unwrap_or_default());
    name.push(".unpacked.new");
    to.with_file_name(name)
}

/// What makes the files, in order: the plan shows exactly these.
pub fn jobs(ctx: &Ctx, importing: &Importing) -> Result<Vec<Work>> {
    let vm = &importing.making.definition;
    let tool = image::tool(&ctx.env)?;
    let mut work = Vec::new();
    let mut slots = vm.disks.iter().enumerate();
    let mut has_variables = false;
    for disk in &importing.found.disks {
        let uefi = vm.firmware.kind == FirmwareKind::Uefi;
        let (n, to, format) = match (disk.role, &vm.firmware.vars) {
            (DiskRole::Firmware, Some(vars)) if uefi => {
                has_variables = true;
                (usize::MAX, vars.clone(), "qcow2")
            }
            (DiskRole::Firmware, _) => continue,
            (role, _) => {
                let Some((n, slot)) = slots.next() else { break };
                let format = if role == DiskRole::Seed {
                    "raw"
                } else {
                    "qcow2"
                };
                (n, slot.path.clone(), format)
            }
        };
        work.push(match &disk.reading {
            Reading::Image(source) => Work::Copy(n, source.clone(), to, format),
            Reading::Gzip(slice, most) => Work::Unpack(n, slice.clone(), *most, to),
            Reading::Blank => Work::Blank(Job {
                title: "Make an empty disk",
                cmd: image::blank_cmd(&tool, &to, disk.size),
                to,
            }),
        });
    }
    if !has_variables {
        work.extend(create::variables(&ctx.env, &importing.making)?.map(Work::Create));
    }
    Ok(work)
}

/// Makes the VM. Where anything fails, or the user cancels, nothing of it stays.
///
/// # Errors
/// `Conflict` when the name was taken, or a file changed, since the plan was made.
pub async fn make(ctx: &Ctx, cx: &TaskCx, importing: &Importing, token: &str) -> Result<Outcome> {
    if format!("new {}", stamps(&importing.found)?) != token {
        return Err(Error::conflict(
            "what is imported changed since the plan was made. Nothing was created",
        )
        .remedy("Run it again."));
    }
    cx.checkpoint()?;
    check(ctx, cx, importing).await.map_err(|mut e| {
        e.message = format!("{}. Nothing was created", e.message);
        e
    })?;
    let vm = &importing.making.definition;
    let name = &vm.name;
    let dir = create::claim_folder(ctx, name)?;
    let made = fill(ctx, cx, importing, &dir).await;
    create::settled(cx, &dir, made)?;
    events::say(ctx, vm, EventLevel::Info, "CREATED", "imported");
    let mut outcome = Outcome::changed(format!("{} is imported", shown(name)));
    outcome.id = Some(ctx.id(name));
    if importing.start {
        cx.step("Start it");
        first_start(ctx, name).await.map_err(|mut e| {
            e.message = format!(
                "{} is imported, but did not start: {}",
                ctx.id(name),
                e.message
            );
            e
        })?;
        outcome.message = Some(format!("{} is imported, running", shown(name)));
    }
    Ok(outcome)
}

/// All that can be wrong is found before anything is made.
async fn check(ctx: &Ctx, cx: &TaskCx, importing: &Importing) -> Result<()> {
    let found = &importing.found;
    if !found.sums.is_empty() {
        cx.step("Check the checksums");
        let (sums, task) = (found.sums.clone(), cx.clone());
        let checked = tokio::task::spawn_blocking(move || verify(&sums, &task));
        checked.await.map_err(internal)??;
    }
    for disk in &found.disks {
        cx.checkpoint()?;
        if let Reading::Image(source) = &disk.reading {
            source.check(&ctx.env, &Patience::of(cx)).await?;
        }
    }
    Ok(())
}

fn verify(all: &[(Slice, String)], task: &TaskCx) -> Result<()> {
    let total: u64 = all.iter().map(|(slice, _)| slice.size).sum();
    let mut before = 0;
    for (slice, wanted) in all {
        let mut file = open_plain(&slice.path)?;
        let go = |done: u64| {
            if task.cancel.is_cancelled() {
                return Err(Error::refused("cancelled"));
            }
            if done % (64 << 20) < (1 << 20) {
                task.progress(before + done, total);
            }
            Ok(())
        };
        let found = if slice.inner {
            inner(slice, &mut file, go)?
        } else {
            sums::of_file(&slice.path, &file, go)?.0
        };
        sums::same(&slice.name, wanted, &found)?;
        before += slice.size;
    }
    Ok(())
}

/// The checksum of a part of a file.
fn inner(slice: &Slice, file: &mut File, mut go: impl FnMut(u64) -> Result<()>) -> Result<String> {
    let failed = |e| fault("read", &slice.path, e);
    file.seek(SeekFrom::Start(slice.offset)).map_err(failed)?;
    let mut through = sums::Summed::new(file.take(slice.size));
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    loop {
        go(done)?;
        match through.read(&mut buffer).map_err(failed)? {
            0 => return Ok(through.finish().0),
            n => done += n as u64,
        }
    }
}

async fn fill(ctx: &Ctx, cx: &TaskCx, importing: &Importing, dir: &Path) -> Result<()> {
    let journal = Journal::working(dir, Change::Import)?;
    let mut definition = importing.making.definition.clone();
    let total: u64 = importing.found.disks.iter().map(|disk| disk.size.0).sum();
    let mut before = 0;
    for work in jobs(ctx, importing)? {
        cx.checkpoint()?;
        cx.step(work.title());
        match &work {
            Work::Create(job) | Work::Blank(job) => {
                image::make(&job.cmd, &job.to, &cx.cancel, |_| {}).await?;
            }
            Work::Copy(n, source, to, format) => {
                let size = copy(ctx, cx, source, to, format, (before, total)).await?;
                before += size.0;
                if let Some(disk) = definition.disks.get_mut(*n) {
                    disk.size = size;
                }
            }
            Work::Unpack(n, slice, most, to) => {
                let source = unpack(cx, slice, *most, to).await?;
                let size = copy(ctx, cx, &source, to, "qcow2", (0, 0)).await?;
                super::super::target::remove(&source.slice.path)?;
                if let Some(disk) = definition.disks.get_mut(*n) {
                    disk.size = size;
                }
            }
        }
    }
    if let Some(error) = store::lost(&definition) {
        return Err(error);
    }
    cx.checkpoint()?;
    cx.step("Define it");
    create::define(ctx, &definition).await?;
    // With the definition it is complete, whoever ends it.
    journal.finish()
}

async fn copy(
    ctx: &Ctx,
    cx: &TaskCx,
    source: &Source,
    to: &Path,
    format: &str,
    (before, total): (u64, u64),
) -> Result<Bytes> {
    let size = source.size(&ctx.env).await?;
    let needs = source.needed(&ctx.env, &Patience::of(cx)).await?;
    image::room(to.parent().unwrap_or(to), needs)?;
    let cmd = source.copy(&image::tool(&ctx.env)?, to, format);
    let total = if total == 0 { size.0 } else { total };
    image::make(&cmd, to, &cx.cancel, |percent| {
        let done = (u128::from(size.0) * u128::from(percent) / 100) as u64;
        cx.progress(before + done, total);
    })
    .await
    .map_err(|error| source.failed(error))?;
    Ok(size)
}

/// Unpacks an image beside where its copy goes, and tells what it is.
async fn unpack(cx: &TaskCx, slice: &Slice, most: Bytes, to: &Path) -> Result<Source> {
    let (own, plain, task) = (slice.clone(), unpacked(to), cx.clone());
    let work = tokio::task::spawn_blocking(move || {
        let mut file = open_plain(&own.path)?;
        file.seek(SeekFrom::Start(own.offset))
            .map_err(|e| fault("read", &own.path, e))?;
        let go = |done: u64| {
            if task.cancel.is_cancelled() {
                return Err(Error::refused("cancelled"));
            }
            task.progress(done.min(own.size), own.size);
            Ok(())
        };
        let size = gzip::unpack(
            &own.name,
            file.take(own.size),
            &plain,
            |head| guard::unpacked(head, most),
            go,
        )?;
        let file = open_plain(&plain)?;
        let slice = Slice {
            path: plain,
            offset: 0,
            size: size.0,
            inner: false,
            name: format!("what is packed in {}", own.name),
        };
        match guard::identify(&slice, &file)? {
            Content::Image(driver) => Ok(Source {
                slice,
                driver: driver.to_owned(),
            }),
            Content::Gzip => Err(
                Error::invalid(format!("{} is packed twice", shown(&own.name)))
                    .remedy("Unpack it once yourself: gunzip -k FILE"),
            ),
        }
    });
    work.await.map_err(internal)?
}
