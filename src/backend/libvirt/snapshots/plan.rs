//! What a snapshot request would do, and why it may not.

use jiff::Timestamp;

use super::super::change::{scripted, settled};
use super::super::ctx::{Ctx, Seen};
use super::super::power::{off_act, same, start_act, startable};
use super::super::script::{Act, Besides, Script};
use super::super::volumes;
use super::super::wire::{Call, Server};
use super::super::xml::escaped;
use super::{Known, Marks, known};
use crate::backend::contract::{
    Prepared, ReadCx, SnapshotRequest, TakeSnapshot, free_name, satisfies,
};
use crate::model::{Consistency, Error, Instance, Result, encode_segment, shown};

scripted!(SnapshotRequest, plan);

/// libvirt goes back to snapshots outside of the disks since this version.
const REVERTS_EXTERNAL: u32 = 9_009_000;
/// Taken again by its rule within this time, a snapshot is there already.
const SAME_RUN: i64 = 60;

async fn plan(ctx: &Ctx, cx: &ReadCx, on: &Instance, request: SnapshotRequest) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    settled(&seen)?;
    let all = known(ctx, cx, &seen).await?;
    match request {
        SnapshotRequest::Create(take) => create(ctx, cx, &seen, &all, &take).await,
        SnapshotRequest::Restore {
            name,
            stop,
            start,
            keep_present,
        } => {
            let back = Back {
                name,
                stop,
                start,
                keep_present,
            };
            restore(ctx, cx, &seen, &all, back).await
        }
        SnapshotRequest::Delete { names } => delete(ctx, cx, &seen, &all, &names).await,
    }
}

/// What a snapshot may be called.
fn check_name(name: &str) -> Result<()> {
    let fine = !name.trim().is_empty()
        && name.len() <= 200
        && !name.contains('/')
        && !name.starts_with('.')
        && !name.chars().any(char::is_control);
    if fine {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "\"{}\" cannot be the name of a snapshot",
        shown(name)
    ))
    .remedy("Use letters, digits and signs but /."))
}

/// How a snapshot is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    /// Inside of the disks, with the memory where it runs.
    inside: bool,
    quiesce: bool,
    will_be: Consistency,
}

/// Disks whose state a snapshot holds, by target, each with whether it can hold snapshots inside.
fn held(seen: &Seen) -> Vec<(&str, bool)> {
    seen.live
        .disks
        .iter()
        .filter(|disk| !disk.is_drive() && !disk.readonly && disk.source.is_some())
        .map(|disk| {
            let qcow2 = disk.format.as_deref() == Some("qcow2");
            (disk.target.as_str(), qcow2)
        })
        .collect()
}

fn way(seen: &Seen, all: &[Known], take: &TakeSnapshot) -> Result<Way> {
    let id = &seen.id;
    let runs = seen.is_active();
    if take.memory && !runs {
        return Err(
            Error::refused(format!("{id} is not running: there is no RAM to save"))
                .remedy("Leave --with-memory out."),
        );
    }
    let disks = held(seen);
    let raw: Vec<&str> = disks
        .iter()
        .filter(|(_, qcow2)| !qcow2)
        .map(|(t, _)| *t)
        .collect();
    let outside = all.iter().find(|one| one.external);
    // Off, or with its memory: inside, where all disks can and no other snapshot is outside of them.
    if take.memory || (!runs && raw.is_empty() && outside.is_none()) {
        if !raw.is_empty() {
            return Err(Error::refused(format!(
                "the disks {} of {id} are not qcow2: they hold no snapshots",
                raw.join(", ")
            ))
            .remedy("Leave --with-memory out: the disks alone are kept beside them then."));
        }
        if let Some(other) = outside {
            return Err(Error::refused(format!(
                "{} is outside of the disks: one inside of them beside it could not be kept apart",
                shown(&other.shown.name)
            ))
            .remedy(format!(
                "Leave --with-memory out, or delete it first: corral snapshot delete {id}@{}",
                encode_segment(&other.shown.name)
            )));
        }
        if take.memory && seen.live.cpus != seen.config.cpus && seen.listed.persistent {
            return Err(Error::refused(format!(
                "{id} runs with other CPUs than it is defined with: libvirt could not go back to its memory, and would leave it off"
            ))
            .remedy(format!(
                "Make both the same first: corral resize {id} --cpus {}",
                seen.live.cpus.unwrap_or(1)
            )));
        }
        let will_be = if runs {
            Consistency::Memory
        } else {
            Consistency::Offline
        };
        return Ok(Way {
            inside: true,
            quiesce: false,
            will_be,
        });
    }
    if let Some(other) = all
        .iter()
        .find(|one| !one.external && one.shown.broken.is_none())
        && runs
    {
        return Err(Error::refused(format!(
            "{} is inside of the disks: one outside of them beside it could not be kept apart",
            shown(&other.shown.name)
        ))
        .remedy(format!(
            "Take it with its memory: --with-memory. Or stop it first: corral stop {id}"
        )));
    }
    let agent = seen.live.agent == Some(true);
    if take.quiesce && runs && !agent {
        return Err(Error::refused(format!(
            "the guest agent of {id} does not answer: its file systems cannot be frozen"
        ))
        .remedy("Start the agent in it, or leave --quiesce out."));
    }
    let quiesce = take.quiesce && runs;
    let will_be = match (runs, quiesce) {
        (false, _) => Consistency::Offline,
        (true, true) => Consistency::Filesystem,
        (true, false) => Consistency::Crash,
    };
    Ok(Way {
        inside: false,
        quiesce,
        will_be,
    })
}

