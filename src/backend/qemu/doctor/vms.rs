//! Each VM: its definition, its process, and what it shares with others.

use std::collections::BTreeMap;
use std::path::PathBuf;

use futures::StreamExt as _;
use tokio::time::Instant;

use super::super::ctx::Ctx;
use super::super::definition::{Definition, FORMAT, Protocol};
use super::super::live::{self, Live};
use super::super::ports::forward_is_free;
use super::super::publish::place;
use super::super::snapshots::record::Records;
use super::super::store::{self, DEFINITION, real};
use super::super::{image, locks, process};
use super::running::{self, Runs};
use super::{disks, failed, fix, mending};
use crate::backend::contract::ReadCx;
use crate::link::ports::is_here;
use crate::model::{Check, Error, Outcome, Result, State, encode_segment};

/// Asked at the same time: one that hangs holds up few others.
const TOGETHER: usize = 16;

/// What was seen of one VM.
struct Looked {
    vm: Definition,
    live: Option<Live>,
    checks: Vec<Check>,
}

/// One or more checks for each VM that is not as it should be. `installed` is QEMU's version.
pub(super) async fn checks(ctx: &Ctx, cx: &ReadCx, installed: Option<&str>) -> Vec<Check> {
    let entries = match ctx.store.list() {
        Ok(entries) => entries,
        Err(error) => return vec![failed("qemu.definitions", error)],
    };
    let mut out = Vec::new();
    let mut good = Vec::new();
    for entry in entries {
        match entry.definition {
            Ok(vm) => good.push(vm),
            Err(error) => {
                let key = encode_segment(&entry.name);
                out.push(failed(&format!("qemu.definition.{key}"), error));
            }
        }
    }
    // What one VM takes longer is that VM's fault, and the others are told all the same.
    let left = cx.left();
    let looks = Instant::now() + left.mul_f64(0.6);
    let looked: Vec<Looked> = futures::stream::iter(good)
        .map(|vm| one(ctx, vm, looks))
        .buffered(TOGETHER)
        .collect()
        .await;
    let mut definitions = Vec::new();
    let (mut running, mut idle) = (Vec::new(), Vec::new());
    for Looked { vm, live, checks } in &looked {
        out.extend(checks.iter().cloned());
        definitions.push(vm);
        match live {
            Some(live) if live.is_active() => running.push(Runs { vm, live }),
            Some(live) if disks::is_idle(ctx, vm, live) => idle.push(vm),
            _ => {}
        }
    }
    out.extend(running::checks(ctx, &running, installed));
    out.extend(ports(ctx, &definitions));
    out.extend(taken_ports(ctx, &idle, &running));
    out.extend(images(ctx, &definitions));
    out.extend(disks::checks(ctx, &idle, looks + left.mul_f64(0.2)).await);
    out
}

async fn one(ctx: &Ctx, vm: Definition, until: Instant) -> Looked {
    let key = encode_segment(&vm.name);
    let mut checks = Vec::new();
    let look = async {
        let limit = until.saturating_duration_since(Instant::now());
        let live = live::look(ctx, &vm, process::MONITOR.min(limit)).await;
        (files_of(ctx, &vm, &key).await, live)
    };
    let looked = tokio::time::timeout_at(until, look).await;
    checks.extend(records(ctx, &vm, &key));
    checks.extend(odd_keys(ctx, &vm, &key));
    checks.extend(vm.readonly_reason().map(|why| {
        Check::warn(&format!("qemu.newer.{key}"), why).remedy("Use the newer corral to change it.")
    }));
    let live = match looked {
        Ok((files, live)) => {
            checks.extend(files);
            checks.extend(process_of(ctx, &live, &vm, &key));
            Some(live)
        }
        Err(_) => {
            let message = format!("{}: it could not be looked at in time", ctx.called(&vm));
            let check = Check::fail(&format!("qemu.slow.{key}"), message);
            checks.push(check.remedy("Where its files are may hang: df; ls -l"));
            None
        }
    };
    Looked { vm, live, checks }
}

fn records(ctx: &Ctx, vm: &Definition, key: &str) -> Option<Check> {
    let dir = ctx.store.dir(&vm.name).ok()?;
    let id = format!("qemu.snapshots.{key}");
    match Records::load(&dir) {
        Ok(records) => records.readonly_reason().map(|why| {
            let message = format!("{}: {why}", ctx.called(vm));
            Check::warn(&id, message).remedy("Use the newer corral to change them.")
        }),
        Err(error) => Some(failed(&id, error)),
    }
}

