//! Network interfaces, in the definition and in the process that runs.

pub mod addresses;
mod choose;
pub mod plug;

pub(super) use choose::read_mac;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::change::Seen;
use super::ctx::Ctx;
use super::definition::{Definition, NicDef};
use super::op::{self, Change, Journal, Phase};
use super::process::{self, Launch};
use super::publish::save_step;
use super::slots::Slots;
use super::{events, locks, started};
use crate::backend::contract::{Changes, NicRequest, Prepared, ReadCx, TaskCx};
use crate::model::{
    Error, ErrorKind, EventLevel, Instance, InstanceId, Outcome, Result, State, Step, shown,
};

/// How long a guest may take to let go, where the user does not say.
const PATIENCE: Duration = Duration::from_secs(30);

/// The NIC family.
#[derive(Clone, Debug)]
pub struct Nics(pub Arc<Ctx>);

/// What `run` does.
struct Plan {
    id: InstanceId,
    what: What,
}

enum What {
    Add(NicDef),
    Remove(String),
}

#[async_trait]
impl Changes<NicRequest> for Nics {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: NicRequest) -> Result<Prepared> {
        let ctx = &self.0;
        let seen = match Seen::for_plan(ctx, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        if let Err(refused) = seen.changeable(ctx) {
            return Ok(*refused);
        }
        let plan = match request {
            NicRequest::Add {
                network,
                model,
                mac,
            } => add_plan(
                ctx,
                &seen,
                network.as_deref(),
                model.as_deref(),
                mac.as_deref(),
            ),
            NicRequest::Remove { nic } => remove_plan(ctx, &seen, &nic),
        };
        Ok(plan.unwrap_or_else(|error| Prepared::failed(seen.token(), &error)))
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let ctx = &self.0;
        let plan: Plan = prepared.take()?;
        let vm = super::inventory::load(ctx, &plan.id)?;
        let dir = ctx.store.dir(&vm.name)?;
        let _lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
        let seen = Seen::now(ctx, &plan.id, process::MONITOR).await?;
        seen.still(&prepared.token)?;
        cx.checkpoint()?;
        let watch = events::during(ctx, &seen.vm).await;
        let done = match plan.what {
            What::Add(nic) => add(ctx, cx, &seen, nic).await,
            What::Remove(nic) => remove(ctx, cx, &seen, &nic).await,
        };
        watch.end().await;
        done.map_err(|error| op::remedied(&dir, error))
    }
}

/// The definition as the running process has it.
fn running(ctx: &Ctx, seen: &Seen) -> Result<Option<Definition>> {
    if !seen.live.is_active() {
        return Ok(None);
    }
    let launch = Launch::read(&ctx.paths(&seen.vm.uuid)?);
    Ok(Some(
        launch
            .and_then(|launch| launch.running)
            .unwrap_or_else(|| seen.vm.clone()),
    ))
}

fn add_plan(
    ctx: &Ctx,
    seen: &Seen,
    network: Option<&str>,
    model: Option<&str>,
    mac: Option<&str>,
) -> Result<Prepared> {
    let id = &seen.id;
    let live = running(ctx, seen)?;
    let nic = choose::nic(ctx, &seen.vm, live.as_ref(), network, model, mac)?;
    let undo = format!("corral nic remove {id} --nic {}", nic.name);
    let mut steps = Vec::new();
    if live.is_some() {
        steps.push(Step::new(
            format!("Make the network end of {}", nic.name),
            format!("QMP netdev_add {}", plug::netdev_args(&nic)),
        ));
        steps.push(
            Step::new(
                format!("Plug {} in", nic.name),
                format!("QMP device_add {}", plug::device_args(&nic)),
            )
            .undo(undo.clone()),
        );
    }
    steps.push(save_step(ctx, &seen.vm)?.undo(undo));
    let mut prepared = Prepared::new(seen.token(), steps);
    prepared.notes.push(format!(
        "{}: {}, {}, {}",
        nic.name, nic.mac, nic.network, nic.model
    ));
    if seen.live.state == State::Paused {
        prepared
            .notes
            .push("The guest sees it once it is resumed".to_owned());
    }
    Ok(prepared.with(Plan {
        id: id.clone(),
        what: What::Add(nic),
    }))
}

