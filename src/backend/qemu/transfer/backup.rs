//! The backup family: exports into dated folders.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use super::super::change::Seen;
use super::super::ctx::Ctx;
use super::super::image::quoted;
use super::export::{self, Exporting};
use super::form::Form;
use super::import::{self, Importing};
use super::restore::{self, Restoring};
use super::shelf::{self, Kept};
use super::target;
use crate::backend::contract::{
    BackupRequest, Backups, Changes, ImportRequest, Prepared, ReadCx, TaskCx,
};
use crate::backend::portable::folder;
use crate::link::files::make_dir;
use crate::model::{Backup, Error, Instance, Outcome, Result, Step, shown};

/// The backup family.
#[derive(Clone, Debug)]
pub struct BackUp(pub Arc<Ctx>);

enum Plan {
    Create(Exporting, Vec<Kept>),
    Restore(Restoring),
    New(Box<Importing>),
    Delete(Kept),
}

#[async_trait]
impl Changes<BackupRequest> for BackUp {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: BackupRequest,
    ) -> Result<Prepared> {
        let ctx = &self.0;
        let planned = match request {
            BackupRequest::Create { at, to, keep } => {
                create(ctx, cx, on, at, to.as_deref(), keep).await
            }
            BackupRequest::Restore {
                backup,
                from,
                name: None,
                start,
                ..
            } => {
                let root = shelf::root(ctx, from.as_deref());
                match root.and_then(|root| shelf::find(&root, &on.name, &backup)) {
                    Ok(kept) => onto(ctx, cx, on, kept, start).await,
                    Err(error) => Err(error),
                }
            }
            BackupRequest::Restore {
                backup,
                from,
                name: Some(name),
                of,
                start,
            } => {
                let of = of.unwrap_or_else(|| on.name.clone());
                let root = shelf::root(ctx, from.as_deref());
                match root.and_then(|root| shelf::find(&root, &of, &backup)) {
                    Ok(kept) => anew(ctx, cx, kept, name, start).await,
                    Err(error) => Err(error),
                }
            }
            BackupRequest::Delete { backup, from } => delete(ctx, on, &backup, from.as_deref()),
        };
        planned.or_else(|error| Ok(Prepared::failed("", &error)))
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let ctx = &self.0;
        match prepared.take::<Plan>()? {
            Plan::Create(exporting, surplus) => {
                if let Some(dir) = exporting.to.parent() {
                    make_dir(dir)?;
                    shelf::sweep(dir);
                }
                let (portable, size) = export::run(ctx, cx, &exporting, &prepared.token).await?;
                let name = exporting
                    .to
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy();
                let mut said = format!("{} is backed up as {name} ({size})", exporting.id);
                let mut gone = 0;
                for kept in &surplus {
                    cx.step(format!("Delete the backup {}", kept.name));
                    // It may have been deleted meanwhile; the new one is there in any case.
                    match shelf::remove(kept) {
                        Ok(()) => gone += 1,
                        Err(e) => cx.log(e.to_string()),
                    }
                }
                if gone > 0 {
                    said.push_str(&format!(
                        "; {} deleted",
                        crate::model::counted(gone, "old one")
                    ));
                }
                let mut outcome = Outcome::changed(said);
                outcome.consistency = Some(portable.consistency);
                Ok(outcome)
            }
            Plan::Restore(restoring) => restore::run(ctx, cx, &restoring, &prepared.token).await,
            Plan::New(importing) => import::make(ctx, cx, &importing, &prepared.token).await,
            Plan::Delete(kept) => {
                cx.checkpoint()?;
                cx.step(format!("Delete the backup {}", kept.name));
                if kept.path.exists() {
                    shelf::remove(&kept)?;
                }
                Ok(Outcome::changed(format!(
                    "the backup {} is deleted",
                    kept.name
                )))
            }
        }
    }
}

