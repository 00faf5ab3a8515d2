//! Another name: the folder moves, the definition says so, and what is on top of its disks is told.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::change::Seen;
use super::create::{comma_free, free_name};
use super::ctx::Ctx;
use super::definition::{Definition, folder_name};
use super::image::{self, quoted};
use super::op::{self, Change, Journal, Phase};
use super::store::{DEFINITION, files, real};
use super::{events, inventory, live, locks, process};
use crate::backend::contract::{Changes, Prepared, ReadCx, RenameRequest, TaskCx};
use crate::link::child::{Cmd, run};
use crate::link::files::{fault, move_dir};
use crate::model::{Error, EventLevel, Instance, InstanceId, Outcome, Result, Step, shown};

/// Only a header is written.
const REBASE: Duration = Duration::from_secs(60);

/// The rename family.
#[derive(Clone, Debug)]
pub struct Rename(pub Arc<Ctx>);

/// An image whose base moves with the folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlay {
    /// The VM whose definition names the base; itself for an overlay of its own.
    pub vm: String,
    /// Where the image is after the move.
    pub image: PathBuf,
    /// Where its base is after the move.
    pub base: PathBuf,
    /// The base's format.
    pub format: String,
}

struct Plan {
    id: InstanceId,
    to: String,
    overlays: Vec<Overlay>,
}

#[async_trait]
impl Changes<RenameRequest> for Rename {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: RenameRequest,
    ) -> Result<Prepared> {
        let ctx = &self.0;
        let seen = match Seen::for_plan(ctx, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let (id, token, to) = (&seen.id, seen.token(), request.to);
        if to == seen.vm.name {
            return Ok(Prepared::unchanged(
                token,
                format!("{id} is called so already"),
            ));
        }
        if let Some(refused) = seen.unclear(&token) {
            return Ok(refused);
        }
        let overlays = match possible(ctx, &seen, &to).await {
            Ok(overlays) => overlays,
            Err(error) => return Ok(Prepared::failed(token, &error)),
        };
        let (old, new) = (ctx.store.dir(&seen.vm.name)?, ctx.store.dir(&to)?);
        let new_id = ctx.id(&to);
        let mut steps = vec![
            Step::new(
                "Move its folder",
                format!("mv -n {} {}", quoted(&old), quoted(&new)),
            )
            .undo(format!(
                "corral rename {new_id} --to {}",
                shown(&seen.vm.name)
            )),
            Step::new(
                "Write its new name",
                format!("write {}", quoted(&new.join(DEFINITION))),
            ),
        ];
        let tool = image::tool(&ctx.env);
        for overlay in &overlays {
            let tool = match &tool {
                Ok(tool) => tool,
                Err(error) => return Ok(Prepared::failed(token, error)),
            };
            steps.push(Step::new(
                format!("Tell {} where its base is", shown(&overlay.vm)),
                overlay.cmd(tool).shown(),
            ));
        }
        let mut prepared = Prepared::new(token, steps);
        prepared.notes = vec![
            format!("its ID is {new_id} from now on"),
            "the host name inside of the guest stays".to_owned(),
        ];
        let id = id.clone();
        Ok(prepared.with(Plan { id, to, overlays }))
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let plan: Plan = prepared.take()?;
        let ctx = &self.0;
        let vm = inventory::load(ctx, &plan.id)?;
        let lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
        let seen = Seen::now(ctx, &plan.id, process::MONITOR).await?;
        seen.still(&prepared.token)?;
        let mut held = vec![lock];
        for other in others(&plan.overlays, &plan.to) {
            let uuid = ctx.store.load(other)?.uuid;
            held.push(locks::vm(ctx, &uuid, other).await?);
        }
        if possible(ctx, &seen, &plan.to).await? != plan.overlays {
            return Err(Error::conflict(
                "what is on top of its disks changed meanwhile. Nothing was done",
            )
            .remedy("Look at it and ask again."));
        }
        cx.checkpoint()?;
        cx.step(format!("Move it to {}", ctx.id(&plan.to)));
        let (old, new) = (ctx.store.dir(&vm.name)?, ctx.store.dir(&plan.to)?);
        let change = Change::Rename {
            from: vm.name.clone(),
            to: plan.to.clone(),
            overlays: plan.overlays.clone(),
        };
        let mut journal = Journal::begin(&old, change)?;
        journal.phase(Phase::Working)?;
        if let Err(error) = move_dir(&old, &new) {
            journal.finish()?;
            return Err(error);
        }
        journal.moved(&new);
        // From here on there is no way back: it is completed, now or by doctor.
        complete(ctx, &plan.to, &plan.overlays)
            .await
            .map_err(|error| op::remedied(&new, error))?;
        journal.finish()?;
        let now = ctx.store.load(&plan.to)?;
        let id = ctx.id(&plan.to);
        let said = format!("{} is {id} now", plan.id);
        events::say(ctx, &now, EventLevel::Info, "RENAMED", &said);
        let mut outcome = Outcome::changed(said);
        outcome.id = Some(id);
        Ok(outcome)
    }
}