/// The XML of a snapshot to be.
fn xml(seen: &Seen, name: &str, way: Way, marks: &Marks) -> String {
    let kind = if way.inside { "internal" } else { "external" };
    let held = held(seen);
    let disks: String = seen
        .live
        .disks
        .iter()
        .filter(|disk| !disk.target.is_empty())
        .map(|disk| {
            let of = held.iter().any(|(target, _)| *target == disk.target);
            let how = if of { kind } else { "no" };
            format!("<disk name='{}' snapshot='{how}'/>", escaped(&disk.target))
        })
        .collect();
    let description = marks.description().map_or_else(String::new, |text| {
        format!("<description>{}</description>", escaped(&text))
    });
    format!(
        "<domainsnapshot><name>{}</name>{description}<disks>{disks}</disks></domainsnapshot>",
        escaped(name)
    )
}

fn take_act(seen: &Seen, name: &str, way: Way, take: &TakeSnapshot) -> Act {
    let marks = Marks {
        note: take.note.clone().filter(|note| !note.trim().is_empty()),
        quiesced: way.quiesce,
        expires_at: take.expires_at,
        policy: take.policy.clone(),
    };
    let call = Call::SnapshotCreate {
        dom: seen.dom(),
        name: name.to_owned(),
        xml: xml(seen, name, way, &marks),
        disk_only: !way.inside,
        quiesce: way.quiesce,
    };
    let title = match way.will_be {
        Consistency::Memory => "Save RAM and disks",
        Consistency::Filesystem => "Freeze its file systems, and keep the disks as they are",
        _ => "Keep the disks as they are",
    };
    Act::call(title, call).undo(format!(
        "corral snapshot delete {}@{}",
        seen.id,
        encode_segment(name)
    ))
}

/// New files beside the disks are volumes from now on.
async fn refresh(ctx: &Ctx, cx: &ReadCx, seen: &Seen) -> Vec<Act> {
    let mut pools = Vec::new();
    for disk in seen.live.disks.iter().filter(|disk| !disk.is_drive()) {
        if let Some(vol) = volumes::of_disk(ctx, cx, disk).await
            && !pools.contains(&vol.pool)
        {
            pools.push(vol.pool);
        }
    }
    pools
        .into_iter()
        .map(|pool| Act::call("Look at the new files", Call::PoolRefresh { pool }))
        .collect()
}

