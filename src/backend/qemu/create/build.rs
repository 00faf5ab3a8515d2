//! Carries a create out: all of it, or nothing stays.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::op::{Change, Journal};
use super::super::{firmware::Firmware, image, ports};
use super::{Making, Source, stamp};
use crate::backend::contract::{Env, TaskCx};
use crate::backend::qemu::locks;
use crate::link::child::Cmd;
use crate::link::files::{fault, make_dir};
use crate::model::{Error, Result, shown};

/// One command that makes or changes a file.
pub struct Job {
    /// What it does.
    pub title: &'static str,
    /// The command.
    pub cmd: Cmd,
    /// What it makes.
    pub to: PathBuf,
}

/// The commands of a create, in order: the plan shows exactly these.
pub(super) fn jobs(env: &Env, making: &Making) -> Result<Vec<Job>> {
    let tool = image::tool(env)?;
    let mut jobs = Vec::new();
    if let Some(disk) = making.definition.disks.first() {
        let to = disk.path.clone();
        match &making.source {
            Source::Blank => jobs.push(Job {
                title: "Make an empty disk",
                cmd: image::blank_cmd(&tool, &to, disk.size),
                to,
            }),
            Source::Copy { from, format, grow } => {
                jobs.push(Job {
                    title: "Copy the image",
                    cmd: image::copy_cmd(&tool, from, format, &to),
                    to: to.clone(),
                });
                if *grow {
                    jobs.push(Job {
                        title: "Grow the disk",
                        cmd: image::grow_cmd(&tool, &to, disk.size),
                        to,
                    });
                }
            }
            Source::Backed { base, format } => jobs.push(Job {
                title: "Make an overlay of the image",
                cmd: image::overlay_cmd(&tool, &to, base, format, Some(disk.size)),
                to,
            }),
        }
    }
    jobs.extend(variables(env, making)?);
    Ok(jobs)
}

/// The command that makes its UEFI variables, where it has any.
pub fn variables(env: &Env, making: &Making) -> Result<Option<Job>> {
    let (
        Some(Firmware {
            template,
            template_format,
            ..
        }),
        Some(vars),
    ) = (&making.firmware, &making.definition.firmware.vars)
    else {
        return Ok(None);
    };
    Ok(Some(Job {
        title: "Make its UEFI variables",
        cmd: image::copy_cmd(&image::tool(env)?, template, template_format, vars),
        to: vars.clone(),
    }))
}

/// Makes the VM. Where anything fails, or the user cancels, nothing of it stays.
///
/// # Errors
/// `Conflict` when the name was taken, or the image changed, since the plan was made.
pub async fn build(ctx: &Ctx, cx: &TaskCx, making: &Making, token: &str) -> Result<()> {
    if let Source::Copy { from: path, .. } | Source::Backed { base: path, .. } = &making.source
        && format!("new {}", stamp(path)?) != token
    {
        return Err(Error::conflict(format!(
            "{} changed since the plan was made",
            path.display()
        ))
        .remedy("Run it again."));
    }
    let dir = claim_folder(ctx, &making.definition.name)?;
    let made = fill(ctx, cx, making, &dir).await;
    settled(cx, &dir, made)
}

/// Makes the folder of a new VM. Whoever makes it has the name: two at once cannot both.
///
/// # Errors
/// `Conflict` where it is there already.
pub fn claim_folder(ctx: &Ctx, name: &str) -> Result<PathBuf> {
    let dir = ctx.store.dir(name)?;
    make_dir(ctx.store.root())?;
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&dir)
        .map_err(|e| {
            if e.kind() == std::io::ErrorKind::AlreadyExists {
                Error::conflict(format!("there is already a VM called \"{}\"", shown(name)))
                    .remedy("Choose another name.")
            } else {
                fault("make", &dir, e)
            }
        })?;
    Ok(dir)
}

/// After a failure nothing of a new VM stays. All of its folder was made by the very call that
/// claimed it.
pub fn settled(cx: &TaskCx, dir: &Path, made: Result<()>) -> Result<()> {
    let Err(mut error) = made else {
        return Ok(());
    };
    if let Err(e) = fs::remove_dir_all(dir) {
        cx.log(format!("{} could not be removed: {e}", dir.display()));
    }
    if !error.message.contains("Nothing was created") {
        error.message = format!("{}. Nothing was created", error.message);
    }
    Err(error)
}

async fn fill(ctx: &Ctx, cx: &TaskCx, making: &Making, dir: &Path) -> Result<()> {
    let journal = Journal::working(dir, Change::Create)?;
    // Once the overlay is there, it is seen by whoever would delete what is below it.
    let files = match &making.source {
        Source::Backed { base, .. } => {
            let files = locks::files(ctx).await?;
            image::readable(base)?;
            Some(files)
        }
        _ => None,
    };
    for job in jobs(&ctx.env, making)? {
        cx.checkpoint()?;
        cx.step(job.title);
        image::make(&job.cmd, &job.to, &cx.cancel, |percent| {
            cx.progress(percent, 100);
        })
        .await?;
    }
    drop(files);
    if let (Some(seed), Some(disk)) = (
        &making.seed,
        making.definition.disks.iter().find(|disk| disk.readonly),
    ) {
        cx.step("Write the first-boot seed");
        seed.write(&disk.path)?;
    }
    cx.checkpoint()?;
    cx.step("Define it");
    define(ctx, &making.definition).await?;
    // With the definition it is complete, whoever ends it.
    journal.finish()
}

/// Saves the definition of a new VM. The ports are its own once it is saved.
pub async fn define(ctx: &Ctx, wanted: &Definition) -> Result<()> {
    let mut definition = wanted.clone();
    let forwards = wanted.nics.iter().flat_map(|nic| nic.forwards.clone());
    let claim = ports::claim(ctx, &forwards.collect::<Vec<_>>()).await?;
    let slots = definition.nics.iter_mut().flat_map(|nic| &mut nic.forwards);
    for (slot, port) in slots.zip(&claim.ports) {
        slot.port = *port;
    }
    ctx.store.save(&definition)
}