impl Overlay {
    fn cmd(&self, tool: &Path) -> Cmd {
        image::rebase_cmd(tool, &self.image, &self.base, &self.format)
    }
}

/// The VMs, other than `own`, whose overlays are told.
fn others<'a>(overlays: &'a [Overlay], own: &str) -> Vec<&'a str> {
    let mut names: Vec<&str> = overlays
        .iter()
        .map(|overlay| overlay.vm.as_str())
        .filter(|name| *name != own)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether it can be called so, and which overlays have to be told.
async fn possible(ctx: &Ctx, seen: &Seen, to: &str) -> Result<Vec<Overlay>> {
    let (vm, id) = (&seen.vm, &seen.id);
    if let Some(why) = vm.readonly_reason() {
        return Err(Error::refused(why).remedy("Use the newer corral."));
    }
    folder_name(to)?;
    free_name(&ctx.store, &ctx.id(to), to)?;
    if seen.live.is_active() {
        return Err(Error::refused(format!("{id} is {}", seen.live.state))
            .remedy(format!("Stop it first: corral stop {id}")));
    }
    let (old, new) = (ctx.store.dir(&vm.name)?, ctx.store.dir(to)?);
    op::unfinished(&old)?;
    if vm.tpm {
        comma_free(&new)?;
    }
    let mut overlays = on_top(ctx, vm, &old, &new)?;
    overlays.extend(own(ctx, vm, &old, &new, to).await?);
    for name in others(&overlays, to) {
        let other = ctx.store.load(name)?;
        if live::look(ctx, &other, process::MONITOR).await.is_active() {
            let other = ctx.id(name);
            return Err(
                Error::refused(format!("{other} is on top of its disks, and runs"))
                    .remedy(format!("Stop it first: corral stop {other}")),
            );
        }
    }
    Ok(overlays)
}

