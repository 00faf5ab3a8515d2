//! Completes or rolls back what a killed corral left: `doctor --fix`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::ctx::Ctx;
use super::definition::Definition;
use super::op::{self, Change, Leftover, Phase};
use super::snapshots::inside::{self, Node, Reach, nodes};
use super::snapshots::record::{Record, Records};
use super::snapshots::{self, freeze, taking};
use super::store::DEFINITION;
use super::{hibernate, locks, nics, process, publish, remove, rename, resize, transfer};
use crate::link::files::fault;
use crate::model::{Consistency, Error, ErrorKind, Outcome, Result, encode_segment, shown};

/// Until a QEMU that writes RAM to a slow disk answers again.
const SILENT: Duration = Duration::from_secs(120);

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
        None => {
            let _mending = locks::mending(ctx).await?;
            return empty_folder(&dir, name);
        }
    };
    let _mending = locks::mending(ctx).await?;
    let _lock = match ctx.store.load(name) {
        Ok(vm) => Some(locks::vm(ctx, &vm.uuid, name).await?),
        // What was never made, or is deleted by half.
        Err(_) => None,
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
        Change::Create | Change::Import => create(&dir, name),
        Change::BackupRestore { files } if op.phase < Phase::Recording => {
            transfer::restore::undo(files)?;
            dropped(&dir, name, "nothing was restored yet")
        }
        Change::BackupRestore { files } => {
            transfer::restore::complete(ctx, name, files).await?;
            dropped(
                &dir,
                name,
                "its disks are those of the backup, as was begun",
            )
        }
        Change::Export { live, .. } => {
            transfer::end(ctx, name, *live).await?;
            let mut gone = 0;
            for partial in transfer::half_written(op) {
                transfer::undo(ctx, name, partial, None, false).await?;
                gone += 1;
            }
            let what = match gone {
                0 => "nothing was exported yet".to_owned(),
                1 => "the unfinished export is removed".to_owned(),
                more => format!("{more} unfinished exports are removed"),
            };
            dropped(&dir, name, &what)
        }
        Change::Delete { files, keep } => {
            if op.phase == Phase::Begun {
                return dropped(&dir, name, "nothing was deleted yet");
            }
            let vm = ctx.store.load(name).ok();
            remove::finish(&dir, files, keep)?;
            if let Some(paths) = vm.and_then(|vm| ctx.paths(&vm.uuid).ok()) {
                // Logs and locks: doctor finds what stays of them.
                let _ = fs::remove_dir_all(&paths.dir);
            }
            Ok(Outcome::changed(format!(
                "{}: deleted, as was begun",
                shown(name)
            )))
        }
        Change::Rename { from, to, overlays } => {
            if op.phase == Phase::Begun || name == from {
                return dropped(&dir, name, "its name was not changed yet");
            }
            rename::complete(ctx, to, overlays).await?;
            dropped(&dir, name, &format!("was {}, as was begun", shown(from)))
        }
        Change::SnapshotCreate { .. }
        | Change::SnapshotRestore { .. }
        | Change::SnapshotDelete { .. }
        | Change::Hibernate { .. }
        | Change::Wake => snapshot(ctx, &dir, name, op).await,
        Change::Resize { .. }
        | Change::NicAdd { .. }
        | Change::NicRemove { .. }
        | Change::Publish { .. }
        | Change::Unpublish { .. } => {
            let Some(vm) = begun(ctx, name, op)? else {
                return dropped(&dir, name, "nothing was done yet");
            };
            let said = match &op.change {
                Change::Resize { to } => resize::recover(ctx, &vm, to).await?,
                Change::NicAdd { .. } | Change::NicRemove { .. } => {
                    nics::recover(ctx, &vm, &op.change).await?
                }
                _ => publish::recover(ctx, &vm, &op.change).await?,
            };
            dropped(&dir, name, &said)
        }
        Change::DiskAdd { .. }
        | Change::DiskRemove { .. }
        | Change::DiskGrow { .. }
        | Change::DiskMove { .. } => {
            if op.phase == Phase::Begun {
                return dropped(&dir, name, "nothing was done yet");
            }
            let vm = ctx.store.load(name)?;
            let said = super::disks::recover::recover(ctx, &vm, op).await?;
            dropped(&dir, name, &said)
        }
        Change::Media { drive, image } => {
            let vm = ctx.store.load(name)?;
            let said = super::media::recover(ctx, &vm, drive, image.as_deref()).await?;
            dropped(&dir, name, &said)
        }
    }
}

