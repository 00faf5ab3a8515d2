//! The list: one call for all domains with what is measured of them, and their definitions, read once and again when
//! they changed.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use serde_json::Value;

use super::ctx::{Ctx, KIND};
use super::domain::Domain;
use super::state;
use super::wire::{Call, Dom, Fault, Listed, Server};
use crate::backend::contract::ReadCx;
use crate::model::{
    Bytes, Error, Host, Instance, InstanceKind, Inventory, Problem, Result, State, Usage, shown,
};

/// Two readings closer than this say nothing of the load.
const APART: f64 = 0.2;

/// Everything.
///
/// # Errors
/// Those of connecting and of the list.
pub async fn all(ctx: &Ctx, cx: &ReadCx) -> Result<Inventory> {
    let listed: Vec<Listed> = ctx.client.ask(cx, Call::List { all: false }).await?;
    let at = Timestamp::now();
    let definitions = definitions(ctx, cx, &listed).await?;
    let mut inventory = Inventory::empty(at);
    let mut names: HashMap<&str, usize> = HashMap::new();
    for one in &listed {
        *names.entry(one.name.as_str()).or_default() += 1;
    }
    for one in &listed {
        let unread = Err(Error::backend("its definition is not there"));
        let row = match definitions.get(&one.uuid).unwrap_or(&unread) {
            Ok(domain) => row(ctx, one, domain, at),
            // Gone between the list and the look.
            Err(error) if error.kind == crate::model::ErrorKind::NotFound => continue,
            Err(error) => broken(ctx, one, error, at),
        };
        inventory.instances.push(row);
    }
    for one in listed.iter().filter(|one| one.name.is_empty()) {
        inventory.problems.push(Problem {
            instance: None,
            message: format!("a domain without a name: {}", shown(&one.uuid)),
            remedy: Some("virsh list --all --uuid".to_owned()),
        });
    }
    io_errors(ctx, cx, &listed, &mut inventory).await;
    Ok(inventory)
}

/// One line that cannot be read hides no other.
fn broken(ctx: &Ctx, listed: &Listed, error: &Error, at: Timestamp) -> Instance {
    let mut row = Instance::broken(ctx.id(key(listed)), KIND, error.message.clone(), at);
    row.uid = Some(listed.uuid.clone());
    key(listed).clone_into(&mut row.name);
    row
}

/// Its name; its UUID where it has none.
fn key(listed: &Listed) -> &str {
    if listed.name.is_empty() {
        &listed.uuid
    } else {
        &listed.name
    }
}

type Definitions = HashMap<String, Result<Arc<Domain>>>;

async fn definitions(ctx: &Ctx, cx: &ReadCx, listed: &[Listed]) -> Result<Definitions> {
    let mut all = Definitions::new();
    if ctx.watched.load(Ordering::Relaxed) {
        let mut known = ctx.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|uuid, _| listed.iter().any(|one| one.uuid == *uuid));
        all.extend(
            known
                .iter()
                .map(|(uuid, domain)| (uuid.clone(), Ok(Arc::clone(domain)))),
        );
    }
    let uuids: Vec<String> = listed
        .iter()
        .filter(|one| !all.contains_key(&one.uuid))
        .map(|one| one.uuid.clone())
        .collect();
    if uuids.is_empty() {
        return Ok(all);
    }
    let read: Vec<(String, Result<String, Fault>)> = ctx
        .client
        .ask(
            cx,
            Call::Xml {
                uuids,
                config: false,
            },
        )
        .await?;
    let mut known = ctx.known.lock().unwrap_or_else(PoisonError::into_inner);
    for (uuid, xml) in read {
        let domain = xml
            .map_err(|fault| super::fault::error(&fault))
            .and_then(|xml| Domain::read(&xml))
            .map(Arc::new);
        if let Ok(domain) = &domain {
            known.insert(uuid.clone(), Arc::clone(domain));
        }
        all.insert(uuid, domain);
    }
    Ok(all)
}

