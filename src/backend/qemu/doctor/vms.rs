//! Each VM: its definition, its process, and what it shares with others.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::super::ctx::Ctx;
use super::super::definition::{Definition, FORMAT};
use super::super::live::{self, Live};
use super::super::snapshots::record::Records;
use super::super::store::{self, DEFINITION, real};
use super::super::{image, locks, process};
use super::{failed, fix};
use crate::backend::contract::ReadCx;
use crate::model::{Check, Error, Outcome, Result, State, encode_segment};

/// One or more checks for each VM that is not as it should be.
pub(super) async fn checks(ctx: &Ctx, cx: &ReadCx) -> Vec<Check> {
    let entries = match ctx.store.list() {
        Ok(entries) => entries,
        Err(error) => return vec![failed("qemu.definitions", error)],
    };
    let mut out = Vec::new();
    let mut good = Vec::new();
    for entry in entries {
        let key = encode_segment(&entry.name);
        match entry.definition {
            Ok(vm) => {
                out.extend(records(ctx, &vm, &key));
                out.extend(odd_keys(ctx, &vm, &key));
                out.extend(files_of(ctx, &vm, &key).await);
                out.extend(process_of(ctx, cx, &vm, &key).await);
                good.push(vm);
            }
            Err(error) => out.push(failed(&format!("qemu.definition.{key}"), error)),
        }
    }
    out.extend(ports(ctx, &good));
    out.extend(images(ctx, &good));
    out
}

fn records(ctx: &Ctx, vm: &Definition, key: &str) -> Option<Check> {
    let dir = ctx.store.dir(&vm.name).ok()?;
    let error = Records::load(&dir).err()?;
    Some(failed(&format!("qemu.snapshots.{key}"), error))
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

async fn process_of(ctx: &Ctx, cx: &ReadCx, vm: &Definition, key: &str) -> Option<Check> {
    let id = ctx.id(&vm.name);
    let live = live::look(ctx, vm, process::MONITOR.min(cx.left())).await;
    if stale(ctx, vm, &live) {
        return Some(
            Check::warn(
                &format!("qemu.stale.{key}"),
                format!("{id}: sockets or pid of a process that is gone"),
            )
            .remedy("corral doctor --fix")
            .fix(fix()),
        );
    }
    (live.state == State::Unknown).then(|| {
        let why = live.reason.clone().unwrap_or_default();
        let why = why.strip_prefix(&format!("{id}: ")).unwrap_or(&why);
        let check = Check::warn(&format!("qemu.silent.{key}"), format!("{id}: {why}"));
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
    let paths = ctx.paths(&vm.uuid)?;
    for path in paths.sockets().into_iter().chain([paths.pid.as_path()]) {
        let _ = std::fs::remove_file(path);
    }
    Ok(Outcome::changed(format!("{} is tidy", ctx.called(&vm))))
}

fn ports(ctx: &Ctx, vms: &[Definition]) -> Vec<Check> {
    let mut out = Vec::new();
    let mut taken = BTreeMap::<u16, &str>::new();
    for vm in vms {
        let forwards = vm.nics.iter().flat_map(|nic| &nic.forwards);
        for port in forwards.map(|f| f.port).filter(|port| *port > 0) {
            let Some(other) = taken.insert(port, &vm.name) else {
                continue;
            };
            out.push(
                Check::warn(
                    &format!("qemu.port.{port}"),
                    format!(
                        "{} and {} both publish port {port}: only one can run",
                        ctx.id(other),
                        ctx.id(&vm.name),
                    ),
                )
                .remedy("Change one of the definitions."),
            );
        }
    }
    out
}

/// Images that two definitions name and at least one writes.
fn images(ctx: &Ctx, vms: &[Definition]) -> Vec<Check> {
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
