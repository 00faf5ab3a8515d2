//! Disks: more, fewer, larger, elsewhere; live and in the definition.

use super::change::{affects, not_hibernated, scripted, settled};
use super::ctx::{Ctx, Seen};
use super::domain::{DiskDef, Domain, Source};
use super::image::{self, Image};
use super::power::same;
use super::remove::delete;
use super::script::{Act, Besides, Script};
use super::volumes::{self, Vol};
use super::wire::Call;
use super::xml::{Edit, child, escaped, piece};
use crate::backend::contract::{DiskMoveRequest, DiskRequest, Growth, Prepared, ReadCx};
use crate::model::{Bytes, Error, Instance, Result, shown};

scripted!(DiskRequest, disk);
scripted!(DiskMoveRequest, move_disk);

/// A new disk without an image.
const SIZE: Bytes = Bytes::gib(20);

async fn disk(ctx: &Ctx, cx: &ReadCx, on: &Instance, request: DiskRequest) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    settled(&seen)?;
    match request {
        DiskRequest::Add { .. } => add(ctx, cx, &seen, request).await,
        DiskRequest::Remove { disk, delete_data } => {
            remove(ctx, cx, &seen, &disk, delete_data).await
        }
        DiskRequest::Grow { disk, size } => grow(ctx, cx, &seen, &disk, size).await,
    }
}

/// The disk of a slot.
///
/// # Errors
/// `NotFound` with those that are there.
pub fn slot<'a>(seen: &'a Seen, name: &str) -> Result<&'a DiskDef> {
    let found = seen
        .live
        .disk(name)
        .or_else(|| seen.config.disk(name))
        .filter(|disk| !disk.is_drive());
    found.ok_or_else(|| {
        let all: Vec<&str> = seen
            .live
            .disks
            .iter()
            .filter(|disk| !disk.is_drive())
            .map(|disk| disk.target.as_str())
            .collect();
        Error::not_found(format!("{} has no disk {}", seen.id, shown(name)))
            .remedy(format!("It has: {}", all.join(", ")))
    })
}

/// A place in the guest that neither the running machine nor its definition uses.
fn free_target(seen: &Seen, bus: &str) -> Result<String> {
    let prefix = if bus == "virtio" { "vd" } else { "sd" };
    let used = |name: &str| {
        seen.live
            .disk(name)
            .or_else(|| seen.config.disk(name))
            .is_some()
    };
    ('a'..='z')
        .map(|letter| format!("{prefix}{letter}"))
        .find(|name| !used(name))
        .ok_or_else(|| Error::refused(format!("{} has no room for another disk", seen.id)))
}

/// A disk as an element.
pub fn element(
    path: &str,
    format: &str,
    block: bool,
    target: &str,
    bus: &str,
    readonly: bool,
) -> String {
    let (kind, key) = if block {
        ("block", "dev")
    } else {
        ("file", "file")
    };
    let readonly = if readonly { "<readonly/>" } else { "" };
    format!(
        "<disk type='{kind}' device='disk'><driver name='qemu' type='{format}'/><source {key}='{}'/><target dev='{target}' bus='{bus}'/>{readonly}</disk>",
        escaped(path)
    )
}

async fn first_pool(ctx: &Ctx, cx: &ReadCx, domain: &Domain) -> Option<String> {
    let disk = domain.disks.iter().find(|disk| !disk.is_drive())?;
    volumes::of_disk(ctx, cx, disk).await.map(|vol| vol.pool)
}

