//! CPUs and memory: at once where the running process can, else at its next start.

mod live;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::change::Seen;
use super::ctx::Ctx;
use super::definition::Definition;
use super::op::{self, Change, Journal, Phase};
use super::power::{Power, cold_plan};
use super::process::{self, Launch};
use super::publish::save_step;
use super::snapshots::record::Records;
use super::started::{self, cpus};
use super::{events, locks};
use crate::backend::contract::{Changes, Prepared, ReadCx, ResizeRequest, TaskCx};
use crate::link::qmp::Qmp;
use crate::model::{
    Bytes, Consistency, Error, EventLevel, Instance, InstanceId, Outcome, Result, State, shown,
};
pub use live::{Now, look};
use plan::{Steps, calls, settled, wanted, way};

/// How long a guest may take to move its balloon, where the user does not say.
const PATIENCE: Duration = Duration::from_secs(60);

/// The resize family.
#[derive(Clone, Debug)]
pub struct Resize(pub Arc<Ctx>);

/// What `run` does.
struct Plan {
    id: InstanceId,
    request: ResizeRequest,
    how: How,
}

enum How {
    /// Only the definition changes.
    Define(Box<Definition>),
    /// The process, then the definition.
    Live(Steps, Box<Definition>),
    /// The definition, then a cold restart.
    Restart(Box<Definition>),
}

/// The sizes of a VM, as a change under way has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// CPUs.
    pub cpus: u32,
    /// Up to so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cpus: Option<u32>,
    /// Memory.
    pub memory: Bytes,
    /// Up to so much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_memory: Option<Bytes>,
    /// Modules that are part of it.
    #[serde(default)]
    pub dimms: Vec<Bytes>,
}

impl Sizes {
    /// Those of a definition.
    pub fn of(vm: &Definition) -> Self {
        Self {
            cpus: vm.cpus,
            max_cpus: vm.max_cpus,
            memory: vm.memory,
            max_memory: vm.max_memory,
            dimms: vm.dimms.clone(),
        }
    }

    /// A definition with these.
    pub fn put(&self, vm: &mut Definition) {
        vm.cpus = self.cpus;
        vm.max_cpus = self.max_cpus;
        vm.memory = self.memory;
        vm.max_memory = self.max_memory;
        vm.dimms.clone_from(&self.dimms);
    }

    /// In words: `2 CPUs (up to 4), 512 MiB`.
    pub fn words(&self) -> String {
        let up = |max: Option<String>| max.map_or(String::new(), |max| format!(" (up to {max})"));
        format!(
            "{}{}, {} of memory{}",
            cpus(self.cpus),
            up(self.max_cpus.map(|n| n.to_string())),
            self.memory,
            up(self.max_memory.map(|size| size.to_string()))
        )
    }
}

/// A running VM as a plan sees it.
struct Live {
    now: Now,
    running: Definition,
}

async fn live(ctx: &Ctx, seen: &Seen) -> Result<Option<Live>> {
    if !seen.live.is_active() {
        return Ok(None);
    }
    let Some(mut qmp) = process::connect(ctx, &seen.vm).await? else {
        return Err(Error::conflict(format!("{} ended meanwhile", seen.id)));
    };
    let now = look(&mut qmp).await?;
    let launch = Launch::read(&ctx.paths(&seen.vm.uuid)?);
    let running = launch
        .and_then(|launch| launch.running)
        .unwrap_or_else(|| seen.vm.clone());
    Ok(Some(Live { now, running }))
}

fn token(seen: &Seen, live: Option<&Live>) -> String {
    let stamp = live.map_or_else(String::new, |live| live.now.stamp());
    format!("{}|{stamp}", seen.token())
}

