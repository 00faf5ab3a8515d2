//! `image delete`: never one that a VM needs.

use std::path::{Path, PathBuf};

use super::Plan;
use super::partial::drop_partial;
use super::pull::lock;
use super::shelf::Shelf;
use crate::backend::contract::{Prepared, TaskCx};
use crate::backend::qemu::ctx::Ctx;
use crate::backend::qemu::image::quoted;
use crate::backend::qemu::storage::Users;
use crate::model::{Bytes, Error, InstanceId, Outcome, Result, Step};

/// What is to be deleted.
pub(super) struct Deleting {
    name: String,
    /// The image; `None`: only what has come of one.
    file: Option<PathBuf>,
}

/// So many users are named.
const NAMED: usize = 5;

/// Says what a delete would do.
pub(super) fn prepare(ctx: &Ctx, name: &str) -> Result<Prepared> {
    let shelf = Shelf::of(ctx);
    let Some(kept) = shelf.find(name)? else {
        let partial = shelf.partial(name);
        let Ok(meta) = std::fs::symlink_metadata(&partial) else {
            return Ok(Prepared::failed("gone", &not_here(name)));
        };
        let step = Step::new(
            format!("Delete what has come of {name}"),
            format!("rm {}", quoted(&partial)),
        );
        let mut prepared = Prepared::new(format!("partial {}", meta.len()), vec![step]);
        prepared
            .losses
            .push(format!("{} that were fetched", Bytes(meta.len())));
        return Ok(prepared.with(Plan::Delete(Deleting {
            name: name.to_owned(),
            file: None,
        })));
    };
    if let Some(why) = needed(&Users::read(ctx)?.of(&kept.path), name) {
        return Ok(Prepared::failed(kept.stamp(), &why));
    }
    let step = Step::new(
        format!("Delete {name}"),
        format!("rm {}", quoted(&kept.path)),
    );
    let step = match &kept.record.url {
        Some(url) => {
            let url = quoted(Path::new(url));
            let mut undo = format!("corral image pull {url} --name {name}");
            if let Some(sum) = &kept.record.checksum {
                undo += &format!(" --checksum {sum}");
            }
            step.undo(format!("{undo} --context {}", ctx.spec.name))
        }
        None => step,
    };
    let mut prepared = Prepared::new(kept.stamp(), vec![step]);
    prepared.losses.push(match &kept.record.url {
        Some(url) => format!("{}, as it was pulled from {url}", kept.size),
        None => format!("{}: where it came from is not known", kept.size),
    });
    Ok(prepared.with(Plan::Delete(Deleting {
        name: name.to_owned(),
        file: Some(kept.path),
    })))
}

fn not_here(name: &str) -> Error {
    Error::not_found(format!(
        "there is no image \"{}\"",
        crate::model::shown(name)
    ))
    .remedy("See corral image list")
}

fn needed(users: &[InstanceId], name: &str) -> Option<Error> {
    let (first, rest) = users.split_at(users.len().min(NAMED));
    let mut list: Vec<String> = first.iter().map(ToString::to_string).collect();
    if !rest.is_empty() {
        list.push(format!("{} more", rest.len()));
    }
    (!users.is_empty()).then(|| {
        Error::refused(format!("{name} is needed by {}", list.join(", "))).remedy(
            "Their disks stand on it or have it in a drive; delete those VMs or take it out first",
        )
    })
}

/// Deletes it.
pub(super) fn run(ctx: &Ctx, cx: &TaskCx, plan: &Deleting, token: &str) -> Result<Outcome> {
    let shelf = Shelf::of(ctx);
    let _lock = lock(&shelf, &plan.name)?;
    let Some(file) = &plan.file else {
        drop_partial(&shelf.partial(&plan.name))?;
        return Ok(Outcome::changed(format!(
            "what had come of {} is deleted",
            plan.name
        )));
    };
    let now = shelf.find(&plan.name)?;
    if now.is_none_or(|kept| kept.stamp() != token) {
        return Err(Error::conflict(format!(
            "{} has changed since the plan was made. Nothing was done",
            plan.name
        )));
    }
    if let Some(why) = needed(&Users::read(ctx)?.of(file), &plan.name) {
        return Err(why);
    }
    cx.checkpoint()?;
    cx.step(format!("Delete {}", plan.name));
    shelf.remove(file)?;
    Ok(Outcome::changed(format!("{} is deleted", plan.name)))
}