async fn create(
    ctx: &Ctx,
    cx: &ReadCx,
    seen: &Seen,
    all: &[Known],
    take: &TakeSnapshot,
) -> Result<Prepared> {
    let id = &seen.id;
    let there = all
        .iter()
        .map(|one| (one.shown.name.as_str(), one.shown.policy.as_deref()));
    let name = take.name_after(there);
    if let Some(known) = all.iter().find(|one| one.shown.name == name) {
        if let Some(done) = taken_already(take, known) {
            return Ok(done);
        }
        return Err(Error::refused(format!(
            "there is already a snapshot called \"{}\"",
            shown(&name)
        ))
        .remedy(format!(
            "Choose another name, or delete it: corral snapshot delete {id}@{}",
            encode_segment(&name)
        )));
    }
    check_name(&name)?;
    let way = way(seen, all, take)?;
    if held(seen).is_empty() {
        return Err(Error::refused(format!(
            "{id} has no disk that could be kept"
        )));
    }
    if let Some(wanted) = take.require
        && !satisfies(way.will_be, wanted)
    {
        return Err(Error::refused(format!(
            "the snapshot would be {}, not {}",
            way.will_be.as_str(),
            wanted.as_str()
        ))
        .remedy(match wanted {
            Consistency::Offline => format!("Stop it first: corral stop {id}."),
            Consistency::Memory => "Add --with-memory.".to_owned(),
            _ => "Add --quiesce, or require less.".to_owned(),
        }));
    }
    let mut script = Script::on(seen, format!("{} is taken", shown(&name)))
        .besides(Besides::Snapshots)
        .snapshot(&name)
        .act(take_act(seen, &name, way, take));
    if !way.inside {
        script = script.acts(refresh(ctx, cx, seen).await);
    }
    let doomed = beyond(take, all);
    for old in &doomed {
        script = script.act(delete_act(seen, old));
    }
    let mut plan = script.prepared(ctx, cx).await?;
    plan.notes.push(match way.will_be {
        Consistency::Memory => {
            "Consistency: memory. The guest stands still while its RAM is saved".to_owned()
        }
        Consistency::Filesystem => {
            "Consistency: filesystem. The guest's writes wait meanwhile".to_owned()
        }
        Consistency::Crash => "Consistency: crash, as after a power cut".to_owned(),
        Consistency::Offline => "Consistency: offline".to_owned(),
    });
    if !way.inside {
        plan.notes
            .push("what is written from now on goes into new files beside the disks".to_owned());
    }
    plan.notes.extend(take.ending(Timestamp::now()));
    plan.deletes = !doomed.is_empty();
    for old in &doomed {
        plan.losses
            .push(format!("the state kept as \"{}\"", shown(&old.shown.name)));
    }
    Ok(plan)
}

/// The same one of the same rule, taken a moment ago: cron may run twice.
fn taken_already(take: &TakeSnapshot, known: &Known) -> Option<Prepared> {
    if take.policy.is_none() || known.shown.policy != take.policy {
        return None;
    }
    let got = known.shown.consistency?;
    if take.require.is_some_and(|wanted| !satisfies(got, wanted)) {
        return None;
    }
    let age = Timestamp::now()
        .as_second()
        .checked_sub(known.shown.created_at?.as_second())?;
    (0..SAME_RUN).contains(&age).then(|| {
        let said = format!(
            "{} was taken just now, {}",
            shown(&known.shown.name),
            got.as_str()
        );
        Prepared::unchanged("", said)
    })
}

/// Those of the same rule that are too many once the new one is there, oldest first.
fn beyond<'a>(take: &TakeSnapshot, all: &'a [Known]) -> Vec<&'a Known> {
    let (Some(keep), Some(_)) = (take.keep, &take.policy) else {
        return Vec::new();
    };
    let mut same: Vec<&Known> = all
        .iter()
        .filter(|one| one.shown.policy == take.policy)
        .collect();
    same.sort_by_key(|one| one.shown.created_at);
    let many = same.len().saturating_sub(keep.saturating_sub(1));
    same.truncate(many);
    same
}

/// Where to go back to, and how.
struct Back {
    name: String,
    stop: bool,
    start: bool,
    keep_present: Option<String>,
}

fn find<'a>(seen: &Seen, all: &'a [Known], name: &str) -> Result<&'a Known> {
    all.iter()
        .find(|one| one.shown.name == name)
        .ok_or_else(|| {
            let error = Error::not_found(format!("{} has no snapshot {}", seen.id, shown(name)));
            let names: Vec<_> = all.iter().map(|one| shown(&one.shown.name)).collect();
            if names.is_empty() {
                error
            } else {
                error.remedy(format!("It has: {}", names.join(", ")))
            }
        })
}