#[async_trait]
impl Changes<ResizeRequest> for Resize {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: ResizeRequest,
    ) -> Result<Prepared> {
        let ctx = &self.0;
        let seen = match Seen::for_plan(ctx, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        if let Err(refused) = seen.changeable(ctx) {
            return Ok(*refused);
        }
        let plan = async {
            let after = wanted(&seen.vm, &request)?;
            match live(ctx, &seen).await? {
                Some(live) => self.live_plan(&seen, &live, request, after).await,
                None => offline_plan(ctx, &seen, request, after),
            }
        };
        Ok(plan
            .await
            .unwrap_or_else(|error| Prepared::failed(seen.token(), &error)))
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let ctx = &self.0;
        let plan: Plan = prepared.take()?;
        let vm = super::inventory::load(ctx, &plan.id)?;
        let dir = ctx.store.dir(&vm.name)?;
        let lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
        let seen = Seen::now(ctx, &plan.id, process::MONITOR).await?;
        let (before, stamp) = prepared.token.rsplit_once('|').unwrap_or_default();
        seen.still(before)?;
        let live = live(ctx, &seen).await?;
        if live.as_ref().map_or(String::new(), |live| live.now.stamp()) != stamp {
            return Err(Error::conflict(format!(
                "{} changed meanwhile: it has other CPUs or memory now. Nothing was done",
                seen.id
            ))
            .remedy("Look at it and ask again."));
        }
        cx.checkpoint()?;
        match plan.how {
            How::Define(after) => {
                cx.step(format!(
                    "Write {} into its definition",
                    Sizes::of(&after).words()
                ));
                ctx.store.save(&after)?;
                Ok(done(ctx, &seen, &after))
            }
            How::Live(steps, after) => {
                let Some(live) = live else {
                    return Err(Error::conflict(format!("{} ended meanwhile", seen.id)));
                };
                let watch = events::during(ctx, &seen.vm).await;
                let result = self.now(cx, &seen, &live.running, &steps, &after).await;
                watch.end().await;
                result.map_err(|error| op::remedied(&dir, error))
            }
            How::Restart(after) => {
                cx.step(format!(
                    "Write {} into its definition",
                    Sizes::of(&after).words()
                ));
                ctx.store.save(&after)?;
                let seen = Seen::now(ctx, &plan.id, process::MONITOR).await?;
                // Not held while the guest is waited for.
                drop(lock);
                let watch = events::during(ctx, &seen.vm).await;
                let result = Power(Arc::clone(ctx)).cold(cx, &seen).await;
                watch.end().await;
                result.map_err(|mut error| {
                    error.message = format!(
                        "{}. The new size is in its definition and waits for its next start",
                        error.message
                    );
                    error
                })?;
                debug_assert!(plan.request.restart);
                Ok(done(ctx, &seen, &after))
            }
        }
    }
}

fn done(ctx: &Ctx, seen: &Seen, after: &Definition) -> Outcome {
    let words = Sizes::of(after).words();
    events::say(
        ctx,
        after,
        EventLevel::Info,
        "RESIZED",
        format!("resized to {words}"),
    );
    Outcome::changed(format!("{} has {words}", seen.id))
}

fn offline_plan(
    ctx: &Ctx,
    seen: &Seen,
    request: ResizeRequest,
    after: Definition,
) -> Result<Prepared> {
    let (id, token) = (&seen.id, token(seen, None));
    let words = Sizes::of(&after).words();
    if after == seen.vm {
        return Ok(Prepared::unchanged(
            token,
            format!("{id} has {words} already"),
        ));
    }
    let mut step = save_step(ctx, &seen.vm)?;
    step.title = format!("Write {words} into its definition");
    let mut prepared = Prepared::new(token, vec![step.undo(undo(seen))]);
    prepared.notes.extend(of_snapshots(ctx, &seen.vm));
    prepared.notes.extend(of_host(&after));
    if request.restart {
        prepared
            .notes
            .push(format!("{id} does not run: --restart means nothing"));
    }
    Ok(prepared.with(Plan {
        id: id.clone(),
        request,
        how: How::Define(Box::new(after)),
    }))
}

fn undo(seen: &Seen) -> String {
    let (id, vm) = (&seen.id, &seen.vm);
    format!(
        "corral resize {id} --cpus {} --memory {}",
        vm.cpus,
        vm.memory.exact()
    )
}

/// Saved RAM is that of a machine of one size.
fn of_snapshots(ctx: &Ctx, vm: &Definition) -> Option<String> {
    let records = Records::load(&ctx.store.dir(&vm.name).ok()?).ok()?;
    let names: Vec<String> = records
        .snapshots
        .iter()
        .filter(|record| record.consistency == Some(Consistency::Memory))
        .map(|record| shown(&record.name).into_owned())
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "Snapshots with RAM are of a machine of the old size: {}",
            names.join(", ")
        )
    })
}

fn of_host(after: &Definition) -> Option<String> {
    let host = super::proc::memory_total()?;
    (after.memory > host)
        .then(|| format!("{} is more than this machine has ({host})", after.memory))
}

