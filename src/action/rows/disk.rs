//! `disk add|remove|grow|move|list`.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::envelope;
use super::super::paths::absolute_text;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Risk, Row, Run, Targets};
use super::create::image_file;
use super::info::details;
use crate::backend::contract::{DiskMoveRequest, DiskRequest, Growth, Request};
use crate::model::{
    Action, Body, Data, DiskRow, Error, Field, FieldKind, GroupNoun, Operation, Result, shown,
};

const DISK: Field = Field::new(
    "disk",
    FieldKind::Name,
    "Its name, as disk list shows it: disk0",
)
.required();

const ADD: Row = Row {
    aliases: &["adddisk"],
    examples: &[
        "disk add local/web --size 20G",
        "disk add local/web --image data.qcow2",
        "disk add local/web --image other.vmdk --copy --storage /var/vms",
    ],
    details: "Attaches a new disk, an image as it is, or with --copy a copy of it. A running guest gets it at once.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[
        Field::new(
            "size",
            FieldKind::Bytes,
            "Size of a new one; with --copy, of the copy",
        ),
        Field::new(
            "image",
            FieldKind::Path,
            "Attaches this image: a file, or the name of one that was pulled",
        ),
        Field::flag("copy", "Copies --image instead of using it"),
        Field::new(
            "bus",
            FieldKind::Choice(&["virtio", "scsi", "sata"]),
            "Bus [default: that of the first disk]",
        ),
        Field::new(
            "format",
            FieldKind::Choice(&["qcow2", "raw"]),
            "Format of a new one [default: qcow2]; with --image, what it is",
        ),
        Field::flag("write-protect", "The guest cannot write"),
        Field::new(
            "storage",
            FieldKind::Text,
            "Folder or storage for a new one [default: beside the others]",
        ),
    ],
    risk: Risk::Confirm,
    heavy: true,
    form: true,
    operations: &[Operation::DiskAdd],
    ..Row::new(
        "disk add",
        Group::Devices,
        "Attaches disks",
        Run::Change(|e, a| Box::pin(add(e, a))),
    )
};

const REMOVE: Row = Row {
    aliases: &["disk rm", "rmdisk"],
    examples: &[
        "disk remove local/web --disk disk1",
        "disk remove local/web --disk disk1 --delete-data --confirm web",
    ],
    details: "Detaches a disk; its data stays where it is. --delete-data destroys that too. A running guest has to let go \
of it: unmount it there first.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[DISK, Field::flag("delete-data", "Destroys its data")],
    risk: Risk::Confirm,
    operations: &[Operation::DiskRemove],
    ..Row::new(
        "disk remove",
        Group::Devices,
        "Detaches disks",
        Run::Change(|e, a| Box::pin(remove(e, a))),
    )
};

const GROW: Row = Row {
    examples: &[
        "disk grow local/web --disk disk0 --to 20G",
        "disk grow local/web --disk disk0 --by 5G",
    ],
    details: "Disks only grow. Partitions and file systems inside the guest are grown there.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[
        DISK,
        Field::new("to", FieldKind::Bytes, "The new size in all"),
        Field::new("by", FieldKind::Bytes, "How much more"),
    ],
    risk: Risk::Confirm,
    operations: &[Operation::DiskGrow],
    ..Row::new(
        "disk grow",
        Group::Devices,
        "Makes disks larger",
        Run::Change(|e, a| Box::pin(grow(e, a))),
    )
};

const MOVE: Row = Row {
    aliases: &["disk mv"],
    examples: &["disk move local/web --disk disk0 --to /srv/vms"],
    details: "The old place is cleared only once the disk is whole at the new one.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[
        DISK,
        Field::new("to", FieldKind::Text, "Folder or storage").required(),
    ],
    risk: Risk::Confirm,
    heavy: true,
    operations: &[Operation::DiskMove],
    ..Row::new(
        "disk move",
        Group::Devices,
        "Moves disks to another place",
        Run::Change(|e, a| Box::pin(relocate(e, a))),
    )
};

