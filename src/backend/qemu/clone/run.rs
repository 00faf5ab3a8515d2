//! Carries a clone out: all of it, or nothing stays.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::super::change::Seen;
use super::super::create::{claim_folder, define, settled};
use super::super::ctx::Ctx;
use super::super::families::first_start;
use super::super::image;
use super::super::op::{Change, Journal};
use super::super::{events, inventory, locks, process};
use super::{Cloning, identity, plan};
use crate::backend::contract::TaskCx;
use crate::link::files::{fault, make_dir};
use crate::model::{Error, EventLevel, Outcome, Result};

pub(super) async fn run(ctx: &Ctx, cx: &TaskCx, cloning: &Cloning, token: &str) -> Result<Outcome> {
    let source = inventory::load(ctx, &cloning.source)?;
    // Held to the end: what is copied must not be written, and what is below an overlay neither.
    let lock = locks::vm(ctx, &source.uuid, &source.name).await?;
    let seen = Seen::now(ctx, &cloning.source, process::MONITOR).await?;
    let now = plan::token(&seen)?;
    if now != token {
        seen.still(token)?;
        return Err(Error::conflict(format!(
            "the disks of {} changed meanwhile. Nothing was done",
            seen.id
        ))
        .remedy("Look at it and ask again."));
    }
    let name = &cloning.definition.name;
    let dir = claim_folder(ctx, name)?;
    let made = fill(ctx, cx, cloning, &dir).await;
    settled(cx, &dir, made)?;
    drop(lock);
    let vm = ctx.store.load(name)?;
    events::say(
        ctx,
        &vm,
        EventLevel::Info,
        "CREATED",
        format!("cloned from {}", cloning.source),
    );
    let id = ctx.id(name);
    let mut said = vec![format!("{id} is made")];
    if cloning.request.start {
        cx.step(format!("Start {id}"));
        first_start(ctx, name).await.map_err(|mut e| {
            e.message = format!("{id} is made, but did not start: {}", e.message);
            e
        })?;
        said = vec![format!("{id} is made, running")];
        said.extend(identity::settle(ctx, cx, &vm).await);
    }
    let mut outcome = Outcome::changed(said.join("; "));
    outcome.id = Some(id);
    Ok(outcome)
}

async fn fill(ctx: &Ctx, cx: &TaskCx, cloning: &Cloning, dir: &Path) -> Result<()> {
    let journal = Journal::working(dir, Change::Create)?;
    for job in &cloning.jobs {
        cx.checkpoint()?;
        cx.step(job.title.clone());
        image::write(&job.cmd, &job.to, &cx.cancel, |percent| {
            cx.progress(percent, 100);
        })
        .await?;
    }
    if let Some((from, to)) = &cloning.seed {
        cx.step("Write a first-boot seed of its own");
        let seed = crate::backend::seed::Seed::read(from)?;
        let vm = &cloning.definition;
        seed.again(&vm.uuid, &vm.name).write(to)?;
    }
    if let Some((from, to)) = &cloning.tpm {
        cx.step("Copy the TPM's memory");
        copy_folder(from, to)?;
    }
    if let Some(identity) = &cloning.identity {
        identity.write(dir)?;
    }
    cx.checkpoint()?;
    cx.step("Define it");
    // Once for all of them: what is defined is on the disk.
    image::settle_all(cloning.jobs.iter().map(|job| job.to.clone()).collect()).await?;
    define(ctx, &cloning.definition).await?;
    // With the definition it is complete, whoever ends it.
    journal.finish()
}

/// A folder of plain files, such as a TPM's.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    make_dir(to)?;
    let entries = fs::read_dir(from).map_err(|e| fault("read", from, e))?;
    for entry in entries {
        let entry = entry.map_err(|e| fault("read", from, e))?;
        let file = entry.path();
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) || entry.file_name() == ".lock" {
            continue;
        }
        let copy = to.join(entry.file_name());
        fs::copy(&file, &copy).map_err(|e| fault("copy", &file, e))?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::File::open(&copy)?.sync_all())
            .map_err(|e| fault("write", &copy, e))?;
    }
    Ok(())
}
