//! A disk moved by the QEMU that uses it: both files are written until they are the same, then the
//! new one takes over.
//!
//! The last step is taken in two: the job stops with the disk's I/O held, that is written down, and
//! only then the new file takes over. So it is known at every moment which of the two files counts.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::ctx::Ctx;
use super::super::definition::{Definition, DiskDef};
use super::super::drive;
use super::super::image::{self, Image};
use super::super::op::{self, Journal, Phase};
use super::super::process;
use super::live::{self, ANSWER, GAP, SLICE, word};
use super::{Target, gone};
use crate::backend::contract::TaskCx;
use crate::link::child::Cmd;
use crate::link::qmp::Qmp;
use crate::model::{Error, Result, Step, shown};

/// Until a job whose files are equal has stopped, or one that was cancelled has ended.
const END: Duration = Duration::from_secs(120);

/// What is moved where.
pub(super) struct Spec<'a> {
    pub(super) disk: &'a DiskDef,
    pub(super) image: &'a Image,
    pub(super) to: &'a Path,
}

/// The name of the job that moves a disk.
pub(super) fn job_id(disk: &str) -> String {
    format!("corral-move-{disk}")
}

/// The node that a disk becomes: its own name again where an earlier move took that away.
pub(super) fn next_node(disk: &str, now: &str) -> String {
    if now == disk {
        format!("{disk}-moved")
    } else {
        disk.to_owned()
    }
}

fn new_image(ctx: &Ctx, disk: &DiskDef, image: &Image, to: &Path) -> Result<Cmd> {
    let tool = image::tool(&ctx.env)?;
    Ok(match image.base(&disk.path)? {
        Some((base, format)) => image::overlay_cmd(&tool, to, base, format, Some(image.size)),
        None => image::new_cmd(&tool, to, &disk.format, image.size),
    })
}

fn arguments(disk: &DiskDef, image: &Image, now: &str) -> Value {
    // Of an overlay only what is in it: its base stays.
    let sync = if image.backing.is_some() {
        "top"
    } else {
        "full"
    };
    json!({"job-id": job_id(&disk.name), "device": now, "target": next_node(&disk.name, now),
        "sync": sync, "auto-finalize": false, "auto-dismiss": false})
}

/// The calls, as a plan shows them.
pub(super) async fn steps(
    target: &Target<'_>,
    qmp: &mut Qmp,
    disk: &DiskDef,
    image: &Image,
    to: &Path,
) -> Result<Vec<Step>> {
    let now = live::node_of(qmp, &disk.name).await?;
    let node = drive::node_as(disk, &next_node(&disk.name, &now), to);
    let job = job_id(&disk.name);
    Ok(vec![
        Step::new(
            "Make the new file",
            new_image(target.ctx, disk, image, to)?.shown(),
        ),
        Step::new("Open it", format!("QMP blockdev-add {node}")),
        Step::new(
            "Copy the disk while it is used",
            format!("QMP blockdev-mirror {}", arguments(disk, image, &now)),
        ),
        Step::new(
            "Use the new file",
            format!("QMP job-complete id={job}, job-finalize id={job}"),
        ),
        Step::new(
            "Close the old one",
            format!("QMP blockdev-del node-name={now}"),
        ),
    ])
}

/// Mirrors, and gives the disk over to the new file. With an error, [`undo`] has to follow.
pub(super) async fn run(
    target: &Target<'_>,
    cx: &TaskCx,
    journal: &mut Journal,
    spec: &Spec<'_>,
) -> Result<()> {
    let (ctx, vm) = (target.ctx, target.vm());
    let Spec { disk, image, to } = spec;
    let cmd = new_image(ctx, disk, image, to)?;
    image::make(&cmd, to, &cx.cancel, |_| {}).await?;
    let mut qmp = monitor(target).await?;
    let now = live::node_of(&mut qmp, &disk.name).await?;
    let next = next_node(&disk.name, &now);
    let node = drive::node_as(disk, &next, to);
    qmp.execute("blockdev-add", node, ANSWER).await?;
    let job = arguments(disk, image, &now);
    qmp.execute("blockdev-mirror", job, ANSWER).await?;
    drop(qmp);

    let id = job_id(&disk.name);
    let wait = |cancel| Wait {
        ctx,
        vm,
        job: &id,
        cancel,
    };
    let ready = |status: &str| matches!(status, "ready" | "standby");
    wait(Some(cx)).until(ready, None).await?;
    cx.step(format!("Use {}", super::show(to)));
    let mut qmp = monitor(target).await?;
    qmp.execute("job-complete", json!({"id": id}), ANSWER)
        .await?;
    drop(qmp);
    wait(None)
        .until(|status| status == "pending", Some(END))
        .await?;
    // Both files are equal now, and the guest's I/O waits.
    journal.phase(Phase::Recording)?;
    let mut qmp = monitor(target).await?;
    let done = finalize(&mut qmp, &id).await;
    if let Err(error) = done {
        if took_over(&mut qmp, &disk.name, to).await? {
            return Ok(());
        }
        journal.phase(Phase::Working)?;
        return Err(error);
    }
    live::drop_node(&mut qmp, &now).await
}

async fn monitor(target: &Target<'_>) -> Result<Qmp> {
    let qmp = process::connect(target.ctx, target.vm()).await?;
    qmp.ok_or_else(|| gone(&target.seen.id))
}

