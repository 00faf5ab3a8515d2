//! Live migration to another server: what is there is looked at first, and when it fails the guest runs on here.

use std::sync::Arc;

use super::backend::quiet;
use super::change::{persistent, scripted, settled};
use super::client::Client;
use super::ctx::{Ctx, Seen};
use super::power::same;
use super::script::{Act, Script};
use super::volumes::{Pool, Vol};
use super::wire::{Call, Looked, Move, Server, Thing};
use super::xml::{child, piece};
use crate::backend::contract::{Destination, MigrateRequest, Prepared, ReadCx};
use crate::model::{
    ContextSpec, Error, ErrorKind, Instance, InstanceId, Refusal, Result, State, shown,
};

scripted!(MigrateRequest, migrate);

async fn migrate(
    ctx: &Ctx,
    cx: &ReadCx,
    on: &Instance,
    request: MigrateRequest,
) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    settled(&seen)?;
    let id = &seen.id;
    let Destination::Context(spec) = &request.to else {
        return Err(Error::not_found(format!(
            "there is no such context; {} is one server",
            ctx.spec.name
        ))
        .remedy("Name the context of the other server: corral context list"));
    };
    if !matches!(seen.is().state, State::Running | State::Paused) {
        return Err(Error::refused(format!("{id} does not run")).remedy(format!(
            "Start it first: corral start {id}. Or make it anew over there: corral export, corral import"
        )));
    }
    let uri = quiet(spec.text("uri").unwrap_or_default())?;
    let there = Client::new(&spec.name, Arc::clone(&ctx.env), uri.clone(), false);
    let mut plan = Vec::new();
    let faults = preflight(ctx, cx, &seen, &there, spec, &request).await?;
    for fault in &faults {
        plan.push(Refusal::from(fault));
    }
    if !plan.is_empty() {
        let mut refused = Prepared::new(seen.token(), Vec::new());
        refused.refusals = plan;
        return Ok(refused);
    }
    let by = Move {
        to: uri,
        peer: request.peer,
        tunnelled: request.tunnelled,
        copy_disks: request.copy_storage,
        unsafe_too: request.unsafe_too,
        postcopy: request.postcopy,
        meet: request
            .address
            .as_ref()
            .filter(|_| !request.tunnelled)
            .map(|address| format!("tcp://{}", bracketed(address))),
        listen: request
            .address
            .clone()
            .filter(|address| !request.tunnelled && is_loopback(address)),
    };
    let new = InstanceId::new(&spec.name, None, &seen.listed.name);
    let act = Act::migrate(
        format!("Move {id} to {} while it runs", spec.name),
        seen.dom(),
        by,
    )
    .undo(format!("corral migrate {new} --to {}", ctx.spec.name));
    let script = Script::on(&seen, format!("{id} runs on as {new}"))
        .act(act)
        .to(new);
    let mut plan = script.prepared(ctx, cx).await?;
    plan.notes.push(format!("if it fails it runs on as {id}"));
    if request.copy_storage {
        plan.notes
            .push("its disks here stay, and are no longer used".to_owned());
    }
    if request.postcopy {
        plan.losses.push(
            "the guest itself, if the network between the hosts is lost after the switch"
                .to_owned(),
        );
    }
    Ok(plan)
}

/// An IPv6 address as a URI has it.
fn bracketed(address: &str) -> String {
    if address.contains(':') && !address.starts_with('[') {
        format!("[{address}]")
    } else {
        address.to_owned()
    }
}

/// Both servers are on this machine: the memory must not be open to others.
fn is_loopback(address: &str) -> bool {
    address
        .parse::<std::net::IpAddr>()
        .is_ok_and(|ip| ip.is_loopback())
}