async fn add(ctx: &Ctx, cx: &ReadCx, seen: &Seen, request: DiskRequest) -> Result<Prepared> {
    let DiskRequest::Add {
        size,
        image,
        copy,
        bus,
        format,
        readonly,
        storage,
    } = request
    else {
        return Err(Error::backend("internal: no disk to add"));
    };
    not_hibernated(seen)?;
    let id = &seen.id;
    let bus = bus.unwrap_or_else(|| "virtio".to_owned());
    let target = free_target(seen, &bus)?;
    let (live, config) = affects(seen);
    if live && bus == "sata" {
        return Err(
            Error::refused("SATA disks cannot be added while it runs").remedy(format!(
                "Stop it first: corral stop {id}, or use --bus virtio"
            )),
        );
    }
    let undo = format!("corral disk remove {id} --disk {target}");
    let attach = |path: &str, format: &str, block: bool| {
        let call = Call::Attach {
            dom: seen.dom(),
            what: target.clone(),
            xml: element(path, format, block, &target, &bus, readonly),
            live,
            config,
        };
        Act::call(format!("Attach it as {target}"), call).undo(undo.clone())
    };
    let script = Script::on(seen, format!("{id} has the disk {target}"));
    let image = match &image {
        Some(text) => Some(image::find(ctx, cx, text).await?),
        None => None,
    };
    let script = match image {
        Some(Image::Volume(vol)) if !copy => {
            let users = super::storage::users(ctx, cx).await?;
            if let Some(user) = users.get(&vol.path).and_then(|all| all.first())
                && !readonly
            {
                return Err(Error::refused(format!("{user} uses {}", shown(&vol.path)))
                    .remedy("Attach a copy: --copy. Or let both only read it: --readonly"));
            }
            let format = vol.format.as_deref().unwrap_or("raw");
            let block = vol.kind == "block";
            if size.is_some_and(|size| size != vol.capacity) {
                return Err(Error::invalid("--size of an image that is used as it is")
                    .remedy("Grow it afterwards: corral disk grow. Or attach a copy: --copy"));
            }
            script.act(attach(&vol.path, format, block))
        }
        source => {
            let beside = first_pool(ctx, cx, &seen.config).await;
            let pool = image::pool_for(ctx, cx, storage.as_deref(), beside.as_deref()).await?;
            let wanted = format.as_deref().or(source.as_ref().map(Image::format));
            let format = image::format_in(&pool, wanted.unwrap_or("qcow2")).to_owned();
            let end = if format == "raw" { ".img" } else { ".qcow2" };
            let stem = format!("{}-{target}", seen.listed.name);
            let name = image::free_name(ctx, cx, &pool, &stem, end).await?;
            let made = make(&pool.name, &name, &format, source.as_ref(), size)?;
            let path = image::path_in(&pool, &name);
            let block = pool.kind == "logical";
            script.acts(made).act(attach(&path, &format, block))
        }
    };
    script.prepared(ctx, cx).await
}

/// The acts that make a volume: empty, a copy of another, or a file that is sent; with the size that is asked for.
///
/// # Errors
/// `Invalid` for a size below that of the image.
pub fn make(
    pool: &str,
    name: &str,
    format: &str,
    source: Option<&Image>,
    size: Option<Bytes>,
) -> Result<Vec<Act>> {
    let back = Call::VolDelete {
        pool: pool.to_owned(),
        name: name.to_owned(),
    };
    if let (Some(source), Some(size)) = (source, size)
        && size < source.size()
    {
        return Err(Error::invalid(format!(
            "{size} is less than the {} of the image",
            source.size()
        ))
        .remedy("Ask for as much as it has, or more."));
    }
    let grow = size
        .filter(|size| source.is_some_and(|source| source.size() != *size))
        .map(|size| {
            let call = Call::VolResize {
                pool: pool.to_owned(),
                name: name.to_owned(),
                size: size.0,
            };
            Act::call(format!("Make it {size} large"), call)
        });
    let create = |title: String, format: &str, size: Bytes| {
        let call = Call::VolCreate {
            pool: pool.to_owned(),
            name: name.to_owned(),
            xml: image::volume_xml(name, format, size, None),
        };
        Act::call(title, call).back(back.clone())
    };
    let first = match source {
        None => vec![create(
            format!("Make an empty disk of {}", size.unwrap_or(SIZE)),
            format,
            size.unwrap_or(SIZE),
        )],
        Some(Image::Volume(vol)) => {
            let call = Call::VolClone {
                pool: pool.to_owned(),
                name: name.to_owned(),
                xml: image::volume_xml(name, format, vol.capacity, None),
                from_pool: vol.pool.clone(),
                from: vol.name.clone(),
            };
            vec![Act::call(format!("Copy {}", shown(&vol.path)), call).back(back.clone())]
        }
        Some(Image::File(path, own, size)) => {
            if own != format {
                return Err(Error::unsupported(format!(
                    "the image is {own}, and is sent as it is: it cannot become {format}"
                ))
                .remedy(format!(
                    "Leave --format out, or convert it first: qemu-img convert -O {format}"
                )));
            }
            vec![
                create("Make a place for it".to_owned(), format, *size),
                Act::upload(
                    format!("Send {}", shown(&path.display().to_string())),
                    path.clone(),
                    pool,
                    name,
                ),
            ]
        }
    };
    // What libvirt knows of a volume's size is from before its bytes came.
    let sent = matches!(source, Some(Image::File(..))).then(|| {
        Act::call(
            "Look at it",
            Call::PoolRefresh {
                pool: pool.to_owned(),
            },
        )
    });
    Ok(first.into_iter().chain(sent).chain(grow).collect())
}

