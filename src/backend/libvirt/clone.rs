//! Another domain like this one: its volumes copied, or on top of the original's; a UUID and MACs of its own.

use uuid::Uuid;

use super::change::{free, off, persistent, scripted};
use super::ctx::{Ctx, Seen};
use super::disks::with_source;
use super::image;
use super::nics::new_mac;
use super::power::same;
use super::remove::seed_name;
use super::script::{Act, Script};
use super::volumes::{self, Vol};
use super::wire::{Call, Dom};
use super::xml::{Edit, child};
use crate::backend::contract::{CloneRequest, Prepared, ReadCx};
use crate::model::{Error, Instance, Result, shown};

scripted!(CloneRequest, clone);

async fn clone(ctx: &Ctx, cx: &ReadCx, on: &Instance, request: CloneRequest) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    let id = &seen.id;
    free(ctx, cx, &request.name).await?;
    persistent(&seen)?;
    let new = ctx.id(&request.name);
    let uuid = Uuid::new_v4();
    let dom = Dom {
        uuid: uuid.to_string(),
        name: request.name.clone(),
    };
    let (acts, sources) = match &request.snapshot {
        None => {
            off(&seen)?;
            of_present(ctx, cx, &seen, &request).await?
        }
        Some(name) => of_snapshot(ctx, cx, &seen, &request, name).await?,
    };
    let xml = definition(&seen, &request.name, uuid, &sources)?;
    let define = Call::Define {
        name: request.name.clone(),
        xml,
    };
    let back = Call::Undefine {
        dom: dom.clone(),
        keep_nvram: false,
    };
    let start = request.start.then(|| {
        let call = Call::Start {
            dom: dom.clone(),
            paused: false,
            fresh: false,
        };
        Act::call("Start it", call)
    });
    let said = format!("{new} is made like {id}");
    let script = Script::new(new, &request.name, said)
        .source(&seen)
        .acts(acts)
        .act(Act::call("Define it", define).back(back))
        .acts(start);
    let mut plan = script.prepared(ctx, cx).await?;
    if request.linked {
        plan.notes.push(format!(
            "its disks need those of {id}: who starts that breaks both"
        ));
    }
    if !request.keep_identity {
        plan.notes.push("the guest's machine ID, host keys and host name are those of the original: change them inside".to_owned());
    }
    if seen.config.uefi {
        plan.notes
            .push("the variables of its UEFI begin anew".to_owned());
    }
    Ok(plan)
}

/// Place in the guest, path, format, block device.
type Sources = Vec<(String, String, String, bool)>;

async fn of_present(
    ctx: &Ctx,
    cx: &ReadCx,
    seen: &Seen,
    request: &CloneRequest,
) -> Result<(Vec<Act>, Sources)> {
    let mut acts = Vec::new();
    let mut sources = Sources::new();
    let mut n = 0;
    for disk in &seen.config.disks {
        let is_seed = disk.readonly
            && disk
                .path()
                .is_some_and(|path| path.ends_with(&seed_name(&seen.listed.name)));
        // Media and what is only read from may be used by both.
        if disk.is_drive() || disk.shareable || (disk.readonly && !is_seed) {
            continue;
        }
        if disk.source.is_none() {
            continue;
        }
        let vol = volumes::of_disk(ctx, cx, disk).await.ok_or_else(|| {
            Error::refused(format!(
                "the disk {} of {} is in no pool of libvirt: it cannot be copied",
                disk.target, seen.id
            ))
            .remedy("Define a pool for its folder: virsh pool-define-as NAME dir --target FOLDER, virsh pool-start NAME")
        })?;
        let pool = image::pool_for(ctx, cx, Some(&vol.pool), None).await?;
        let (name, linked) = if is_seed {
            (seed_name(&request.name), false)
        } else {
            let end = vol
                .name
                .rsplit_once('.')
                .map_or_else(String::new, |(_, end)| format!(".{end}"));
            let end = if request.linked {
                ".qcow2".to_owned()
            } else {
                end
            };
            let stem = if n == 0 {
                request.name.clone()
            } else {
                format!("{}-{}", request.name, disk.target)
            };
            n += 1;
            (
                image::free_name(ctx, cx, &pool, &stem, &end).await?,
                request.linked,
            )
        };
        let format = if linked {
            "qcow2"
        } else {
            vol.format.as_deref().unwrap_or("raw")
        }
        .to_owned();
        let act = if linked {
            super::create::overlay(&pool, &name, &vol, None)?
        } else {
            copy(&pool.name, &name, &format, &vol)
        };
        acts.push(act);
        sources.push((
            disk.target.clone(),
            image::path_in(&pool, &name),
            format,
            pool.kind == "logical",
        ));
    }
    Ok((acts, sources))
}

