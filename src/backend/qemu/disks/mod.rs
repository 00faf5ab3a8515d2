//! Disks: attached, detached, grown and moved, while the VM runs and while it is off.

mod add;
mod copy;
mod grow;
pub mod live;
mod mirror;
pub mod moves;
pub(super) mod place;
pub(super) mod read;
pub(super) mod recover;
mod remove;
mod source;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use super::change::Seen;
use super::ctx::Ctx;
use super::definition::{Definition, DiskDef};
use super::image::quoted;
use super::op::{self, Journal};
use super::store::{DEFINITION, Store};
use super::{events, locks, process, started};
use crate::backend::contract::{Changes, DiskMoveRequest, DiskRequest, Prepared, ReadCx, TaskCx};
use crate::link::qmp::Qmp;
use crate::model::{Error, EventLevel, Instance, InstanceId, Outcome, Result, State, Step, shown};

/// The disk family.
#[derive(Clone, Debug)]
pub struct Disks(pub Arc<Ctx>);

/// The disk-move family.
#[derive(Clone, Debug)]
pub struct DiskMove(pub Arc<Ctx>);

/// What `prepare` decided, for `run`.
enum Work {
    Add(add::Adding),
    Remove(remove::Removing),
    Grow(grow::Growing),
    Move(moves::Moving),
}

struct Plan {
    id: InstanceId,
    work: Work,
}

/// A VM whose devices are about to change.
pub(super) struct Target<'a> {
    pub(super) ctx: &'a Ctx,
    pub(super) seen: &'a Seen,
    pub(super) token: String,
}

impl<'a> Target<'a> {
    /// Looks whether its devices can be changed at all.
    ///
    /// # Errors
    /// A ready refusal.
    pub(super) fn of(ctx: &'a Ctx, seen: &'a Seen) -> std::result::Result<Self, Box<Prepared>> {
        let token = seen.token();
        seen.changeable(ctx)?;
        let (id, state) = (&seen.id, seen.live.state);
        match state {
            State::Running | State::Paused | State::Stopped | State::Crashed => {
                Ok(Self { ctx, seen, token })
            }
            _ => Err(Box::new(Prepared::refused(
                token,
                format!("{id} is {state}: its devices stay as they are"),
                Some("Try again in a moment.".to_owned()),
            ))),
        }
    }

    /// It runs, so that its QEMU has to follow.
    pub(super) fn runs(&self) -> bool {
        self.seen.live.is_active()
    }

    pub(super) fn vm(&self) -> &'a Definition {
        &self.seen.vm
    }

    /// Its folder.
    pub(super) fn dir(&self) -> Result<PathBuf> {
        self.ctx.store.dir(&self.seen.vm.name)
    }

    /// The disk of this name.
    ///
    /// # Errors
    /// `NotFound` naming those that are there.
    pub(super) fn disk(&self, name: &str) -> Result<&'a DiskDef> {
        find(&self.seen.vm, name).ok_or_else(|| no_disk(&self.seen.id, &self.seen.vm, name))
    }

    /// The step that writes the definition.
    pub(super) fn write_down(&self, title: impl Into<String>) -> Result<Step> {
        let file = self.dir()?.join(DEFINITION);
        Ok(Step::new(title, format!("write {}", quoted(&file))))
    }

    /// Its monitor. Only for one that runs.
    pub(super) async fn monitor(&self, cx: &ReadCx) -> Result<Qmp> {
        let limit = cx.left().min(process::MONITOR);
        process::connect_within(self.ctx, &self.seen.vm, limit)
            .await?
            .ok_or_else(|| gone(&self.seen.id))
    }

    /// How many snapshots its images hold, as its records have it.
    pub(super) fn snapshots(&self) -> usize {
        let records = self
            .dir()
            .and_then(|dir| super::snapshots::record::Records::load(&dir));
        records.map_or(0, |records| records.snapshots.len())
    }
}

pub(super) fn gone(id: &InstanceId) -> Error {
    Error::conflict(format!("{id} ended meanwhile")).remedy("Look at it and ask again.")
}

/// The disk of this name.
pub(super) fn find<'a>(vm: &'a Definition, name: &str) -> Option<&'a DiskDef> {
    vm.disks.iter().find(|disk| disk.name == name)
}

fn no_disk(id: &InstanceId, vm: &Definition, name: &str) -> Error {
    let names: Vec<_> = vm.disks.iter().map(|disk| shown(&disk.name)).collect();
    let error = Error::not_found(format!("{id} has no disk \"{}\"", shown(name)));
    if vm.cdroms.iter().any(|medium| medium.name == name) {
        return error.remedy(format!(
            "That is a CD-ROM drive: corral media eject {id} --drive {}",
            shown(name)
        ));
    }
    error.remedy(match names.as_slice() {
        [] => "It has none.".to_owned(),
        names => format!("It has: {}", names.join(", ")),
    })
}

/// A path as plans and messages show it.
pub(super) fn show(path: &Path) -> String {
    shown(&path.to_string_lossy()).into_owned()
}

/// Writes a definition that was changed; with `live`, the running VM was changed with it.
pub(super) fn save(ctx: &Ctx, before: &Definition, after: &Definition, live: bool) -> Result<()> {
    ctx.store.save(after)?;
    if live {
        started::took(&ctx.paths(&after.uuid)?, |running| {
            follow(&mut running.disks, &before.disks, &after.disks, |disk| {
                &disk.name
            });
            follow(
                &mut running.cdroms,
                &before.cdroms,
                &after.cdroms,
                |medium| &medium.name,
            );
        })?;
    }
    Ok(())
}

