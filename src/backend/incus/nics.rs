//! Network interfaces: devices of type `nic`.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;

use super::ctx::Ctx;
use super::devices::{free_slot, network_of, networks, nic, nics};
use super::json::Look as _;
use super::seen::Seen;
use super::work::{self, Act, Edit, Todo, plan};
use crate::backend::contract::{Changes, NicRequest, Prepared, ReadCx, TaskCx};
use crate::model::{Error, Instance, Outcome, Result, shown};

/// The NIC family.
#[derive(Clone, Debug)]
pub struct Nics(pub Arc<Ctx>);

/// A MAC as it is written: six pairs of hex digits, lower case; no group's.
fn read_mac(text: &str) -> Result<String> {
    let parts: Vec<&str> = text.split(':').collect();
    let pair = |part: &&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
    let group = || u8::from_str_radix(parts[0], 16).is_ok_and(|byte| byte & 1 == 1);
    if parts.len() != 6 || !parts.iter().all(pair) || group() {
        return Err(
            Error::invalid(format!("{:?} is no MAC of an interface", shown(text)))
                .remedy("Write it as 10:66:6a:12:34:56, or leave --mac out"),
        );
    }
    Ok(text.to_ascii_lowercase())
}

async fn add(
    ctx: &Ctx,
    cx: &ReadCx,
    seen: &Seen,
    network: Option<&str>,
    model: Option<&str>,
    mac: Option<&str>,
) -> Result<Prepared> {
    let id = &seen.id;
    if model.is_some() {
        return Err(Error::unsupported("the server chooses the model").remedy("Leave --model out"));
    }
    let there = networks(ctx, cx, &seen.project).await?;
    let used: Vec<&str> = seen
        .all_devices()
        .into_iter()
        .flatten()
        .filter(|(_, device)| device.text("type") == Some("nic"))
        .filter_map(|(_, device)| network_of(device))
        .collect();
    let name = match network {
        Some(name) if used.contains(&name) => {
            return Err(Error::refused(format!(
                "{id} is on {} already, and the server lets it be there once",
                shown(name)
            ))
            .remedy("Take another network: corral network list"));
        }
        Some(name) => name.to_owned(),
        None => there
            .iter()
            .filter(|network| network.flag("managed") == Some(true))
            .filter_map(|network| network.text("name"))
            .find(|name| !used.contains(name))
            .ok_or_else(|| {
                Error::refused(format!("{id} is on every network of the server already"))
                    .remedy("Say which one: --network NAME; see corral network list")
            })?
            .to_owned(),
    };
    let mut device = nic(&there, &name)?;
    let devices = seen.all_devices();
    let slot = free_slot(
        "eth",
        0,
        devices.into_iter().flatten().map(|(name, _)| name),
    );
    device["name"] = json!(slot);
    if let Some(mac) = mac {
        let mac = read_mac(mac)?;
        if nics(seen)
            .iter()
            .any(|nic| nic.mac.as_deref() == Some(&mac))
        {
            return Err(Error::refused(format!(
                "{id} has an interface with the MAC {mac} already"
            ))
            .remedy("Take another one, or leave --mac out"));
        }
        device["hwaddr"] = json!(mac);
    }
    let todo = Todo::new(
        format!("Connect {slot} to {}", shown(&name)),
        Act::Edit(Edit::device(&slot, Some(device))),
    );
    let todo = todo.undo(format!("corral nic remove {id} --nic {slot}"));
    Ok(plan(
        seen,
        vec![todo],
        format!("{id} has the interface {slot}"),
    ))
}

fn remove(seen: &Seen, wanted: &str) -> Result<Prepared> {
    let all = nics(seen);
    let found = all
        .iter()
        .find(|nic| nic.name == wanted || nic.mac.as_deref() == Some(&wanted.to_ascii_lowercase()));
    let id = &seen.id;
    let found = found.ok_or_else(|| {
        Error::not_found(format!("{id} has no interface {:?}", shown(wanted)))
            .remedy(format!("See corral nic list {id}"))
    })?;
    let own = seen
        .devices()
        .is_some_and(|devices| devices.contains_key(&found.name));
    let edit = if own {
        Edit::device(&found.name, None)
    } else {
        Edit::device(&found.name, Some(json!({"type": "none"})))
    };
    let mut todo = Todo::new(format!("Take {} away", shown(&found.name)), Act::Edit(edit));
    if let Some(network) = &found.network {
        todo = todo.undo(format!("corral nic add {id} --network {}", shown(network)));
    }
    let mut prepared = plan(seen, vec![todo], format!("{} is gone", shown(&found.name)));
    if !own {
        prepared
            .notes
            .push("it comes from a profile, which stays as it is: it is masked here".to_owned());
    }
    Ok(prepared)
}

#[async_trait]
impl Changes<NicRequest> for Nics {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: NicRequest) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        if let Some(refused) = seen.unclear() {
            return Ok(refused);
        }
        let planned = match request {
            NicRequest::Add {
                network,
                model,
                mac,
            } => {
                let (network, model, mac) = (network.as_deref(), model.as_deref(), mac.as_deref());
                add(&self.0, cx, &seen, network, model, mac).await
            }
            NicRequest::Remove { nic } => remove(&seen, &nic),
        };
        Ok(planned.unwrap_or_else(|error| Prepared::failed(seen.token(), &error)))
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        work::run(&self.0, cx, prepared).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macs_are_read_as_people_write_them() {
        assert_eq!(read_mac("10:66:6A:12:34:56").unwrap(), "10:66:6a:12:34:56");
        for odd in [
            "",
            "nonsense",
            "10:66:6a:12:34",
            "11:66:6a:12:34:56",
            "1g:66:6a:12:34:56",
        ] {
            assert!(read_mac(odd).is_err(), "{odd}");
        }
    }
}
