//! `start`, `stop`, `restart`.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Risk, Row, Run, Targets};
use crate::backend::contract::Request;
use crate::backend::contract::{PowerRequest, RestartMode};
use crate::model::{Action, Error, Field, FieldKind, GroupNoun, Operation, Result};

const START: Row = Row {
    examples: &["start local/web", "start web --for address"],
    details: "What is hibernated goes on from its saved state; with --discard-state that is given up and it boots from its disks.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[Field::flag(
        "discard-state",
        "Gives up what hibernate saved: boots from the disks",
    )],
    operations: &[Operation::Start],
    leads_to: &["running", "address", "agent", "stopped"],
    ..Row::new(
        "start",
        Group::Power,
        "Powers instances on",
        Run::Change(|e, a| Box::pin(start(e, a))),
    )
};

const STOP: Row = Row {
    aliases: &["shutdown"],
    examples: &[
        "stop local/web",
        "stop local/web --force",
        "stop --filter 'tag:test' -y",
    ],
    details: "Asks the guest and waits; never kills. --force powers off now, --force-after asks first.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[
        Field::flag("force", "Powers off now: unsaved work in the guest is lost"),
        Field::new(
            "force-after",
            FieldKind::Duration,
            "Asks first, powers off after this long",
        ),
    ],
    risk: Risk::Confirm,
    operations: &[Operation::Stop, Operation::ForceStop],
    leads_to: &["stopped"],
    ..Row::new(
        "stop",
        Group::Power,
        "Asks guests to shut down",
        Run::Change(|e, a| Box::pin(stop(e, a))),
    )
};

const RESTART: Row = Row {
    aliases: &["reboot"],
    examples: &["restart local/web", "restart local/web --cold"],
    details: "Asks the guest to reboot. --force resets it, --cold stops and starts it so that pending settings apply.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[
        Field::flag("force", "Resets now: unsaved work in the guest is lost"),
        Field::flag("cold", "Stops and starts it"),
    ],
    risk: Risk::Confirm,
    operations: &[Operation::Restart, Operation::Reset, Operation::ColdRestart],
    leads_to: &["running", "address", "agent", "stopped"],
    ..Row::new(
        "restart",
        Group::Power,
        "Reboots guests",
        Run::Change(|e, a| Box::pin(restart(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&START, &STOP, &RESTART];

async fn start(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let mut shape = Shape::of(&action)?;
    let discard = action.args.flag("discard-state");
    if discard {
        shape.risk = Risk::TypeName;
        shape.danger = true;
        "without its saved state".clone_into(&mut shape.tail);
    }
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Power(if discard {
            PowerRequest::StartFresh
        } else {
            PowerRequest::Start
        }))
    })
    .await
}

async fn stop(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let force = action.args.flag("force");
    let force_after = action.args.duration("force-after");
    if force && force_after.is_some() {
        return Err(Error::invalid(
            "--force and --force-after exclude each other",
        ));
    }
    let mut shape = Shape::of(&action)?;
    if force {
        shape.danger = true;
        "Force off".clone_into(&mut shape.ask);
    }
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Power(PowerRequest::Stop { force, force_after }))
    })
    .await
}

async fn restart(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let mut shape = Shape::of(&action)?;
    let mode = match (action.args.flag("force"), action.args.flag("cold")) {
        (true, true) => return Err(Error::invalid("--force and --cold exclude each other")),
        (true, false) => {
            shape.danger = true;
            "Reset".clone_into(&mut shape.ask);
            RestartMode::Force
        }
        (false, true) => RestartMode::Cold,
        (false, false) => RestartMode::Guest,
    };
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Power(PowerRequest::Restart(mode)))
    })
    .await
}