async fn restore(
    ctx: &Ctx,
    cx: &ReadCx,
    seen: &Seen,
    all: &[Known],
    back: Back,
) -> Result<Prepared> {
    let id = &seen.id;
    let target = find(seen, all, &back.name)?;
    if let Some(why) = &target.shown.broken
        && target.shown.consistency.is_none()
    {
        return Err(Error::refused(format!(
            "{} cannot be gone back to: {why}",
            shown(&back.name)
        )));
    }
    let runs = seen.is_active();
    if runs && !back.stop {
        return Err(Error::refused(format!("{id} is {}", seen.is().state))
            .remedy(format!("Stop it first: corral stop {id}. Or add --stop")));
    }
    super::super::change::persistent(seen)?;
    if target.external {
        let server: Server = ctx.client.ask(cx, Call::Server {}).await?;
        if server.version < REVERTS_EXTERNAL {
            return Err(Error::refused(format!(
                "{} is outside of the disks ({}): libvirt {} cannot go back to such a snapshot",
                shown(&back.name),
                target
                    .files
                    .iter()
                    .map(|f| shown(f))
                    .collect::<Vec<_>>()
                    .join(", "),
                super::super::host::version(server.version)
            ))
            .remedy(format!(
                "Make another machine of it: corral clone {id} --snapshot {} --name NAME",
                shown(&back.name)
            )));
        }
    }
    let memory = target.shown.consistency == Some(Consistency::Memory);
    if memory && target.cpus != target.config_cpus && target.config_cpus.is_some() {
        return Err(Error::refused(format!(
            "{} was taken while it ran with other CPUs than it was defined with: libvirt cannot go back to its memory, and would leave {id} off",
            shown(&back.name)
        ))
        .remedy("Go back to another one."));
    }
    if back.start {
        startable(seen)?;
    }
    let mut script = Script::on(seen, format!("{id} is as {} was", shown(&back.name)))
        .besides(Besides::Snapshots);
    let mut notes = Vec::new();
    let mut losses = Vec::new();
    let names = all.iter().map(|one| one.shown.name.as_str());
    match &back.keep_present {
        Some(keep) => {
            let keep = free_name(keep, names);
            let take = TakeSnapshot {
                memory: runs,
                ..TakeSnapshot::named(&keep)
            };
            check_name(&keep)?;
            let way = way(seen, all, &take)?;
            script = script.act(take_act(seen, &keep, way, &take));
            notes.push(format!("the present is kept as \"{}\"", shown(&keep)));
        }
        None => losses.push("what was written since".to_owned()),
    }
    if runs {
        script = script.act(off_act(seen));
        losses.push("what the guest has not written to its disks".to_owned());
    }
    if seen.listed.saved {
        let call = Call::ManagedSaveRemove { dom: seen.dom() };
        script = script.act(Act::call("Give up its saved memory", call));
        losses.push("its saved memory".to_owned());
    }
    let revert = Call::SnapshotRevert {
        dom: seen.dom(),
        name: back.name.clone(),
    };
    script = script.act(Act::call(
        format!("Go back to {}", shown(&back.name)),
        revert,
    ));
    if memory {
        notes.push("it goes on from the memory of then".to_owned());
    } else if back.start {
        script = script.act(start_act(seen, false));
    }
    notes.push("its definition is that of then, too: size, devices, tags".to_owned());
    let mut plan = script.prepared(ctx, cx).await?;
    plan.notes = notes;
    plan.losses = losses;
    Ok(plan)
}

fn delete_act(seen: &Seen, one: &Known) -> Act {
    let call = Call::SnapshotDelete {
        dom: seen.dom(),
        name: one.shown.name.clone(),
        metadata_only: false,
    };
    Act::call(format!("Delete {}", shown(&one.shown.name)), call)
}

async fn delete(
    ctx: &Ctx,
    cx: &ReadCx,
    seen: &Seen,
    all: &[Known],
    names: &[String],
) -> Result<Prepared> {
    let id = &seen.id;
    let doomed: Vec<&Known> = all
        .iter()
        .filter(|one| names.contains(&one.shown.name))
        .collect();
    if doomed.is_empty() {
        let names: Vec<_> = names.iter().map(|name| shown(name)).collect();
        return Ok(Prepared::unchanged(
            seen.token(),
            format!("{id} has no snapshot {}", names.join(", ")),
        ));
    }
    for one in doomed.iter().filter(|one| one.external) {
        let children: Vec<&Known> = all
            .iter()
            .filter(|child| child.shown.parent.as_deref() == Some(&one.shown.name))
            .filter(|child| !doomed.iter().any(|d| d.shown.name == child.shown.name))
            .collect();
        if children.len() > 1 {
            let names: Vec<_> = children.iter().map(|c| shown(&c.shown.name)).collect();
            return Err(Error::refused(format!(
                "{} and others are on top of {}: their chain would break",
                names.join(", "),
                shown(&one.shown.name)
            ))
            .remedy(format!(
                "Delete all but one of these first: corral snapshot list {id}"
            )));
        }
    }
    let mut script = Script::on(
        seen,
        format!(
            "{} deleted",
            crate::model::counted(doomed.len(), "snapshot")
        ),
    )
    .besides(Besides::Snapshots);
    let mut losses = Vec::new();
    let mut outside = false;
    for one in &doomed {
        let files: Vec<_> = one.files.iter().map(|file| shown(file)).collect();
        let within = if files.is_empty() {
            String::new()
        } else {
            format!(" ({})", files.join(", "))
        };
        losses.push(format!(
            "the state kept as \"{}\"{within}",
            shown(&one.shown.name)
        ));
        outside |= one.external;
        script = script.act(delete_act(seen, one));
    }
    if outside {
        script = script.acts(refresh(ctx, cx, seen).await);
    }
    let mut plan = script.prepared(ctx, cx).await?;
    plan.losses = losses;
    Ok(plan)
}