fn remove_plan(ctx: &Ctx, seen: &Seen, wanted: &str) -> Result<Prepared> {
    let (id, token) = (&seen.id, seen.token());
    let nics = &seen.vm.nics;
    let by_mac = choose::read_mac(wanted).ok();
    let found = nics
        .iter()
        .find(|nic| nic.name == wanted || by_mac.as_ref() == Some(&nic.mac.to_ascii_lowercase()));
    let Some(nic) = found else {
        let names: Vec<String> = nics
            .iter()
            .map(|nic| shown(&nic.name).into_owned())
            .collect();
        return Err(Error::not_found(format!(
            "{id} has no network interface \"{}\"",
            shown(wanted)
        ))
        .remedy(match names.as_slice() {
            [] => "It has none".to_owned(),
            names => format!("It has: {}", names.join(", ")),
        }));
    };
    let name = shown(&nic.name).into_owned();
    let mut steps = Vec::new();
    if let Some(live) = running(ctx, seen)?
        && let Some(at) = live.nics.iter().position(|other| other.name == nic.name)
    {
        let slot = Slots::of(&live)?.nics.get(at).copied();
        if !slot.is_some_and(super::slots::Slot::can_be_plugged) {
            return Ok(Prepared::refused(
                token,
                format!("{name} sits on the root bus, which gives nothing back while {id} runs"),
                Some(format!("Stop it first: corral stop {id}")),
            ));
        }
        if seen.live.state != State::Running {
            return Ok(Prepared::refused(
                token,
                format!(
                    "{id} is {}: its guest cannot let go of {name}",
                    seen.live.state
                ),
                Some(format!("Resume it first: corral resume {id}")),
            ));
        }
        let device = super::drive::device_id(&nic.name);
        steps.push(Step::new(
            format!("Ask the guest to let go of {name}, and wait"),
            format!("QMP device_del {{\"id\": \"{}\"}}", shown(&device)),
        ));
        steps.push(Step::new(
            "End its network",
            format!("QMP netdev_del {{\"id\": \"{name}\"}}"),
        ));
    }
    let undo = format!(
        "corral nic add {id} --network {} --model {} --mac {}",
        shown(&nic.network),
        shown(&nic.model),
        shown(&nic.mac)
    );
    steps.push(save_step(ctx, &seen.vm)?.undo(undo));
    let mut prepared = Prepared::new(token, steps);
    for forward in &nic.forwards {
        prepared.losses.push(format!(
            "port {} published at {}",
            forward.guest,
            super::publish::place(forward)
        ));
    }
    Ok(prepared.with(Plan {
        id: id.clone(),
        what: What::Remove(nic.name.clone()),
    }))
}

fn with(vm: &mut Definition, nic: &NicDef) {
    if vm.nics.iter().all(|other| other.name != nic.name) {
        vm.nics.push(nic.clone());
    }
}

fn without(vm: &mut Definition, nic: &str) {
    vm.nics.retain(|other| other.name != nic);
}

