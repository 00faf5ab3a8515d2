//! Ports of this machine that lead into guests.

use std::collections::BTreeSet;

use super::ctx::Ctx;
use super::definition::Definition;
use super::locks::{self, Lock};
use crate::link::ports;
use crate::model::{Error, Result};

/// The first port that is handed out.
const FIRST: u16 = 2201;

/// Ports handed out to nobody else until this is dropped: save the definition first.
#[derive(Debug)]
pub struct Claim {
    /// One for each that was asked for, in order.
    pub ports: Vec<u16>,
    _lock: Lock,
}

/// Claims ports: each (address, port), 0 picks one.
///
/// # Errors
/// `Conflict` for a port that another VM or program has.
pub async fn claim(ctx: &Ctx, wanted: &[(String, u16)]) -> Result<Claim> {
    let lock = locks::ports(ctx).await?;
    let mut taken = defined(ctx, None)?;
    let mut out = Vec::new();
    for (host, port) in wanted {
        let found = if *port == 0 {
            (FIRST..u16::MAX)
                .find(|port| !taken.contains_key(port) && ports::is_free(host, *port))
                .ok_or_else(|| Error::conflict(format!("no port is free on {host}")))?
        } else {
            refuse_taken(*port, host, &taken)?;
            *port
        };
        taken.insert(found, "this VM".to_owned());
        out.push(found);
    }
    Ok(Claim {
        ports: out,
        _lock: lock,
    })
}

/// The definition with every port 0 replaced by one that is free, saved so that it stays the same
/// at the next start.
///
/// # Errors
/// As [`claim`], and when the definition cannot be saved.
pub async fn settle(ctx: &Ctx, vm: &Definition) -> Result<Definition> {
    let mut vm = vm.clone();
    let open = |forward: &&mut super::definition::Forward| forward.port == 0;
    let wanted: Vec<(String, u16)> = vm
        .nics
        .iter_mut()
        .flat_map(|nic| &mut nic.forwards)
        .filter(open)
        .map(|forward| (forward.host.clone(), 0))
        .collect();
    if wanted.is_empty() {
        return Ok(vm);
    }
    let claimed = claim(ctx, &wanted).await?;
    let holes = vm
        .nics
        .iter_mut()
        .flat_map(|nic| &mut nic.forwards)
        .filter(open);
    for (forward, port) in holes.zip(&claimed.ports) {
        forward.port = *port;
    }
    ctx.store.save(&vm)?;
    Ok(vm)
}

/// Checks that all ports of a VM that is about to start are free; the lock keeps others from
/// starting with the same ones meanwhile.
///
/// # Errors
/// `Conflict` naming the port.
pub async fn check(ctx: &Ctx, vm: &Definition) -> Result<Lock> {
    let lock = locks::ports(ctx).await?;
    let none = std::collections::BTreeMap::new();
    let mut own = BTreeSet::new();
    for forward in vm.nics.iter().flat_map(|nic| &nic.forwards) {
        if !own.insert(forward.port) {
            return Err(Error::invalid(format!(
                "port {} is published twice",
                forward.port
            )));
        }
        refuse_taken(forward.port, &forward.host, &none)?;
    }
    Ok(lock)
}

/// Ports of all definitions (but one), with the VM's name.
///
/// # Errors
/// When the definitions cannot be listed.
pub fn defined(ctx: &Ctx, but: Option<&str>) -> Result<std::collections::BTreeMap<u16, String>> {
    Ok(ctx
        .store
        .list()?
        .into_iter()
        .filter(|entry| Some(entry.name.as_str()) != but)
        .filter_map(|entry| entry.definition.ok())
        .flat_map(|vm| {
            let ports: Vec<u16> = vm
                .nics
                .iter()
                .flat_map(|nic| nic.forwards.iter().map(|f| f.port))
                .collect();
            ports.into_iter().map(move |port| (port, vm.name.clone()))
        })
        .collect())
}

fn refuse_taken(
    port: u16,
    host: &str,
    taken: &std::collections::BTreeMap<u16, String>,
) -> Result<()> {
    if let Some(name) = taken.get(&port) {
        return Err(Error::conflict(format!(
            "port {port} is published by {}",
            crate::model::shown(name)
        ))
        .remedy("Choose another, or 0 for one that is free."));
    }
    if ports::is_free(host, port) {
        return Ok(());
    }
    Err(
        Error::conflict(format!("{host}:{port} is used by another program"))
            .remedy(format!("See which: ss -ltnp 'sport = :{port}'")),
    )
}
