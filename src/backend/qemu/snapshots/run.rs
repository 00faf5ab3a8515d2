//! Carries snapshot requests out, each phase written down.

use std::time::Duration;

use serde_json::Value;

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::op::{self, Change, Journal, Phase};
use super::super::store::Store;
use super::super::{events, hibernate, image, locks, process, resize};
use super::inside::{self, Node, Reach};
use super::record::{Record, Records};
use super::taking::Taking;
use super::{HIBERNATED, Snapping, token};
use crate::backend::contract::{SnapshotRequest, TakeSnapshot, TaskCx};
use crate::link::qmp::Qmp;
use crate::model::{Consistency, Error, EventLevel, Outcome, Result, shown};

/// Until a QEMU that was told to quit is gone: it flushes its images first.
const QUIT: Duration = Duration::from_secs(60);

/// Does what the plan said.
///
/// # Errors
/// `Conflict` when the VM is not as it was when the plan was made.
pub async fn run(ctx: &Ctx, cx: &TaskCx, snapping: &Snapping, planned: &str) -> Result<Outcome> {
    let dir = ctx.store.dir(&snapping.definition.name)?;
    let watch = events::during(ctx, &snapping.definition).await;
    let done = change(ctx, cx, snapping, planned).await;
    watch.end().await;
    done.map_err(|error| op::remedied(&dir, error))
}

async fn change(ctx: &Ctx, cx: &TaskCx, snapping: &Snapping, planned: &str) -> Result<Outcome> {
    let name = &snapping.definition.name;
    let _lock = locks::vm(ctx, &snapping.definition.uuid, name).await?;
    let vm = ctx.store.load(name)?;
    let mut monitor = process::connect(ctx, &vm).await?;
    let seen = reach(ctx, &mut monitor).list(&snapping.nodes).await?;
    if token(&vm, monitor.is_some(), &seen) != planned
        || Store::hash(&vm) != Store::hash(&snapping.definition)
    {
        return Err(
            Error::conflict("it is no longer as it was when the plan was made")
                .remedy(format!("Look at it again: corral info {}", ctx.id(name))),
        );
    }
    cx.checkpoint()?;
    // A record that cannot be read is found before anything is done.
    Records::load(&ctx.store.dir(name)?)?;
    match &snapping.request {
        SnapshotRequest::Create(wanted) => create(ctx, cx, snapping, &vm, monitor, wanted).await,
        SnapshotRequest::Delete { names } => {
            let mut gone = Vec::new();
            for name in names.iter().filter(|name| has(&seen, name)) {
                if !gone.is_empty() {
                    cx.checkpoint()?;
                }
                cx.step(format!("Delete the snapshot {}", shown(name)));
                delete(ctx, &vm, &mut monitor, &snapping.nodes, name).await?;
                gone.push(shown(name));
            }
            let s = if gone.len() == 1 { "" } else { "s" };
            Ok(Outcome::changed(format!(
                "snapshot{s} {} deleted",
                gone.join(", ")
            )))
        }
        SnapshotRequest::Restore { name, start, .. } => {
            restore(ctx, cx, snapping, &vm, monitor, name, *start).await
        }
    }
}

fn has(inside: &inside::Inside, name: &str) -> bool {
    name != HIBERNATED && inside.values().flatten().any(|i| i.tag == name)
}

/// Takes the snapshot that the plan decided on, then deletes what its rule keeps no longer.
async fn create(
    ctx: &Ctx,
    cx: &TaskCx,
    snapping: &Snapping,
    vm: &Definition,
    mut monitor: Option<Qmp>,
    wanted: &TakeSnapshot,
) -> Result<Outcome> {
    let take = &snapping.take;
    let name = &take.name;
    let nodes = &snapping.nodes;
    cx.step(format!("Take the snapshot {}", shown(name)));
    let mut taking = Taking::new(ctx, vm, monitor.as_ref(), take.consistency, name);
    taking.record.note.clone_from(&wanted.note);
    taking.record.expires_at = wanted.expires_at;
    taking.record.policy.clone_from(&wanted.policy);
    taking.require = wanted.require;
    taking.patience = cx.timeout;
    let taken = taking.take(&mut monitor, nodes).await?;
    let mut said = format!("snapshot {} taken", shown(name));
    if let Some(why) = &taken.less {
        said.push_str(&format!(
            "; it is {} only: {why}",
            taken.consistency.as_str()
        ));
    }
    for old in &take.doomed {
        cx.step(format!("Delete the snapshot {}", shown(old)));
        delete(ctx, vm, &mut monitor, nodes, old)
            .await
            .map_err(|mut error| {
                error.message = format!(
                    "snapshot {} is taken, but {} stays: {}",
                    shown(name),
                    shown(old),
                    error.message
                );
                error
            })?;
        said.push_str(&format!(", {} deleted", shown(old)));
    }
    let mut outcome = Outcome::changed(said);
    outcome.consistency = Some(taken.consistency);
    Ok(outcome)
}

