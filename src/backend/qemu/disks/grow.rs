//! Making a disk larger.

use serde_json::{Value, json};

use super::super::definition::DiskDef;
use super::super::image;
use super::super::op::{Change, Journal, Phase};
use super::{Target, failed, live, save, show, told, users};
use crate::backend::contract::{Growth, Prepared, ReadCx, TaskCx};
use crate::link::child::{Cmd, run_cancellable};
use crate::model::{Bytes, Error, Outcome, Result, Step, shown};

/// Larger than any file system takes.
const LARGEST: Bytes = Bytes(1 << 56);
/// Tables of an image that grows.
const TABLES: Bytes = Bytes::mib(4);

/// What `run` needs.
pub(super) struct Growing {
    disk: DiskDef,
    to: Bytes,
}

pub(super) async fn prepare(
    target: &Target<'_>,
    cx: &ReadCx,
    name: &str,
    size: Growth,
) -> Result<(Prepared, Option<Growing>)> {
    let disk = target.disk(name)?;
    let label = shown(name);
    if disk.readonly {
        return Err(Error::refused(format!(
            "{label} is read-only: it stays as it is"
        )));
    }
    let users = users(&target.ctx.store, &disk.path, &target.vm().name)?;
    if !users.is_empty() {
        return Err(Error::refused(format!(
            "{} is needed by {} as it is",
            show(&disk.path),
            users.join(", ")
        ))
        .remedy("Grow their disks instead."));
    }
    // What the image says counts, not what was written down once.
    let image = image::of_disk(&target.ctx.env, disk, target.runs()).await?;
    let to = match size {
        Growth::To(to) => to,
        Growth::By(by) => Bytes(image.size.0.saturating_add(by.0)),
    };
    if to > LARGEST {
        return Err(
            Error::invalid(format!("a disk of {to} is not possible: {LARGEST} at most"))
                .remedy("Give a size below that, with its unit: --to 20G"),
        );
    }
    let to = Bytes(to.0.next_multiple_of(512));
    if to < image.size {
        return Err(Error::refused(format!(
            "{label} has {} already: a disk only grows, since what the guest keeps at its end would be cut off",
            image.size
        ))
        .remedy("Make a smaller disk, copy the files inside the guest, then remove this one."));
    }
    if to == image.size && disk.size == to {
        return Ok((
            Prepared::unchanged("", format!("{label} has {to} already")),
            None,
        ));
    }
    if std::fs::metadata(&disk.path).is_ok_and(|meta| !meta.is_file()) {
        return Err(Error::refused(format!(
            "{label} is the device {}, which does not grow from here",
            show(&disk.path)
        ))
        .remedy("Make the device itself larger."));
    }
    let dir = disk.path.parent().unwrap_or(&disk.path);
    image::room(dir, TABLES)?;
    let mut steps = Vec::new();
    if to > image.size {
        let title = format!("Grow {label} from {} to {to}", image.size);
        steps.push(if target.runs() {
            let mut qmp = target.monitor(cx).await?;
            let node = live::node_of(&mut qmp, &disk.name).await?;
            Step::new(
                title,
                format!("QMP block_resize node-name={node} size={}", to.0),
            )
        } else {
            Step::new(title, cmd(target, disk, to)?.shown())
        });
    }
    steps.push(target.write_down("Write its size down")?);
    let mut prepared = Prepared::new("", steps);
    prepared
        .notes
        .push("Partitions and file systems inside the guest do not grow by themselves".to_owned());
    if let Some(free) = image::free(dir).filter(|free| *free < to) {
        prepared.notes.push(format!(
            "{} has {free} free: the guest halts when its disks fill that",
            show(dir)
        ));
    }
    let work = Growing {
        disk: disk.clone(),
        to,
    };
    Ok((prepared, Some(work)))
}

fn cmd(target: &Target<'_>, disk: &DiskDef, to: Bytes) -> Result<Cmd> {
    let tool = image::tool(&target.ctx.env)?;
    Ok(image::resize_cmd(&tool, &disk.path, &disk.format, to))
}

pub(super) async fn run(target: &Target<'_>, cx: &TaskCx, work: Growing) -> Result<Outcome> {
    let Growing { disk, to } = work;
    let (ctx, vm, id) = (target.ctx, target.vm(), &target.seen.id);
    let name = shown(&disk.name);
    let before = image::of_disk(&ctx.env, &disk, target.runs()).await?;
    if before.size > to {
        return Err(Error::conflict(format!(
            "{name} has {} by now: nothing was done",
            before.size
        )));
    }
    // Before anything is written down: another corral may have it.
    let mut monitor = if target.runs() && before.size < to {
        let qmp = super::process::connect(ctx, vm).await?;
        Some(qmp.ok_or_else(|| super::gone(id))?)
    } else {
        None
    };
    let mut journal = Journal::begin(
        &target.dir()?,
        Change::DiskGrow {
            disk: disk.name.clone(),
            to,
        },
    )?;
    journal.phase(Phase::Working)?;
    cx.step(format!("Grow {name} to {to}"));
    if before.size < to {
        let grown = if let Some(qmp) = &mut monitor {
            grow_live(qmp, &disk.name, to).await
        } else {
            let output = run_cancellable(&cmd(target, &disk, to)?, None, &cx.cancel).await;
            output.and_then(|output| {
                if output.status.success() {
                    Ok(())
                } else {
                    Err(image::complaint(&disk.path, &output))
                }
            })
        };
        drop(monitor);
        if let Err(error) = grown {
            // Grown or not, the image tells; only then is there nothing left to be mended.
            let size = image::of_disk(&ctx.env, &disk, true).await;
            let undone = match size {
                Ok(now) if now.size == before.size => Ok(()),
                Ok(_) => Err(Error::backend("it has grown all the same")),
                Err(other) => Err(other),
            };
            return Err(failed(journal, error, undone));
        }
    }
    journal.phase(Phase::Recording)?;
    let mut after = vm.clone();
    for other in after.disks.iter_mut().filter(|d| d.name == disk.name) {
        other.size = to;
    }
    save(ctx, vm, &after, target.runs())?;
    journal.finish()?;
    let message = format!("{name} of {id} has {to}");
    told(target, "DISK_GROWN", &*message);
    Ok(Outcome::changed(message))
}

async fn grow_live(qmp: &mut crate::link::qmp::Qmp, name: &str, to: Bytes) -> Result<()> {
    let node = live::node_of(qmp, name).await?;
    let size: Value = json!({"node-name": node, "size": to.0});
    qmp.execute("block_resize", size, live::ANSWER)
        .await
        .map(drop)
}
