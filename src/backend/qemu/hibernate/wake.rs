//! A start that goes on from a saved state, or gives it up.

use super::super::change::Seen;
use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::layout::Layout;
use super::super::op::{self, Change, Journal, Phase};
use super::super::process;
use super::super::resize;
use super::super::snapshots::inside::{self, Node, Reach, nodes};
use super::super::snapshots::{HIBERNATED, power_off};
use super::{Saved, command, folder, forget, told, unmark, whole};
use crate::backend::contract::{Prepared, TaskCx};
use crate::link::qmp::Qmp;
use crate::model::{Error, Refusal, Result, Step, shown};

/// Puts into the plan of a start what the saved state adds to it. `accel` is what it would be
/// started with.
///
/// # Errors
/// When the images cannot be named.
pub(in super::super) async fn wake_plan(
    ctx: &Ctx,
    seen: &Seen,
    accel: &str,
    discard: bool,
    plan: &mut Prepared,
) -> Result<()> {
    let id = &seen.id;
    let dir = folder(ctx, &seen.vm)?;
    let give_up = format!("Give the saved state up: corral start {id} --discard-state");
    if discard {
        let nodes = images(&seen.vm);
        plan.steps.insert(
            0,
            Step::new(
                "Delete the saved state",
                format!(
                    "qemu-img snapshot -d {HIBERNATED} ({})",
                    names(&nodes).join(", ")
                ),
            ),
        );
        plan.losses.push(match Saved::read(&dir) {
            Ok(Some(saved)) => format!("what was in its RAM at {:.0}", saved.at),
            _ => "what was in its RAM when it was hibernated".to_owned(),
        });
        return Ok(());
    }
    let refusal = match fits(ctx, seen, accel).await {
        Ok(nodes) => {
            for step in &mut plan.steps {
                step.title = format!("Start {id} halted");
                step.native.push_str(" -S");
            }
            plan.steps.extend([
                Step::new(
                    "Load its saved state",
                    format!(
                        "QMP snapshot-load tag={HIBERNATED} devices={}",
                        names(&nodes).join(",")
                    ),
                ),
                Step::new("Let its CPUs go on", "QMP cont"),
                Step::new(
                    "Delete the saved state",
                    format!("QMP snapshot-delete tag={HIBERNATED}"),
                ),
            ]);
            return Ok(());
        }
        Err(error) => error,
    };
    plan.steps.clear();
    plan.refusals
        .push(Refusal::new(refusal.message, Some(give_up)));
    Ok(())
}

fn names(nodes: &[Node]) -> Vec<&str> {
    nodes.iter().map(|(node, _)| node.as_str()).collect()
}

/// The images that could hold a state; none where the definition was changed so that none can.
fn images(vm: &Definition) -> Vec<Node> {
    nodes(vm).unwrap_or_else(|_| vm.snapshot_nodes())
}

/// The images that the state is in.
///
/// # Errors
/// Why it cannot be loaded.
async fn fits(ctx: &Ctx, seen: &Seen, accel: &str) -> Result<Vec<Node>> {
    let id = &seen.id;
    let saved = Saved::read(&folder(ctx, &seen.vm)?)?
        .ok_or_else(|| Error::conflict(format!("{id} is not hibernated")))?;
    let fitted = saved.layout.fitted(&seen.vm);
    let unlike = saved.layout.unlike(&Layout::of(&fitted, accel));
    if !unlike.is_empty() {
        return Err(Error::refused(format!(
            "{id} is hibernated, and its saved state does not fit the machine as it is: {}",
            unlike.join("; ")
        )));
    }
    let nodes = nodes(&seen.vm)?;
    let inside = Reach::Files(&ctx.env).list(&nodes).await?;
    if whole(&inside, &nodes) {
        return Ok(nodes);
    }
    let lacks: Vec<&str> = nodes
        .iter()
        .map(|(node, _)| node.as_str())
        .filter(|node| {
            let list = inside.get(*node);
            list.is_none_or(|list| list.iter().all(|i| i.tag != HIBERNATED))
        })
        .collect();
    Err(Error::refused(format!(
        "{id} is hibernated, but its saved state is not in {}",
        lacks.join(", ")
    )))
}

