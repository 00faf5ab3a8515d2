//! The disks of a running VM at one moment: QEMU keeps what the guest overwrites in scratch
//! overlays ("fleecing"), and serves the whole on a socket until it is told to stop.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::snapshots::freeze::{self, Tried};
use super::super::snapshots::inside::{self, Node};
use super::super::{image, process};
use super::pieces::Piece;
use crate::link::child::run;
use crate::link::qmp::Qmp;
use crate::model::{Error, Result, shown};

/// What the names of nodes, jobs and exports begin with.
const MARK: &str = "fleece-";
/// What the names of scratch files begin with; they end in `.new`, as all that is half-made.
const SCRATCH: &str = ".fleece-";
/// Commands of the monitor; to begin, QEMU waits for what is in flight.
const ANSWER: Duration = Duration::from_secs(60);
/// A guest whose file systems are frozen waits.
const WHILE_FROZEN: Duration = Duration::from_secs(20);
/// Until a job that was cancelled is gone.
const END: Duration = Duration::from_secs(30);
/// Between looks whether there is still room for what the guest overwrites.
const LOOK: Duration = Duration::from_secs(1);

/// What a running VM may hold for an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Its file systems may be frozen.
    pub frozen: bool,
    /// It ran, and goes on in the end if its disks halted it meanwhile.
    #[serde(default)]
    pub ran: bool,
}

/// Where it is served.
pub fn socket(ctx: &Ctx, vm: &Definition) -> Result<PathBuf> {
    Ok(ctx.paths(&vm.uuid)?.dir.join("nbd.sock"))
}

fn written(pieces: &[Piece]) -> impl Iterator<Item = (usize, &Piece)> {
    pieces
        .iter()
        .enumerate()
        .filter(|(_, piece)| !piece.readonly)
}

fn scratch(dir: &Path, n: usize) -> PathBuf {
    dir.join(format!("{SCRATCH}{n}.new"))
}

/// What it takes, for a plan.
pub fn steps(pieces: &[Piece], quiet: bool) -> Vec<(String, String)> {
    let names: Vec<String> = written(pieces)
        .map(|(_, piece)| shown(&piece.name).into_owned())
        .collect();
    let mut steps = Vec::new();
    if quiet {
        steps.push((
            "Freeze its file systems for that moment".to_owned(),
            "agent guest-fsfreeze-freeze, then guest-fsfreeze-thaw".to_owned(),
        ));
    }
    steps.extend([
        (
            "Keep the disks as they are at one moment, while the guest goes on".to_owned(),
            format!(
                "QMP blockdev-add (scratch overlay), transaction [blockdev-backup sync=none] of {}",
                names.join(", ")
            ),
        ),
        (
            "Serve them to qemu-img".to_owned(),
            "QMP nbd-server-start (unix socket), block-export-add".to_owned(),
        ),
    ]);
    steps
}

/// How it is undone, for a plan.
pub const UNDO: &str = "QMP block-export-del, nbd-server-stop, block-job-cancel, blockdev-del";

/// Begins: all disks at the same moment, with `quiet` while the file systems are frozen. The caller
/// has written down that it does, and calls [`end`] whatever happens. `Some(why)`: they were not frozen.
pub async fn begin(
    ctx: &Ctx,
    vm: &Definition,
    pieces: &[Piece],
    quiet: bool,
) -> Result<Option<String>> {
    let dir = ctx.store.dir(&vm.name)?;
    let socket = socket(ctx, vm)?;
    let tool = image::tool(&ctx.env)?;
    for (n, piece) in written(pieces) {
        let size = image::info_as(&ctx.env, &piece.path, Some(&piece.format), true)
            .await?
            .size;
        let file = scratch(&dir, n);
        let output = run(&image::blank_cmd(&tool, &file, size), ANSWER).await?;
        if !output.status.success() {
            return Err(image::complaint(&file, &output));
        }
    }
    let mut qmp = monitor(ctx, vm).await?;
    let nodes: Vec<Node> = written(pieces)
        .map(|(_, piece)| (piece.name.clone(), piece.path.clone()))
        .collect();
    let mut actions = Vec::new();
    for ((n, _), now) in written(pieces).zip(inside::present(&mut qmp, &nodes).await?) {
        let node = json!({"driver": "qcow2", "node-name": format!("{MARK}{n}"),
            "file": {"driver": "file", "filename": scratch(&dir, n).to_string_lossy()},
            "backing": now});
        qmp.execute("blockdev-add", node, ANSWER).await?;
        actions.push(
            json!({"type": "blockdev-backup", "data": {"job-id": format!("{MARK}{n}"),
            "device": now, "target": format!("{MARK}{n}"), "sync": "none"}}),
        );
    }
    let all = json!({"actions": actions});
    let mut less = None;
    let mut quiet = quiet;
    if quiet && let Err(error) = freeze::outlook(ctx, vm).await {
        // What somebody else froze is not ours to thaw.
        less = Some(error.message);
        quiet = false;
    }
    if quiet {
        match freeze::freeze(ctx, vm, None).await? {
            Tried::Frozen(held) => {
                let done = qmp.execute("transaction", all, WHILE_FROZEN).await;
                // Whatever came of it, the guest goes on first.
                if !held.thaw(ctx, vm).await? {
                    less = Some("the guest agent thawed its file systems too early".to_owned());
                }
                done?;
            }
            Tried::Thawed(error) => {
                less = Some(error.message);
                qmp.execute("transaction", all, ANSWER).await?;
            }
        }
    } else {
        qmp.execute("transaction", all, ANSWER).await?;
    }
    let address = json!({"addr": {"type": "unix", "data": {"path": socket.to_string_lossy()}}});
    qmp.execute("nbd-server-start", address, ANSWER).await?;
    for (n, piece) in written(pieces) {
        let export = json!({"type": "nbd", "id": format!("{MARK}{n}"),
            "node-name": format!("{MARK}{n}"), "name": piece.name});
        qmp.execute("block-export-add", export, ANSWER).await?;
    }
    Ok(less)
}