/// The XML of a device as it stands in a definition, found by its place in the guest.
pub fn disk_xml(xml: &str, target: &str) -> Option<String> {
    piece(xml, |root| find(root, target))
}

async fn remove(
    ctx: &Ctx,
    cx: &ReadCx,
    seen: &Seen,
    name: &str,
    delete_data: bool,
) -> Result<Prepared> {
    let id = &seen.id;
    let disk = slot(seen, name)?;
    not_hibernated(seen)?;
    let live = seen.is_active() && seen.live.disk(name).is_some();
    let config = seen.listed.persistent && seen.config.disk(name).is_some();
    if live && disk.bus.as_deref() == Some("sata") {
        return Err(
            Error::refused("SATA disks cannot be taken out while it runs")
                .remedy(format!("Stop it first: corral stop {id}")),
        );
    }
    let snapshots = super::snapshots::known(ctx, cx, seen).await?;
    if let Some(holds) = snapshots
        .iter()
        .find(|one| one.disks.iter().any(|d| d == name))
    {
        return Err(Error::refused(format!(
            "the snapshot {} holds {name}: without it nobody could go back",
            shown(&holds.shown.name)
        ))
        .remedy(format!(
            "Delete its snapshots first: corral snapshot list {id}"
        )));
    }
    let text = if live {
        &seen.live_xml
    } else {
        &seen.config_xml
    };
    let xml = disk_xml(text, name)
        .ok_or_else(|| Error::backend(format!("the disk {name} of {id} cannot be read")))?;
    let detach = Act::detached(
        format!("Detach {name}"),
        Call::Detach {
            dom: seen.dom(),
            what: name.to_owned(),
            xml,
            live,
            config,
        },
        seen.dom(),
        name,
    );
    let mut script = Script::on(seen, format!("{id} has no disk {name} any more"));
    let mut losses = Vec::new();
    let mut notes = Vec::new();
    let place = disk.source.as_ref().map(Source::shown).unwrap_or_default();
    script = script.act(detach);
    if delete_data {
        let vol = owned(ctx, cx, seen, disk).await?;
        losses.push(format!("{} ({})", shown(&vol.path), vol.capacity));
        script = script.act(delete(&vol));
    } else if !place.is_empty() {
        notes.push(format!("{} stays", shown(&place)));
    }
    let mut plan = script.prepared(ctx, cx).await?;
    plan.losses = losses;
    plan.notes = notes;
    Ok(plan)
}

