//! Ports of a guest at this machine, in the definition and in the process that runs.

pub mod hostfwd;

use std::net::Ipv4Addr;
use std::sync::Arc;

use async_trait::async_trait;

use super::change::Seen;
use super::ctx::Ctx;
use super::definition::{Definition, Forward, Protocol};
use super::op::{self, Change, Journal, Phase};
use super::{events, locks, ports, process, started};
use crate::backend::contract::{Changes, Prepared, PublishRequest, ReadCx, TaskCx};
use crate::link::qmp::Qmp;
use crate::model::{Error, EventLevel, Instance, InstanceId, Outcome, Result, Step, shown};

/// The publish family.
#[derive(Clone, Debug)]
pub struct Publish(pub Arc<Ctx>);

/// What `run` does.
struct Plan {
    id: InstanceId,
    what: What,
}

/// Each forward with its network interface.
enum What {
    Add(String, Forward),
    Remove(Vec<(String, Forward)>),
}

#[async_trait]
impl Changes<PublishRequest> for Publish {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: PublishRequest,
    ) -> Result<Prepared> {
        let ctx = &self.0;
        let seen = match Seen::for_plan(ctx, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        if let Err(refused) = seen.whole(ctx) {
            return Ok(*refused);
        }
        let plan = match request {
            PublishRequest::Publish {
                address,
                port,
                guest,
                protocol,
            } => {
                let forward = word(&protocol).and_then(|protocol| {
                    address_of(&address)?;
                    Ok(Forward {
                        host: address,
                        port,
                        guest,
                        protocol,
                        picked: port == 0,
                    })
                });
                forward.and_then(|forward| add_plan(ctx, &seen, forward))
            }
            PublishRequest::Unpublish {
                address,
                guest,
                port,
                protocol,
            } => word(&protocol)
                .map(|protocol| remove_plan(&seen, address.as_deref(), guest, port, protocol)),
        };
        Ok(plan.unwrap_or_else(|error| Prepared::failed(seen.token(), &error)))
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let ctx = &self.0;
        let plan: Plan = prepared.take()?;
        let vm = super::inventory::load(ctx, &plan.id)?;
        let dir = ctx.store.dir(&vm.name)?;
        let _lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
        let seen = Seen::now(ctx, &plan.id, process::MONITOR).await?;
        seen.still(&prepared.token)?;
        cx.checkpoint()?;
        let done = match plan.what {
            What::Add(nic, forward) => add(ctx, cx, &seen, &nic, forward).await,
            What::Remove(forwards) => remove(ctx, cx, &seen, &forwards).await,
        };
        done.map_err(|error| op::remedied(&dir, error))
    }
}

fn word(protocol: &str) -> Result<Protocol> {
    match protocol {
        "tcp" => Ok(Protocol::Tcp),
        "udp" => Ok(Protocol::Udp),
        other => Err(Error::invalid(format!(
            "\"{}\" is neither tcp nor udp",
            shown(other)
        ))),
    }
}

/// The address of a forward.
///
/// # Errors
/// `Invalid` for what QEMU's own network does not listen on.
pub(super) fn address_of(text: &str) -> Result<Ipv4Addr> {
    text.parse().map_err(|_| {
        Error::invalid(format!(
            "{} is no IPv4 address: QEMU's own network listens on no other",
            shown(text)
        ))
        .remedy("Take 127.0.0.1, or 0.0.0.0 for all addresses of this machine")
    })
}

/// Where a forward leads, for people.
pub(super) fn place(forward: &Forward) -> String {
    let port = match forward.port {
        0 => "a free port".to_owned(),
        port => port.to_string(),
    };
    format!("{}:{port}{}", forward.host, forward.protocol.suffix())
}