/// All that speaks against it, both here and there.
async fn preflight(
    ctx: &Ctx,
    cx: &ReadCx,
    seen: &Seen,
    there: &Client,
    spec: &ContextSpec,
    request: &MigrateRequest,
) -> Result<Vec<Error>> {
    let id = &seen.id;
    let mut faults = Vec::new();
    if let Err(error) = persistent(seen) {
        faults.push(error);
    }
    if seen.live.hostdevs > 0 || seen.live.filesystems > 0 {
        faults.push(
            Error::refused(format!("{id} uses devices or folders of its host"))
                .remedy("Detach them first: corral edit, and restart it"),
        );
    }
    let snapshots = super::snapshots::known(ctx, cx, seen).await?;
    if !snapshots.is_empty() {
        faults.push(
            Error::refused(format!("{id} has snapshots: libvirt moves none"))
                .remedy(format!("Delete them first: corral snapshot list {id}")),
        );
    }
    let (own, other): (Result<Server>, Result<Server>) = tokio::join!(
        ctx.client.ask(cx, Call::Server {}),
        there.ask(cx, Call::Server {})
    );
    let (own, other) = (own?, other?);
    if own.hostname == other.hostname || same_host(&own, &other) {
        faults.push(Error::refused(format!(
            "{} and {} are the same host: {}",
            ctx.spec.name,
            spec.name,
            shown(other.hostname.as_deref().unwrap_or("?"))
        )));
        return Ok(faults);
    }
    faults.extend(names(cx, seen, there, spec).await?);
    faults.extend(machine(cx, seen, there, spec).await?);
    faults.extend(networks(cx, seen, there, spec).await?);
    faults.extend(storage(cx, seen, there, spec, request).await?);
    Ok(faults)
}

fn same_host(own: &Server, other: &Server) -> bool {
    let uuid = |server: &Server| {
        let text = server.capabilities.as_deref()?;
        let document = super::xml::parse(text).ok()?;
        super::xml::text_at(document.root_element(), &["host", "uuid"])
    };
    uuid(own).is_some() && uuid(own) == uuid(other)
}

/// Neither its name nor its UUID is taken.
async fn names(
    cx: &ReadCx,
    seen: &Seen,
    there: &Client,
    spec: &ContextSpec,
) -> Result<Option<Error>> {
    for key in [&seen.listed.name, &seen.listed.uuid] {
        let look = Call::Look { key: key.clone() };
        match there.ask::<Looked>(cx, look).await {
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(found) => {
                return Ok(Some(
                    Error::refused(format!(
                        "{} has a domain {} already",
                        spec.name,
                        shown(&found.listed.name)
                    ))
                    .remedy("Rename or delete one of the two first."),
                ));
            }
        }
    }
    Ok(None)
}

/// Machine type and CPU are there.
async fn machine(
    cx: &ReadCx,
    seen: &Seen,
    there: &Client,
    spec: &ContextSpec,
) -> Result<Vec<Error>> {
    let mut faults = Vec::new();
    let live = &seen.live;
    let caps = Call::DomainCaps {
        arch: live.arch.clone(),
        machine: live.machine.clone(),
        virt: live.virt.clone(),
    };
    if let Err(error) = there.ask::<String>(cx, caps).await {
        if matches!(error.kind, ErrorKind::Unreachable | ErrorKind::TimedOut) {
            return Err(error);
        }
        faults.push(Error::refused(format!(
            "{} cannot run the machine {} ({}): {}",
            spec.name,
            shown(live.machine.as_deref().unwrap_or("?")),
            shown(live.virt.as_deref().unwrap_or("?")),
            error.message
        )));
    }
    // What is emulated runs on any CPU.
    if live.virt.as_deref() == Some("kvm")
        && let Some(cpu) = piece(&seen.live_xml, |root| child(root, "cpu"))
    {
        match there.ask::<i64>(cx, Call::CompareCpu { xml: cpu }).await {
            // VIR_CPU_COMPARE_INCOMPATIBLE
            Ok(0) => faults.push(
                Error::refused(format!(
                    "the CPU of {} lacks what the guest was started with",
                    spec.name
                ))
                .remedy("Give it a CPU model that both have, and restart it: corral edit"),
            ),
            Err(error) if matches!(error.kind, ErrorKind::Unreachable | ErrorKind::TimedOut) => {
                return Err(error);
            }
            // It can, or it cannot be told beforehand: libvirt looks itself.
            _ => {}
        }
    }
    Ok(faults)
}