const LIST: Row = Row {
    aliases: &["disk ls"],
    examples: &["disk list local/web", "disk list local/web -o json"],
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    ..Row::new(
        "disk list",
        Group::Devices,
        "Shows disks and media",
        Run::Read(|e, a| Box::pin(list(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&LIST, &ADD, &REMOVE, &GROW, &MOVE];

/// A field that the grammar has made sure of.
fn needed(action: &Action, field: &str) -> Result<String> {
    action
        .args
        .text(field)
        .map(str::to_owned)
        .ok_or_else(|| Error::invalid(format!("--{field} is missing")))
}

/// A folder as the backend must have it; anything else is the name of a storage.
fn storage(engine: &Engine, place: &str) -> String {
    let folder = place.contains('/') || matches!(place, "." | ".." | "~");
    if folder {
        absolute_text(&engine.env().home, place)
    } else {
        place.to_owned()
    }
}

async fn add(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let args = &action.args;
    let request = DiskRequest::Add {
        size: args.bytes("size"),
        image: args
            .text("image")
            .map(|path| image_file(&engine, "image", path))
            .transpose()?,
        copy: args.flag("copy"),
        bus: args.text("bus").map(str::to_owned),
        format: args.text("format").map(str::to_owned),
        readonly: args.flag("write-protect"),
        storage: args.text("storage").map(|place| storage(&engine, place)),
    };
    let mut shape = Shape::of(&action)?;
    "Attach a disk to".clone_into(&mut shape.ask);
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Disk(request.clone()))
    })
    .await
}

async fn remove(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let disk = needed(&action, "disk")?;
    let delete_data = action.args.flag("delete-data");
    let mut shape = Shape::of(&action)?;
    if delete_data {
        shape.ask = format!("Destroy {} of", shown(&disk));
        "for good".clone_into(&mut shape.tail);
        shape.risk = Risk::TypeName;
        shape.danger = true;
    } else {
        shape.ask = format!("Detach {} from", shown(&disk));
    }
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Disk(DiskRequest::Remove {
            disk: disk.clone(),
            delete_data,
        }))
    })
    .await
}

async fn grow(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let disk = needed(&action, "disk")?;
    let size = match (action.args.bytes("to"), action.args.bytes("by")) {
        (Some(to), None) => Growth::To(to),
        (None, Some(by)) => Growth::By(by),
        (Some(_), Some(_)) => return Err(Error::invalid("--to and --by exclude each other")),
        (None, None) => {
            return Err(Error::invalid("how large?").remedy("Add --to 20G, or --by 5G"));
        }
    };
    let mut shape = Shape::of(&action)?;
    shape.ask = format!("Grow {} of", shown(&disk));
    shape.tail = match size {
        Growth::To(to) => format!("to {to}"),
        Growth::By(by) => format!("by {by}"),
    };
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Disk(DiskRequest::Grow {
            disk: disk.clone(),
            size,
        }))
    })
    .await
}

async fn relocate(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let disk = needed(&action, "disk")?;
    let to = storage(&engine, &needed(&action, "to")?);
    let mut shape = Shape::of(&action)?;
    shape.ask = format!("Move {} of", shown(&disk));
    shape.tail = format!("to {}", shown(&to));
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::DiskMove(DiskMoveRequest {
            disk: disk.clone(),
            to: to.clone(),
        }))
    })
    .await
}

async fn list(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let found = details(&engine, &action).await?;
    let mut rows = Vec::new();
    let mut failed = found.failed;
    for detail in found.details {
        let id = detail.instance.id;
        failed.extend(
            detail
                .problems
                .into_iter()
                .map(|problem| Error::backend(format!("{id}: {problem}"))),
        );
        rows.extend(detail.disks.into_iter().map(|disk| DiskRow {
            instance: id.clone(),
            disk,
        }));
    }
    let mut data = envelope::of_fleet(&engine.fleet().view(), &found.scope, Body::Disks(rows));
    data.errors.extend(failed);
    Ok(data)
}
