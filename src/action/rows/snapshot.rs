//! `snapshot create|list|restore|delete`.

use std::sync::Arc;

use jiff::Timestamp;

use super::super::engine::Engine;
use super::super::envelope;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Risk, Row, Run, Targets};
use super::info::details;
use super::naming::{Naming, stamp};
use crate::backend::contract::{Request, SnapshotRequest, TakeSnapshot};
use crate::model::{
    Action, Body, Consistency, Data, Error, Field, FieldKind, GroupNoun, Operation, Result,
    encode_segment, shown,
};

const NAME: Field = Field::new(
    "name",
    FieldKind::Snapshot,
    "The snapshot's name; or write INSTANCE@NAME",
);

const CREATE: Row = Row {
    examples: &[
        "snapshot create local/web --name before-upgrade",
        "snapshot create local/db --quiesce --require filesystem",
        "snapshot create --filter tag:prod --name-template '{instance}-{date}' --keep 7 -y",
    ],
    details: "The plan says how consistent each one will be. A guest that runs is marked as after a power cut, unless \
--quiesce has its agent freeze the file systems meanwhile, or --with-memory saves its RAM too. --require refuses what \
would be less. In a template {instance} stands for the name, {date} and {time} for now in UTC, {n} for the next number; \
with {date} alone, taken again within a minute, it is there already. --keep deletes the oldest of the same template once the new one is \
taken, and no others.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[
        Field::new(
            "name",
            FieldKind::Snapshot,
            "Its name [default: corral-YYYYMMDD-HHMMSS in UTC]",
        ),
        Field::new("note", FieldKind::Text, "A note kept with it").lines(),
        Field::flag("with-memory", "With the RAM of a running guest"),
        Field::flag(
            "quiesce",
            "Has the guest agent freeze file systems meanwhile, where it can",
        ),
        Field::new(
            "name-template",
            FieldKind::Text,
            "Makes its name: {instance} {date} {time} {n}",
        ),
        Field::new(
            "require",
            FieldKind::Choice(&["crash", "filesystem", "memory", "offline"]),
            "Refused where it would be less than this",
        ),
        Field::new(
            "expires",
            FieldKind::Duration,
            "corral gc removes it after this long",
        ),
        Field::new(
            "keep",
            FieldKind::Count,
            "Of those of the same template, so many stay",
        ),
        Field::new(
            "at",
            FieldKind::Text,
            "The time that its name and its end are counted from [default: now]",
        ),
    ],
    heavy: true,
    form: true,
    operations: &[Operation::SnapshotCreate, Operation::SnapshotMemory],
    ..Row::new(
        "snapshot create",
        Group::Snapshots,
        "Takes snapshots",
        Run::Change(|e, a| Box::pin(create(e, a))),
    )
};

const LIST: Row = Row {
    aliases: &["snapshot ls"],
    examples: &["snapshot list local/web", "snapshot list local/web -o json"],
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    ..Row::new(
        "snapshot list",
        Group::Snapshots,
        "Shows snapshots as a tree",
        Run::Read(|e, a| Box::pin(list(e, a))),
    )
};

const RESTORE: Row = Row {
    aliases: &["snapshot revert"],
    examples: &[
        "snapshot restore local/web@before-upgrade --confirm web",
        "snapshot restore local/web --name s1 --stop --start --confirm web",
    ],
    details: "A running instance is refused; --stop stops it first, --start starts it afterwards. \
What was written since is lost, unless --keep-present takes a snapshot of it first.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[
        NAME,
        Field::flag("stop", "Stops a running instance first"),
        Field::flag("start", "Starts it afterwards"),
        Field::flag("keep-present", "Takes a snapshot of the present first"),
        Field::new(
            "present-name",
            FieldKind::Text,
            "How that one is called [default: before-restore-YYYYMMDD-HHMMSS in UTC]",
        ),
    ],
    risk: Risk::TypeName,
    danger: true,
    heavy: true,
    form: true,
    operations: &[Operation::SnapshotRestore],
    leads_to: &["running", "address", "agent", "stopped", "paused"],
    ..Row::new(
        "snapshot restore",
        Group::Snapshots,
        "Takes instances back to a snapshot",
        Run::Change(|e, a| Box::pin(restore(e, a))),
    )
};

