//! `import`.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::paths::absolute;
use super::super::planner::{Planned, Shape};
use super::super::row::{Group, Risk, Row, Run, Targets};
use super::create::{finish_new, firmware, home, set};
use crate::backend::contract::{ImportRequest, Request};
use crate::backend::portable::name_of;
use crate::backend::registry;
use crate::model::{
    Action, Error, Field, FieldKind, GroupNoun, Operation, Result, Selector, shown,
};

const IMPORT: Row = Row {
    examples: &[
        "import disk.vmdk --name web --cpus 4 --memory 4G",
        "import appliance.ova --start",
        "import web-export --name web2",
    ],
    details: "Makes an instance in the default context, or in the one that --context names, from an image that qemu-img \
reads (qcow2, raw, vmdk, vdi, vhd, vhdx; also packed as .gz), an OVA, an OVF with its files, or a folder that export \
wrote. Checksums that come with it are checked first. Only what is in the file itself is read: an overlay of another \
image is refused.",
    noun: GroupNoun::Source,
    targets: Targets::One,
    fields: &[
        Field::new(
            "name",
            FieldKind::Name,
            "Its name [default: what it calls itself, or the file's]",
        ),
        Field::new(
            "cpus",
            FieldKind::Count,
            "Virtual CPUs [default: what it says, or 2]",
        ),
        Field::new(
            "memory",
            FieldKind::Bytes,
            "Memory [default: what it says, or 2G]",
        ),
        Field::new(
            "firmware",
            FieldKind::Choice(&["uefi", "bios"]),
            "Firmware [default: what it says, or uefi]",
        ),
        Field::new(
            "set",
            FieldKind::KeyValue,
            "A field of the backend; corral create --fields lists them",
        )
        .many(),
        Field::flag("start", "Starts it once it is made"),
    ],
    risk: Risk::Confirm,
    heavy: true,
    operations: &[Operation::Import],
    leads_to: &["running", "address", "agent", "stopped"],
    ..Row::new(
        "import",
        Group::Copies,
        "Makes an instance from files",
        Run::Change(|e, a| Box::pin(import(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&IMPORT];

async fn import(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let context = home(&engine, &action)?;
    let typed = action
        .targets
        .first()
        .map_or("", Selector::as_str)
        .to_owned();
    let typed = typed.as_str();
    let from = absolute(&engine.env().home, typed);
    let mut action = action;
    let name = match action.args.text("name") {
        Some(name) => name.to_owned(),
        None => name_of(&from).ok_or_else(|| {
            Error::invalid(format!("{} says no name", shown(typed))).remedy("Give one: --name NAME")
        })?,
    };
    // Fixed here, so that the plan that was shown and the one that runs agree.
    action.args.set("name", name.clone());
    let kind = engine
        .fleet()
        .view()
        .context(&context)
        .map(|c| c.kind.clone());
    let info = kind.as_ref().and_then(registry::find);
    let args = &action.args;
    let cpus = match args.count("cpus") {
        Some(n) => Some(
            u32::try_from(n)
                .map_err(|_| Error::invalid(format!("--cpus: {n} is not between 1 and 1024")))?,
        ),
        None => None,
    };
    let request = Request::Import(ImportRequest {
        name: name.clone(),
        from,
        cpus,
        memory: args.bytes("memory"),
        firmware: firmware(&action),
        start: args.flag("start"),
        set: set(&action, info)?,
    });
    let mut shape = Shape::of(&action)?;
    shape.tail = format!("from {}", shown(typed));
    finish_new(&engine, action, shape, context, &name, request).await
}