fn add_plan(ctx: &Ctx, seen: &Seen, forward: Forward) -> Result<Prepared> {
    let (id, token) = (&seen.id, seen.token());
    if forward.guest == 0 {
        return Err(Error::invalid("port 0 of the guest cannot be published"));
    }
    let same = |other: &Forward| {
        other.protocol == forward.protocol
            && other.host == forward.host
            && other.guest == forward.guest
            && (other.port == forward.port || (forward.port == 0 && other.picked))
    };
    let nics = || seen.vm.nics.iter().filter(|nic| nic.network == "user");
    if let Some(there) = nics().flat_map(|nic| &nic.forwards).find(|f| same(f)) {
        return Ok(Prepared::unchanged(
            token,
            format!(
                "port {} of {id} is published at {} already",
                there.guest,
                place(there)
            ),
        ));
    }
    let Some(nic) = nics().next() else {
        return Err(Error::refused(format!(
            "{id} has no network interface on the network \"user\", and only that publishes ports"
        ))
        .remedy(format!("Give it one: corral nic add {id} --network user")));
    };
    ports::refuse_forward(ctx, &forward)?;
    let title = format!(
        "Publish port {} of {id} at {}",
        forward.guest,
        place(&forward)
    );
    // Where the port is known, what else leads to the same one of the guest stays.
    let at = match forward.port {
        0 => String::new(),
        port => format!("{}:{port}:", forward.host),
    };
    let undo = format!(
        "corral ports unpublish {id} --port {at}{}{}",
        forward.guest,
        forward.protocol.suffix()
    );
    let mut steps = Vec::new();
    if seen.live.is_active() {
        steps.push(
            Step::new(
                title,
                format!("HMP {}", hostfwd::add_line(&nic.name, &forward)),
            )
            .undo(undo.clone()),
        );
    }
    steps.push(save_step(ctx, &seen.vm)?.undo(undo));
    let mut prepared = Prepared::new(token, steps);
    if !address_of(&forward.host)?.is_loopback() {
        prepared.notes.push(format!(
            "Port {} can be reached from other machines at {}",
            forward.guest,
            place(&forward)
        ));
    }
    let nic = nic.name.clone();
    Ok(prepared.with(Plan {
        id: id.clone(),
        what: What::Add(nic, forward),
    }))
}

/// The step that writes the definition.
pub(super) fn save_step(ctx: &Ctx, vm: &Definition) -> Result<Step> {
    let file = ctx.store.dir(&vm.name)?.join(super::store::DEFINITION);
    Ok(Step::new(
        "Write it into the definition",
        format!("write {}", file.display()),
    ))
}

fn remove_plan(
    seen: &Seen,
    address: Option<&str>,
    guest: u16,
    port: Option<u16>,
    protocol: Protocol,
) -> Prepared {
    let (id, token) = (&seen.id, seen.token());
    let found = meant(&seen.vm, address, guest, port, protocol);
    if found.is_empty() {
        let at = match (address, port) {
            (Some(address), Some(port)) => format!(" at {}:{port}", shown(address)),
            (None, Some(port)) => format!(" at {port}"),
            (Some(address), None) => format!(" at {}", shown(address)),
            (None, None) => String::new(),
        };
        return Prepared::unchanged(
            token,
            format!(
                "{} port {guest} of {id} is not published{at}",
                protocol.as_str().to_uppercase()
            ),
        );
    }
    let mut steps = Vec::new();
    for (nic, forward) in &found {
        let undo = format!(
            "corral ports publish {id} --port {}:{guest}{}",
            if forward.picked {
                forward.host.clone() + ":0"
            } else {
                format!("{}:{}", forward.host, forward.port)
            },
            protocol.suffix()
        );
        let title = format!("No longer publish port {guest} at {}", place(forward));
        let native = if seen.live.is_active() {
            format!("HMP {}", hostfwd::remove_line(nic, forward))
        } else {
            format!("remove it from {nic} of {}", super::store::DEFINITION)
        };
        steps.push(Step::new(title, native).undo(undo));
    }
    let mut prepared = Prepared::new(token, steps);
    if seen.live.is_active() {
        prepared
            .notes
            .push("Connections that are open stay open".to_owned());
    }
    if guest == 22 && protocol == Protocol::Tcp {
        prepared
            .notes
            .push(format!("corral dial {id} has no way in without it"));
    }
    prepared.with(Plan {
        id: id.clone(),
        what: What::Remove(found),
    })
}

