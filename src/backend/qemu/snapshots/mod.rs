//! Snapshots, live and offline, inside of the VM's own images.

pub mod freeze;
pub mod inside;
mod list;
mod plan;
pub mod record;
pub(super) mod run;
pub(super) mod taking;

pub use list::{list, name_fault};
pub use run::{power_off, run};

use inside::{Inside, Node, Reach};

use super::ctx::Ctx;
use super::definition::Definition;
use super::live;
use super::process;
use super::store::Store;
use crate::backend::contract::{Prepared, ReadCx, SnapshotRequest};
use crate::model::{Consistency, Error, Instance, Result, State};
use plan::{Back, Outlook, Plan, Take};
use record::Records;

/// The tag of what hibernate saves: no snapshot of the user's, and never shown as one.
pub const HIBERNATED: &str = "corral-hibernated";

/// What `prepare` decided, for [`run`].
#[derive(Debug)]
pub struct Snapping {
    /// The VM.
    pub definition: Definition,
    /// What is asked for.
    pub request: SnapshotRequest,
    nodes: Vec<Node>,
    take: Take,
    back: Back,
}

/// What must still hold when a plan runs.
fn token(vm: &Definition, running: bool, inside: &Inside) -> String {
    // With when it was taken: another one of the same name is not the one that was meant.
    let mut tags: Vec<String> = inside
        .values()
        .flatten()
        .map(|i| format!("{} {}", i.tag, i.seconds.unwrap_or_default()))
        .collect();
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
    let noted = Records::load(&ctx.store.dir(&vm.name)?).unwrap_or_default();
    if let Some(why) = vm.readonly_reason().or_else(|| noted.readonly_reason()) {
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
    let wants_quiet = matches!(&request, SnapshotRequest::Create(take) if take.quiesce);
    // Asked over the monitor that is open: it takes one client.
    let halted = match &mut monitor {
        Some(qmp) if wants_quiet => !inside::goes(qmp).await.unwrap_or(true),
        _ => false,
    };
    let outlook = if halted {
        let why = format!(
            "it is paused, and its agent with it (corral resume {})",
            on.id
        );
        Outlook {
            best: Consistency::Crash,
            why: Some(why),
        }
    } else {
        outlook(ctx, &vm, running, wants_quiet).await
    };
    let loads_ram = matches!(&request, SnapshotRequest::Restore { start: true, .. });
    let accel = if loads_ram {
        let accel = process::accel_for(ctx, &vm).await;
        accel.map(|accel| accel.word()).unwrap_or_default()
    } else {
        ""
    };
    let plan = Plan {
        ctx,
        on,
        vm: &vm,
        nodes: &nodes,
        running,
        inside: &inside,
        records: &records,
        outlook,
        detached: detached(ctx, &vm).await,
        accel,
    };
    let (mut take, mut back) = (Take::default(), Back::default());
    let mut prepared = match &request {
        SnapshotRequest::Create(wanted) => {
            let (prepared, decided) = plan.create(wanted)?;
            take = decided;
            prepared
        }
        SnapshotRequest::Restore {
            name,
            stop,
            start,
            keep_present,
        } => {
            let (prepared, decided) = plan.restore(name, *stop, *start, keep_present.as_deref())?;
            back = decided;
            prepared
        }
        SnapshotRequest::Delete { names } => plan.delete(names)?,
    };
    prepared.token = token(&vm, running, &inside);
    Ok(prepared.with(Snapping {
        nodes,
        take,
        back,
        request,
        definition: vm,
    }))
}

/// What a snapshot without RAM is at best.
async fn outlook(ctx: &Ctx, vm: &Definition, running: bool, quiesce: bool) -> Outlook {
    let (best, why) = if !running {
        match live::look(ctx, vm, process::MONITOR).await.state {
            State::Crashed => (
                Consistency::Crash,
                Some("its process was killed or crashed".to_owned()),
            ),
            State::Hibernated => (
                Consistency::Crash,
                Some("it is hibernated, and what is in its RAM is not on its disks".to_owned()),
            ),
            _ => (Consistency::Offline, None),
        }
    } else if quiesce {
        match freeze::outlook(ctx, vm).await {
            Ok(()) => (Consistency::Filesystem, None),
            Err(error) => (Consistency::Crash, Some(error.message)),
        }
    } else {
        (Consistency::Crash, None)
    };
    Outlook { best, why }
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
/// Disks in its folder that its definition has no more, and the snapshots in them; what cannot be read
/// holds none.
async fn detached(ctx: &Ctx, vm: &Definition) -> Vec<(std::path::PathBuf, Vec<String>)> {
    let Ok(inside) = ctx.store.dir(&vm.name).and_then(|dir| {
        std::fs::read_dir(&dir).map_err(|e| crate::link::files::fault("read", &dir, e))
    }) else {
        return Vec::new();
    };
    let paths = inside
        .filter_map(std::result::Result::ok)
        .map(|entry| entry.path());
    let named = paths.filter(|path| {
        super::disks::place::is_named(path)
            && !super::store::files(vm)
                .any(|file| super::store::real(file) == super::store::real(path))
    });
    let mut found = Vec::new();
    for path in named {
        if let Ok(image) = super::image::info(&ctx.env, &path, true).await {
            let tags = image.snapshots.into_iter().map(|inside| inside.tag);
            found.push((path, tags.collect()));
        }
    }
    found.sort();
    found
}