/// The volume of a disk that nobody else needs.
async fn owned(ctx: &Ctx, cx: &ReadCx, seen: &Seen, disk: &DiskDef) -> Result<Vol> {
    let keep = "Leave its data: without --delete-data";
    let Some(vol) = volumes::of_disk(ctx, cx, disk).await else {
        return Err(Error::refused(format!(
            "the data of {} are in no pool of libvirt",
            disk.target
        ))
        .remedy(keep));
    };
    let users = super::storage::users(ctx, cx).await?;
    let other = users
        .get(&vol.path)
        .into_iter()
        .flatten()
        .find(|user| **user != seen.id);
    if let Some(user) = other {
        return Err(Error::refused(format!("{user} uses {}", shown(&vol.path))).remedy(keep));
    }
    Ok(vol)
}

async fn grow(ctx: &Ctx, cx: &ReadCx, seen: &Seen, name: &str, size: Growth) -> Result<Prepared> {
    let id = &seen.id;
    let disk = slot(seen, name)?;
    not_hibernated(seen)?;
    if disk.readonly {
        return Err(Error::refused(format!("{name} is only read from")));
    }
    let vol = volumes::of_disk(ctx, cx, disk).await;
    let live_size = {
        let count = seen
            .listed
            .stats
            .get("block.count")
            .and_then(serde_json::Value::as_u64);
        (0..count.unwrap_or(0).min(1000)).find_map(|n| {
            let stats = &seen.listed.stats;
            let named = stats.get(&format!("block.{n}.name"))?.as_str()? == name;
            named
                .then(|| stats.get(&format!("block.{n}.capacity"))?.as_u64())
                .flatten()
                .map(Bytes)
        })
    };
    let now = live_size
        .filter(|_| seen.is_active())
        .or(vol.as_ref().map(|vol| vol.capacity))
        .ok_or_else(|| {
            Error::refused(format!(
                "the size of {name} cannot be read: it is in no pool"
            ))
        })?;
    let to = match size {
        Growth::To(to) => to,
        Growth::By(more) => Bytes(now.0.saturating_add(more.0)),
    };
    // Disks are made of sectors.
    let to = Bytes(to.0.div_ceil(512) * 512);
    let path = vol.as_ref().map(|vol| vol.path.clone()).unwrap_or_default();
    if to == now {
        return Ok(Prepared::unchanged(
            seen.token(),
            format!("{name} of {id} has {now} already"),
        ));
    }
    if to < now {
        return Err(Error::refused(format!(
            "{name} of {id} has {now}: disks only grow, what is behind the new end would be lost"
        ))
        .remedy("Ask for more than it has."));
    }
    let call = match (&vol, seen.is_active()) {
        (_, true) => Call::BlockResize {
            dom: seen.dom(),
            disk: name.to_owned(),
            size: to.0,
        },
        (Some(vol), false) => Call::VolResize {
            pool: vol.pool.clone(),
            name: vol.name.clone(),
            size: to.0,
        },
        (None, false) => {
            return Err(Error::refused(format!("{name} of {id} is in no pool of libvirt"))
                .remedy(format!("Start it: a running machine's disks can grow wherever they are: corral start {id}")));
        }
    };
    let script = Script::on(seen, format!("{name} of {id} has {to}"))
        .besides(Besides::Volume(path))
        .act(Act::call(
            format!("Let {name} grow from {now} to {to}"),
            call,
        ));
    let mut plan = script.prepared(ctx, cx).await?;
    plan.notes
        .push("partitions and file systems inside do not grow by themselves".to_owned());
    Ok(plan)
}

