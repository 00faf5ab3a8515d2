//! Disks: volumes of a pool, attached as devices.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::call::{self, Call};
use super::ctx::Ctx;
use super::devices::{Volumes, free_slot, pool_driver, takes_from};
use super::json::{Look as _, entry, print_size, size};
use super::row::is_root;
use super::seen::Seen;
use super::work::{self, Act, Edit, Todo, plan};
use crate::backend::contract::{
    Changes, DiskMoveRequest, DiskRequest, Growth, Prepared, ReadCx, TaskCx,
};
use crate::model::{Bytes, Error, Instance, InstanceKind, Outcome, Result, shown};

/// The disk and disk-move families.
#[derive(Clone, Debug)]
pub struct Disks(pub Arc<Ctx>);

/// A disk of an instance as a change finds it.
struct Found<'a> {
    name: &'a str,
    device: &'a Value,
    /// It is written in the instance, and not in one of its profiles.
    own: bool,
}

fn found<'a>(seen: &'a Seen, name: &'a str) -> Result<Found<'a>> {
    let device = seen
        .all_devices()
        .and_then(|devices| devices.get(name))
        .filter(|device| device.text("type") == Some("disk"));
    let device = device.ok_or_else(|| {
        Error::not_found(format!("{} has no disk {:?}", seen.id, shown(name)))
            .remedy(format!("See corral disk list {}", seen.id))
    })?;
    Ok(Found {
        name,
        device,
        own: seen
            .devices()
            .is_some_and(|devices| devices.contains_key(name)),
    })
}

/// The pool its root disk is in.
fn home(seen: &Seen) -> Option<&str> {
    let devices = seen.all_devices()?;
    devices
        .values()
        .find(|device| is_root(device))?
        .text("pool")
}

fn volume_path(seen: &Seen, pool: &str, name: Option<&str>) -> String {
    let mut parts = vec!["storage-pools", pool, "volumes", "custom"];
    parts.extend(name);
    call::at(&parts, &seen.project)
}

/// What is to be attached.
struct Adding {
    size: Option<Bytes>,
    image: Option<String>,
    copy: bool,
    bus: Option<String>,
    readonly: bool,
    storage: Option<String>,
}

async fn add(ctx: &Ctx, cx: &ReadCx, seen: &Seen, adding: Adding) -> Result<Prepared> {
    let pool = adding
        .storage
        .as_deref()
        .or_else(|| home(seen))
        .ok_or_else(|| {
            Error::invalid("it is not known which pool it is to be in")
                .remedy("Say it: --storage POOL; see corral storage list")
        })?;
    let id = &seen.id;
    let vm = seen.row.kind == InstanceKind::Vm;
    let devices = seen
        .all_devices()
        .into_iter()
        .flatten()
        .map(|(name, _)| name);
    let slot = free_slot("disk", 1, devices);
    let mut todos = Vec::new();
    let mut device = json!({"type": "disk"});
    if let Some(image) = adding
        .image
        .as_deref()
        .filter(|image| image.starts_with('/'))
    {
        if adding.copy || adding.size.is_some() {
            return Err(
                Error::unsupported("a path of the server is attached as it is")
                    .remedy("Leave --copy and --size out"),
            );
        }
        device["source"] = json!(image);
    } else {
        takes_from(ctx, cx, seen, pool).await?;
        let (volumes, problems) = Volumes::of(ctx, cx, &seen.project, &[pool]).await;
        if let Some(problem) = problems.into_iter().next() {
            return Err(Error::backend(problem));
        }
        let named = adding.image.as_deref();
        let volume = match named {
            Some(name) => {
                let name = name.strip_prefix(&format!("{pool}/")).unwrap_or(name);
                let there = volumes.custom(pool, name).ok_or_else(|| {
                    Error::not_found(format!(
                        "the pool {} has no volume {:?}",
                        shown(pool),
                        shown(name)
                    ))
                    .remedy(format!("See corral storage info {}", shown(pool)))
                })?;
                if vm && there.text("content_type") == Some("filesystem") && adding.copy {
                    return Err(Error::unsupported(
                        "a file system is shared with a VM, not copied into a disk",
                    ));
                }
                Some(name.to_owned())
            }
            None => None,
        };
        let own = |n: usize| {
            if n == 1 {
                format!("{}-{slot}", seen.name)
            } else {
                format!("{}-{slot}-{n}", seen.name)
            }
        };
        let fresh = (1..1000)
            .map(own)
            .find(|name| volumes.custom(pool, name).is_none());
        let fresh = fresh.unwrap_or_default();
        let name = match volume {
            Some(name) if !adding.copy => name,
            Some(name) => {
                let body = json!({
                    "name": fresh, "type": "custom",
                    "source": {"type": "copy", "name": name, "pool": pool},
                });
                let call = Call::new("POST", volume_path(seen, pool, None), body);
                todos.push(Todo::call(
                    format!("Copy the volume {}", shown(&name)),
                    call,
                ));
                fresh
            }
            None => {
                let size = adding.size.ok_or_else(|| {
                    Error::invalid("how large?").remedy("Add --size SIZE, or --image VOLUME")
                })?;
                let body = json!({
                    "name": fresh, "type": "custom",
                    "content_type": if vm { "block" } else { "filesystem" },
                    "config": {"size": print_size(size.0)},
                });
                let call = Call::new("POST", volume_path(seen, pool, None), body);
                todos.push(Todo::call(
                    format!("Make a volume of {size} in the pool {}", shown(pool)),
                    call,
                ));
                fresh
            }
        };
        device["pool"] = json!(pool);
        device["source"] = json!(name);
    }
    let shared = device
        .text("source")
        .is_some_and(|source| source.starts_with('/'));
    if !vm || (shared && !super::devices::is_iso(device.text("source").unwrap_or_default())) {
        device["path"] = json!(format!("/mnt/{slot}"));
    }
    if adding.readonly {
        device["readonly"] = json!("true");
    }
    if let Some(bus) = &adding.bus {
        if !vm {
            return Err(
                Error::unsupported("a container's disk is on no bus").remedy("Leave --bus out")
            );
        }
        device["io.bus"] = json!(if bus == "virtio" {
            "virtio-blk"
        } else {
            bus.as_str()
        });
    }
    let place = device.text("path").map(str::to_owned);
    todos.push(
        Todo::new(
            format!("Attach it as {slot}"),
            Act::Edit(Edit::device(&slot, Some(device))),
        )
        .undo(format!("corral disk remove {id} --disk {slot}")),
    );
    let mut prepared = plan(seen, todos, format!("{id} has the disk {slot}"));
    if let Some(place) = place {
        prepared.notes.push(format!("inside it is {place}"));
    }
    Ok(prepared)
}