async fn add(ctx: &Ctx, cx: &TaskCx, seen: &Seen, nic: NicDef) -> Result<Outcome> {
    let (id, name) = (&seen.id, nic.name.clone());
    cx.step(format!("Attach {name} to {id}"));
    let mut vm = seen.vm.clone();
    vm.pin_slots()?;
    with(&mut vm, &nic);
    if seen.live.is_active() {
        let mut qmp = process::connect(ctx, &seen.vm)
            .await?
            .ok_or_else(|| Error::conflict(format!("{id} ended meanwhile. Nothing was done")))?;
        let dir = ctx.store.dir(&vm.name)?;
        let mut journal = Journal::begin(&dir, Change::NicAdd { nic: nic.clone() })?;
        journal.phase(Phase::Working)?;
        if let Err(error) = plug::add(&mut qmp, &nic).await {
            if !matches!(error.kind, ErrorKind::TimedOut | ErrorKind::Unreachable) {
                journal.finish()?;
            }
            return Err(error);
        }
        if let Err(error) = ctx.store.save(&vm) {
            // A guest has just got it; where it does not give it back, doctor does.
            drop(qmp);
            let never = CancellationToken::new();
            let out = plug::remove(ctx, &seen.vm, &name, &never, PATIENCE).await;
            if out.is_ok() {
                journal.finish()?;
            }
            return Err(error);
        }
        journal.phase(Phase::Recording)?;
        started::took(&ctx.paths(&vm.uuid)?, |vm| with(vm, &nic))?;
        journal.finish()?;
    } else {
        ctx.store.save(&vm)?;
    }
    let text = format!("{name} ({}, {}) is attached", nic.mac, shown(&nic.network));
    events::say(ctx, &vm, EventLevel::Info, "NIC_ADDED", &text);
    Ok(Outcome::changed(text))
}

async fn remove(ctx: &Ctx, cx: &TaskCx, seen: &Seen, nic: &str) -> Result<Outcome> {
    let (id, name) = (&seen.id, shown(nic).into_owned());
    cx.step(format!("Detach {name} from {id}"));
    let mut vm = seen.vm.clone();
    vm.pin_slots()?;
    without(&mut vm, nic);
    let live = running(ctx, seen)?;
    if live.is_some_and(|live| live.nics.iter().any(|other| other.name == nic)) {
        // Before anything is written down: another corral may have the monitor.
        let there = process::connect(ctx, &seen.vm).await?;
        drop(
            there.ok_or_else(|| {
                Error::conflict(format!("{id} ended meanwhile. Nothing was done"))
            })?,
        );
        let dir = ctx.store.dir(&vm.name)?;
        let change = Change::NicRemove {
            nic: nic.to_owned(),
        };
        let mut journal = Journal::begin(&dir, change)?;
        journal.phase(Phase::Working)?;
        let patience = cx.timeout.unwrap_or(PATIENCE);
        if let Err(error) = plug::remove(ctx, &seen.vm, nic, &cx.cancel, patience).await {
            // The guest kept it: all is as it was.
            if plug::is_in(ctx, &seen.vm, nic).await.is_ok_and(|kept| kept) {
                journal.finish()?;
            }
            return Err(error);
        }
        ctx.store.save(&vm)?;
        journal.phase(Phase::Recording)?;
        started::took(&ctx.paths(&vm.uuid)?, |vm| without(vm, nic))?;
        journal.finish()?;
    } else {
        ctx.store.save(&vm)?;
    }
    let text = format!("{name} is detached");
    events::say(ctx, &vm, EventLevel::Info, "NIC_REMOVED", &text);
    Ok(Outcome::changed(text))
}

/// Ends what a killed corral began: an interface that is in the definition stays plugged in, one
/// that is not goes; one that was to go goes. The caller holds the VM's lock.
///
/// # Errors
/// When the guest does not let go of it.
pub(super) async fn recover(ctx: &Ctx, vm: &Definition, change: &Change) -> Result<String> {
    let runs = process::connect(ctx, vm).await?.is_some();
    let paths = ctx.paths(&vm.uuid)?;
    let (name, stays) = match change {
        Change::NicAdd { nic } => {
            let kept = vm.nics.iter().any(|other| other.name == nic.name);
            if kept && runs {
                started::took(&paths, |vm| with(vm, nic))?;
            }
            (&nic.name, kept)
        }
        Change::NicRemove { nic } => (nic, false),
        _ => return Ok(String::new()),
    };
    let said = shown(name);
    if stays {
        return Ok(format!("{said} is attached"));
    }
    if runs {
        plug::remove(ctx, vm, name, &CancellationToken::new(), PATIENCE).await?;
        started::took(&paths, |vm| without(vm, name))?;
    }
    let mut vm = vm.clone();
    vm.pin_slots()?;
    without(&mut vm, name);
    ctx.store.save(&vm)?;
    Ok(format!("{said} is detached"))
}