/// The act that copies a volume.
fn copy(pool: &str, name: &str, format: &str, vol: &Vol) -> Act {
    let call = Call::VolClone {
        pool: pool.to_owned(),
        name: name.to_owned(),
        xml: image::volume_xml(name, format, vol.capacity, None),
        from_pool: vol.pool.clone(),
        from: vol.name.clone(),
    };
    let back = Call::VolDelete {
        pool: pool.to_owned(),
        name: name.to_owned(),
    };
    Act::call(format!("Copy {}", shown(&vol.path)), call).back(back)
}

/// From a snapshot outside of the disks: the files below its overlays hold what was then.
async fn of_snapshot(
    ctx: &Ctx,
    cx: &ReadCx,
    seen: &Seen,
    request: &CloneRequest,
    name: &str,
) -> Result<(Vec<Act>, Sources)> {
    let all = super::snapshots::known(ctx, cx, seen).await?;
    let id = &seen.id;
    let known = all
        .iter()
        .find(|one| one.shown.name == name)
        .ok_or_else(|| Error::not_found(format!("{id} has no snapshot {}", shown(name))))?;
    if !known.external {
        return Err(Error::unsupported(format!(
            "{} is inside of the disks: libvirt copies the present alone",
            shown(name)
        ))
        .remedy(format!(
            "Go back to it first, and keep the present: corral snapshot restore {id}@{} --keep-present NAME",
            crate::model::encode_segment(name)
        )));
    }
    let mut acts = Vec::new();
    let mut sources = Sources::new();
    for (target, overlay) in &known.overlays {
        let vol = volumes::at_path(ctx, cx, overlay).await?;
        let below = vol.and_then(|vol| vol.backing).ok_or_else(|| {
            Error::refused(format!("what is below {} cannot be seen", shown(overlay)))
        })?;
        let vol = volumes::at_path(ctx, cx, &below)
            .await?
            .ok_or_else(|| Error::refused(format!("{} is in no pool of libvirt", shown(&below))))?;
        let pool = image::pool_for(ctx, cx, Some(&vol.pool), None).await?;
        let new = image::free_name(
            ctx,
            cx,
            &pool,
            &format!("{}-{target}", request.name),
            ".qcow2",
        )
        .await?;
        let act = if request.linked {
            super::create::overlay(&pool, &new, &vol, None)?
        } else {
            copy(&pool.name, &new, "qcow2", &vol)
        };
        acts.push(act);
        sources.push((
            target.clone(),
            image::path_in(&pool, &new),
            "qcow2".to_owned(),
            false,
        ));
    }
    Ok((acts, sources))
}

/// The definition of the copy: what corral does not know stays as it is.
fn definition(seen: &Seen, name: &str, uuid: Uuid, sources: &Sources) -> Result<String> {
    let mut xml = seen.config_xml.clone();
    for (target, path, format, block) in sources {
        xml = with_source(&xml, target, path, *block, format)?;
    }
    let mut edit = Edit::new(&xml)?;
    edit.set_content(&["name"], &super::xml::escaped(name));
    edit.set_content(&["uuid"], &uuid.to_string());
    // A file of its own is made from the template that it names.
    edit.remove(|root| {
        let os = child(root, "os");
        os.and_then(|os| child(os, "nvram")).into_iter().collect()
    });
    edit.remove(|root| child(root, "genid").into_iter().collect());
    for nic in &seen.config.nics {
        let Some(mac) = &nic.mac else { continue };
        edit.set_attr_of(
            |root| {
                let devices = child(root, "devices")?;
                devices.descendants().find(|node| {
                    node.has_tag_name("mac")
                        && node
                            .attribute("address")
                            .is_some_and(|a| a.eq_ignore_ascii_case(mac))
                })
            },
            "address",
            Some(&new_mac()),
        );
    }
    // Sockets named for the original.
    edit.remove(|root| {
        let devices = child(root, "devices");
        let channels = devices.into_iter().flat_map(|d| {
            d.children()
                .filter(|n| n.has_tag_name("channel"))
                .collect::<Vec<_>>()
        });
        channels
            .filter_map(|channel| child(channel, "source"))
            .filter(|source| source.attribute("mode") == Some("bind"))
            .collect()
    });
    if seen.config.marks.template {
        edit.remove(|root| {
            root.descendants()
                .filter(|node| node.is_element() && node.tag_name().name() == "template")
                .filter(|node| {
                    node.parent()
                        .is_some_and(|p| p.tag_name().namespace() == Some(super::wire::NAMESPACE))
                })
                .collect()
        });
    }
    Ok(edit.into_text())
}
