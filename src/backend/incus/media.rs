//! Media: ISO volumes and files of the server, as disk devices of a VM.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;

use super::ctx::Ctx;
use super::devices::{Volumes, disks, free_slot, iso, pools, takes_from};
use super::json::Look as _;
use super::row::is_root;
use super::seen::Seen;
use super::work::{self, Act, Edit, Todo, plan};
use crate::backend::contract::{Changes, MediaRequest, Prepared, ReadCx, TaskCx};
use crate::model::{Disk, Error, Instance, InstanceKind, Outcome, Result, shown};

/// The media family.
#[derive(Clone, Debug)]
pub struct Media(pub Arc<Ctx>);

fn drive<'a>(media: &'a [Disk], wanted: Option<&str>) -> Result<Option<&'a Disk>> {
    match (wanted, media) {
        (Some(name), _) => Ok(media.iter().find(|disk| disk.name == name)),
        (None, []) => Ok(None),
        (None, [one]) => Ok(Some(one)),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|disk| disk.name.as_str()).collect();
            Err(Error::new(
                crate::model::ErrorKind::Ambiguous,
                format!("it has several media: {}", shown(&names.join(", "))),
            )
            .remedy("Say which: --drive NAME"))
        }
    }
}

async fn insert(
    ctx: &Ctx,
    cx: &ReadCx,
    seen: &Seen,
    media: &[Disk],
    wanted: Option<&str>,
    image: &str,
) -> Result<Prepared> {
    let id = &seen.id;
    let root = seen
        .all_devices()
        .into_iter()
        .flatten()
        .find(|(_, device)| is_root(device));
    let pool = root
        .and_then(|(_, device)| device.text("pool"))
        .ok_or_else(|| {
            Error::refused(format!(
                "{id} has no root disk in a pool: it is not known where a medium goes"
            ))
        })?;
    let image = image.strip_prefix(&format!("{pool}/")).unwrap_or(image);
    takes_from(ctx, cx, seen, pool).await?;
    let (upload, volume) = iso(ctx, cx, &seen.project, pool, image).await?;
    let there = drive(media, wanted)?;
    let source = format!("{pool}/{volume}");
    if there.is_some_and(|disk| disk.source.as_deref() == Some(&source)) {
        return Ok(Prepared::unchanged(
            seen.token(),
            format!("{} is in it already", shown(image)),
        ));
    }
    let taken = seen
        .all_devices()
        .into_iter()
        .flatten()
        .map(|(name, _)| name);
    let slot = there
        .map(|disk| disk.name.clone())
        .or_else(|| wanted.map(str::to_owned));
    let slot = slot.unwrap_or_else(|| free_slot("cdrom", 0, taken));
    let mut todos: Vec<Todo> = upload.into_iter().collect();
    let device = json!({"type": "disk", "pool": pool, "source": volume});
    todos.push(
        Todo::new(
            format!("Put {} into {}", shown(&volume), shown(&slot)),
            Act::Edit(Edit::device(&slot, Some(device))),
        )
        .undo(format!("corral media eject {id} --drive {}", shown(&slot))),
    );
    Ok(plan(
        seen,
        todos,
        format!("{} is in {}", shown(&volume), shown(&slot)),
    ))
}

fn eject(seen: &Seen, media: &[Disk], wanted: Option<&str>) -> Result<Prepared> {
    let id = &seen.id;
    let Some(there) = drive(media, wanted)? else {
        return Ok(Prepared::unchanged(
            seen.token(),
            "there is no medium in it".to_owned(),
        ));
    };
    let own = seen
        .devices()
        .is_some_and(|devices| devices.contains_key(&there.name));
    let edit = if own {
        Edit::device(&there.name, None)
    } else {
        Edit::device(&there.name, Some(json!({"type": "none"})))
    };
    let mut todo = Todo::new(
        format!("Take the medium out of {}", shown(&there.name)),
        Act::Edit(edit),
    );
    if let Some((_, volume)) = there
        .source
        .as_deref()
        .and_then(|source| source.split_once('/'))
    {
        todo = todo.undo(format!(
            "corral media insert {id} --image {}",
            shown(volume)
        ));
    }
    let mut prepared = plan(seen, vec![todo], format!("{} is out", shown(&there.name)));
    prepared
        .notes
        .push("the medium itself stays in its pool".to_owned());
    Ok(prepared)
}

#[async_trait]
impl Changes<MediaRequest> for Media {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: MediaRequest) -> Result<Prepared> {
        let ctx = &*self.0;
        let seen = match Seen::for_plan(ctx, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        if let Some(refused) = seen.unclear() {
            return Ok(refused);
        }
        if seen.row.kind == InstanceKind::Ct {
            return Ok(Prepared::refused(
                seen.token(),
                format!("{} is a container and has no drive", seen.id),
                Some(format!(
                    "Copy the files in: corral cp FILE {}:/PATH",
                    seen.id
                )),
            ));
        }
        let (volumes, _) = Volumes::of(ctx, cx, &seen.project, &pools(&seen)).await;
        let mut media = disks(&seen, &volumes);
        media.retain(|disk| disk.device == "cdrom");
        let planned = match request {
            MediaRequest::Insert { drive, image, .. } => {
                insert(ctx, cx, &seen, &media, drive.as_deref(), &image).await
            }
            MediaRequest::Eject { drive, .. } => eject(&seen, &media, drive.as_deref()),
        };
        Ok(planned.unwrap_or_else(|error| Prepared::failed(seen.token(), &error)))
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        work::run(&self.0, cx, prepared).await
    }
}