/// What leads to a port of the guest, of whichever network interface.
fn meant(
    vm: &Definition,
    address: Option<&str>,
    guest: u16,
    port: Option<u16>,
    protocol: Protocol,
) -> Vec<(String, Forward)> {
    let nics = vm.nics.iter();
    let all = nics.flat_map(|nic| nic.forwards.iter().map(move |forward| (nic, forward)));
    all.filter(|(_, forward)| {
        forward.guest == guest
            && forward.protocol == protocol
            && port.is_none_or(|port| forward.port == port)
            && address.is_none_or(|address| forward.host == address)
    })
    .map(|(nic, forward)| (nic.name.clone(), forward.clone()))
    .collect()
}

async fn monitor(ctx: &Ctx, seen: &Seen) -> Result<Option<Qmp>> {
    if !seen.live.is_active() {
        return Ok(None);
    }
    let gone = || Error::conflict(format!("{} ended meanwhile. Nothing was done", seen.id));
    process::connect(ctx, &seen.vm)
        .await?
        .ok_or_else(gone)
        .map(Some)
}

async fn add(
    ctx: &Ctx,
    cx: &TaskCx,
    seen: &Seen,
    nic: &str,
    mut forward: Forward,
) -> Result<Outcome> {
    // VM, then ports, then monitor.
    let claim = ports::claim_for(ctx, &mut forward).await?;
    cx.step(format!(
        "Publish port {} of {} at {}",
        forward.guest,
        seen.id,
        place(&forward)
    ));
    if let Some(mut qmp) = monitor(ctx, seen).await? {
        let dir = ctx.store.dir(&seen.vm.name)?;
        let mut journal = Journal::begin(
            &dir,
            Change::Publish {
                nic: nic.to_owned(),
                forward: forward.clone(),
            },
        )?;
        journal.phase(Phase::Working)?;
        let done = match hostfwd::add(&mut qmp, nic, &forward).await {
            Ok(()) => put(ctx, &seen.vm, nic, &forward),
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            // Neither here nor there: what was made is taken back.
            if hostfwd::remove(&mut qmp, nic, &forward).await.is_ok() {
                journal.finish()?;
            }
            return Err(error);
        }
        journal.phase(Phase::Recording)?;
        live_has(ctx, &seen.vm, nic, &forward)?;
        journal.finish()?;
    } else {
        put(ctx, &seen.vm, nic, &forward)?;
    }
    drop(claim);
    let at = place(&forward);
    let text = format!("port {} is published at {at}", forward.guest);
    events::say(ctx, &seen.vm, EventLevel::Info, "PUBLISHED", &text);
    Ok(Outcome::changed(format!(
        "port {} of {} is published at {at}",
        forward.guest, seen.id
    )))
}

fn put(ctx: &Ctx, vm: &Definition, nic: &str, forward: &Forward) -> Result<()> {
    let mut vm = vm.clone();
    with(&mut vm, nic, forward);
    ctx.store.save(&vm)
}

fn with(vm: &mut Definition, nic: &str, forward: &Forward) {
    if let Some(nic) = vm.nics.iter_mut().find(|n| n.name == nic)
        && !nic.forwards.contains(forward)
    {
        nic.forwards.push(forward.clone());
    }
}

fn without(vm: &mut Definition, nic: &str, forward: &Forward) {
    if let Some(nic) = vm.nics.iter_mut().find(|n| n.name == nic) {
        nic.forwards.retain(|other| other != forward);
    }
}

fn live_has(ctx: &Ctx, vm: &Definition, nic: &str, forward: &Forward) -> Result<()> {
    started::took(&ctx.paths(&vm.uuid)?, |vm| with(vm, nic, forward))
}

