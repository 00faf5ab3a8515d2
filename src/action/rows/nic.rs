//! `nic add|remove|list`.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::envelope;
use super::super::planner::{Planned, Shape, plan_instances};
use super::super::row::{Group, Risk, Row, Run, Targets};
use super::info::details;
use crate::backend::contract::{NicRequest, Request};
use crate::model::{
    Action, Body, Data, Field, FieldKind, GroupNoun, InstanceNic, Operation, Result,
};

const ADD: Row = Row {
    aliases: &["addnic"],
    examples: &[
        "nic add local/web",
        "nic add local/web --network bridge:br0 --model e1000e",
    ],
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[
        Field::new(
            "network",
            FieldKind::Text,
            "Network it is on, such as user or bridge:br0 [default: the backend's]",
        ),
        Field::new(
            "model",
            FieldKind::Name,
            "Model the guest sees, such as virtio or e1000e [default: the backend's]",
        ),
        Field::new(
            "mac",
            FieldKind::Text,
            "Its MAC address [default: a new one]",
        ),
    ],
    risk: Risk::Confirm,
    operations: &[Operation::NicAdd],
    ..Row::new(
        "nic add",
        Group::Life,
        "Attaches a network interface",
        Run::Change(|e, a| Box::pin(add(e, a))),
    )
};

const REMOVE: Row = Row {
    aliases: &["nic rm"],
    examples: &["nic remove local/web --nic net1"],
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[Field::new("nic", FieldKind::Text, "Its name or MAC address").required()],
    risk: Risk::Confirm,
    operations: &[Operation::NicRemove],
    ..Row::new(
        "nic remove",
        Group::Life,
        "Detaches a network interface",
        Run::Change(|e, a| Box::pin(remove(e, a))),
    )
};

const LIST: Row = Row {
    aliases: &["nic ls"],
    examples: &["nic list local/web", "nic list local/web -o json"],
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    ..Row::new(
        "nic list",
        Group::Look,
        "Shows network interfaces and their addresses",
        Run::Read(|e, a| Box::pin(list(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&ADD, &REMOVE, &LIST];

async fn add(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let text = |name: &str| action.args.text(name).map(str::to_owned);
    let request = NicRequest::Add {
        network: text("network"),
        model: text("model"),
        mac: text("mac"),
    };
    let mut shape = Shape::of(&action)?;
    "Attach a network interface to".clone_into(&mut shape.ask);
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Nic(request.clone()))
    })
    .await
}

async fn remove(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let nic = action.args.text("nic").unwrap_or_default().to_owned();
    let mut shape = Shape::of(&action)?;
    shape.ask = format!("Detach {nic} from");
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Nic(NicRequest::Remove { nic: nic.clone() }))
    })
    .await
}

async fn list(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let found = details(&engine, &action).await?;
    let nics = found.details.into_iter().flat_map(|detail| {
        let instance = detail.instance.id;
        detail.nics.into_iter().map(move |nic| InstanceNic {
            instance: instance.clone(),
            nic,
        })
    });
    let body = Body::Nics(nics.collect());
    let mut data = envelope::of_fleet(&engine.fleet().view(), &found.scope, body);
    data.errors.extend(found.failed);
    Ok(data)
}
