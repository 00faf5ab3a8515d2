//! Hibernate: RAM and devices are saved inside of the disks under a tag of its own, the process
//! ends, and a start goes on from there.
//!
//! `hibernated.json` beside the definition says that this is so. It is written once the state is
//! whole and before the process ends, and removed once the state is loaded and before the guest
//! goes on: whoever finds it may load the state, and loses nothing by it.

mod recover;
mod wake;

pub(super) use recover::{recover_save, recover_wake};
pub(super) use wake::{discard, wake, wake_plan};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::change::Seen;
use super::ctx::Ctx;
use super::definition::Definition;
use super::layout::Layout;
use super::op::{self, Change, Journal, Phase};
use super::process::Launch;
use super::snapshots::inside::{Inside, Node, Reach, nodes};
use super::snapshots::{HIBERNATED, power_off};
use super::{events, image, locks, process};
use crate::backend::contract::{Changes, HibernateRequest, Prepared, ReadCx, TaskCx};
use crate::link::files::{fault, write_atomically};
use crate::link::qmp::Qmp;
use crate::model::{
    Error, EventLevel, Instance, InstanceId, Outcome, Refusal, Result, State, Step,
};

/// The file beside the definition.
pub const FILE: &str = "hibernated.json";

/// What is known of a saved state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// When it was saved.
    pub at: Timestamp,
    /// The QEMU that saved it; empty where it did not say.
    pub version: String,
    /// The machine that it fits.
    pub layout: Layout,
}

impl Saved {
    /// What is saved of the VM in this folder, if anything is.
    ///
    /// # Errors
    /// `Invalid` where the file says nothing that can be read.
    pub fn read(dir: &Path) -> Result<Option<Self>> {
        let file = dir.join(FILE);
        let bytes = match std::fs::read(&file) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(fault("read", &file, e)),
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            Error::invalid(format!("{} cannot be read: {e}", file.display()))
                .remedy("To give its saved state up: corral start --discard-state")
        })
    }

    fn write(&self, dir: &Path) -> Result<()> {
        let text = serde_json::to_vec(self)
            .map_err(|e| Error::backend(format!("{FILE} cannot be written: {e}")))?;
        write_atomically(&dir.join(FILE), &text)
    }
}

/// Whether the VM in this folder is hibernated, once it does not run.
pub fn is_saved(dir: &Path) -> bool {
    dir.join(FILE).exists()
}

fn unmark(dir: &Path) -> Result<()> {
    op::remove(&dir.join(FILE))
}

/// Whether every image holds the state.
fn whole(inside: &Inside, nodes: &[Node]) -> bool {
    let has = |node: &str| {
        let list = inside.get(node);
        list.is_some_and(|list| list.iter().any(|i| i.tag == HIBERNATED))
    };
    let ram = inside.values().flatten();
    nodes.iter().all(|(node, _)| has(node))
        && ram.filter(|i| i.tag == HIBERNATED).any(|i| i.vm_state > 0)
}

/// The saved state of a VM that is off goes.
///
/// # Errors
/// When an image cannot be written.
pub(super) async fn forget(ctx: &Ctx, vm: &Definition, nodes: &[Node]) -> Result<()> {
    unmark(&ctx.store.dir(&vm.name)?)?;
    Reach::Files(&ctx.env).delete(nodes, HIBERNATED).await
}

/// The hibernate family.
#[derive(Clone, Debug)]
pub struct Hibernate(pub Arc<Ctx>);

struct Plan {
    id: InstanceId,
    nodes: Vec<Node>,
}

#[async_trait]
impl Changes<HibernateRequest> for Hibernate {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, _: HibernateRequest) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let (id, token, state) = (&seen.id, seen.token(), seen.live.state);
        if let Some(refused) = seen.unclear(&token) {
            return Ok(refused);
        }
        if state == State::Hibernated {
            return Ok(Prepared::unchanged(
                token,
                format!("{id} is hibernated already"),
            ));
        }
        let nodes = match may(&seen) {
            Ok(nodes) => nodes,
            Err(refusal) => {
                let mut prepared = Prepared::new(token, Vec::new());
                prepared.refusals.push(refusal);
                return Ok(prepared);
            }
        };
        let names: Vec<&str> = nodes.iter().map(|(node, _)| node.as_str()).collect();
        let undo = format!("corral start {id}");
        let mut steps = Vec::new();
        if state == State::Running {
            steps.push(Step::new(format!("Halt the CPUs of {id}"), "QMP stop"));
        }
        steps.push(Step::new(
            "Save RAM and disks",
            format!(
                "QMP snapshot-save tag={HIBERNATED} devices={}",
                names.join(",")
            ),
        ));
        steps.push(Step::new("End its QEMU", "QMP quit").undo(undo));
        let mut prepared = Prepared::new(token, steps);
        prepared.notes.push(format!(
            "Frees {} of memory, takes up to as much on disk; corral start goes on from there",
            seen.vm.memory
        ));
        Ok(prepared.with(Plan {
            id: on.id.clone(),
            nodes,
        }))
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let plan: Plan = prepared.take()?;
        let ctx = &self.0;
        let vm = super::inventory::load(ctx, &plan.id)?;
        let _lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
        let seen = Seen::now(ctx, &plan.id, process::MONITOR).await?;
        seen.still(&prepared.token)?;
        cx.checkpoint()?;
        let watch = events::during(ctx, &seen.vm).await;
        let done = save(ctx, cx, &seen, &plan.nodes).await;
        watch.end().await;
        let dir = ctx.store.dir(&vm.name)?;
        done.map_err(|error| op::remedied(&dir, error))?;
        Ok(Outcome::changed(format!("{} is hibernated", seen.id)))
    }
}