async fn networks(
    cx: &ReadCx,
    seen: &Seen,
    there: &Client,
    spec: &ContextSpec,
) -> Result<Vec<Error>> {
    let all: Vec<Thing> = there.ask(cx, Call::Networks {}).await?;
    let mut faults = Vec::new();
    for nic in seen.live.nics.iter().filter(|nic| nic.kind == "network") {
        let Some(name) = &nic.source else { continue };
        let is_up = all
            .iter()
            .any(|thing| thing.name == *name && thing.active == Some(true));
        if !is_up {
            faults.push(
                Error::refused(format!(
                    "{} has no network {} in use",
                    spec.name,
                    shown(name)
                ))
                .remedy(format!(
                    "Define and start it there: virsh net-start {}",
                    shown(name)
                )),
            );
        }
    }
    Ok(faults)
}

/// Each disk is there already, or has a place to be copied to.
async fn storage(
    cx: &ReadCx,
    seen: &Seen,
    there: &Client,
    spec: &ContextSpec,
    request: &MigrateRequest,
) -> Result<Vec<Error>> {
    let things: Vec<Thing> = there.ask(cx, Call::Pools {}).await?;
    let pools: Vec<Pool> = things
        .iter()
        .filter_map(|thing| Pool::read(thing).ok())
        .collect();
    let mut faults = Vec::new();
    let dir_of = |path: &str| {
        let dir = std::path::Path::new(path).parent();
        dir.map(|dir| dir.display().to_string())
    };
    // What the other server saw when it last looked may be old, and a copy must not go over a shared disk.
    let dirs: Vec<_> = seen
        .live
        .disks
        .iter()
        .filter_map(|disk| dir_of(disk.path()?))
        .collect();
    for pool in &pools {
        if pool.active && pool.path.as_ref().is_some_and(|path| dirs.contains(path)) {
            let pool = pool.name.clone();
            there
                .ask::<serde_json::Value>(cx, Call::PoolRefresh { pool })
                .await?;
        }
    }
    for disk in &seen.live.disks {
        let (Some(path), false) = (disk.path(), disk.is_drive()) else {
            continue;
        };
        let look = Call::VolumeAt {
            path: path.to_owned(),
        };
        let found = match there.ask::<(String, Thing)>(cx, look).await {
            Ok((pool, thing)) => Vol::read(&pool, &thing).ok(),
            Err(error) if error.kind == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let copied = request.copy_storage && !disk.readonly && !disk.shareable;
        let dir = dir_of(path);
        let has_place = pools
            .iter()
            .any(|pool| pool.active && pool.path.is_some() && pool.path == dir);
        match (found, copied) {
            (None, false) => faults.push(
                Error::refused(format!(
                    "{} does not see the disk {} ({})",
                    spec.name,
                    disk.target,
                    shown(path)
                ))
                .remedy(format!(
                    "Copy it along: corral migrate {} --to {} --copy-storage",
                    seen.id, spec.name
                )),
            ),
            (None, true) if !has_place => faults.push(
                Error::refused(format!(
                    "{} has no pool for {}: libvirt makes the copy at the same path",
                    spec.name,
                    shown(path)
                ))
                .remedy(format!(
                    "Make one there: virsh pool-define-as NAME dir --target {}",
                    shown(dir.as_deref().unwrap_or("/"))
                )),
            ),
            (Some(_), true) => faults.push(
                Error::refused(format!(
                    "{} is on {} already: a copy would go over it",
                    shown(path),
                    spec.name
                ))
                .remedy(
                    "Leave --copy-storage out where both see the same; else delete it there first.",
                ),
            ),
            _ => {}
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_as_uris_have_them() {
        assert_eq!(bracketed("::1"), "[::1]");
        assert_eq!(bracketed("10.0.0.1"), "10.0.0.1");
        assert!(is_loopback("127.0.0.1") && is_loopback("::1") && !is_loopback("hv2"));
    }
}