async fn create(
    ctx: &Ctx,
    cx: &ReadCx,
    on: &Instance,
    at: Timestamp,
    to: Option<&str>,
    keep: Option<NonZeroU32>,
) -> Result<Prepared> {
    let seen = match Seen::for_plan(ctx, cx, &on.id).await {
        Ok(seen) => seen,
        Err(refused) => return Ok(refused),
    };
    let dir = shelf::of(&shelf::root(ctx, to)?, &seen.vm.name)?;
    let kept = shelf::list(&dir)?;
    let place = dir.join(shelf::new_name(&dir, at));
    let mut prepared = export::plan(ctx, &seen, Form::Folder, place, None, None).await?;
    if !prepared.refusals.is_empty() {
        return Ok(prepared);
    }
    let surplus = match keep {
        Some(keep) => shelf::surplus(&kept, &seen.vm.uuid.to_string(), keep.get()),
        None => Vec::new(),
    };
    prepared.deletes = !surplus.is_empty();
    for one in &surplus {
        prepared.losses.push(format!("the backup {}", one.name));
        prepared.steps.push(Step::new(
            format!("Delete the backup {}, once the new one is whole", one.name),
            format!("rm -r {}", quoted(&one.path)),
        ));
    }
    let exporting: Exporting = prepared.take()?;
    Ok(prepared.with(Plan::Create(exporting, surplus)))
}

async fn onto(ctx: &Ctx, cx: &ReadCx, on: &Instance, kept: Kept, start: bool) -> Result<Prepared> {
    let seen = match Seen::for_plan(ctx, cx, &on.id).await {
        Ok(seen) => seen,
        Err(refused) => return Ok(refused),
    };
    let mut prepared = restore::plan(ctx, &seen, kept, start).await?;
    if !prepared.refusals.is_empty() {
        return Ok(prepared);
    }
    let restoring: Restoring = prepared.take()?;
    Ok(prepared.with(Plan::Restore(restoring)))
}

async fn anew(ctx: &Ctx, cx: &ReadCx, kept: Kept, name: String, start: bool) -> Result<Prepared> {
    kept.content?;
    let request = ImportRequest {
        name,
        from: kept.path,
        cpus: None,
        memory: None,
        firmware: None,
        start,
        set: Vec::new(),
    };
    let mut prepared = import::plan(ctx, cx, &request).await?;
    if !prepared.refusals.is_empty() {
        return Ok(prepared);
    }
    let importing: Importing = prepared.take()?;
    Ok(prepared.with(Plan::New(Box::new(importing))))
}

fn delete(ctx: &Ctx, on: &Instance, backup: &str, from: Option<&str>) -> Result<Prepared> {
    let root = shelf::root(ctx, from)?;
    let dir = shelf::of(&root, &on.name)?;
    let Some(kept) = shelf::list(&dir)?
        .into_iter()
        .find(|kept| kept.name == backup)
    else {
        return Ok(Prepared::unchanged(
            "gone",
            format!("there is no backup {} of {}", shown(backup), on.id),
        ));
    };
    let step = Step::new("Delete it", format!("rm -r {}", quoted(&kept.path)));
    let mut prepared = Prepared::new(kept.name.clone(), vec![step]);
    let size = target::size(&kept.path);
    prepared
        .losses
        .push(format!("the backup {} ({size})", kept.name));
    Ok(prepared.with(Plan::Delete(kept)))
}

#[async_trait]
impl Backups for BackUp {
    async fn backups(
        &self,
        cx: &ReadCx,
        on: Option<&Instance>,
        from: Option<&str>,
        verify: bool,
    ) -> Result<Vec<Backup>> {
        let ctx = &self.0;
        let root = shelf::root(ctx, from)?;
        let names = match on {
            Some(on) => vec![on.name.clone()],
            None => shelf::instances(&root)?,
        };
        let mut all = Vec::new();
        for name in names {
            for kept in shelf::list(&shelf::of(&root, &name)?)? {
                let path = kept.path.clone();
                let content = match kept.content {
                    Ok(content) if verify => {
                        let deadline = cx.deadline;
                        let check = tokio::task::spawn_blocking(move || {
                            folder::verify(&path, &content, |_| {
                                if std::time::Instant::now() > deadline {
                                    return Err(Error::timed_out("there was no time to check it"));
                                }
                                Ok(())
                            })?;
                            Ok(content)
                        });
                        check.await.map_err(super::convert::internal)?
                    }
                    other => other,
                };
                all.push(told(ctx, &name, &kept.name, kept.path, content));
            }
        }
        Ok(all)
    }
}

fn told(
    ctx: &Ctx,
    instance: &str,
    name: &str,
    path: PathBuf,
    content: Result<crate::model::Portable>,
) -> Backup {
    let known = content.as_ref().ok();
    Backup {
        instance: ctx.id(instance),
        name: name.to_owned(),
        taken_at: known.map(|content| content.taken_at),
        consistency: known.map(|content| content.consistency),
        disks: known.map(|content| content.data().count() as u64),
        size_bytes: Some(target::size(&path)),
        place: path.to_string_lossy().into_owned(),
        broken: content.err().map(|error| error.message),
    }
}