async fn delete(
    ctx: &Ctx,
    vm: &Definition,
    monitor: &mut Option<Qmp>,
    nodes: &[Node],
    name: &str,
) -> Result<()> {
    let dir = ctx.store.dir(&vm.name)?;
    let change = Change::SnapshotDelete {
        tag: name.to_owned(),
    };
    let mut journal = Journal::begin(&dir, change)?;
    journal.phase(Phase::Working)?;
    reach(ctx, monitor).delete(nodes, name).await?;
    journal.phase(Phase::Recording)?;
    forget(ctx, vm, name)?;
    journal.finish()?;
    told(
        ctx,
        vm,
        "SNAPSHOT_DELETED",
        format!("snapshot {} deleted", shown(name)),
    );
    Ok(())
}

pub(super) fn reach<'a>(ctx: &'a Ctx, monitor: &'a mut Option<Qmp>) -> Reach<'a> {
    match monitor {
        Some(qmp) => Reach::Monitor(qmp),
        None => Reach::Files(&ctx.env),
    }
}

pub(super) fn told(ctx: &Ctx, vm: &Definition, kind: &str, message: String) {
    events::say(ctx, vm, EventLevel::Info, kind, message);
}

fn forget(ctx: &Ctx, vm: &Definition, name: &str) -> Result<()> {
    let dir = ctx.store.dir(&vm.name)?;
    let mut records = Records::load(&dir)?;
    records.lost(name);
    records.save(&dir)
}

async fn restore(
    ctx: &Ctx,
    cx: &TaskCx,
    snapping: &Snapping,
    vm: &Definition,
    mut monitor: Option<Qmp>,
    name: &str,
    start: bool,
) -> Result<Outcome> {
    // Whatever forbids it is found while the guest still runs.
    if let Some(why) = ctx.store.held_by_clones(vm, &ctx.id(&vm.name))? {
        return Err(why);
    }
    let dir = ctx.store.dir(&vm.name)?;
    if let Some(keep) = &snapping.back.keep {
        cx.step(format!("Keep the present as {}", shown(keep)));
        let got = if monitor.is_some() {
            Consistency::Memory
        } else {
            super::outlook(ctx, vm, false, false).await.best
        };
        let taking = Taking::new(ctx, vm, monitor.as_ref(), Some(got), keep);
        taking.take(&mut monitor, &snapping.nodes).await?;
    }
    cx.checkpoint()?;
    let mut journal = Journal::begin(
        &dir,
        Change::SnapshotRestore {
            tag: name.to_owned(),
        },
    )?;
    if monitor.is_some() {
        cx.step("Power it off");
        if let Err(error) = power_off(ctx, vm, monitor).await {
            journal.finish()?;
            return Err(error);
        }
    }
    cx.step(format!("Take its disks back to {}", shown(name)));
    journal.phase(Phase::Working)?;
    Reach::Files(&ctx.env).apply(&snapping.nodes, name).await?;
    // From here on what was saved by a hibernate fits no more.
    hibernate::forget(ctx, vm, &snapping.nodes).await?;
    journal.phase(Phase::Recording)?;
    let mut records = Records::load(&dir)?;
    records.current = Some(name.to_owned());
    records.save(&dir)?;
    let resized = sizes_again(ctx, vm)?;
    let vm = &resized;
    let mut message = format!("is at {}", shown(name));
    told(
        ctx,
        vm,
        "SNAPSHOT_RESTORED",
        format!("its disks are at {}", shown(name)),
    );
    let started = if start {
        message.push_str(", running");
        start_at(ctx, cx, snapping, vm, name).await
    } else {
        Ok(())
    };
    // Whether it runs is seen by anyone; only a corral that is killed leaves this open.
    journal.finish()?;
    started.map(|()| Outcome::changed(message))
}

