//! Ports of this machine that lead into guests.

use std::collections::{BTreeMap, BTreeSet};

use super::ctx::Ctx;
use super::definition::{Definition, Forward, Protocol};
use super::locks::{self, Lock};
use super::publish::place;
use super::store::DEFINITION;
use crate::link::ports as sockets;
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

/// A port with what it carries: TCP and UDP do not meet.
pub type Taken = BTreeMap<(Protocol, u16), String>;

/// Claims the ports of a new VM; 0 picks one.
///
/// # Errors
/// `Conflict` for a port that another VM or program has.
pub async fn claim(ctx: &Ctx, wanted: &[Forward]) -> Result<Claim> {
    let lock = locks::ports(ctx).await?;
    let mut taken = defined(ctx, None)?;
    let mut out = Vec::new();
    for forward in wanted {
        let (protocol, host, port) = (forward.protocol, &forward.host, forward.port);
        let found = if port == 0 {
            pick(protocol, host, &taken)?
        } else {
            refuse_taken((protocol, port), host, &taken, TAKE_ANOTHER)?;
            port
        };
        taken.insert((protocol, found), "this VM".to_owned());
        out.push(found);
    }
    Ok(Claim {
        ports: out,
        _lock: lock,
    })
}

/// Claims the port of one more forward; 0 is replaced by one that is free. The lock keeps others
/// from taking it until the definition is saved.
///
/// # Errors
/// As [`claim`].
pub async fn claim_for(ctx: &Ctx, forward: &mut Forward) -> Result<Lock> {
    let lock = locks::ports(ctx).await?;
    if forward.port == 0 {
        forward.port = pick(forward.protocol, &forward.host, &defined(ctx, None)?)?;
        forward.picked = true;
    } else {
        refuse_forward(ctx, forward)?;
    }
    Ok(lock)
}

/// Why this forward cannot be made; looks without a claim, for a plan.
///
/// # Errors
/// As [`claim`].
pub fn refuse_forward(ctx: &Ctx, forward: &Forward) -> Result<()> {
    is_here(&forward.host)?;
    if forward.port == 0 {
        return Ok(());
    }
    let taken = defined(ctx, None)?;
    let key = (forward.protocol, forward.port);
    refuse_taken(key, &forward.host, &taken, TAKE_ANOTHER)
}

fn is_free(protocol: Protocol, host: &str, port: u16) -> bool {
    match protocol {
        Protocol::Tcp => sockets::is_free(host, port),
        Protocol::Udp => sockets::is_free_udp(host, port),
    }
}

/// Whether it could be listened on now.
pub fn forward_is_free(forward: &Forward) -> bool {
    is_free(forward.protocol, &forward.host, forward.port)
}

const TAKE_ANOTHER: &str = "take another port, or 0 for one that is free";

/// On an address of another machine no port is ever free.
fn is_here(host: &str) -> Result<()> {
    if sockets::is_here(host) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} is no address of this machine",
        crate::model::shown(host)
    ))
    .remedy("Take 127.0.0.1, 0.0.0.0 for all, or one that this shows: ip -br address"))
}

fn pick(protocol: Protocol, host: &str, taken: &Taken) -> Result<u16> {
    is_here(host)?;
    (FIRST..u16::MAX)
        .find(|port| !taken.contains_key(&(protocol, *port)) && is_free(protocol, host, *port))
        .ok_or_else(|| {
            Error::conflict(format!("no port is free on {host}"))
                .remedy("End a program that listens there: ss -lntup shows them")
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
        if forward.picked && forward.port != 0 && !forward_is_free(forward) {
            moves.push(format!(
                "{} is used by another program: another port is picked for the guest's {}",
                place(forward),
                forward.guest
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
    let key = (forward.protocol, forward.port);
    refuse_taken(key, &forward.host, &BTreeMap::new(), &remedy)
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
    let key = |forward: &Forward| (forward.protocol, forward.port);
    taken.extend(forwards(&vm).map(|forward| (key(forward), vm.name.clone())));
    let mut own = BTreeSet::new();
    let before = vm.clone();
    for forward in vm.nics.iter_mut().flat_map(|nic| &mut nic.forwards) {
        let open = forward.port == 0;
        if open || (forward.picked && !forward_is_free(forward)) {
            forward.port = pick(forward.protocol, &forward.host, &taken)?;
            forward.picked = true;
            taken.insert(key(forward), before.name.clone());
        } else {
            fixed(ctx, &before, forward)?;
        }
        if !own.insert(key(forward)) {
            return Err(Error::invalid(format!(
                "port {}{} is published twice",
                forward.port,
                forward.protocol.suffix()
            ))
            .remedy("Give each its own, or 0 for one that is free"));
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
                "the guest's port {} is at {} now, {} was taken",
                new.guest,
                place(new),
                old.port
            )
        })
        .collect()
}

/// Ports of all definitions (but one), with the VM's name.
///
/// # Errors
/// When the definitions cannot be listed.
pub fn defined(ctx: &Ctx, but: Option<&str>) -> Result<Taken> {
    Ok(ctx
        .store
        .list()?
        .into_iter()
        .filter(|entry| Some(entry.name.as_str()) != but)
        .filter_map(|entry| entry.definition.ok())
        .flat_map(|vm| {
            let ports: Vec<(Protocol, u16)> = forwards(&vm).map(|f| (f.protocol, f.port)).collect();
            ports.into_iter().map(move |port| (port, vm.name.clone()))
        })
        .collect())
}

fn refuse_taken(key: (Protocol, u16), host: &str, taken: &Taken, instead: &str) -> Result<()> {
    let (protocol, port) = key;
    if let Some(name) = taken.get(&key) {
        return Err(Error::conflict(format!(
            "port {port}{} is published by {}",
            protocol.suffix(),
            crate::model::shown(name)
        ))
        .remedy(capital(instead)));
    }
    is_here(host)?;
    if is_free(protocol, host, port) {
        return Ok(());
    }
    Err(Error::conflict(format!(
        "{host}:{port}{} is used by another program",
        protocol.suffix()
    ))
    .remedy(format!("See which: ss -lntup 'sport = :{port}'; {instead}")))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::super::ctx::tests::context;
    use super::*;

    #[test]
    fn an_address_of_another_machine_is_named_before_any_port() {
        let root = tempfile::tempdir().unwrap();
        let ctx = context(root.path());
        let mut forward = Forward {
            host: "203.0.113.1".to_owned(),
            port: 0,
            guest: 22,
            protocol: Protocol::Tcp,
            picked: true,
        };
        for port in [0, 2222] {
            forward.port = port;
            let error = refuse_forward(&ctx, &forward).unwrap_err();
            assert!(error.message.contains("no address of this"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_udp_port_is_claimed_as_one() {
        let root = tempfile::tempdir().unwrap();
        let ctx = context(root.path());
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut forward = Forward {
            host: "127.0.0.1".to_owned(),
            port: socket.local_addr().unwrap().port(),
            guest: 53,
            protocol: Protocol::Udp,
            picked: false,
        };
        let error = claim(&ctx, &[forward.clone()]).await.unwrap_err();
        assert!(error.message.contains("used by another program"), "{error}");
        drop(socket);
        // Who listens there with TCP is not in its way.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        forward.port = listener.local_addr().unwrap().port();
        let both = [
            forward.clone(),
            Forward {
                protocol: Protocol::Tcp,
                port: 0,
                ..forward
            },
        ];
        let claimed = claim(&ctx, &both).await.unwrap();
        assert_eq!(claimed.ports[0], both[0].port);
        assert_ne!(claimed.ports[1], 0);
    }
}