async fn remove(ctx: &Ctx, cx: &ReadCx, seen: &Seen, name: &str, delete: bool) -> Result<Prepared> {
    let found = found(seen, name)?;
    let id = &seen.id;
    if is_root(found.device) {
        return Err(Error::refused(format!("{name} is the root disk of {id}"))
            .remedy(format!("It goes with the instance: corral delete {id}")));
    }
    let away = if found.own {
        Edit::device(found.name, None)
    } else {
        Edit::device(found.name, Some(json!({"type": "none"})))
    };
    let mut todos = vec![Todo::new(
        format!("Detach {}", shown(name)),
        Act::Edit(away),
    )];
    let mut losses = Vec::new();
    let mut notes = Vec::new();
    if !found.own {
        notes.push("it comes from a profile, which stays as it is: it is masked here".to_owned());
    }
    match (found.device.text("pool"), found.device.text("source")) {
        (Some(pool), Some(volume)) if delete => {
            let (volumes, _) = Volumes::of(ctx, cx, &seen.project, &[pool]).await;
            let users = volumes
                .custom(pool, volume)
                .map_or(0, |volume| volume.list("used_by").len());
            if users > 1 {
                return Err(Error::refused(format!(
                    "the volume {} is used by {} others",
                    shown(volume),
                    users - 1
                ))
                .remedy("Detach it only: leave --delete-data out"));
            }
            let call = Call::new("DELETE", volume_path(seen, pool, Some(volume)), Value::Null);
            todos.push(Todo::call(
                format!("Delete the volume {}", shown(volume)),
                call,
            ));
            losses.push(format!("the data in the volume {pool}/{}", shown(volume)));
        }
        (Some(pool), Some(volume)) => {
            notes.push(format!("the volume {pool}/{} stays", shown(volume)));
            let back = format!(
                "corral disk add {id} --image {} --storage {}",
                shown(volume),
                shown(pool)
            );
            todos[0].undo = Some(back);
        }
        _ if delete => {
            return Err(Error::refused(format!(
                "{} is a path of the server, and no volume of a pool",
                found
                    .device
                    .text("source")
                    .map_or_else(String::new, |s| shown(s).into_owned())
            ))
            .remedy("Detach it only: leave --delete-data out"));
        }
        _ => {}
    }
    let mut prepared = plan(seen, todos, format!("{} is detached", shown(name)));
    prepared.losses = losses;
    prepared.notes = notes;
    Ok(prepared)
}

