//! Snapshots, live and offline, inside of the VM's own images.

pub mod inside;
mod list;
mod plan;
pub mod record;
pub(super) mod run;

pub use list::{list, name_fault};
pub use run::{power_off, run};

use inside::{Inside, Node, Reach};

use super::ctx::Ctx;
use super::definition::Definition;
use super::process;
use super::store::Store;
use crate::backend::contract::{Prepared, ReadCx, SnapshotRequest};
use crate::model::{Error, Instance, Result};
use plan::Plan;
use record::Records;

/// What `prepare` decided, for [`run`].
#[derive(Debug)]
pub struct Snapping {
    /// The VM.
    pub definition: Definition,
    /// What is asked for.
    pub request: SnapshotRequest,
    nodes: Vec<Node>,
    /// The snapshot to go back to holds RAM.
    memory: bool,
}

/// What must still hold when a plan runs.
fn token(vm: &Definition, running: bool, inside: &Inside) -> String {
    let mut tags: Vec<&str> = inside.values().flatten().map(|i| i.tag.as_str()).collect();
    tags.sort_unstable();
    format!(
        "{} {} {} {}",
        vm.uuid,
        Store::hash(vm),
        if running { "on" } else { "off" },
        tags.join("\n")
    )
}

/// Says what the request would do.
///
/// # Errors
/// When the definition or its images cannot be read.
pub async fn prepare(
    ctx: &Ctx,
    cx: &ReadCx,
    on: &Instance,
    request: SnapshotRequest,
) -> Result<Prepared> {
    let vm = ctx.store.load(&on.name)?;
    let fresh = vm.uuid.to_string();
    if let Some(why) = vm.readonly_reason() {
        return Ok(Prepared::refused(
            fresh,
            why,
            Some("Use the newer corral.".to_owned()),
        ));
    }
    if matches!(request, SnapshotRequest::Restore { .. })
        && let Some(why) = ctx.store.held_by_clones(&vm, &on.id)?
    {
        return Ok(Prepared::failed(fresh, &why));
    }
    let nodes = match inside::nodes(&vm) {
        Ok(nodes) => nodes,
        Err(e) => return Ok(Prepared::refused(fresh, e.message, e.remedy)),
    };
    let limit = cx.left().min(process::MONITOR);
    let mut monitor = match process::connect_within(ctx, &vm, limit).await {
        Ok(monitor) => monitor,
        Err(e) => {
            let remedy = "Nothing was done. Look what it is: corral doctor".to_owned();
            return Ok(Prepared::refused(
                fresh,
                e.message,
                e.remedy.or(Some(remedy)),
            ));
        }
    };
    let running = monitor.is_some();
    if let Err(e) = still_there(ctx, &vm, running) {
        return Ok(Prepared::refused(fresh, e.message, e.remedy));
    }
    if !running && let Some(e) = super::store::lost(&vm) {
        return Ok(Prepared::refused(fresh, e.message, e.remedy));
    }
    let mut reach = match &mut monitor {
        Some(qmp) => Reach::Monitor(qmp),
        None => Reach::Files(&ctx.env),
    };
    let inside = match reach.list(&nodes).await {
        Ok(inside) => inside,
        Err(e) => return Ok(Prepared::refused(fresh, e.message, e.remedy)),
    };
    let records = Records::load(&ctx.store.dir(&vm.name)?).unwrap_or_default();
    let plan = Plan {
        ctx,
        on,
        vm: &vm,
        nodes: &nodes,
        running,
        inside: &inside,
        records: &records,
    };
    let (mut prepared, memory) = match &request {
        SnapshotRequest::Create { name, memory, .. } => (plan.create(name, *memory)?, false),
        SnapshotRequest::Restore {
            name,
            stop,
            start,
            keep_present,
        } => plan.restore(name, *stop, *start, keep_present.as_deref())?,
        SnapshotRequest::Delete { name } => (plan.delete(name)?, false),
    };
    prepared.token = token(&vm, running, &inside);
    Ok(prepared.with(Snapping {
        nodes,
        memory,
        request,
        definition: vm,
    }))
}

/// A process of this VM whose monitor does not answer still writes the images.
fn still_there(ctx: &Ctx, vm: &Definition, running: bool) -> Result<()> {
    let paths = ctx.paths(&vm.uuid)?;
    match process::owner(&paths, vm) {
        Some(pid) if !running => Err(Error::refused(format!(
            "its QEMU (process {pid}) is there but its monitor does not answer"
        ))
        .remedy(format!(
            "Power it off: corral stop --force {}",
            ctx.id(&vm.name)
        ))),
        _ => Ok(()),
    }
}