/// Overlays that other VMs have of images in the folder.
fn on_top(ctx: &Ctx, vm: &Definition, old: &Path, new: &Path) -> Result<Vec<Overlay>> {
    let mut overlays = Vec::new();
    let mut inside: Vec<PathBuf> = files(vm)
        .map(real)
        .filter(|file| file.starts_with(real(old)))
        .collect();
    // Whatever else lies there moves with it: what was detached, or laid there for another VM.
    let others = fs::read_dir(old).map_err(|e| fault("read", old, e))?;
    inside.extend(
        others
            .flatten()
            .map(|entry| real(&entry.path()))
            .filter(|file| file.is_file()),
    );
    inside.sort();
    inside.dedup();
    for file in &inside {
        for name in ctx.store.users_of(file, &vm.name)? {
            let other = ctx.store.load(&name).map_err(|error| {
                Error::refused(format!(
                    "{} has an image on top of {}, and cannot be told where that moves: {}",
                    ctx.id(&name),
                    shown(&file.to_string_lossy()),
                    error.message
                ))
                .remedy("Mend or remove that first; corral storage list shows who uses what.")
            })?;
            if let Some(why) = other.readonly_reason() {
                return Err(Error::refused(format!(
                    "{} is on top of its disks: {why}",
                    ctx.id(&name)
                ))
                .remedy("Use the newer corral."));
            }
            let named = files(&other).filter(|path| real(path) == *file).count();
            let on_top: Vec<Overlay> = other
                .disks
                .iter()
                .filter(|disk| disk.backing.as_deref().map(real).as_ref() == Some(file))
                .map(|disk| Overlay {
                    vm: name.clone(),
                    image: disk.path.clone(),
                    base: moved(file, old, new),
                    format: format_of(vm, file),
                })
                .collect();
            if on_top.len() != named {
                return Err(Error::refused(format!(
                    "{} uses {}, which would move away",
                    ctx.id(&name),
                    shown(&file.to_string_lossy())
                ))
                .remedy(format!(
                    "Change {} first: corral edit {}",
                    shown(&name),
                    ctx.id(&name)
                )));
            }
            let loose = ctx.store.overlays(&name, file);
            let loose = loose
                .iter()
                .find(|image| on_top.iter().all(|o| real(&o.image) != real(image)));
            if let Some(image) = loose {
                return Err(Error::refused(format!(
                    "{} is on top of {}, and belongs to no VM that could be told where that moves",
                    shown(&image.to_string_lossy()),
                    shown(&file.to_string_lossy())
                ))
                .remedy(
                    "Attach it again (corral disk add --image), or remove it if nobody needs it.",
                ));
            }
            for overlay in on_top {
                if !overlays.contains(&overlay) {
                    overlays.push(overlay);
                }
            }
        }
    }
    Ok(overlays)
}

/// Images in the folder that say in full where in it their base is.
async fn own(ctx: &Ctx, vm: &Definition, old: &Path, new: &Path, to: &str) -> Result<Vec<Overlay>> {
    let mut overlays = Vec::new();
    for disk in vm.disks.iter().filter(|disk| disk.format == "qcow2") {
        if disk.backing.is_none() || !disk.path.starts_with(old) {
            continue;
        }
        let mut image = disk.path.clone();
        for found in image::chain(&ctx.env, &disk.path, false).await? {
            let Some(base) = found.backing.clone() else {
                break;
            };
            if base.starts_with(old) && image.starts_with(old) {
                overlays.push(Overlay {
                    vm: to.to_owned(),
                    image: moved(&image, old, new),
                    base: moved(&base, old, new),
                    format: found
                        .base(&image)?
                        .map_or_else(String::new, |(_, format)| format.to_owned()),
                });
            }
            image = base;
        }
    }
    Ok(overlays)
}

fn format_of(vm: &Definition, file: &Path) -> String {
    vm.disks
        .iter()
        .find(|disk| real(&disk.path) == file)
        .map_or_else(|| "qcow2".to_owned(), |disk| disk.format.clone())
}

fn moved(file: &Path, old: &Path, new: &Path) -> PathBuf {
    let inner = file
        .strip_prefix(old)
        .or_else(|_| file.strip_prefix(real(old)));
    inner.map_or_else(|_| file.to_owned(), |inner| new.join(inner))
}

/// All that comes after the move. Can be run again.
///
/// # Errors
/// Where an image or a definition cannot be written.
pub(super) async fn complete(ctx: &Ctx, to: &str, overlays: &[Overlay]) -> Result<()> {
    ctx.store.name_is(to)?;
    for overlay in overlays {
        let cmd = overlay.cmd(&image::tool(&ctx.env)?);
        let output = run(&cmd, REBASE).await?;
        if !output.status.success() {
            return Err(image::complaint(&overlay.image, &output));
        }
        let mut vm = ctx.store.load(&overlay.vm)?;
        for disk in vm
            .disks
            .iter_mut()
            .filter(|disk| disk.path == overlay.image)
        {
            if disk.backing.is_some() {
                disk.backing = Some(overlay.base.clone());
            }
        }
        ctx.store.save(&vm)?;
    }
    Ok(())
}