impl Resize {
    async fn live_plan(
        &self,
        seen: &Seen,
        live: &Live,
        request: ResizeRequest,
        after: Definition,
    ) -> Result<Prepared> {
        let ctx = &self.0;
        let (id, token) = (&seen.id, token(seen, Some(live)));
        let mut way = way(&live.now, &live.running, &after)?;
        // Room is given only at a start; with --restart that is now.
        let room =
            (after.max_cpus, after.max_memory) != (live.running.max_cpus, live.running.max_memory);
        if room && request.restart {
            way.restart
                .push("room for more is given at a start".to_owned());
        }
        if !way.restart.is_empty() {
            return self
                .restart_plan(seen, token, request, after, way.restart)
                .await;
        }
        let settled = settled(&live.running, &after, &way.steps);
        if way.steps.is_empty() && settled == seen.vm {
            let words = Sizes::of(&settled).words();
            return Ok(Prepared::unchanged(
                token,
                format!("{id} has {words} already"),
            ));
        }
        let mut steps = calls(id, &seen.vm, &live.now, &way.steps);
        steps.push(save_step(ctx, &seen.vm)?.undo(undo(seen)));
        let mut prepared = Prepared::new(token, steps);
        let notes = &mut prepared.notes;
        if way.steps.add_cpus > 0 {
            notes.push("CPUs that were added go only at a restart".to_owned());
        }
        if way.steps.module.is_some() {
            notes.push(
                "Memory that was added goes only at a restart; the balloon can hold it".to_owned(),
            );
        }
        if way.steps.balloon.is_some_and(|to| to < live.now.usable()) {
            notes.push("A guest that needs more than it keeps ends programs".to_owned());
        }
        if room {
            notes.push(format!(
                "Room for more comes with the next cold start: corral restart --cold {id}"
            ));
        }
        if seen.live.state == State::Paused && way.steps.balloon.is_some() {
            return Ok(Prepared::refused(
                prepared.token,
                format!("{id} is paused: its guest cannot move its balloon"),
                Some(format!("Resume it first: corral resume {id}")),
            ));
        }
        notes.extend(of_host(&after));
        notes.extend(of_snapshots(ctx, &seen.vm));
        Ok(prepared.with(Plan {
            id: id.clone(),
            request,
            how: How::Live(way.steps, Box::new(settled)),
        }))
    }

    async fn restart_plan(
        &self,
        seen: &Seen,
        token: String,
        request: ResizeRequest,
        mut after: Definition,
        why: Vec<String>,
    ) -> Result<Prepared> {
        let (ctx, id) = (&self.0, &seen.id);
        if !request.restart {
            return Ok(Prepared::refused(
                token,
                format!("{id} runs: {}", why.join("; ")),
                Some(format!("Add --restart, or stop it first: corral stop {id}")),
            ));
        }
        after.dimms.clear();
        // It starts as it is to be.
        let mut then = seen.clone();
        then.vm = after.clone();
        let restart = cold_plan(ctx, &then).await?;
        if !restart.refusals.is_empty() {
            return Ok(restart);
        }
        let mut step = save_step(ctx, &seen.vm)?.undo(undo(seen));
        step.title = format!("Write {} into its definition", Sizes::of(&after).words());
        let mut prepared = Prepared::new(token, vec![step]);
        prepared.steps.extend(restart.steps);
        prepared.notes.extend(restart.notes);
        prepared
            .notes
            .push(format!("A restart is needed: {}", why.join("; ")));
        prepared.notes.extend(of_host(&after));
        prepared.notes.extend(of_snapshots(ctx, &seen.vm));
        prepared
            .losses
            .push("what runs in the guest ends with its restart".to_owned());
        Ok(prepared.with(Plan {
            id: id.clone(),
            request,
            how: How::Restart(Box::new(after)),
        }))
    }

    /// Changes the running process, and the definition as far as that came.
    async fn now(
        &self,
        cx: &TaskCx,
        seen: &Seen,
        running: &Definition,
        steps: &Steps,
        after: &Definition,
    ) -> Result<Outcome> {
        let ctx = &self.0;
        if steps.is_empty() {
            ctx.store.save(after)?;
            return Ok(done(ctx, seen, after));
        }
        // Before anything is written down: another corral may have the monitor.
        drop(live::monitor(ctx, &seen.vm).await?);
        let dir = ctx.store.dir(&seen.vm.name)?;
        let mut journal = Journal::begin(
            &dir,
            Change::Resize {
                to: Sizes::of(after),
            },
        )?;
        journal.phase(Phase::Working)?;
        let mut taken = Steps::default();
        let applied = apply(ctx, &seen.vm, cx, steps, &mut taken).await;
        let mut reached = after.clone();
        if applied.is_err() {
            // What a guest was given stays with it, and is written down.
            let now = look(&mut live::monitor(ctx, &seen.vm).await?).await?;
            taken.add_cpus = now.cpus.saturating_sub(running.cpus);
            reached.cpus = seen.vm.cpus.max(now.cpus);
            if taken.module != steps.module || taken.balloon != steps.balloon {
                reached.memory = taken.balloon.unwrap_or(seen.vm.memory);
                reached.dimms.clone_from(&seen.vm.dimms);
            }
        }
        journal.phase(Phase::Recording)?;
        ctx.store.save(&reached)?;
        follow(ctx, &seen.vm, running, &taken)?;
        journal.finish()?;
        match applied {
            Ok(()) => Ok(done(ctx, seen, after)),
            Err(mut error) => {
                let had = Sizes::of(&reached).words();
                error.message = format!("{}: {}. It has {had}", seen.id, error.message);
                if error.remedy.is_none() {
                    error.remedy = Some("Ask again, or with --restart".to_owned());
                }
                Err(error)
            }
        }
    }
}

