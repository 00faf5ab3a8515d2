//! `migrate`, and `host drain`, which migrates all.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::planner::{Planned, Shape, plan_instances, prepare_all, resolve};
use super::super::row::{Group, Risk, Row, Run, Targets};
use crate::backend::contract::{Destination, MigrateRequest, Request};
use crate::fleet::selector::Purpose;
use crate::model::{
    Action, Error, Field, FieldKind, GroupNoun, Instance, Operation, Refusal, Result, State, shown,
};

const TO: Field = Field::new("to", FieldKind::Name, "Context or host it goes to").required();
const COPY: Field = Field::flag("copy-storage", "Copy its disks too: nothing is shared");
const PEER: Field = Field::flag("p2p", "The servers speak to each other directly");
const TUNNELLED: Field = Field::flag(
    "tunnelled",
    "Send the memory through the servers' connection; implies --p2p",
);
const POSTCOPY: Field = Field::flag(
    "postcopy",
    "Go on over there once all memory was sent once: ends surely, and a lost network loses the guest",
);
const UNSAFE: Field = Field::flag(
    "unsafe",
    "Although the backend doubts that the storage is shared",
);
const ADDRESS: Field = Field::new(
    "address",
    FieldKind::Text,
    "Address at which the other host takes the memory [its name]",
);
const FIELDS: &[Field] = &[TO, COPY, PEER, TUNNELLED, POSTCOPY, UNSAFE, ADDRESS];

const MIGRATE: Row = Row {
    examples: &[
        "migrate hv1/web --to hv2",
        "migrate hv1/web --to hv2 --copy-storage --dry-run",
    ],
    details: "It runs on meanwhile. CPU, machine type, networks, storage and name are looked at over there first; when it fails it \
        runs on where it is.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: FIELDS,
    risk: Risk::Confirm,
    heavy: true,
    operations: &[Operation::Migrate],
    ..Row::new(
        "migrate",
        Group::Life,
        "Moves a running instance to another host",
        Run::Change(|e, a| Box::pin(migrate(e, a))),
    )
};

const DRAIN: Row = Row {
    examples: &["host drain hv1/node1 --to hv2"],
    details: "Every running instance of the host is migrated; those that cannot be are named, and stay.",
    noun: GroupNoun::Hosts,
    targets: Targets::Some,
    fields: FIELDS,
    risk: Risk::TypeName,
    heavy: true,
    operations: &[Operation::Migrate],
    ..Row::new(
        "host drain",
        Group::Around,
        "Moves every running instance away from a host",
        Run::Change(|e, a| Box::pin(drain(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&MIGRATE, &DRAIN];

/// What is asked of each instance; and why nothing may be changed where they go.
fn request(engine: &Engine, action: &Action) -> (MigrateRequest, Option<Refusal>) {
    let to = action.args.text("to").unwrap_or_default();
    let flag = |name: &str| action.args.flag(name);
    let member = engine.fleet().member(to);
    let readonly = member
        .is_some()
        .then(|| engine.readonly_reason(to))
        .flatten();
    let to = match member {
        Some(member) => Destination::Context(Box::new(member.spec.clone())),
        None => Destination::Host(to.to_owned()),
    };
    let request = MigrateRequest {
        to,
        copy_storage: flag("copy-storage"),
        peer: flag("p2p") || flag("tunnelled"),
        tunnelled: flag("tunnelled"),
        postcopy: flag("postcopy"),
        unsafe_too: flag("unsafe"),
        address: action.args.text("address").map(str::to_owned),
    };
    (request, readonly)
}

/// The kinds of both sides are one, and both may be changed.
fn fits(on: &Instance, request: &MigrateRequest, readonly: Option<&Refusal>) -> Result<()> {
    if let Some(why) = readonly {
        return Err(why.error());
    }
    if let Destination::Context(spec) = &request.to {
        if spec.kind != on.backend {
            return Err(Error::refused(format!(
                "{} is of kind {}, {} of kind {}: nothing that runs moves between kinds",
                on.id, on.backend, spec.name, spec.kind
            ))
            .remedy("Export it, and import it there."));
        }
        if spec.name == on.context {
            return Err(Error::refused(format!(
                "{} is in {} already",
                on.id, spec.name
            )));
        }
    }
    Ok(())
}

fn shape(engine: &Engine, action: &Action, request: &MigrateRequest) -> Result<Shape> {
    let mut shape = Shape::of(action)?;
    let to = action.args.text("to").unwrap_or_default();
    shape.tail = format!("to {}", shown(to));
    // The guard of where it goes counts as much as that of where it is.
    if let Destination::Context(spec) = &request.to
        && (spec.protected
            || engine
                .fleet()
                .member(&spec.name)
                .is_some_and(|m| m.spec.protected))
    {
        shape.risk = Risk::TypeName;
    }
    Ok(shape)
}

async fn migrate(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let (request, readonly) = request(&engine, &action);
    let shape = shape(&engine, &action, &request)?;
    plan_instances(&engine, action, shape, |on| {
        fits(on, &request, readonly.as_ref())?;
        Ok(Request::Migrate(request.clone()))
    })
    .await
}

async fn drain(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let (request, readonly) = request(&engine, &action);
    let shape = shape(&engine, &action, &request)?;
    let mut wanted = Vec::new();
    for target in &action.targets {
        let text = target.to_string();
        let (context, host) = text.split_once('/').ok_or_else(|| {
            Error::invalid(format!("{:?} is no host", shown(&text)))
                .remedy("Write CONTEXT/HOST; corral host list prints them")
        })?;
        let known = engine.fleet().member(context).ok_or_else(|| {
            Error::not_found(format!("there is no context {:?}", shown(context)))
                .remedy("See corral context list")
        })?;
        let family = known
            .backend
            .families()
            .hosts()
            .ok_or_else(|| Error::unsupported(format!("{context} lists no hosts")))?;
        let cx = engine.fleet().read_cx(context);
        let hosts = cx.within(context, family.hosts(&cx)).await?;
        let several = hosts.len() > 1;
        if hosts.iter().all(|known| known.name != host) {
            let names: Vec<_> = hosts.iter().map(|host| shown(&host.name)).collect();
            return Err(
                Error::not_found(format!("{context} has no host {}", shown(host)))
                    .remedy(format!("It has: {}", names.join(", "))),
            );
        }
        let mut all = action.clone();
        all.targets = vec![format!("{context}/*").parse()?];
        let resolved = resolve(&engine, &all, Purpose::Change).await?;
        for on in resolved.targets {
            let here = !several || on.host.as_deref() == Some(host);
            if here && matches!(on.state, State::Running | State::Paused) {
                fits(&on, &request, readonly.as_ref())?;
                wanted.push((on, Request::Migrate(request.clone())));
            }
        }
    }
    let jobs = prepare_all(&engine, wanted).await?;
    super::super::planner::finish(&engine, action, shape, jobs, Vec::new())
}