async fn monitor(ctx: &Ctx, vm: &Definition) -> Result<Qmp> {
    process::connect(ctx, vm).await?.ok_or_else(|| {
        Error::conflict(format!("{} was powered off meanwhile", ctx.called(vm)))
            .remedy("Run it again.")
    })
}

/// Whether QEMU still keeps what the disks were: only then is what was read true.
pub async fn holds(ctx: &Ctx, vm: &Definition, pieces: &[Piece]) -> Result<()> {
    let mut qmp = monitor(ctx, vm).await?;
    let jobs = qmp.execute("query-jobs", Value::Null, ANSWER).await?;
    for (n, piece) in written(pieces) {
        let id = format!("{MARK}{n}");
        let runs = jobs.as_array().into_iter().flatten().any(|job| {
            job.get("id").and_then(Value::as_str) == Some(&id)
                && job.get("status").and_then(Value::as_str) == Some("running")
                && job.get("error").is_none()
        });
        if !runs {
            let what = format!("what {} was", shown(&piece.name));
            return Err(starved(ctx, vm, &what));
        }
    }
    Ok(())
}

fn starved(ctx: &Ctx, vm: &Definition, what: &str) -> Error {
    let dir = ctx.store.dir(&vm.name).unwrap_or_default();
    Error::backend(format!(
        "{}: QEMU could not keep {what}, most likely for want of space",
        ctx.called(vm)
    ))
    .remedy(format!("Free some: df -h {}", image::quoted(&dir)))
}

/// Ends when the guest was halted since what it overwrites found no room: with the reason. Whoever
/// waits for it gives the export up then, so that the guest goes on at once.
pub async fn halted(ctx: &Ctx, vm: &Definition) -> Error {
    loop {
        tokio::time::sleep(LOOK).await;
        // One that is asked by others, or is off, is seen in the end.
        if let Ok(Some(mut qmp)) = process::connect(ctx, vm).await
            && is_halted(&mut qmp).await.unwrap_or(false)
        {
            return starved(ctx, vm, "what the guest overwrites");
        }
    }
}

/// Whether its disks halted it.
async fn is_halted(qmp: &mut Qmp) -> Result<bool> {
    let status = qmp.execute("query-status", Value::Null, ANSWER).await?;
    Ok(status.get("status").and_then(Value::as_str) == Some("io-error"))
}

/// Ends it, also what a corral that was killed had begun. Nothing is left.
pub async fn end(ctx: &Ctx, vm: &Definition, held: Held) -> Result<()> {
    if held.frozen && process::connect(ctx, vm).await?.is_some() {
        freeze::thaw(ctx, vm).await?;
    }
    let mut monitor = process::connect(ctx, vm).await?;
    if let Some(qmp) = &mut monitor {
        stop(qmp).await?;
    }
    let dir = ctx.store.dir(&vm.name)?;
    for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(SCRATCH) && name.ends_with(".new") {
            super::target::remove(&entry.path())?;
        }
    }
    super::target::remove(&socket(ctx, vm)?)?;
    // There is room again. One whose own disk is full is halted again at once.
    if let Some(qmp) = &mut monitor
        && held.ran
        && is_halted(qmp).await?
    {
        qmp.execute("cont", Value::Null, ANSWER).await?;
    }
    Ok(())
}

async fn stop(qmp: &mut Qmp) -> Result<()> {
    let ids = |list: &Value, key: &str| -> Vec<String> {
        list.as_array()
            .into_iter()
            .flatten()
            .filter_map(|item| item.get(key)?.as_str())
            .filter(|id| id.starts_with(MARK))
            .map(str::to_owned)
            .collect()
    };
    let exports = qmp
        .execute("query-block-exports", Value::Null, ANSWER)
        .await?;
    for id in ids(&exports, "id") {
        let hard = json!({"id": id, "mode": "hard"});
        qmp.execute("block-export-del", hard, ANSWER).await?;
    }
    // "Not running" is as wanted; somebody else's cannot be there, since each VM has one at most.
    let _ = qmp.execute("nbd-server-stop", Value::Null, ANSWER).await;
    let until = tokio::time::Instant::now() + END;
    loop {
        let jobs = qmp.execute("query-jobs", Value::Null, ANSWER).await?;
        let left = ids(&jobs, "id");
        if left.is_empty() {
            break;
        }
        if tokio::time::Instant::now() >= until {
            return Err(Error::timed_out("a job of its QEMU does not end")
                .remedy("Try again later: corral doctor --fix"));
        }
        for id in left {
            let status = jobs.as_array().into_iter().flatten().find_map(|job| {
                (job.get("id")?.as_str()? == id).then(|| job.get("status")?.as_str())?
            });
            // Either may be too late, and the next look tells.
            let _ = match status {
                Some("concluded") => qmp.execute("job-dismiss", json!({"id": id}), ANSWER).await,
                _ => {
                    let force = json!({"device": id, "force": true});
                    qmp.execute("block-job-cancel", force, ANSWER).await
                }
            };
        }
        // The event of its end comes in between; a look every moment does as well.
        let _ = qmp.event(Duration::from_millis(100)).await?;
    }
    let nodes = qmp
        .execute("query-named-block-nodes", json!({"flat": true}), ANSWER)
        .await?;
    for node in ids(&nodes, "node-name") {
        qmp.execute("blockdev-del", json!({"node-name": node}), ANSWER)
            .await?;
    }
    Ok(())
}