/// One row.
pub fn row(ctx: &Ctx, listed: &Listed, domain: &Domain, at: Timestamp) -> Instance {
    let is = state::of(listed);
    let id = ctx.id(key(listed));
    let mut row = Instance::new(id, KIND, InstanceKind::Vm, is.state, at);
    row.uid = Some(listed.uuid.clone());
    key(listed).clone_into(&mut row.name);
    row.native_state = Some(is.native);
    row.reason = is.reason;
    if !listed.persistent && row.reason.is_none() {
        row.reason = Some("transient: gone once it is off".to_owned());
    }
    let number = |name: &str| listed.stats.get(name).and_then(Value::as_u64);
    let active = listed.id.is_some();
    let cpus = number("vcpu.current").and_then(|n| u32::try_from(n).ok());
    row.cpus = if active {
        cpus.or(domain.cpus)
    } else {
        domain.cpus.or(cpus)
    };
    row.memory_bytes = domain.current_memory;
    row.macs = Some(
        domain
            .nics
            .iter()
            .filter_map(|nic| nic.mac.clone())
            .collect(),
    );
    row.os.clone_from(&domain.os);
    row.agent = match (is.state, domain.agent) {
        (State::Running, agent) => agent,
        _ => None,
    };
    row.tags.clone_from(&domain.marks.tags);
    row.template = domain.marks.template;
    row.note.clone_from(&domain.note);
    row.autostart = listed.autostart;
    if !active {
        row.addresses = Some(Vec::new());
    }
    row.usage = active.then(|| usage(ctx, listed, row.cpus));
    row
}

/// Load since the list before.
fn usage(ctx: &Ctx, listed: &Listed, cpus: Option<u32>) -> Usage {
    let number = |name: &str| listed.stats.get(name).and_then(Value::as_u64);
    let memory_bytes = number("balloon.rss").map(Bytes::kib);
    let Some(time) = number("cpu.time") else {
        return Usage {
            cpu_percent: None,
            memory_bytes,
        };
    };
    let now = Instant::now();
    let mut busy = ctx.busy.lock().unwrap_or_else(PoisonError::into_inner);
    let before = busy.get(&listed.uuid).copied();
    let apart = |at: Instant| now.duration_since(at).as_secs_f64();
    if before.is_none_or(|(_, at)| apart(at) >= APART) {
        busy.insert(listed.uuid.clone(), (time, now));
    }
    let cpu_percent = before
        .filter(|(then, at)| apart(*at) >= APART && *then <= time)
        .map(|(then, at)| {
            (time - then) as f64 / 1e9 / apart(at) / f64::from(cpus.unwrap_or(1).max(1)) * 100.0
        });
    Usage {
        cpu_percent,
        memory_bytes,
    }
}

/// A guest that stands still since a disk failed: which, and why. Asked only of those.
async fn io_errors(ctx: &Ctx, cx: &ReadCx, listed: &[Listed], inventory: &mut Inventory) {
    for one in listed {
        if state::numbers(one) != (state::PAUSED, state::IO_ERROR) {
            continue;
        }
        let dom = Dom {
            uuid: one.uuid.clone(),
            name: one.name.clone(),
        };
        let asked: Result<Vec<(String, String)>> =
            ctx.client.ask(cx, Call::DiskErrors { dom }).await;
        let Ok(errors) = asked else { continue };
        let told: Vec<String> = errors
            .iter()
            .map(|(disk, why)| format!("I/O error on {}: {why}", shown(disk)))
            .collect();
        let row = inventory
            .instances
            .iter_mut()
            .find(|row| row.uid.as_deref() == Some(&one.uuid));
        if let (Some(row), false) = (row, told.is_empty()) {
            row.reason = Some(told.join(", "));
        }
    }
}

/// The machine of a server, for the list of hosts.
pub fn host(ctx: &Ctx, server: &Server) -> Host {
    let name = server.hostname.clone();
    let mut host = Host::new(
        &ctx.spec.name,
        name.as_deref().unwrap_or(ctx.spec.name.as_str()),
    );
    if let Some((_, cpus, memory)) = &server.cpu {
        host.cpus = Some(*cpus);
        host.memory_bytes = Some(Bytes(*memory));
        host.memory_used_bytes = server.free.map(|free| Bytes(memory.saturating_sub(free)));
    }
    host
}