async fn move_disk(
    ctx: &Ctx,
    cx: &ReadCx,
    on: &Instance,
    request: DiskMoveRequest,
) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    settled(&seen)?;
    not_hibernated(&seen)?;
    let (id, name) = (&seen.id, request.disk.as_str());
    let disk = slot(&seen, name)?;
    let vol = volumes::of_disk(ctx, cx, disk)
        .await
        .ok_or_else(|| Error::refused(format!("{name} of {id} is in no pool of libvirt")))?;
    let pool = image::pool_for(ctx, cx, Some(&request.to), None).await?;
    if vol.pool == pool.name {
        return Ok(Prepared::unchanged(
            seen.token(),
            format!("{name} of {id} is in {} already", shown(&pool.name)),
        ));
    }
    let snapshots = super::snapshots::known(ctx, cx, &seen).await?;
    if !snapshots.is_empty() {
        return Err(Error::refused(format!(
            "{id} has snapshots: they would stay behind, and be of no use"
        ))
        .remedy(format!("Delete them first: corral snapshot list {id}")));
    }
    super::change::persistent(&seen)?;
    let format = image::format_in(&pool, disk.format.as_deref().unwrap_or("qcow2")).to_owned();
    let (stem, end) = match vol.name.rsplit_once('.') {
        Some((stem, end)) => (stem.to_owned(), format!(".{end}")),
        None => (vol.name.clone(), String::new()),
    };
    let new = image::free_name(ctx, cx, &pool, &stem, &end).await?;
    let path = image::path_in(&pool, &new);
    let block = pool.kind == "logical";
    let back = Call::VolDelete {
        pool: pool.name.clone(),
        name: new.clone(),
    };
    let undo = format!(
        "corral disk move {id} --disk {name} --to {}",
        shown(&vol.pool)
    );
    let script = Script::on(&seen, format!("{name} of {id} is in {}", shown(&pool.name)));
    let script = if seen.is_active() {
        let call = Call::VolCreate {
            pool: pool.name.clone(),
            name: new.clone(),
            xml: image::volume_xml(&new, &format, vol.capacity, None),
        };
        let copy = Call::BlockCopy {
            dom: seen.dom(),
            disk: name.to_owned(),
            xml: element(&path, &format, block, name, "virtio", false),
            to: path.clone(),
        };
        let stop = Call::BlockJobAbort {
            dom: seen.dom(),
            disk: name.to_owned(),
            pivot: false,
        };
        script
            .act(Act::call("Make a place for it", call).back(back))
            .act(Act::call("Copy it while it is in use", copy).back(stop))
            .act(Act::pivot("Go over to the copy", seen.dom(), name).undo(undo))
    } else {
        let copy = Call::VolClone {
            pool: pool.name.clone(),
            name: new.clone(),
            xml: image::volume_xml(&new, &format, vol.capacity, None),
            from_pool: vol.pool.clone(),
            from: vol.name.clone(),
        };
        let xml = with_source(&seen.config_xml, name, &path, block, &format)?;
        let define = Call::Define {
            name: seen.listed.name.clone(),
            xml,
        };
        script
            .act(Act::call("Copy it", copy).back(back))
            .act(Act::call("Write its new place", define).undo(undo))
    };
    script.act(delete(&vol)).prepared(ctx, cx).await
}

/// A definition whose disk is elsewhere.
///
/// # Errors
/// As [`Edit::new`].
pub fn with_source(
    xml: &str,
    target: &str,
    path: &str,
    block: bool,
    format: &str,
) -> Result<String> {
    let key = if block { "dev" } else { "file" };
    let mut edit = Edit::new(xml)?;
    edit.replace(
        |root| child(find(root, target)?, "source"),
        &format!("<source {key}='{}'/>", escaped(path)),
    );
    edit.set_attr_of(
        |root| find(root, target),
        "type",
        Some(if block { "block" } else { "file" }),
    );
    edit.set_attr_of(
        |root| child(find(root, target)?, "driver"),
        "type",
        Some(format),
    );
    // What libvirt found below the old one says nothing of the new.
    edit.remove(|root| {
        find(root, target)
            .and_then(|disk| child(disk, "backingStore"))
            .into_iter()
            .collect()
    });
    Ok(edit.into_text())
}

/// The disk at a place in the guest.
pub fn find<'a, 'i>(
    root: roxmltree::Node<'a, 'i>,
    target: &str,
) -> Option<roxmltree::Node<'a, 'i>> {
    let devices = child(root, "devices")?;
    devices.children().find(|disk| {
        disk.is_element()
            && disk.tag_name().name() == "disk"
            && child(*disk, "target").and_then(|t| t.attribute("dev")) == Some(target)
    })
}
