//! Completes or rolls back what a killed corral left: `doctor --fix`.

use std::fs;
use std::path::Path;

use super::ctx::Ctx;
use super::op::{self, Change, Leftover, Phase};
use super::snapshots::inside::{Node, Reach, nodes};
use super::snapshots::record::Records;
use super::snapshots::run as snapshot_run;
use super::store::{DEFINITION, io};
use super::{locks, process, remove};
use crate::model::{Error, ErrorKind, Outcome, Result, shown};

/// Mends one leftover. Says what was done.
///
/// # Errors
/// Where it cannot be mended without a person.
pub async fn recover(ctx: &Ctx, left: &Leftover) -> Result<Outcome> {
    let name = &left.name;
    let dir = ctx.store.dir(name)?;
    let op = match &left.op {
        Some(Ok(op)) => op,
        Some(Err(e)) => return Err(e.clone()),
        None => return empty_folder(&dir, name),
    };
    // It may have been mended, or begun anew, since it was found.
    match op::read(&dir.join(op::FILE))? {
        Some(now) if now == *op && !now.is_alive() => {}
        _ => {
            return Ok(Outcome::unchanged(format!(
                "{}: nothing is left",
                shown(name)
            )));
        }
    }
    match &op.change {
        Change::Create => create(&dir, name),
        Change::Delete { files, keep } => {
            if op.phase == Phase::Begun {
                return dropped(&dir, name, "nothing was deleted yet");
            }
            remove::finish(&dir, files, keep)?;
            Ok(Outcome::changed(format!(
                "{}: deleted, as was begun",
                shown(name)
            )))
        }
        Change::SnapshotCreate { .. }
        | Change::SnapshotRestore { .. }
        | Change::SnapshotDelete { .. } => snapshot(ctx, &dir, name, op).await,
    }
}

fn dropped(dir: &Path, name: &str, why: &str) -> Result<Outcome> {
    op::remove(&dir.join(op::FILE))?;
    Ok(Outcome::changed(format!("{}: {why}", shown(name))))
}

/// A folder that was made a moment before corral was killed.
fn empty_folder(dir: &Path, name: &str) -> Result<Outcome> {
    let entries = fs::read_dir(dir).map_err(|e| io("read", dir, e))?;
    let mut ours = Vec::new();
    for entry in entries.filter_map(std::result::Result::ok) {
        if entry.path().extension().is_none_or(|e| e != "new") {
            return Err(Error::refused(format!(
                "{} holds files, but no definition says what they are",
                dir.display()
            ))
            .remedy("Look at them, and move or remove that folder."));
        }
        ours.push(entry.path());
    }
    for path in ours {
        op::remove(&path)?;
    }
    fs::remove_dir(dir).map_err(|e| io("remove", dir, e))?;
    Ok(Outcome::changed(format!(
        "{}: empty folder removed",
        shown(name)
    )))
}

fn create(dir: &Path, name: &str) -> Result<Outcome> {
    if dir.join(DEFINITION).exists() {
        return dropped(dir, name, "was made completely");
    }
    // A create makes its folder itself, so everything in it is the create's.
    fs::remove_dir_all(dir).map_err(|e| io("remove", dir, e))?;
    Ok(Outcome::changed(format!(
        "{}: the unfinished VM is removed",
        shown(name)
    )))
}

async fn snapshot(ctx: &Ctx, dir: &Path, name: &str, op: &op::Op) -> Result<Outcome> {
    if op.phase == Phase::Begun {
        return dropped(dir, name, "nothing was done yet");
    }
    let vm = match ctx.store.load(name) {
        Ok(vm) => vm,
        Err(e) if e.kind == ErrorKind::NotFound => return create(dir, name),
        Err(e) => return Err(e),
    };
    let _lock = locks::vm(ctx, &vm.uuid, name).await?;
    let nodes: Vec<Node> = nodes(&vm)?;
    let mut monitor = process::connect(ctx, &vm).await?;
    let running = monitor.is_some();
    let mut reach = match &mut monitor {
        Some(qmp) => Reach::Monitor(qmp),
        None => Reach::Files(&ctx.env),
    };
    let said = match &op.change {
        Change::SnapshotCreate { tag, how, note } => {
            let inside = reach.list(&nodes).await?;
            let whole = nodes.iter().all(|(node, _)| {
                inside
                    .get(node)
                    .is_some_and(|l| l.iter().any(|i| i.tag == *tag))
            });
            if whole {
                snapshot_run::noted(dir, &inside, tag, *how, note.clone())?;
                format!("snapshot {} is whole", shown(tag))
            } else {
                reach.delete(&nodes, tag).await?;
                format!("the unfinished snapshot {} is removed", shown(tag))
            }
        }
        Change::SnapshotDelete { tag } => {
            reach.delete(&nodes, tag).await?;
            let mut records = Records::load(dir)?;
            records.lost(tag);
            records.save(dir)?;
            format!("snapshot {} is deleted, as was begun", shown(tag))
        }
        Change::SnapshotRestore { tag } => {
            if running {
                return Err(Error::refused(format!(
                    "{} was started between two disks of a restore",
                    ctx.id(name)
                ))
                .remedy(format!(
                    "Stop it, then: corral doctor --fix (it goes back to {})",
                    shown(tag)
                )));
            }
            reach.apply(&nodes, tag).await?;
            let mut records = Records::load(dir)?;
            records.current = Some(tag.clone());
            records.save(dir)?;
            format!("its disks are at {}, as was begun", shown(tag))
        }
        Change::Create | Change::Delete { .. } => String::new(),
    };
    dropped(dir, name, &said)
}