/// The VM whose change is to be ended; `None` when nothing of it was done, or the VM is gone.
fn begun(ctx: &Ctx, name: &str, op: &op::Op) -> Result<Option<Definition>> {
    if op.phase == Phase::Begun {
        return Ok(None);
    }
    match ctx.store.load(name) {
        Ok(vm) => Ok(Some(vm)),
        Err(e) if e.kind == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn dropped(dir: &Path, name: &str, why: &str) -> Result<Outcome> {
    op::remove(&dir.join(op::FILE))?;
    Ok(Outcome::changed(format!("{}: {why}", shown(name))))
}

/// Whether a folder without a definition holds what no killed corral leaves there: only a person
/// can tell what that is.
pub fn foreign(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| {
        entries.any(|entry| {
            entry.is_ok_and(|entry| entry.path().extension().is_none_or(|e| e != "new"))
        })
    })
}

/// A folder that was made a moment before corral was killed.
fn empty_folder(dir: &Path, name: &str) -> Result<Outcome> {
    if foreign(dir) {
        return Err(Error::refused(format!(
            "{} holds files, but no definition says what they are",
            dir.display()
        ))
        .remedy("Look at them, and move or remove that folder."));
    }
    let entries = fs::read_dir(dir).map_err(|e| fault("read", dir, e))?;
    let mut ours = Vec::new();
    for entry in entries.filter_map(std::result::Result::ok) {
        ours.push(entry.path());
    }
    for path in ours {
        op::remove(&path)?;
    }
    fs::remove_dir(dir).map_err(|e| fault("remove", dir, e))?;
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
    fs::remove_dir_all(dir).map_err(|e| fault("remove", dir, e))?;
    Ok(Outcome::changed(format!(
        "{}: the unfinished VM is removed",
        shown(name)
    )))
}

async fn snapshot(ctx: &Ctx, dir: &Path, name: &str, op: &op::Op) -> Result<Outcome> {
    if op.phase == Phase::Begun {
        let why = match &op.change {
            // It is powered off before the first disk goes back.
            Change::SnapshotRestore { .. } => format!(
                "its disks are as they were; if it ran, it was stopped for the restore: corral start {}",
                ctx.id(name)
            ),
            _ => "nothing was done yet".to_owned(),
        };
        return dropped(dir, name, &why);
    }
    let vm = match ctx.store.load(name) {
        Ok(vm) => vm,
        Err(e) if e.kind == ErrorKind::NotFound => return create(dir, name),
        Err(e) => return Err(e),
    };
    let nodes: Vec<Node> = nodes(&vm)?;
    process::settled(ctx, &vm).await?;
    // While a job writes RAM to disk the monitor is silent.
    let mut monitor = process::connect_within(ctx, &vm, SILENT).await?;
    let running = monitor.is_some();
    if let Some(qmp) = &mut monitor {
        // What its corral began goes on without it, and only then can be judged.
        inside::settle(qmp).await?;
    }
    let saved = match &op.change {
        Change::Hibernate { saved, running } => Some(
            hibernate::recover_save(
                ctx,
                &vm,
                &nodes,
                monitor.take(),
                op.phase,
                (saved, *running),
            )
            .await?,
        ),
        Change::Wake => {
            Some(hibernate::recover_wake(ctx, &vm, &nodes, monitor.take(), op.phase).await?)
        }
        _ => None,
    };
    if let Some(said) = saved {
        return dropped(dir, name, said);
    }
    let mut reach = match &mut monitor {
        Some(qmp) => Reach::Monitor(qmp),
        None => Reach::Files(&ctx.env),
    };
    let said = match &op.change {
        Change::SnapshotCreate { record, frozen } => {
            let mut record = Record::clone(record);
            // The guest goes on first. Where it was frozen until now, it was when it was marked.
            if *frozen && running && freeze::thaw(ctx, &vm).await? {
                record.consistency = Some(Consistency::Filesystem);
            }
            let tag = &record.name;
            let inside = reach.list(&nodes).await?;
            let whole = nodes.iter().all(|(node, _)| {
                inside
                    .get(node)
                    .is_some_and(|l| l.iter().any(|i| i.tag == *tag))
            });
            if whole {
                let said = format!("snapshot {} is whole", shown(tag));
                taking::noted(dir, &inside, record)?;
                said
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
        // All disks are there; it was killed while it started the VM or loaded its RAM.
        Change::SnapshotRestore { tag } if running && op.phase == Phase::Recording => {
            snapshots::run::sizes_again(ctx, &vm)?;
            noted_at(dir, tag)?;
            let ram = reach.list(&nodes).await?;
            let ram = ram.values().flatten();
            let ram = ram.filter(|i| i.tag == *tag).any(|i| i.vm_state > 0);
            let at = shown(tag);
            let mut halted = monitor.take().filter(|_| ram);
            if let Some(qmp) = &mut halted
                && inside::goes(qmp).await?
            {
                halted = None;
            }
            match halted {
                // It was started halted, to load its RAM.
                Some(qmp) => match snapshots::run::start_again(ctx, &vm, qmp, &nodes, tag).await {
                    Ok(()) => format!("is at {at}, running, as was begun"),
                    Err(error) => {
                        format!("its disks are at {at}, its RAM is not: {}", error.message)
                    }
                },
                None if ram => format!(
                    "its disks are at {at} and it runs; if it does without its RAM: corral snapshot restore {}@{} --stop --start",
                    ctx.id(name),
                    encode_segment(tag)
                ),
                None => format!("its disks are at {at} and it runs"),
            }
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
            snapshots::run::sizes_again(ctx, &vm)?;
            noted_at(dir, tag)?;
            format!("its disks are at {}, as was begun", shown(tag))
        }
        _ => String::new(),
    };
    if !running {
        // What is not given back here, doctor finds.
        for (_, image) in &nodes {
            let _ = super::image::give_back(&ctx.env, image).await;
        }
    }
    dropped(dir, name, &said)
}

/// The present state descends from this snapshot.
fn noted_at(dir: &Path, tag: &str) -> Result<()> {
    let mut records = Records::load(dir)?;
    records.current = Some(tag.to_owned());
    records.save(dir)
}
