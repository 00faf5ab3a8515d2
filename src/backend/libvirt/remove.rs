//! Away: the definition with all that hangs on it, and the volumes that are its own.

use super::change::scripted;
use super::ctx::{Ctx, Seen};
use super::domain::DiskDef;
use super::power::{off_act, same};
use super::script::{Act, Besides, Script};
use super::storage::users;
use super::volumes::{self, Vol};
use super::wire::Call;
use crate::backend::contract::{Prepared, ReadCx, RemoveRequest};
use crate::model::{Error, ErrorKind, Instance, InstanceId, Result, shown};

scripted!(RemoveRequest, remove);

/// The name of the seed that `create` makes.
pub fn seed_name(domain: &str) -> String {
    format!("{domain}-seed.img")
}

/// What a volume is to the domain that goes.
pub enum Fate {
    /// It goes.
    Goes(Vol),
    /// It stays, and why.
    Stays(String, String),
}

/// What becomes of each disk.
///
/// # Errors
/// Those of libvirt.
pub async fn fates(ctx: &Ctx, cx: &ReadCx, seen: &Seen) -> Result<Vec<Fate>> {
    let users = users(ctx, cx).await?;
    let mut all = Vec::new();
    for disk in &seen.config.disks {
        let Some(source) = &disk.source else { continue };
        all.push(fate(ctx, cx, &seen.id, disk, &source.shown(), &users).await?);
    }
    Ok(all)
}

async fn fate(
    ctx: &Ctx,
    cx: &ReadCx,
    id: &InstanceId,
    disk: &DiskDef,
    place: &str,
    users: &std::collections::HashMap<String, Vec<InstanceId>>,
) -> Result<Fate> {
    let stays = |why: &str| Ok(Fate::Stays(place.to_owned(), why.to_owned()));
    let is_seed = place.ends_with(&seed_name(id.key()));
    if disk.is_drive() {
        return stays("a medium is not its own");
    }
    if (disk.readonly && !is_seed) || disk.shareable {
        return stays("it is only read from, or shared");
    }
    let other = |place: &str| {
        let all = users.get(place).into_iter().flatten();
        all.filter(|user| *user != id)
            .map(ToString::to_string)
            .next()
    };
    if let Some(user) = other(place) {
        return stays(&format!("{user} uses it"));
    }
    let Some(vol) = volumes::of_disk(ctx, cx, disk).await else {
        return stays("it is in no pool of libvirt");
    };
    if let Some(user) = other(&vol.path).or_else(|| other(&format!("{}/{}", vol.pool, vol.name))) {
        return stays(&format!("{user} uses it"));
    }
    let beside = volumes::in_pool(ctx, cx, &vol.pool).await?;
    let on_top = beside.iter().find_map(|(name, other)| {
        let backing = other.as_ref().ok()?.backing.as_ref()?;
        (*backing == vol.path).then_some(name)
    });
    if let Some(name) = on_top {
        return stays(&format!("{} is on top of it", shown(name)));
    }
    Ok(Fate::Goes(vol))
}

async fn remove(ctx: &Ctx, cx: &ReadCx, on: &Instance, request: RemoveRequest) -> Result<Prepared> {
    let seen = match ctx.look(cx, &on.id).await {
        Ok(seen) => seen,
        Err(error) if error.kind == ErrorKind::NotFound => {
            return Ok(Prepared::unchanged(
                "gone",
                format!("{} is gone already", on.id),
            ));
        }
        Err(error) => return Err(error),
    };
    same(&seen, on)?;
    let id = &seen.id;
    if seen.is_active() && !request.force {
        return Err(Error::refused(format!("{id} is {}", seen.is().state))
            .remedy(format!("Stop it first: corral stop {id} (or add --force).")));
    }
    let snapshots = super::snapshots::known(ctx, cx, &seen).await?;
    let mut script = Script::on(&seen, format!("{id} is deleted")).besides(Besides::Snapshots);
    if seen.is_active() {
        script = script.act(off_act(&seen));
    }
    if seen.listed.persistent {
        let undefine = Call::Undefine {
            dom: seen.dom(),
            keep_nvram: request.keep_disks && seen.config.nvram.is_some(),
        };
        script = script.act(Act::call("Take its definition away", undefine));
    }
    let mut losses = Vec::new();
    let mut notes = Vec::new();
    if seen.is_active() {
        losses.push("what the guest has not written to its disks".to_owned());
    }
    if seen.listed.saved {
        losses.push("its saved memory".to_owned());
    }
    if !snapshots.is_empty() {
        let names: Vec<_> = snapshots.iter().map(|one| shown(&one.shown.name)).collect();
        losses.push(format!(
            "what libvirt knows of its snapshots: {}",
            names.join(", ")
        ));
    }
    if request.keep_disks {
        let places: Vec<String> = seen
            .config
            .disks
            .iter()
            .filter_map(|disk| disk.source.as_ref())
            .map(|source| shown(&source.shown()).into_owned())
            .collect();
        notes.extend(places.into_iter().map(|place| format!("{place} stays")));
        notes.extend(
            seen.config
                .nvram
                .iter()
                .map(|nvram| format!("{} stays", shown(nvram))),
        );
    } else {
        for fate in fates(ctx, cx, &seen).await? {
            match fate {
                Fate::Stays(place, why) => notes.push(format!("{} stays: {why}", shown(&place))),
                Fate::Goes(vol) => {
                    losses.push(format!("{} ({})", shown(&vol.path), vol.capacity));
                    script = script.act(delete(&vol));
                }
            }
        }
        // Overlays are the present; the files below them are what a snapshot kept.
        for file in outside(&snapshots) {
            if let Some(vol) = volumes::at_path(ctx, cx, &file).await?
                && seen
                    .config
                    .disks
                    .iter()
                    .all(|disk| disk.path() != Some(&file))
            {
                losses.push(format!("{} of a snapshot", shown(&vol.path)));
                script = script.act(delete(&vol));
            }
        }
    }
    let mut plan = script.prepared(ctx, cx).await?;
    plan.losses = losses;
    plan.notes = notes;
    Ok(plan)
}

/// Files of snapshots outside of the disks.
fn outside(snapshots: &[super::snapshots::Known]) -> Vec<String> {
    let mut files: Vec<String> = snapshots.iter().flat_map(|one| one.files.clone()).collect();
    files.sort();
    files.dedup();
    files
}

/// Destroys a volume.
pub fn delete(vol: &Vol) -> Act {
    let call = Call::VolDelete {
        pool: vol.pool.clone(),
        name: vol.name.clone(),
    };
    Act::call(format!("Delete {}", shown(&vol.path)), call)
}
