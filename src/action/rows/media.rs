//! `media insert|eject`.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Risk, Row, Run, Targets};
use super::create::image_file;
use crate::backend::contract::{MediaRequest, Request};
use crate::model::{Action, Error, Field, FieldKind, GroupNoun, Operation, Result, shown};

const DRIVE: Field = Field::new(
    "drive",
    FieldKind::Name,
    "The drive, as disk list shows it: cdrom0 [default: the only one]",
);

const FORCE: Field = Field::flag("force", "Even if the guest has locked the tray");

const INSERT: Row = Row {
    examples: &[
        "media insert local/web --image debian.iso",
        "media insert local/web --drive cdrom1 --image drivers.iso",
    ],
    details: "Puts an image into a CD-ROM drive, in place of what is in there. It stays in over restarts.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[
        Field::new(
            "image",
            FieldKind::Path,
            "The image: a file, or the name of one that was pulled",
        )
        .required(),
        DRIVE,
        FORCE,
    ],
    risk: Risk::Confirm,
    operations: &[Operation::Media],
    ..Row::new(
        "media insert",
        Group::Devices,
        "Puts a medium in",
        Run::Change(|e, a| Box::pin(insert(e, a))),
    )
};

const EJECT: Row = Row {
    examples: &[
        "media eject local/web",
        "media eject local/web --drive cdrom0 --force",
    ],
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[DRIVE, FORCE],
    risk: Risk::Confirm,
    operations: &[Operation::Media],
    ..Row::new(
        "media eject",
        Group::Devices,
        "Takes a medium out",
        Run::Change(|e, a| Box::pin(eject(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&INSERT, &EJECT];

async fn insert(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let image = action
        .args
        .text("image")
        .ok_or_else(|| Error::invalid("--image is missing"))?;
    let image = image_file(&engine, "image", image)?;
    let drive = action.args.text("drive").map(str::to_owned);
    let force = action.args.flag("force");
    let mut shape = Shape::of(&action)?;
    shape.ask = format!("Put {} into", shown(&image));
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Media(MediaRequest::Insert {
            drive: drive.clone(),
            image: image.clone(),
            force,
        }))
    })
    .await
}

async fn eject(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let drive = action.args.text("drive").map(str::to_owned);
    let force = action.args.flag("force");
    let mut shape = Shape::of(&action)?;
    "Eject the medium of".clone_into(&mut shape.ask);
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Media(MediaRequest::Eject {
            drive: drive.clone(),
            force,
        }))
    })
    .await
}