const DELETE: Row = Row {
    aliases: &["snapshot rm"],
    examples: &[
        "snapshot delete local/web@before-upgrade",
        "snapshot delete local/web --name s1 --dry-run",
    ],
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[NAME],
    risk: Risk::Confirm,
    heavy: true,
    form: true,
    operations: &[Operation::SnapshotDelete],
    ..Row::new(
        "snapshot delete",
        Group::Snapshots,
        "Deletes snapshots",
        Run::Change(|e, a| Box::pin(delete(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&CREATE, &LIST, &RESTORE, &DELETE];

/// Takes `@NAME` off every target. The name may come from there or from `--name`, not from both, and
/// never from another target: of an instance that was named bare nothing is known to be meant.
fn split(action: &Action) -> Result<(Action, Option<String>)> {
    let mut plain = action.clone();
    let given = action.args.text("name").map(str::to_owned);
    let mut name = given.clone();
    let mut bare = None;
    plain.targets.clear();
    for target in &action.targets {
        let (instance, at) = target.split_snapshot()?;
        match at {
            None => bare = Some(target),
            Some(at) if name.as_ref().is_some_and(|known| *known != at) => {
                return Err(Error::invalid("two snapshot names were given"));
            }
            Some(at) => name = Some(at),
        }
        plain.targets.push(instance);
    }
    if let (Some(bare), Some(name), None) = (bare, &name, &given) {
        return Err(
            Error::invalid(format!("which snapshot of {}?", shown(bare.as_str()))).remedy(format!(
                "Write {}@{} if it is the same one, or give the name once: --name",
                shown(bare.as_str()),
                encode_segment(name)
            )),
        );
    }
    if let Some(name) = &name {
        plain.args.set("name", name.clone());
    }
    Ok((plain, name))
}

fn named(action: &Action) -> Result<(Action, String)> {
    let (action, name) = split(action)?;
    let name = name.ok_or_else(|| {
        Error::invalid("which snapshot?").remedy(
            "Write INSTANCE@SNAPSHOT or add --name; corral snapshot list INSTANCE shows them",
        )
    })?;
    Ok((action, name))
}

async fn create(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let (mut action, name) = split(&action)?;
    let naming = Naming::of(&mut action, name)?;
    let args = &action.args;
    let mut take = TakeSnapshot {
        note: args.text("note").map(str::to_owned),
        memory: args.flag("with-memory"),
        quiesce: args.flag("quiesce"),
        require: args.text("require").and_then(required),
        expires_at: naming.end(args.duration("expires"))?,
        keep: keep(args.count("keep"))?,
        ..TakeSnapshot::default()
    };
    // What is required is asked for.
    take.memory |= take.require == Some(Consistency::Memory);
    if take.memory && take.quiesce {
        return Err(
            Error::invalid("--with-memory and --quiesce exclude each other")
                .remedy("With its RAM a snapshot is whole without freezing anything."),
        );
    }
    take.quiesce |= take.require == Some(Consistency::Filesystem) && !take.memory;
    let mut shape = Shape::of(&action)?;
    "Snapshot".clone_into(&mut shape.ask);
    shape.tail = format!("as {}", naming.shown());
    plan_instances(&engine, action, shape, |instance| {
        let mut take = take.clone();
        (take.name, take.policy) = naming.name_of(instance);
        Ok(Request::Snapshot(SnapshotRequest::Create(take)))
    })
    .await
}

fn required(word: &str) -> Option<Consistency> {
    [
        Consistency::Crash,
        Consistency::Filesystem,
        Consistency::Memory,
        Consistency::Offline,
    ]
    .into_iter()
    .find(|consistency| consistency.as_str() == word)
}

fn keep(count: Option<u64>) -> Result<Option<usize>> {
    match count {
        Some(0) => Err(Error::invalid("--keep 0 would keep not even the new one")
            .remedy("Give 1 or more; corral snapshot delete deletes.")),
        Some(count) => Ok(Some(usize::try_from(count).unwrap_or(usize::MAX))),
        None => Ok(None),
    }
}

async fn restore(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let (mut action, name) = named(&action)?;
    let stop = action.args.flag("stop");
    let start = action.args.flag("start");
    // Fixed here, as the name of a new snapshot is; one that is taken gets a number.
    let keep_present = if action.args.flag("keep-present") || action.args.has("present-name") {
        let wanted = action.args.text("present-name").map_or_else(
            || format!("before-restore-{}", stamp(Timestamp::now())),
            str::to_owned,
        );
        action.args.set("present-name", wanted.clone());
        Some(wanted)
    } else {
        None
    };
    let mut shape = Shape::of(&action)?;
    "Take".clone_into(&mut shape.ask);
    shape.tail = format!("back to {name}");
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Snapshot(SnapshotRequest::Restore {
            name: name.clone(),
            stop,
            start,
            keep_present: keep_present.clone(),
        }))
    })
    .await
}

async fn delete(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let (action, name) = named(&action)?;
    let mut shape = Shape::of(&action)?;
    shape.ask = format!("Delete snapshot {name} of");
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Snapshot(SnapshotRequest::Delete {
            names: vec![name.clone()],
        }))
    })
    .await
}

async fn list(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let found = details(&engine, &action).await?;
    let snapshots = found
        .details
        .into_iter()
        .flat_map(|detail| detail.snapshots);
    let body = Body::Snapshots(snapshots.collect());
    let mut data = envelope::of_fleet(&engine.fleet().view(), &found.scope, body);
    data.errors.extend(found.failed);
    Ok(data)
}
