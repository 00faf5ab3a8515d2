//! Ports of this machine that lead into guests.

use std::collections::{BTreeMap, BTreeSet};

use super::ctx::Ctx;
use super::definition::{Definition, Forward};
use super::locks::{self, Lock};
use super::store::DEFINITION;
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
            pick(host, &taken)?
        } else {
            refuse_taken(*port, host, &taken, TAKE_ANOTHER)?;
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

const TAKE_ANOTHER: &str = "take another port, or 0 for one that is free";

fn pick(host: &str, taken: &BTreeMap<u16, String>) -> Result<u16> {
    (FIRST..u16::MAX)
        .find(|port| !taken.contains_key(port) && ports::is_free(host, *port))
        .ok_or_else(|| {
            Error::conflict(format!("no port is free on {host}"))
                .remedy("End a program that listens there: ss -ltnp shows them")
        })
}

/// What a start finds of the ports of a VM that does not run.
#[derive(Debug, PartialEq)]
pub struct Outlook {
    /// Ports that corral picked once and that are taken now: another one is picked.
    pub moves: Vec<String>,
    /// Why it cannot start.
    pub blocked: Option<Error>,
}

/// Looks without a claim: for a plan.
pub fn outlook(ctx: &Ctx, vm: &Definition) -> Outlook {
    let mut moves = Vec::new();
    let mut blocked = None;
    for forward in forwards(vm) {
        if forward.picked && forward.port != 0 && !ports::is_free(&forward.host, forward.port) {
            moves.push(format!(
                "{}:{} is used by another program: another port is picked for the guest's {}",
                forward.host, forward.port, forward.guest
            ));
        } else if !forward.picked && forward.port != 0 {
            blocked = blocked.or(fixed(ctx, vm, forward).err());
        }
    }
    Outlook { moves, blocked }
}

fn forwards(vm: &Definition) -> impl Iterator<Item = &Forward> {
    vm.nics.iter().flat_map(|nic| &nic.forwards)
}

/// A port that was asked for is that one or none.
fn fixed(ctx: &Ctx, vm: &Definition, forward: &Forward) -> Result<()> {
    let file = ctx.store.dir(&vm.name)?.join(DEFINITION);
    let remedy = format!("end that, or write another port into {}", file.display());
    refuse_taken(forward.port, &forward.host, &BTreeMap::new(), &remedy)
}

/// The definition as it is started: every port is one that is free, those that corral picks are
/// saved so that they stay the same at the next start. The lock keeps others from starting with
/// the same ones meanwhile.
///
/// # Errors
/// `Conflict` naming the port, and when the definition cannot be saved.
pub async fn settle(ctx: &Ctx, vm: &Definition) -> Result<(Definition, Lock)> {
    let lock = locks::ports(ctx).await?;
    let mut vm = vm.clone();
    let mut taken = defined(ctx, Some(&vm.name))?;
    taken.extend(forwards(&vm).map(|forward| (forward.port, vm.name.clone())));
    let mut own = BTreeSet::new();
    let before = vm.clone();
    for forward in vm.nics.iter_mut().flat_map(|nic| &mut nic.forwards) {
        let open = forward.port == 0;
        if open || (forward.picked && !ports::is_free(&forward.host, forward.port)) {
            forward.port = pick(&forward.host, &taken)?;
            forward.picked = true;
            taken.insert(forward.port, before.name.clone());
        } else {
            fixed(ctx, &before, forward)?;
        }
        if !own.insert(forward.port) {
            return Err(
                Error::invalid(format!("port {} is published twice", forward.port))
                    .remedy("Give each its own, or 0 for one that is free"),
            );
        }
    }
    if vm != before {
        ctx.store.save(&vm)?;
    }
    Ok((vm, lock))
}

/// Where the ports of a VM lead that are not where they were.
pub fn moved(before: &Definition, now: &Definition) -> Vec<String> {
    let pairs = forwards(before).zip(forwards(now));
    pairs
        .filter(|(old, new)| old.port != new.port && old.port != 0)
        .map(|(old, new)| {
            format!(
                "the guest's port {} is at {}:{} now, {} was taken",
                new.guest, new.host, new.port, old.port
            )
        })
        .collect()
}

/// Ports of all definitions (but one), with the VM's name.
///
/// # Errors
/// When the definitions cannot be listed.
pub fn defined(ctx: &Ctx, but: Option<&str>) -> Result<BTreeMap<u16, String>> {
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

fn refuse_taken(port: u16, host: &str, taken: &BTreeMap<u16, String>, instead: &str) -> Result<()> {
    if let Some(name) = taken.get(&port) {
        return Err(Error::conflict(format!(
            "port {port} is published by {}",
            crate::model::shown(name)
        ))
        .remedy(capital(instead)));
    }
    if ports::is_free(host, port) {
        return Ok(());
    }
    Err(
        Error::conflict(format!("{host}:{port} is used by another program"))
            .remedy(format!("See which: ss -ltnp 'sport = :{port}'; {instead}")),
    )
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}