/// A key that was mistyped does nothing, and nothing else says so.
fn odd_keys(ctx: &Ctx, vm: &Definition, key: &str) -> Option<Check> {
    if vm.format != FORMAT {
        return None;
    }
    let odd = ctx.store.unknown_keys(&vm.name).unwrap_or_default();
    let file = ctx.store.dir(&vm.name).ok()?.join(DEFINITION);
    (!odd.is_empty()).then(|| {
        Check::warn(
            &format!("qemu.keys.{key}"),
            format!("{}: no such key: {}", file.display(), odd.join(", ")),
        )
        .remedy("It has no effect: correct its spelling, or remove it.")
    })
}

/// A file that is gone or an image that stands on nothing: a guest that runs has it open still,
/// and does not come back once it is off.
async fn files_of(ctx: &Ctx, vm: &Definition, key: &str) -> Option<Check> {
    let id = ctx.id(&vm.name);
    let tell = |error: Error| {
        let mut told = error;
        told.message = format!("{id} cannot start: {}", told.message);
        Some(failed(&format!("qemu.files.{key}"), told))
    };
    if let Some(error) = store::lost(vm) {
        return tell(error);
    }
    for disk in vm.disks.iter().filter(|disk| disk.backing.is_some()) {
        match image::chain(&ctx.env, &disk.path, true).await {
            // Whether qemu-img is there is another check.
            Err(error) if ctx.env.which("qemu-img").is_some() => return tell(error),
            _ => {}
        }
    }
    None
}

fn process_of(ctx: &Ctx, live: &Live, vm: &Definition, key: &str) -> Option<Check> {
    let id = ctx.id(&vm.name);
    if stale(ctx, vm, live) {
        return Some(
            Check::warn(
                &format!("qemu.stale.{key}"),
                format!("{id}: sockets or pid of a process that is gone"),
            )
            .remedy("corral doctor --fix")
            .by(dead(ctx, vm)
                .iter()
                .map(|path| mending::removal("Remove", path)))
            .fix(fix()),
        );
    }
    (live.state == State::Unknown).then(|| {
        let why = live.reason.clone().unwrap_or_default();
        let why = why.strip_prefix(&format!("{id}: ")).unwrap_or(&why);
        let check = Check::fail(&format!("qemu.silent.{key}"), format!("{id}: {why}"));
        if live.is_active() {
            return check.remedy(format!("corral stop --force {id}"));
        }
        let paths = ctx.paths(&vm.uuid).map(|paths| paths.qmp);
        check.remedy(format!(
            "See who listens there: fuser -v {}",
            paths.unwrap_or_default().display()
        ))
    })
}

/// Leftovers of a process that did not end by itself.
pub(in super::super) fn stale(ctx: &Ctx, vm: &Definition, live: &Live) -> bool {
    matches!(
        live.state,
        State::Stopped | State::Crashed | State::Hibernated
    ) && !live.is_active()
        && ctx
            .paths(&vm.uuid)
            .is_ok_and(|paths| paths.pid.exists() || paths.qmp.exists())
}

/// The files of a process that is gone.
fn dead(ctx: &Ctx, vm: &Definition) -> Vec<std::path::PathBuf> {
    let Ok(paths) = ctx.paths(&vm.uuid) else {
        return Vec::new();
    };
    let all = paths.sockets().into_iter().chain([paths.pid.as_path()]);
    all.filter(|path| path.symlink_metadata().is_ok())
        .map(std::path::Path::to_path_buf)
        .collect()
}

/// Removes what [`stale`] saw.
pub(in super::super) async fn tidy(ctx: &Ctx, key: &str) -> Result<Outcome> {
    let vm = ctx
        .store
        .list()?
        .into_iter()
        .filter_map(|entry| entry.definition.ok())
        .find(|vm| encode_segment(&vm.name) == key)
        .ok_or_else(|| Error::not_found("that VM is gone"))?;
    let _lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
    let live = live::look(ctx, &vm, process::MONITOR).await;
    if !stale(ctx, &vm, &live) {
        return Ok(Outcome::unchanged("nothing is left of it"));
    }
    for path in dead(ctx, &vm) {
        let _ = std::fs::remove_file(path);
    }
    Ok(Outcome::changed(format!("{} is tidy", ctx.called(&vm))))
}