/// Whether the disk is the new file.
pub(super) async fn took_over(qmp: &mut Qmp, disk: &str, to: &Path) -> Result<bool> {
    let drive = live::drive_of(qmp, disk).await?;
    let file = drive.as_ref().and_then(live::file_in);
    Ok(file.is_some_and(|file| Path::new(file) == to))
}

/// Lets a job that waits for it do its last step, and clears it away.
pub(super) async fn finalize(qmp: &mut Qmp, id: &str) -> Result<()> {
    qmp.execute("job-finalize", json!({"id": id}), ANSWER)
        .await?;
    let until = Instant::now() + END;
    loop {
        let Some(job) = job(qmp, id).await? else {
            return Ok(());
        };
        if word(&job, "status") == Some("concluded") {
            return dismiss(qmp, id, &job).await;
        }
        if Instant::now() >= until {
            return Err(Error::timed_out("the disk's last step does not end"));
        }
        qmp.event(GAP).await?;
    }
}

async fn dismiss(qmp: &mut Qmp, id: &str, job: &Value) -> Result<()> {
    let failure = word(job, "error").map(|why| shown(why).into_owned());
    qmp.execute("job-dismiss", json!({"id": id}), ANSWER)
        .await?;
    match failure {
        Some(why) if why.to_lowercase().contains("no space left") => Err(Error::backend(
            "no space left where the disk was to go. It stays where it was",
        )
        .remedy("Free some there, or name another folder.")),
        Some(why) => Err(Error::backend(format!(
            "QEMU could not move the disk: {why}"
        ))),
        None => Ok(()),
    }
}

/// Clears a job away that has ended.
pub(super) async fn clear(qmp: &mut Qmp, id: &str) -> Result<()> {
    qmp.execute("job-dismiss", json!({"id": id}), ANSWER)
        .await
        .map(drop)
}

/// A job of this name, as QEMU has it now.
pub(super) async fn job(qmp: &mut Qmp, id: &str) -> Result<Option<Value>> {
    let jobs = qmp.execute("query-jobs", Value::Null, ANSWER).await?;
    Ok(live::items(&jobs)
        .find(|job| word(job, "id") == Some(id))
        .cloned())
}

struct Wait<'a> {
    ctx: &'a Ctx,
    vm: &'a Definition,
    job: &'a str,
    cancel: Option<&'a TaskCx>,
}

impl Wait<'_> {
    /// Waits until the job says so, giving the monitor to others in between.
    async fn until(&self, wanted: impl Fn(&str) -> bool, limit: Option<Duration>) -> Result<()> {
        let until = limit.map(|limit| Instant::now() + limit);
        loop {
            let qmp = process::connect(self.ctx, self.vm).await?;
            let mut qmp = qmp.ok_or_else(|| gone(&self.ctx.id(&self.vm.name)))?;
            let slice = Instant::now() + SLICE;
            loop {
                let job = job(&mut qmp, self.job).await?;
                let job = job.ok_or_else(|| Error::backend("QEMU lost the job"))?;
                let status = word(&job, "status").unwrap_or_default();
                if wanted(status) {
                    return Ok(());
                }
                if status == "concluded" {
                    dismiss(&mut qmp, self.job, &job).await?;
                    return Err(Error::backend("the job ended before it was told to"));
                }
                let number = |key: &str| job.get(key).and_then(Value::as_u64);
                if let (Some(cx), Some(done), Some(total)) = (
                    self.cancel,
                    number("current-progress"),
                    number("total-progress"),
                ) {
                    cx.progress(done, total);
                }
                if let Some(cx) = self.cancel {
                    cx.checkpoint()?;
                }
                if until.is_some_and(|until| Instant::now() >= until) {
                    return Err(Error::timed_out(
                        "the guest writes faster than its disk moves",
                    ));
                }
                let left = slice.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                // Its own events say when to look; progress is looked at all the same.
                qmp.event(left.min(Duration::from_millis(300))).await?;
            }
            drop(qmp);
            tokio::time::sleep(GAP).await;
        }
    }
}

/// Takes a move back that has not been written down as done.
///
/// # Errors
/// When its QEMU does not answer: doctor has to look which file counts.
pub(super) async fn undo(
    target: &Target<'_>,
    disk: &str,
    journal: &Journal,
    to: &Path,
) -> Result<()> {
    if journal.at() == Phase::Recording {
        return Err(Error::backend(
            "which of the two files it is has to be looked at",
        ));
    }
    if let Some(mut qmp) = process::connect(target.ctx, target.vm()).await? {
        cancel(&mut qmp, disk, to).await?;
    }
    op::remove(to)
}

/// Ends the job without its last step, and closes the new file.
pub(super) async fn cancel(qmp: &mut Qmp, disk: &str, to: &Path) -> Result<()> {
    let id = job_id(disk);
    let until = Instant::now() + END;
    let mut asked = false;
    while let Some(job) = job(qmp, &id).await? {
        if word(&job, "status") == Some("concluded") {
            qmp.execute("job-dismiss", json!({"id": id}), ANSWER)
                .await?;
            break;
        }
        if !asked {
            // Without `force`, one that is ready would make the copy whole first.
            qmp.execute(
                "block-job-cancel",
                json!({"device": id, "force": true}),
                ANSWER,
            )
            .await?;
            asked = true;
        }
        if Instant::now() >= until {
            return Err(Error::timed_out("the move that was begun does not end"));
        }
        qmp.event(GAP).await?;
    }
    if took_over(qmp, disk, to).await? {
        return Err(Error::backend("the new file is in use already"));
    }
    let now = live::node_of(qmp, disk).await?;
    live::drop_node(qmp, &next_node(disk, &now)).await
}