/// Does the steps in order; `done` says how far that came.
async fn apply(
    ctx: &Ctx,
    vm: &Definition,
    cx: &TaskCx,
    steps: &Steps,
    done: &mut Steps,
) -> Result<()> {
    if let Some(to) = steps.balloon {
        cx.step(format!("Ask the guest to keep {to}"));
        let patience = cx.timeout.unwrap_or(PATIENCE);
        live::balloon(ctx, vm, cx, to, patience).await?;
        done.balloon = steps.balloon;
    }
    cx.checkpoint()?;
    if steps.module.is_none() && steps.add_cpus == 0 {
        return Ok(());
    }
    let mut qmp = live::monitor(ctx, vm).await?;
    if let Some((number, size)) = steps.module {
        cx.step(format!("Plug {size} of memory in"));
        live::add_memory(&mut qmp, number, size).await?;
        done.module = steps.module;
    }
    if steps.add_cpus > 0 {
        cx.step(format!("Plug {} in", cpus(steps.add_cpus)));
        live::add_cpus(&mut qmp, Some(cx), steps.add_cpus).await?;
        done.add_cpus = steps.add_cpus;
    }
    Ok(())
}

/// Writes down what the running process has got.
fn follow(ctx: &Ctx, vm: &Definition, running: &Definition, steps: &Steps) -> Result<()> {
    let paths = ctx.paths(&vm.uuid)?;
    started::took(&paths, |vm| {
        vm.cpus = running.cpus.saturating_add(steps.add_cpus);
        if let Some((_, size)) = steps.module {
            vm.dimms.push(size);
            vm.memory = Bytes(vm.memory.0.saturating_add(size.0));
        }
    })?;
    match (steps.balloon, steps.module) {
        (_, Some(_)) => started::ballooned(&paths, None),
        (Some(to), None) => started::ballooned(&paths, Some(to)),
        (None, None) => Ok(()),
    }
}

/// Writes down how much the balloon leaves to a guest whose RAM was loaded: QEMU has that from the
/// saved state. `vm` is its definition.
///
/// # Errors
/// Those of the monitor.
pub(super) async fn woken(ctx: &Ctx, qmp: &mut Qmp, vm: &Definition) -> Result<()> {
    let now = look(qmp).await?;
    let left = now.usable();
    let kept = if left.0.abs_diff(vm.memory.0) <= 1 << 20 {
        vm.memory
    } else {
        left
    };
    let less = (left < now.total()).then_some(kept);
    started::ballooned(&ctx.paths(&vm.uuid)?, less)
}

/// [`woken`] for RAM of another time than the definition's: what the guest was left with then is
/// what is defined from now on, and nothing waits for the next start.
///
/// # Errors
/// Those of the monitor, and when the definition cannot be written.
pub(super) async fn taken_back(ctx: &Ctx, qmp: &mut Qmp, vm: &Definition) -> Result<()> {
    let left = look(qmp).await?.usable();
    let mut vm = vm.clone();
    if left.0.abs_diff(vm.memory.0) > 1 << 20 {
        vm.memory = left;
        ctx.store.save(&vm)?;
    }
    woken(ctx, qmp, &vm).await
}

/// Ends what a killed corral began: what the process can still get it gets, and the definition has
/// all of it. The caller holds the VM's lock.
///
/// # Errors
/// Those of the monitor.
pub(super) async fn recover(ctx: &Ctx, vm: &Definition, to: &Sizes) -> Result<String> {
    let mut after = vm.clone();
    to.put(&mut after);
    let paths = ctx.paths(&vm.uuid)?;
    let running = Launch::read(&paths).and_then(|launch| launch.running);
    if let (Some(mut qmp), Some(running)) = (process::connect(ctx, vm).await?, running) {
        // What is written down may be behind what was plugged in.
        let now = look(&mut qmp).await?;
        let mut done = Steps {
            add_cpus: now.cpus.saturating_sub(running.cpus),
            ..Steps::default()
        };
        if let [.., last] = to.dimms.as_slice()
            && to.dimms.len() > running.dimms.len()
        {
            let number = to.dimms.len() - 1;
            live::set_balloon(&mut qmp, now.total()).await?;
            live::add_memory(&mut qmp, number, *last).await?;
            done.module = Some((number, *last));
        } else if to.memory <= now.total() && now.balloon.is_some() {
            live::set_balloon(&mut qmp, to.memory).await?;
            done.balloon = Some(to.memory);
        }
        let more = to.cpus.saturating_sub(now.cpus);
        live::add_cpus(&mut qmp, None, more).await?;
        done.add_cpus += more;
        drop(qmp);
        follow(ctx, vm, &running, &done)?;
    }
    ctx.store.save(&after)?;
    Ok(format!("it has {}, as was begun", to.words()))
}