async fn grow(ctx: &Ctx, cx: &ReadCx, seen: &Seen, name: &str, growth: Growth) -> Result<Prepared> {
    let found = found(seen, name)?;
    let id = &seen.id;
    let pool = found.device.text("pool").ok_or_else(|| {
        Error::refused(format!(
            "{} is a path of the server: it has no size to change",
            shown(name)
        ))
    })?;
    let (volumes, _) = Volumes::of(ctx, cx, &seen.project, &[pool]).await;
    let volume = found.device.text("source");
    let now = match volume {
        Some(volume) => volumes
            .custom(pool, volume)
            .and_then(|volume| size(entry(volume.object("config"), "size")?)),
        None => found.device.text("size").and_then(size),
    };
    let to = match (growth, now) {
        (Growth::To(to), _) => to.0,
        (Growth::By(by), Some(now)) => now.saturating_add(by.0),
        (Growth::By(_), None) => {
            return Err(
                Error::refused(format!("it is not known how large {} is", shown(name))).remedy(
                    format!("Say to what size: corral disk grow {id} --disk {name} --to SIZE"),
                ),
            );
        }
    };
    if now == Some(to) {
        return Ok(Prepared::unchanged(
            seen.token(),
            format!("{} is so large already", shown(name)),
        ));
    }
    if now.is_some_and(|now| to < now) {
        return Err(Error::refused(format!(
            "{} has {}: a disk is made larger, not smaller",
            shown(name),
            Bytes(now.unwrap_or_default())
        ))
        .remedy("Say a larger size"));
    }
    let text = print_size(to);
    let title = format!("Make {} {}", shown(name), Bytes(to));
    let mut token = seen.token();
    let todo = match volume {
        Some(volume) => {
            let path = volume_path(seen, pool, Some(volume));
            let reply = ctx.api()?.get(cx, &path).await?;
            let etag = reply.etag.unwrap_or_default();
            token = format!("{token} {etag}");
            let call = Call::new("PATCH", path, json!({"config": {"size": text}}));
            Todo::new(title, Act::CallIf(call, etag))
        }
        None => {
            let mut device = found.device.clone();
            device["size"] = json!(text);
            Todo::new(title, Act::Edit(Edit::device(name, Some(device))))
        }
    };
    let mut prepared = plan(
        seen,
        vec![todo],
        format!("{} has {}", shown(name), Bytes(to)),
    );
    prepared.token = token;
    Ok(prepared)
}

#[async_trait]
impl Changes<DiskRequest> for Disks {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: DiskRequest) -> Result<Prepared> {
        let ctx = &*self.0;
        let seen = match Seen::for_plan(ctx, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        if let Some(refused) = seen.unclear() {
            return Ok(refused);
        }
        let planned = match request {
            DiskRequest::Add {
                size,
                image,
                copy,
                bus,
                format,
                readonly,
                storage,
            } => {
                if format.is_some() {
                    Err(
                        Error::unsupported("a pool keeps its volumes in its own format")
                            .remedy("Leave --format out"),
                    )
                } else {
                    let adding = Adding {
                        size,
                        image,
                        copy,
                        bus,
                        readonly,
                        storage,
                    };
                    add(ctx, cx, &seen, adding).await
                }
            }
            DiskRequest::Remove { disk, delete_data } => {
                remove(ctx, cx, &seen, &disk, delete_data).await
            }
            DiskRequest::Grow { disk, size } => grow(ctx, cx, &seen, &disk, size).await,
        };
        Ok(planned.unwrap_or_else(|error| Prepared::failed(seen.token(), &error)))
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        work::run(&self.0, cx, prepared).await
    }
}

async fn to_pool(
    ctx: &Ctx,
    cx: &ReadCx,
    seen: &Seen,
    request: &DiskMoveRequest,
) -> Result<Prepared> {
    let id = &seen.id;
    let found = found(seen, &request.disk)?;
    let (name, to) = (shown(&request.disk), &request.to);
    let pool = found
        .device
        .text("pool")
        .ok_or_else(|| Error::refused(format!("{name} is a path of the server, and in no pool")))?;
    pool_driver(ctx, cx, to).await?;
    if pool == to {
        return Ok(Prepared::unchanged(
            seen.token(),
            format!("{name} is there already"),
        ));
    }
    if seen.state().is_active() {
        return Err(Error::refused(format!("{id} is {}", seen.state()))
            .remedy(format!("Stop it first: corral stop {id}")));
    }
    let undo = format!("corral disk move {id} --disk {} --to {}", name, shown(pool));
    let call = match found.device.text("source") {
        Some(volume) => Call::new(
            "POST",
            volume_path(seen, pool, Some(volume)),
            json!({"name": volume, "pool": to}),
        ),
        None => Call::new(
            "POST",
            seen.path(&[]),
            json!({"name": seen.name, "migration": true, "pool": to}),
        ),
    };
    let todo = Todo::call(format!("Move {name} to the pool {}", shown(to)), call).undo(undo);
    Ok(plan(
        seen,
        vec![todo],
        format!("{name} is in {}", shown(to)),
    ))
}

#[async_trait]
impl Changes<DiskMoveRequest> for Disks {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: DiskMoveRequest,
    ) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        if let Some(refused) = seen.unclear() {
            return Ok(refused);
        }
        let planned = to_pool(&self.0, cx, &seen, &request).await;
        Ok(planned.unwrap_or_else(|error| Prepared::failed(seen.token(), &error)))
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        work::run(&self.0, cx, prepared).await
    }
}
