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
    nic: String,
    what: What,
}

enum What {
    Add(Forward),
    Remove(Vec<Forward>),
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
                guest,
                port,
                protocol,
            } => word(&protocol).map(|protocol| remove_plan(&seen, guest, port, protocol)),
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
            What::Add(forward) => add(ctx, cx, &seen, &plan.nic, forward).await,
            What::Remove(forwards) => remove(ctx, cx, &seen, &plan.nic, &forwards).await,
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

fn address_of(text: &str) -> Result<Ipv4Addr> {
    text.parse().map_err(|_| {
        Error::invalid(format!(
            "{} is no IPv4 address: QEMU's own network listens on no other",
            shown(text)
        ))
        .remedy("Take 127.0.0.1, or 0.0.0.0 for all addresses of this machine")
    })
}

/// Where a forward leads, for people.
fn place(forward: &Forward) -> String {
    let port = match forward.port {
        0 => "a free port".to_owned(),
        port => port.to_string(),
    };
    let udp = if forward.protocol == Protocol::Udp {
        "/udp"
    } else {
        ""
    };
    format!("{}:{port}{udp}", forward.host)
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
    let undo = format!(
        "corral ports unpublish {id} --port {}{}",
        forward.guest,
        if forward.protocol == Protocol::Udp {
            "/udp"
        } else {
            ""
        }
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
        nic,
        what: What::Add(forward),
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

fn remove_plan(seen: &Seen, guest: u16, port: Option<u16>, protocol: Protocol) -> Prepared {
    let (id, token) = (&seen.id, seen.token());
    let meant = |forward: &&Forward| {
        forward.guest == guest
            && forward.protocol == protocol
            && port.is_none_or(|port| forward.port == port)
    };
    let found = seen
        .vm
        .nics
        .iter()
        .map(|nic| (nic, nic.forwards.iter().filter(meant).collect::<Vec<_>>()))
        .find(|(_, forwards)| !forwards.is_empty());
    let Some((nic, forwards)) = found else {
        let at = port.map_or(String::new(), |port| format!(" at {port}"));
        return Prepared::unchanged(
            token,
            format!(
                "{} port {guest} of {id} is not published{at}",
                protocol.as_str().to_uppercase()
            ),
        );
    };
    let mut steps = Vec::new();
    for forward in &forwards {
        let undo = format!(
            "corral ports publish {id} --port {}:{guest}{}",
            if forward.picked {
                forward.host.clone() + ":0"
            } else {
                format!("{}:{}", forward.host, forward.port)
            },
            if protocol == Protocol::Udp {
                "/udp"
            } else {
                ""
            }
        );
        let title = format!("No longer publish port {guest} at {}", place(forward));
        let native = if seen.live.is_active() {
            format!("HMP {}", hostfwd::remove_line(&nic.name, forward))
        } else {
            format!(
                "remove it from {} of {}",
                nic.name,
                super::store::DEFINITION
            )
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
        nic: nic.name.clone(),
        what: What::Remove(forwards.into_iter().cloned().collect()),
    })
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
    nic: &str,
    forwards: &[Forward],
) -> Result<Outcome> {
    let mut qmp = monitor(ctx, seen).await?;
    let dir = ctx.store.dir(&seen.vm.name)?;
    let mut vm = seen.vm.clone();
    for forward in forwards {
        cx.checkpoint()?;
        cx.step(format!(
            "No longer publish port {} at {}",
            forward.guest,
            place(forward)
        ));
        let change = Change::Unpublish {
            nic: nic.to_owned(),
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
        forwards.first().map_or(0, |f| f.guest),
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