async fn remove(
    ctx: &Ctx,
    cx: &TaskCx,
    seen: &Seen,
    forwards: &[(String, Forward)],
) -> Result<Outcome> {
    let mut qmp = monitor(ctx, seen).await?;
    let dir = ctx.store.dir(&seen.vm.name)?;
    let mut vm = seen.vm.clone();
    for (nic, forward) in forwards {
        cx.checkpoint()?;
        cx.step(format!(
            "No longer publish port {} at {}",
            forward.guest,
            place(forward)
        ));
        let change = Change::Unpublish {
            nic: nic.clone(),
            forward: forward.clone(),
        };
        let mut journal = None;
        if let Some(qmp) = &mut qmp {
            let mut begun = Journal::begin(&dir, change)?;
            begun.phase(Phase::Working)?;
            if let Err(error) = hostfwd::remove(qmp, nic, forward).await {
                // Still there, as QEMU says: nothing was done.
                if hostfwd::is_there(qmp, nic, forward)
                    .await
                    .is_ok_and(|it| it)
                {
                    begun.finish()?;
                }
                return Err(error);
            }
            journal = Some(begun);
        }
        without(&mut vm, nic, forward);
        ctx.store.save(&vm)?;
        if let Some(mut journal) = journal {
            journal.phase(Phase::Recording)?;
            started::took(&ctx.paths(&vm.uuid)?, |vm| without(vm, nic, forward))?;
            journal.finish()?;
        }
        let text = format!(
            "port {} is no longer published at {}",
            forward.guest,
            place(forward)
        );
        events::say(ctx, &vm, EventLevel::Info, "UNPUBLISHED", &text);
    }
    Ok(Outcome::changed(format!(
        "port {} of {} is no longer published",
        forwards.first().map_or(0, |(_, f)| f.guest),
        seen.id
    )))
}

/// Ends what a killed corral began. A port that is in the definition is published, one that is
/// not is no more; what was to be unpublished goes in both. The caller holds the VM's lock.
///
/// # Errors
/// When the monitor does not answer.
pub(super) async fn recover(ctx: &Ctx, vm: &Definition, change: &Change) -> Result<String> {
    let mut qmp = process::connect(ctx, vm).await?;
    let paths = ctx.paths(&vm.uuid)?;
    match change {
        Change::Publish { nic, forward } => {
            let kept = vm
                .nics
                .iter()
                .any(|n| n.name == *nic && n.forwards.contains(forward));
            if let Some(qmp) = &mut qmp {
                if kept {
                    hostfwd::add(qmp, nic, forward).await?;
                    started::took(&paths, |vm| with(vm, nic, forward))?;
                } else {
                    hostfwd::remove(qmp, nic, forward).await?;
                }
            }
            let what = if kept { "is" } else { "is not" };
            Ok(format!("port {} {what} published", forward.guest))
        }
        Change::Unpublish { nic, forward } => {
            if let Some(qmp) = &mut qmp {
                hostfwd::remove(qmp, nic, forward).await?;
                started::took(&paths, |vm| without(vm, nic, forward))?;
            }
            let mut vm = vm.clone();
            without(&mut vm, nic, forward);
            ctx.store.save(&vm)?;
            Ok(format!("port {} is no longer published", forward.guest))
        }
        _ => Ok(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::definition::tests::sample;
    use super::*;

    #[test]
    fn what_is_meant_is_looked_for_at_every_interface_and_address() {
        let mut vm = sample("a", Path::new("/d"));
        let forward = |host: &str, port, protocol| Forward {
            host: host.to_owned(),
            port,
            guest: 53,
            protocol,
            picked: false,
        };
        vm.nics[0].forwards = vec![
            forward("127.0.0.1", 1, Protocol::Tcp),
            forward("0.0.0.0", 2, Protocol::Tcp),
            forward("127.0.0.1", 1, Protocol::Udp),
        ];
        let mut second = vm.nics[0].clone();
        second.name = "net1".to_owned();
        second.forwards = vec![forward("127.0.0.1", 2, Protocol::Tcp)];
        vm.nics.push(second);
        for (address, port, found) in [
            (None, None, "net0 1, net0 2, net1 2"),
            (None, Some(2), "net0 2, net1 2"),
            (Some("127.0.0.1"), Some(2), "net1 2"),
            (Some("127.0.0.2"), None, ""),
        ] {
            let all: Vec<String> = meant(&vm, address, 53, port, Protocol::Tcp)
                .iter()
                .map(|(nic, forward)| format!("{nic} {}", forward.port))
                .collect();
            assert_eq!(all.join(", "), found);
        }
    }
}
