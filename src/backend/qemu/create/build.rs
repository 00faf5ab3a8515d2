//! Carries a create out: all of it, or nothing stays.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::super::ctx::Ctx;
use super::super::op::{Change, Journal, Phase};
use super::super::{firmware::Firmware, image, ports};
use super::{Making, Source, stamp};
use crate::backend::contract::{Env, TaskCx};
use crate::link::child::Cmd;
use crate::link::files::{fault, make_dir};
use crate::model::{Error, Result, shown};

/// One command that makes or changes a file.
pub(super) struct Job {
    pub(super) title: &'static str,
    pub(super) cmd: Cmd,
    pub(super) to: PathBuf,
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
    if let (
        Some(Firmware {
            template,
            template_format,
            ..
        }),
        Some(vars),
    ) = (&making.firmware, &making.definition.firmware.vars)
    {
        jobs.push(Job {
            title: "Make its UEFI variables",
            cmd: image::copy_cmd(&tool, template, template_format, vars),
            to: vars.clone(),
        });
    }
    Ok(jobs)
}

/// Makes the VM. Where anything fails, or the user cancels, nothing of it stays.
///
/// # Errors
/// `Conflict` when the name was taken, or the image changed, since the plan was made.
pub async fn build(ctx: &Ctx, cx: &TaskCx, making: &Making, token: &str) -> Result<()> {
    let store = &ctx.store;
    if let Source::Copy { from: path, .. } | Source::Backed { base: path, .. } = &making.source
        && format!("new {}", stamp(path)?) != token
    {
        return Err(Error::conflict(format!(
            "{} changed since the plan was made",
            path.display()
        ))
        .remedy("Run it again."));
    }
    let name = &making.definition.name;
    let dir = store.dir(name)?;
    make_dir(store.root())?;
    // Whoever makes the folder has the name: two at once cannot both.
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
    let made = fill(ctx, cx, making, &dir).await;
    if let Err(error) = made {
        // Made by this very call, so all of it is ours.
        if let Err(e) = fs::remove_dir_all(&dir) {
            cx.log(format!("{} could not be removed: {e}", dir.display()));
        }
        let mut error = error;
        if !error.message.contains("Nothing was created") {
            error.message = format!("{}. Nothing was created", error.message);
        }
        return Err(error);
    }
    Ok(())
}

async fn fill(ctx: &Ctx, cx: &TaskCx, making: &Making, dir: &Path) -> Result<()> {
    let mut journal = Journal::begin(dir, Change::Create)?;
    journal.phase(Phase::Working)?;
    for job in jobs(&ctx.env, making)? {
        cx.checkpoint()?;
        cx.step(job.title);
        image::make(&job.cmd, &job.to, &cx.cancel, |percent| {
            cx.progress(percent, 100);
        })
        .await?;
    }
    if let (Some(seed), Some(disk)) = (
        &making.seed,
        making.definition.disks.iter().find(|disk| disk.readonly),
    ) {
        cx.step("Write the first-boot seed");
        seed.write(&disk.path)?;
    }
    cx.checkpoint()?;
    cx.step("Define it");
    // The ports are ours once the definition with them is saved.
    let mut definition = making.definition.clone();
    let forwards = || making.definition.nics.iter().flat_map(|nic| &nic.forwards);
    let wanted: Vec<(String, u16)> = forwards().map(|f| (f.host.clone(), f.port)).collect();
    let claim = ports::claim(ctx, &wanted).await?;
    let slots = definition.nics.iter_mut().flat_map(|nic| &mut nic.forwards);
    for (slot, port) in slots.zip(&claim.ports) {
        slot.port = *port;
    }
    ctx.store.save(&definition)?;
    drop(claim);
    journal.phase(Phase::Recording)?;
    journal.finish()
}
