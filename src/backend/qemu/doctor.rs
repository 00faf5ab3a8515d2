//! What this context needs, and what is left lying about.

use super::ctx::Ctx;
use super::definition::Definition;
use super::live::{self, Live};
use super::{accel, firmware, locks, machine, op, process, recover};
use crate::backend::contract::{ReadCx, TaskCx};
use crate::model::{Action, Bytes, Check, Error, Outcome, Result, State, shown};

/// Less than this free is a warning: guests are halted when their disk fills.
const LOW: u64 = 5 << 30;

/// All checks.
pub async fn checks(ctx: &Ctx, cx: &ReadCx) -> Vec<Check> {
    let mut all = vec![program(ctx).await];
    if all
        .iter()
        .all(|check| check.status == crate::model::CheckStatus::Ok)
    {
        all.push(acceleration(ctx).await);
    }
    all.push(tools(ctx));
    all.push(uefi(ctx));
    all.extend(space(ctx));
    all.extend(vms(ctx, cx).await);
    all.extend(unfinished(ctx));
    for check in &mut all {
        check.context = Some(ctx.spec.name.clone());
    }
    all
}

fn failed(id: &str, error: Error) -> Check {
    let check = Check::fail(id, error.message);
    match error.remedy {
        Some(remedy) => check.remedy(remedy),
        None => check,
    }
}

async fn program(ctx: &Ctx) -> Check {
    match machine::version(ctx).await {
        Ok(version) => Check::ok("qemu.binary", format!("QEMU {version}")),
        Err(error) => failed("qemu.binary", error),
    }
}

async fn acceleration(ctx: &Ctx) -> Check {
    match accel::prove(ctx, "host").await {
        Ok(accel) if accel.kvm => Check::ok("qemu.accel", accel.why),
        Ok(accel) => Check::warn(
            "qemu.accel",
            format!("guests run slowly (TCG): {}", accel.why),
        ),
        Err(error) => failed("qemu.accel", error),
    }
}

fn tools(ctx: &Ctx) -> Check {
    if ctx.env.which("qemu-img").is_some() {
        return Check::ok("qemu.img", "qemu-img found");
    }
    Check::fail("qemu.img", "qemu-img is not installed: no disk can be made")
        .remedy("sudo apt install qemu-utils")
}

fn uefi(ctx: &Ctx) -> Check {
    match firmware::find(&firmware::descriptor_dirs(&ctx.env), false) {
        Ok(found) => Check::ok(
            "qemu.uefi",
            format!("UEFI firmware {}", found.code.display()),
        ),
        Err(error) => {
            let remedy = error
                .remedy
                .unwrap_or_else(|| "sudo apt install ovmf".to_owned());
            Check::warn("qemu.uefi", error.message).remedy(remedy)
        }
    }
}

fn space(ctx: &Ctx) -> Option<Check> {
    let mut dir = ctx.store.root();
    while !dir.exists() {
        dir = dir.parent()?;
    }
    let stat = rustix::fs::statvfs(dir).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let text = format!("{} free for disks in {}", Bytes(free), dir.display());
    Some(if free < LOW {
        Check::warn(
            "qemu.space",
            format!("only {text}: guests pause when it fills"),
        )
        .remedy("Free some, or move disks elsewhere.")
    } else {
        Check::ok("qemu.space", text)
    })
}

fn fix() -> Action {
    Action::new("doctor").with("fix", true)
}

async fn vms(ctx: &Ctx, cx: &ReadCx) -> Vec<Check> {
    let entries = match ctx.store.list() {
        Ok(entries) => entries,
        Err(error) => return vec![failed("qemu.definitions", error)],
    };
    let mut out = Vec::new();
    let mut ports = std::collections::BTreeMap::<u16, String>::new();
    for entry in entries {
        let key = crate::model::encode_segment(&entry.name);
        let vm = match entry.definition {
            Ok(vm) => vm,
            Err(error) => {
                out.push(failed(&format!("qemu.definition.{key}"), error));
                continue;
            }
        };
        let id = ctx.id(&vm.name);
        let live = live::look(ctx, &vm, process::MONITOR.min(cx.left())).await;
        if stale(ctx, &vm, &live) {
            out.push(
                Check::warn(
                    &format!("qemu.stale.{key}"),
                    format!("{id}: sockets or pid of a process that is gone"),
                )
                .remedy("corral doctor --fix")
                .fix(fix()),
            );
        }
        if live.state == State::Unknown {
            let why = live.reason.clone().unwrap_or_default();
            out.push(
                Check::warn(&format!("qemu.silent.{key}"), format!("{id}: {why}"))
                    .remedy(format!("corral stop --force {id}")),
            );
        }
        for forward in vm.nics.iter().flat_map(|nic| &nic.forwards) {
            if let Some(other) = ports.insert(forward.port, vm.name.clone()) {
                out.push(
                    Check::warn(
                        &format!("qemu.port.{}", forward.port),
                        format!(
                            "{id} and {} both publish port {}: only one can run",
                            ctx.id(&other),
                            forward.port
                        ),
                    )
                    .remedy("Change one of the definitions."),
                );
            }
        }
    }
    out
}

/// Leftovers of a process that did not end by itself.
fn stale(ctx: &Ctx, vm: &Definition, live: &Live) -> bool {
    !live.is_active()
        && ctx
            .paths(&vm.uuid)
            .is_ok_and(|paths| paths.pid.exists() || paths.qmp.exists())
}

fn unfinished(ctx: &Ctx) -> Vec<Check> {
    match op::leftovers(&ctx.store) {
        Ok(left) => left
            .iter()
            .map(|left| {
                let key = crate::model::encode_segment(&left.name);
                Check::fail(&format!("qemu.unfinished.{key}"), left.message())
                    .remedy("corral doctor --fix")
                    .fix(fix())
            })
            .collect(),
        Err(error) => vec![failed("qemu.unfinished", error)],
    }
}

/// Repairs what [`checks`] offered.
///
/// # Errors
/// `NotFound` when there is no such thing any more.
pub async fn repair(ctx: &Ctx, cx: &TaskCx, check: &str) -> Result<Outcome> {
    if let Some(key) = check.strip_prefix("qemu.unfinished.") {
        let left = op::leftovers(&ctx.store)?
            .into_iter()
            .find(|left| crate::model::encode_segment(&left.name) == key);
        return match left {
            Some(left) => {
                cx.step(format!("Mend {}", shown(&left.name)));
                recover::recover(ctx, &left).await
            }
            None => Ok(Outcome::unchanged("nothing is left half-done")),
        };
    }
    if let Some(key) = check.strip_prefix("qemu.stale.") {
        let vm = ctx
            .store
            .list()?
            .into_iter()
            .filter_map(|entry| entry.definition.ok())
            .find(|vm| crate::model::encode_segment(&vm.name) == key)
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
        return Ok(Outcome::changed(format!("{} is tidy", ctx.called(&vm))));
    }
    Err(Error::unsupported(format!(
        "nothing can be repaired for \"{}\"",
        shown(check)
    )))
}
