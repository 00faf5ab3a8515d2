//! Carries snapshot requests out, each phase written down.

use std::time::Duration;

use serde_json::Value;

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::op::{self, Change, Journal, Phase};
use super::super::store::Store;
use super::super::{events, locks, process};
use super::inside::{self, Node, Reach};
use super::record::Records;
use super::{Snapping, token};
use crate::backend::contract::{SnapshotRequest, TaskCx};
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
        SnapshotRequest::Create { name, note, memory } => {
            cx.step(format!("Take the snapshot {}", shown(name)));
            let taken = take(
                ctx,
                &vm,
                &mut monitor,
                &snapping.nodes,
                name,
                *memory,
                note.clone(),
            )
            .await?;
            let mut outcome = Outcome::changed(format!("snapshot {} taken", shown(name)));
            outcome.consistency = taken;
            Ok(outcome)
        }
        SnapshotRequest::Delete { name } => {
            cx.step(format!("Delete the snapshot {}", shown(name)));
            let dir = ctx.store.dir(&vm.name)?;
            let mut journal = Journal::begin(&dir, Change::SnapshotDelete { tag: name.clone() })?;
            journal.phase(Phase::Working)?;
            reach(ctx, &mut monitor)
                .delete(&snapping.nodes, name)
                .await?;
            journal.phase(Phase::Recording)?;
            forget(ctx, &vm, name)?;
            journal.finish()?;
            told(
                ctx,
                &vm,
                "SNAPSHOT_DELETED",
                format!("snapshot {} deleted", shown(name)),
            );
            Ok(Outcome::changed(format!(
                "snapshot {} deleted",
                shown(name)
            )))
        }
        SnapshotRequest::Restore {
            name,
            start,
            keep_present,
            ..
        } => {
            restore(
                ctx,
                cx,
                snapping,
                &vm,
                monitor,
                name,
                *start,
                keep_present.as_deref(),
            )
            .await
        }
    }
}

fn reach<'a>(ctx: &'a Ctx, monitor: &'a mut Option<Qmp>) -> Reach<'a> {
    match monitor {
        Some(qmp) => Reach::Monitor(qmp),
        None => Reach::Files(&ctx.env),
    }
}

/// Takes a snapshot, and reads back what it became.
async fn take(
    ctx: &Ctx,
    vm: &Definition,
    monitor: &mut Option<Qmp>,
    nodes: &[Node],
    name: &str,
    memory: bool,
    note: Option<String>,
) -> Result<Option<Consistency>> {
    let dir = ctx.store.dir(&vm.name)?;
    let how = if monitor.is_some() {
        Consistency::Crash
    } else {
        Consistency::Offline
    };
    let change = Change::SnapshotCreate {
        tag: name.to_owned(),
        how: Some(how),
        note: note.clone(),
    };
    let mut journal = Journal::begin(&dir, change)?;
    journal.phase(Phase::Working)?;
    let mut reach = reach(ctx, monitor);
    if let Err(error) = reach.create(nodes, name, memory).await {
        // Taken back already; only a monitor that went away leaves it to doctor.
        if reach
            .list(nodes)
            .await
            .is_ok_and(|inside| inside.values().flatten().all(|i| i.tag != name))
        {
            journal.finish()?;
        }
        return Err(error);
    }
    journal.phase(Phase::Recording)?;
    let consistency = noted(&dir, &reach.list(nodes).await?, name, Some(how), note)?;
    journal.finish()?;
    told(
        ctx,
        vm,
        "SNAPSHOT_CREATED",
        format!("snapshot {} taken", shown(name)),
    );
    Ok(consistency)
}

/// Writes a snapshot that is in the images into the records.
pub(in super::super) fn noted(
    dir: &std::path::Path,
    inside: &inside::Inside,
    name: &str,
    how: Option<Consistency>,
    note: Option<String>,
) -> Result<Option<Consistency>> {
    let memory = inside
        .values()
        .flatten()
        .any(|i| i.tag == name && i.vm_state > 0);
    let consistency = if memory {
        Some(Consistency::Memory)
    } else {
        how
    };
    let mut records = Records::load(dir)?;
    records.took(name, consistency, note);
    records.save(dir)?;
    Ok(consistency)
}

fn told(ctx: &Ctx, vm: &Definition, kind: &str, message: String) {
    events::say(ctx, vm, EventLevel::Info, kind, message);
}

fn forget(ctx: &Ctx, vm: &Definition, name: &str) -> Result<()> {
    let dir = ctx.store.dir(&vm.name)?;
    let mut records = Records::load(&dir)?;
    records.lost(name);
    records.save(&dir)
}

#[allow(clippy::too_many_arguments)]
async fn restore(
    ctx: &Ctx,
    cx: &TaskCx,
    snapping: &Snapping,
    vm: &Definition,
    mut monitor: Option<Qmp>,
    name: &str,
    start: bool,
    keep: Option<&str>,
) -> Result<Outcome> {
    if let Some(keep) = keep {
        cx.step(format!("Keep the present as {}", shown(keep)));
        let memory = monitor.is_some();
        take(ctx, vm, &mut monitor, &snapping.nodes, keep, memory, None).await?;
    }
    cx.checkpoint()?;
    if monitor.is_some() {
        cx.step("Power it off");
        power_off(ctx, vm, monitor).await?;
    }
    if let Some(why) = ctx.store.held_by_clones(vm, &ctx.id(&vm.name))? {
        return Err(why);
    }
    cx.step(format!("Take its disks back to {}", shown(name)));
    let dir = ctx.store.dir(&vm.name)?;
    let mut journal = Journal::begin(
        &dir,
        Change::SnapshotRestore {
            tag: name.to_owned(),
        },
    )?;
    journal.phase(Phase::Working)?;
    Reach::Files(&ctx.env).apply(&snapping.nodes, name).await?;
    journal.phase(Phase::Recording)?;
    let mut records = Records::load(&dir)?;
    records.current = Some(name.to_owned());
    records.save(&dir)?;
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

/// Starts a VM whose disks are at a snapshot, and loads the RAM that is in it.
async fn start_at(
    ctx: &Ctx,
    cx: &TaskCx,
    snapping: &Snapping,
    vm: &Definition,
    name: &str,
) -> Result<()> {
    let at = shown(name);
    cx.step("Start it");
    process::spawn(ctx, vm).await.map_err(|mut e| {
        e.message = format!("its disks are at {at}, but {}", e.message);
        e
    })?;
    if !snapping.memory {
        return Ok(());
    }
    cx.step("Load its RAM");
    let mut qmp = process::connect(ctx, vm)
        .await?
        .ok_or_else(|| Error::backend(format!("{} ended right after its start", ctx.called(vm))))?;
    inside::load(&mut qmp, &snapping.nodes, name)
        .await
        .map_err(|mut e| {
            e.message = format!(
                "{}. Its disks are at {at}, and it was started from them without the saved RAM",
                e.message
            );
            e
        })
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