/// Why it cannot be saved, or the images that take it.
fn may(seen: &Seen) -> std::result::Result<Vec<Node>, Refusal> {
    let (id, live) = (&seen.id, &seen.live);
    if let Some(why) = seen.vm.readonly_reason() {
        return Err(Refusal::new(why, Some("Use the newer corral.".to_owned())));
    }
    if !live.is_active() {
        return Err(Refusal::new(
            format!("{id} does not run"),
            Some(format!("Start it: corral start {id}")),
        ));
    }
    // What a disk could not take is in no state that could be saved.
    let halted = live.native.as_deref() == Some("io-error");
    if halted || !matches!(live.state, State::Running | State::Paused) {
        let why = live.reason.as_deref().map(|why| format!(" ({why})"));
        return Err(Refusal::new(
            format!("{id} is {}{}", live.state, why.unwrap_or_default()),
            Some(if halted {
                format!("Mend that, then: corral resume {id}")
            } else {
                format!("Look at it: corral info {id}")
            }),
        ));
    }
    let nodes = nodes(&seen.vm).map_err(|error| Refusal::from(&error))?;
    if let Some(dir) = nodes.first().and_then(|(_, path)| path.parent()) {
        image::room(dir, seen.vm.memory).map_err(|error| Refusal::from(&error))?;
    }
    Ok(nodes)
}

async fn save(ctx: &Ctx, cx: &TaskCx, seen: &Seen, nodes: &[Node]) -> Result<()> {
    let vm = &seen.vm;
    let dir = ctx.store.dir(&vm.name)?;
    let Some(mut qmp) = process::connect(ctx, vm).await? else {
        return Err(Error::conflict(format!(
            "{} does not run any more",
            seen.id
        )));
    };
    let saved = Saved {
        at: Timestamp::now(),
        version: qmp.version().to_owned(),
        layout: Layout::running(vm, Launch::read(&ctx.paths(&vm.uuid)?).as_ref()),
    };
    let running = seen.live.state == State::Running;
    let mut journal = Journal::begin(
        &dir,
        Change::Hibernate {
            saved: Box::new(saved.clone()),
            running,
        },
    )?;
    journal.phase(Phase::Working)?;
    if running {
        // What it did after its state is saved would be lost.
        cx.step("Halt its CPUs");
        command(&mut qmp, "stop").await?;
    }
    cx.step("Save RAM and disks");
    let written = match write(&mut qmp, nodes).await {
        Ok(()) => journal
            .phase(Phase::Recording)
            .and_then(|()| saved.write(&dir)),
        Err(error) => Err(error),
    };
    if let Err(mut error) = written {
        unmark(&dir)?;
        give_up(&mut qmp, nodes, running).await?;
        journal.finish()?;
        let goes_on = if running { "runs on" } else { "stays paused" };
        error.message = format!("{}. {} {goes_on}", error.message, seen.id);
        return Err(error);
    }
    cx.step("End its QEMU");
    power_off(ctx, vm, Some(qmp)).await?;
    journal.finish()?;
    told(ctx, vm, "HIBERNATED", "RAM saved to disk, process ended");
    Ok(())
}

async fn write(qmp: &mut Qmp, nodes: &[Node]) -> Result<()> {
    let mut reach = Reach::Monitor(qmp);
    // Nobody runs from what an earlier one left.
    reach.delete(nodes, HIBERNATED).await?;
    reach.create(nodes, HIBERNATED, true).await?;
    if whole(&reach.list(nodes).await?, nodes) {
        return Ok(());
    }
    Err(Error::backend(
        "QEMU says that it saved its RAM, but no image holds it",
    ))
}

/// Back to how it was before.
async fn give_up(qmp: &mut Qmp, nodes: &[Node], running: bool) -> Result<()> {
    let gone = Reach::Monitor(qmp).delete(nodes, HIBERNATED).await;
    if running {
        command(qmp, "cont").await?;
    }
    gone
}

async fn command(qmp: &mut Qmp, word: &str) -> Result<()> {
    let answer = qmp.execute(word, Value::Null, process::MONITOR).await;
    answer.map(drop)
}

fn told(ctx: &Ctx, vm: &Definition, kind: &str, message: &str) {
    events::say(ctx, vm, EventLevel::Info, kind, message.to_owned());
}

fn folder(ctx: &Ctx, vm: &Definition) -> Result<PathBuf> {
    ctx.store.dir(&vm.name)
}