/// Ports that another program has: the VM does not start as long as it does.
fn taken_ports(ctx: &Ctx, off: &[&Definition], on: &[Runs<'_>]) -> Vec<Check> {
    let mut out = Vec::new();
    // Two VMs with one port are told by themselves.
    let ours = on.iter().flat_map(|runs| &runs.vm.nics);
    let ours: Vec<(Protocol, u16)> = ours
        .flat_map(|nic| &nic.forwards)
        .map(|f| (f.protocol, f.port))
        .collect();
    for vm in off {
        let forwards = vm.nics.iter().flat_map(|nic| &nic.forwards);
        // Where corral picked it, another does as well.
        for f in forwards.filter(|f| f.port > 0 && !f.picked) {
            if forward_is_free(f) || ours.contains(&(f.protocol, f.port)) {
                continue;
            }
            let id = ctx.id(&vm.name);
            let place = place(f);
            let key = format!("qemu.port-taken.{}", port_key(f.protocol, f.port));
            if !is_here(&f.host) {
                let what = format!(
                    "{id} publishes {place}, which is no address of this machine: it cannot start"
                );
                let remedy = "Change its definition; this shows the addresses: ip -br address";
                out.push(Check::warn(&key, what).remedy(remedy));
                continue;
            }
            out.push(
                Check::warn(
                    &key,
                    format!("{id} publishes {place}, which another program uses: it cannot start"),
                )
                .remedy(format!(
                    "See which: ss -l{}np 'sport = :{}'",
                    match f.protocol {
                        Protocol::Tcp => "t",
                        Protocol::Udp => "u",
                    },
                    f.port
                )),
            );
        }
    }
    out
}

/// TCP and UDP have ports of their own.
fn port_key(protocol: Protocol, port: u16) -> String {
    match protocol {
        Protocol::Tcp => port.to_string(),
        Protocol::Udp => format!("{port}-udp"),
    }
}

fn ports(ctx: &Ctx, vms: &[&Definition]) -> Vec<Check> {
    let mut out = Vec::new();
    let mut taken = BTreeMap::<(Protocol, u16), &str>::new();
    for vm in vms {
        let forwards = vm.nics.iter().flat_map(|nic| &nic.forwards);
        for f in forwards.filter(|f| f.port > 0) {
            let Some(other) = taken.insert((f.protocol, f.port), &vm.name) else {
                continue;
            };
            out.push(
                Check::warn(
                    &format!("qemu.port.{}", port_key(f.protocol, f.port)),
                    format!(
                        "{} and {} both publish port {}{}: only one can run",
                        ctx.id(other),
                        ctx.id(&vm.name),
                        f.port,
                        f.protocol.suffix(),
                    ),
                )
                .remedy("Change one of the definitions."),
            );
        }
    }
    out
}

/// Images that two definitions name and at least one writes.
fn images(ctx: &Ctx, vms: &[&Definition]) -> Vec<Check> {
    let mut writers = BTreeMap::<PathBuf, &str>::new();
    let mut out = Vec::new();
    let mut told = |file: &PathBuf, message: String| {
        out.push(
            Check::fail(
                &format!("qemu.disk.{}", encode_segment(&file.to_string_lossy())),
                message,
            )
            .remedy("Give one of them a disk of its own: qemu-img convert -O qcow2 FILE COPY"),
        );
    };
    for vm in vms {
        let disks = vm.disks.iter().filter(|disk| !disk.readonly);
        let written = disks.map(|disk| &disk.path).chain(&vm.firmware.vars);
        for file in written.map(|path| real(path)) {
            if let Some(other) = writers.insert(file.clone(), &vm.name) {
                told(
                    &file,
                    format!(
                        "{} is a disk of {} and of {}: only one can run, and each writes over the other's state",
                        file.display(),
                        ctx.id(other),
                        ctx.id(&vm.name)
                    ),
                );
            }
        }
    }
    for vm in vms {
        for base in vm.disks.iter().filter_map(|disk| disk.backing.as_ref()) {
            let Some(writer) = writers.get(&real(base)) else {
                continue;
            };
            let template = vms.iter().any(|vm| vm.name == **writer && vm.template);
            // A template is not started; any other one is a surprise when it is not.
            if !template {
                let writer = ctx.id(writer);
                let check = Check::warn(
                    &format!("qemu.base.{}", encode_segment(&vm.name)),
                    format!(
                        "{} is on top of the disks of {writer}, which is not started any more",
                        ctx.id(&vm.name)
                    ),
                );
                out.push(check.remedy(format!("Say so: corral template {writer} --on")));
            }
        }
    }
    out
}
