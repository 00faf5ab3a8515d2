//! The making half of this backend, behind the contract.

use std::sync::Arc;

use async_trait::async_trait;

use super::create::{self, Making, Pinned};
use super::ctx::Ctx;
use super::machine::Offer;
use super::remove::{self, Removing};
use super::snapshots::{self, Snapping};
use super::{accel, events, live, locks, process};
use crate::backend::contract::{
    Changes, CreateRequest, Prepared, ReadCx, RemoveRequest, SnapshotRequest, TaskCx,
};
use crate::model::{Error, EventLevel, Instance, Outcome, Result, State, shown};

/// The create family.
#[derive(Clone, Debug)]
pub struct Create(pub Arc<Ctx>);

/// The remove family.
#[derive(Clone, Debug)]
pub struct Remove(pub Arc<Ctx>);

/// The snapshot family.
#[derive(Clone, Debug)]
pub struct Snapshots(pub Arc<Ctx>);

#[async_trait]
impl Changes<CreateRequest> for Create {
    async fn prepare(&self, _: &ReadCx, _: &Instance, request: CreateRequest) -> Result<Prepared> {
        let pinned = match pinned(&self.0).await {
            Ok(pinned) => pinned,
            Err(e) => return Ok(Prepared::refused("new", e.message, e.remedy)),
        };
        create::prepare(&self.0, &pinned, request).await
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let ctx = &self.0;
        let making: Making = prepared.take()?;
        create::build(ctx, cx, &making, &prepared.token).await?;
        let name = &making.definition.name;
        events::say(
            ctx,
            &making.definition,
            EventLevel::Info,
            "CREATED",
            "created",
        );
        let mut outcome = Outcome::changed(format!("{} is made", shown(name)));
        outcome.id = Some(ctx.id(name));
        if making.start {
            cx.step("Start it");
            first_start(ctx, name).await.map_err(|mut e| {
                e.message = format!("{} is made, but did not start: {}", ctx.id(name), e.message);
                e
            })?;
            outcome.message = Some(format!("{} is made, running", shown(name)));
        }
        Ok(outcome)
    }
}

/// Starts a new VM.
pub(super) async fn first_start(ctx: &Ctx, name: &str) -> Result<()> {
    let vm = ctx.store.load(name)?;
    let _lock = locks::vm(ctx, &vm.uuid, name).await?;
    process::spawn(ctx, &vm).await.map(drop)
}

/// What this machine offers a new VM.
pub(super) async fn pinned(ctx: &Ctx) -> Result<Pinned> {
    let offer = Offer::ask(ctx).await?;
    let accel = accel::prove(ctx, "").await?;
    Ok(Pinned {
        offer,
        cpu_model: accel.cpu_model().to_owned(),
    })
}

#[async_trait]
impl Changes<RemoveRequest> for Remove {
    async fn prepare(&self, _: &ReadCx, on: &Instance, request: RemoveRequest) -> Result<Prepared> {
        let mut now = on.clone();
        // The row may be old, and what is deleted under a running guest is gone for good.
        if let Ok(vm) = self.0.store.load(&on.name) {
            let live = live::look(&self.0, &vm, process::MONITOR).await;
            if live.state == State::Unknown && live.is_active() && !request.force {
                let why = live.reason.unwrap_or_default();
                return Ok(Prepared::refused(
                    vm.uuid.to_string(),
                    format!("its QEMU runs and cannot be asked: {why}"),
                    Some(format!("Power it off first: corral stop --force {}", on.id)),
                ));
            }
            let hidden = live.is_active() && !live.state.is_active();
            now.state = if hidden { State::Running } else { live.state };
            // Something answers in its place, or nobody can tell.
            if live.state == State::Unknown && !live.is_active() {
                let why = live.reason.unwrap_or_default();
                return Ok(Prepared::refused(
                    vm.uuid.to_string(),
                    format!("{} cannot be asked: {why}", on.id),
                    Some("Nothing was done. Look what it is: corral doctor".to_owned()),
                ));
            }
        }
        remove::prepare(&self.0.store, &now, request)
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let ctx = &self.0;
        let removing: Removing = prepared.take()?;
        let vm = &removing.definition;
        let _lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
        let paths = ctx.paths(&vm.uuid)?;
        let monitor = process::connect(ctx, vm).await?;
        let runs = monitor.is_some() || process::owner(&paths, vm).is_some();
        if runs && !removing.power_off {
            let id = ctx.id(&vm.name);
            return Err(
                Error::conflict(format!("{id} was started since the plan was made"))
                    .remedy(format!("Stop it first: corral stop {id} (or add --force).")),
            );
        }
        let files = locks::files(ctx).await?;
        let begun = remove::begin(&ctx.store, cx, &removing, &prepared.token)?;
        drop(files);
        let outcome = match begun {
            None => Outcome::unchanged("it is already gone"),
            Some(begun) => {
                if runs {
                    cx.step("Power it off");
                    if let Err(error) = snapshots::power_off(ctx, vm, monitor).await {
                        begun.leave()?;
                        return Err(error);
                    }
                }
                remove::run(&ctx.store, cx, &removing, begun)?
            }
        };
        // Sockets, logs and locks of a VM that is gone. They are no one's data.
        if let Err(e) = std::fs::remove_dir_all(&paths.dir) {
            cx.log(format!("{}: {e}", paths.dir.display()));
        }
        Ok(outcome)
    }
}

#[async_trait]
impl Changes<SnapshotRequest> for Snapshots {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: SnapshotRequest,
    ) -> Result<Prepared> {
        snapshots::prepare(&self.0, cx, on, request).await
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let snapping: Snapping = prepared.take()?;
        snapshots::run(&self.0, cx, &snapping, &prepared.token).await
    }
}
