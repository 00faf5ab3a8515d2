//! `snapshot create|list|restore|delete`.

use std::sync::Arc;

use jiff::Timestamp;

use super::super::engine::Engine;
use super::super::envelope;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Risk, Row, Run, Targets};
use super::info::details;
use crate::backend::contract::Request;
use crate::backend::contract::SnapshotRequest;
use crate::model::{
    Action, Body, Data, Error, Field, FieldKind, GroupNoun, Instance, Operation, Result,
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
        "snapshot create --filter tag:prod --name nightly -y",
    ],
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[
        Field::new(
            "name",
            FieldKind::Snapshot,
            "Its name [default: corral-YYYYMMDD-HHMMSS in UTC]",
        ),
        Field::new("note", FieldKind::Text, "A note kept with it"),
        Field::flag("with-memory", "With the RAM of a running guest"),
    ],
    heavy: true,
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
    ],
    risk: Risk::TypeName,
    danger: true,
    heavy: true,
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

/// The default name of a snapshot taken now.
pub(crate) fn default_name(at: Timestamp) -> String {
    format!("corral-{}", at.strftime("%Y%m%d-%H%M"))
}

async fn create(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let (mut action, name) = split(&action)?;
    // The name is fixed here, so that the plan that was shown and the one that runs agree.
    let name = name.unwrap_or_else(|| default_name(Timestamp::now()));
    action.args.set("name", name.clone());
    let note = action.args.text("note").map(str::to_owned);
    let memory = action.args.flag("with-memory");
    let mut shape = Shape::of(&action)?;
    "Snapshot".clone_into(&mut shape.ask);
    shape.tail = format!("as {name}");
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Snapshot(SnapshotRequest::Create {
            name: name.clone(),
            note: note.clone(),
            memory,
        }))
    })
    .await
}

async fn restore(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let (action, name) = named(&action)?;
    let stop = action.args.flag("stop");
    let start = action.args.flag("start");
    let keep = action.args.flag("keep-present");
    let mut shape = Shape::of(&action)?;
    "Take".clone_into(&mut shape.ask);
    shape.tail = format!("back to {name}");
    plan_instances(&engine, action, shape, |instance: &Instance| {
        // Named by the data's age, not by the clock, so that two plans of the same thing agree.
        let keep_present = keep.then(|| {
            format!(
                "before-restore-{}",
                instance.observed_at.strftime("%Y%m%d-%H%M")
            )
        });
        Ok(Request::Snapshot(SnapshotRequest::Restore {
            name: name.clone(),
            stop,
            start,
            keep_present,
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
            name: name.clone(),
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