/// What runs has this disk or drive as the definition has it: a corral that was killed may have
/// written only one of the two down.
pub(super) fn agree(ctx: &Ctx, vm: &Definition, name: &str) -> Result<()> {
    started::took(&ctx.paths(&vm.uuid)?, |running| {
        // Where it cannot be done, its places are the definition's all the same.
        let _ = running.pin_slots();
        put(&mut running.disks, &vm.disks, |disk| disk.name == name);
        put(&mut running.cdroms, &vm.cdroms, |medium| {
            medium.name == name
        });
    })
}

/// What is meant is in the one list as it is in the other.
fn put<T: Clone>(into: &mut Vec<T>, from: &[T], is_it: impl Fn(&T) -> bool) {
    match from.iter().find(|item| is_it(item)) {
        Some(item) => match into.iter_mut().find(|known| is_it(known)) {
            Some(known) => known.clone_from(item),
            None => into.push(item.clone()),
        },
        None => into.retain(|known| !is_it(known)),
    }
}

/// Makes of a list of the running VM what a change made of the definition's; what else the two differ
/// in still waits for a restart.
fn follow<T: Clone + PartialEq>(
    running: &mut Vec<T>,
    before: &[T],
    after: &[T],
    name: impl Fn(&T) -> &str,
) {
    let of = |list: &[T], wanted: &str| list.iter().find(|item| name(item) == wanted).cloned();
    running.retain(|item| {
        let wanted = name(item);
        of(before, wanted).is_none() || of(after, wanted).is_some()
    });
    for item in after.iter().filter(|item| !before.contains(item)) {
        match running.iter_mut().find(|known| name(known) == name(item)) {
            Some(known) => known.clone_from(item),
            None => running.push(item.clone()),
        }
    }
}

/// What went wrong, where taking it back went wrong too: the record stays for doctor.
pub(super) fn also(mut error: Error, other: &Error) -> Error {
    error.message = format!(
        "{}; taking it back failed too: {}",
        error.message, other.message
    );
    error.remedy = Some("Mend it: corral doctor --fix".to_owned());
    error
}

/// Ends a change that failed: what `undone` says decides whether anything is left for doctor.
pub(super) fn failed(journal: Journal, error: Error, undone: Result<()>) -> Error {
    match undone.and_then(|()| journal.finish()) {
        Ok(()) => error,
        Err(other) => also(error, &other),
    }
}

#[async_trait]
impl Changes<DiskRequest> for Disks {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: DiskRequest) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let target = match Target::of(&self.0, &seen) {
            Ok(target) => target,
            Err(refused) => return Ok(*refused),
        };
        let planned = match request {
            DiskRequest::Add { .. } => add::prepare(&target, cx, request)
                .await
                .map(|(plan, work)| (plan, work.map(Work::Add))),
            DiskRequest::Remove { disk, delete_data } => {
                remove::prepare(&target, cx, &disk, delete_data)
                    .await
                    .map(|(plan, work)| (plan, work.map(Work::Remove)))
            }
            DiskRequest::Grow { disk, size } => grow::prepare(&target, cx, &disk, size)
                .await
                .map(|(plan, work)| (plan, work.map(Work::Grow))),
        };
        Ok(finished(&target, planned))
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        run(&self.0, cx, prepared).await
    }
}

#[async_trait]
impl Changes<DiskMoveRequest> for DiskMove {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: DiskMoveRequest,
    ) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let target = match Target::of(&self.0, &seen) {
            Ok(target) => target,
            Err(refused) => return Ok(*refused),
        };
        let planned = moves::prepare(&target, cx, &request).await;
        let planned = planned.map(|(plan, work)| (plan, work.map(Work::Move)));
        Ok(finished(&target, planned))
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        run(&self.0, cx, prepared).await
    }
}

/// What cannot be done is a refusal with its reason.
fn finished(target: &Target<'_>, planned: Result<(Prepared, Option<Work>)>) -> Prepared {
    match planned {
        Ok((mut prepared, work)) => {
            prepared.token.clone_from(&target.token);
            match work {
                Some(work) => prepared.with(Plan {
                    id: target.seen.id.clone(),
                    work,
                }),
                None => prepared,
            }
        }
        Err(error) => Prepared::failed(target.token.clone(), &error),
    }
}

async fn run(ctx: &Ctx, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
    let plan: Plan = prepared.take()?;
    let vm = super::inventory::load(ctx, &plan.id)?;
    let _lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
    let seen = Seen::now(ctx, &plan.id, process::MONITOR).await?;
    seen.still(&prepared.token)?;
    cx.checkpoint()?;
    let watch = events::during(ctx, &seen.vm).await;
    let target = Target {
        ctx,
        seen: &seen,
        token: prepared.token,
    };
    let done = match plan.work {
        Work::Add(work) => add::run(&target, cx, work).await,
        Work::Remove(work) => remove::run(&target, cx, work).await,
        Work::Grow(work) => grow::run(&target, cx, work).await,
        Work::Move(work) => moves::run(&target, cx, work).await,
    };
    watch.end().await;
    let dir = ctx.store.dir(&vm.name)?;
    done.map_err(|error| op::remedied(&dir, error))
}

/// Writes what happened into the VM's events.
fn told(target: &Target<'_>, kind: &str, message: impl Into<String>) {
    events::say(target.ctx, &target.seen.vm, EventLevel::Info, kind, message);
}

/// Other VMs that need a file, by name.
pub(super) fn users(store: &Store, file: &Path, name: &str) -> Result<Vec<String>> {
    let users = store.users_of(file, name)?;
    Ok(users.iter().map(|user| shown(user).into_owned()).collect())
}