/// Starts a hibernated VM from its saved state. The caller holds its lock.
///
/// # Errors
/// It stays hibernated then, unless the message says that it runs.
pub(in super::super) async fn wake(ctx: &Ctx, cx: &TaskCx, seen: &Seen) -> Result<process::Launch> {
    let vm = &seen.vm;
    let dir = folder(ctx, vm)?;
    let woken = go_on(ctx, cx, seen).await;
    woken.map_err(|error| op::remedied(&dir, error))
}

async fn go_on(ctx: &Ctx, cx: &TaskCx, seen: &Seen) -> Result<process::Launch> {
    let vm = &seen.vm;
    let dir = folder(ctx, vm)?;
    let nodes = nodes(vm)?;
    let mut journal = Journal::begin(&dir, Change::Wake)?;
    journal.phase(Phase::Working)?;
    let saved = Saved::read(&dir)?;
    let fits = saved.as_ref().map(|saved| &saved.layout);
    let launch = match process::spawn_halted(ctx, vm, fits).await {
        Ok(launch) => launch,
        Err(mut error) => {
            // A process that did not end is for doctor.
            if process::owner(&ctx.paths(&vm.uuid)?, vm).is_none() {
                journal.finish()?;
                error.message = format!("{}. It is still hibernated", error.message);
            }
            return Err(error);
        }
    };
    let mut qmp = process::connect(ctx, vm)
        .await?
        .ok_or_else(|| Error::backend(format!("{} ended right after its start", seen.id)))?;
    cx.step("Load its saved state");
    if let Err(error) = inside::load(&mut qmp, &nodes, HIBERNATED).await {
        let version = qmp.version().to_owned();
        power_off(ctx, vm, Some(qmp)).await?;
        journal.finish()?;
        return Err(cannot_load(seen, &dir, &version, &error));
    }
    journal.phase(Phase::Recording)?;
    unmark(&dir)?;
    if let Err(error) = resize::woken(ctx, &mut qmp, vm).await {
        // It only says what waits for the next start.
        cx.log(error.message);
    }
    released(&mut qmp, &nodes).await.map_err(|mut error| {
        error.message = format!("{} runs again, but {}", seen.id, error.message);
        error
    })?;
    journal.finish()?;
    told(ctx, vm, "WOKEN", "goes on from its saved state");
    Ok(launch)
}

/// The guest goes on, and its saved state, which is of the past now, goes.
pub(super) async fn released(qmp: &mut Qmp, nodes: &[Node]) -> Result<()> {
    command(qmp, "cont").await?;
    Reach::Monitor(qmp).delete(nodes, HIBERNATED).await
}

fn cannot_load(seen: &Seen, dir: &std::path::Path, version: &str, error: &Error) -> Error {
    let id = &seen.id;
    let by = match Saved::read(dir) {
        Ok(Some(saved)) if saved.version != version => format!(
            " (saved by QEMU {}, this is {})",
            shown(&saved.version),
            shown(version)
        ),
        _ => String::new(),
    };
    Error::new(
        error.kind,
        format!(
            "QEMU cannot load the saved state of {id}{by}: {}. It is still hibernated",
            error.message
        ),
    )
    .remedy(format!(
        "Start it with the QEMU that saved it, or give its RAM up: corral start {id} --discard-state"
    ))
}

/// Gives the saved state up. The caller holds the lock and starts it next.
///
/// # Errors
/// When an image cannot be written.
pub(in super::super) async fn discard(ctx: &Ctx, seen: &Seen) -> Result<()> {
    let dir = folder(ctx, &seen.vm)?;
    let mut journal = Journal::begin(&dir, Change::Wake)?;
    journal.phase(Phase::Recording)?;
    forget(ctx, &seen.vm, &images(&seen.vm))
        .await
        .map_err(|error| op::remedied(&dir, error))?;
    journal.finish()?;
    told(
        ctx,
        &seen.vm,
        "STATE_DISCARDED",
        "its saved state was given up",
    );
    Ok(())
}