/// At a snapshot its disks may have other sizes than now: the definition follows them.
///
/// # Errors
/// When it cannot be written.
pub fn sizes_again(ctx: &Ctx, vm: &Definition) -> Result<Definition> {
    let mut resized = vm.clone();
    // Only these have snapshots; what a guest wrote into a raw disk is not believed.
    let disks = resized.disks.iter_mut();
    for disk in disks.filter(|disk| disk.format == "qcow2") {
        if let Some(size) = image::header(&disk.path).and_then(|header| header.size) {
            disk.size = size;
        }
    }
    if resized != *vm {
        ctx.store.save(&resized)?;
    }
    Ok(resized)
}

fn record_of(ctx: &Ctx, vm: &Definition, name: &str) -> Result<Option<Record>> {
    let records = Records::load(&ctx.store.dir(&vm.name)?)?;
    Ok(records.get(name).cloned())
}

/// Starts a VM whose disks are at a snapshot, and loads the RAM that is in it.
async fn start_at(
    ctx: &Ctx,
    cx: &TaskCx,
    snapping: &Snapping,
    vm: &Definition,
    name: &str,
) -> Result<()> {
    let at = shown(name);
    let memory = snapping.back.memory;
    cx.step("Start it");
    let layout = record_of(ctx, vm, name)?.and_then(|record| record.layout);
    // The RAM is of a machine of this size, and so is the VM from now on.
    let fitted = layout.map_or_else(|| vm.clone(), |layout| layout.fitted(vm));
    if memory && fitted != *vm {
        ctx.store.save(&fitted)?;
    }
    let vm = if memory { &fitted } else { vm };
    let started = if memory {
        process::spawn_halted(ctx, vm, None).await
    } else {
        process::spawn(ctx, vm).await
    };
    started.map_err(|mut e| {
        e.message = format!("its disks are at {at}, but {}", e.message);
        e
    })?;
    if !memory {
        return Ok(());
    }
    cx.step("Load its RAM");
    let mut qmp = loaded(ctx, vm, &snapping.nodes, name)
        .await
        .map_err(|mut e| {
            e.message = format!(
                "{}. Its disks are at {at}, and it was started from them without the saved RAM",
                e.message
            );
            e
        })?;
    if let Err(error) = resize::taken_back(ctx, &mut qmp, vm).await {
        cx.log(error.message);
    }
    Ok(())
}

/// Loads RAM into a QEMU that was started halted for it, and lets it go on.
async fn loaded(ctx: &Ctx, vm: &Definition, nodes: &[Node], name: &str) -> Result<Qmp> {
    let mut qmp = process::connect(ctx, vm)
        .await?
        .ok_or_else(|| Error::backend(format!("{} ended right after its start", ctx.called(vm))))?;
    inside::load_and_go(&mut qmp, nodes, name).await?;
    Ok(qmp)
}

/// Completes a start with RAM whose corral was killed while the guest was halted: in a QEMU started
/// anew, since one that has loaded RAM, or a part of it, may crash when it loads again. The caller
/// holds the VM's lock.
///
/// # Errors
/// When the old one does not end, or the new one does not start or not take the RAM.
pub async fn start_again(
    ctx: &Ctx,
    vm: &Definition,
    monitor: Qmp,
    nodes: &[Node],
    name: &str,
) -> Result<()> {
    power_off(ctx, vm, Some(monitor)).await?;
    process::spawn_halted(ctx, vm, None).await?;
    let mut qmp = loaded(ctx, vm, nodes, name).await?;
    resize::taken_back(ctx, &mut qmp, vm).await
}

/// Powers a VM off now. The caller holds its lock.
///
/// # Errors
/// `TimedOut` when its process stays.
pub async fn power_off(ctx: &Ctx, vm: &Definition, monitor: Option<Qmp>) -> Result<()> {
    let paths = ctx.paths(&vm.uuid)?;
    let pid = process::owner(&paths, vm);
    if let Some(mut qmp) = monitor {
        // It may be gone before it answers.
        let _ = qmp.execute("quit", Value::Null, process::MONITOR).await;
    }
    if process::ended(&paths, vm, pid, QUIT).await {
        return Ok(());
    }
    Err(Error::timed_out(format!("{} does not end", ctx.called(vm)))
        .remedy(format!("Try: corral stop --force {}", ctx.called(vm))))
}
