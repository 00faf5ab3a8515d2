//! What this context needs, and what is left lying about.

mod disks;
mod mending;
mod orphans;
mod rest;
mod running;
pub(super) mod vms;

use std::os::unix::fs::MetadataExt as _;

use super::accel::probe::Leftovers;
use super::ctx::Ctx;
use super::{accel, autostart, firmware, machine, op, recover};
use crate::backend::contract::{ReadCx, TaskCx};
use crate::model::{Action, Bytes, Check, Error, Outcome, Result, Step, shown};

/// Less than this free is a warning: guests are halted when their disk fills.
const LOW: u64 = 5 << 30;

/// All checks.
pub async fn checks(ctx: &Ctx, cx: &ReadCx) -> Vec<Check> {
    let version = machine::ask_version(ctx).await;
    let mut all = Vec::new();
    match &version {
        Ok(version) => {
            all.push(Check::ok("qemu.binary", format!("QEMU {version}")));
            all.push(acceleration(ctx).await);
        }
        Err(error) => all.push(failed("qemu.binary", error.clone())),
    }
    let version = version.ok();
    all.push(tools(ctx, version.as_deref()).await);
    all.push(uefi(ctx));
    all.extend(space(ctx));
    all.extend(vms::checks(ctx, cx, version.as_deref()).await);
    all.extend(unfinished(ctx));
    all.extend(orphans::checks(ctx));
    all.extend(orphans::disks(ctx));
    all.extend(rest::check(ctx));
    all.extend(rest::partials(ctx));
    all.extend(probes(ctx));
    all.extend(autostart::check(ctx));
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

async fn tools(ctx: &Ctx, qemu: Option<&str>) -> Check {
    if ctx.env.which("qemu-img").is_none() {
        return Check::fail("qemu.img", "qemu-img is not installed: no disk can be made")
            .remedy("sudo apt install qemu-utils");
    }
    let part = |version: &str| {
        let mut parts = version.split('.');
        format!(
            "{}.{}",
            parts.next().unwrap_or(""),
            parts.next().unwrap_or("")
        )
    };
    match (machine::tool_version(ctx).await, qemu) {
        // What one writes the other may not read.
        (Ok(img), Some(qemu)) if part(&img) != part(qemu) => Check::warn(
            "qemu.img",
            format!("qemu-img is {img}, and QEMU is {qemu}: they do not belong together"),
        )
        .remedy("Install both from one place: sudo apt install qemu-system-x86 qemu-utils"),
        (Ok(img), _) => Check::ok("qemu.img", format!("qemu-img {img}")),
        (Err(error), _) => failed("qemu.img", error),
    }
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

/// Where disks grow, and where states and logs do, if that is another file system.
fn space(ctx: &Ctx) -> Vec<Check> {
    let (root, state) = (ctx.store.root().to_owned(), ctx.state_dir());
    let mut seen = Vec::new();
    let mut out = Vec::new();
    for (id, what, dir) in [
        ("qemu.space", "disks", root),
        ("qemu.state-space", "states and logs", state),
    ] {
        let Some(dir) = dir.ancestors().find(|dir| dir.exists()) else {
            continue;
        };
        let device = std::fs::metadata(dir).map(|meta| meta.dev()).ok();
        if seen.contains(&device) {
            continue;
        }
        seen.push(device);
        out.extend(space_in(id, what, dir));
    }
    out
}

fn space_in(id: &str, what: &str, dir: &std::path::Path) -> Option<Check> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let full = 100 - (stat.f_bavail.saturating_mul(100) / stat.f_blocks.max(1)).min(100);
    let left = Bytes(free);
    Some(if free < LOW {
        Check::warn(
            id,
            format!(
                "space for {what} {full} % full ({left} left in {}): guests pause when it fills",
                dir.display()
            ),
        )
        .remedy("Free some: corral image list --unused; or see: corral storage list")
    } else {
        Check::ok(id, format!("{left} free for {what} in {}", dir.display()))
    })
}

fn fix() -> Action {
    Action::new("doctor").with("fix", true)
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
        return vms::tidy(ctx, key).await;
    }
    if let Some(key) = check.strip_prefix(disks::LEAKS) {
        cx.step("Give leaked clusters back");
        return disks::mend(ctx, key).await;
    }
    if check == rest::TEMPORARY {
        return rest::tidy(ctx);
    }
    if let Some(key) = check.strip_prefix("qemu.orphan.") {
        return orphans::tidy(ctx, key);
    }
    if check == autostart::CHECK {
        cx.step("Set up the unit that starts marked VMs");
        return autostart::set_up(ctx).await;
    }
    if check == PROBES {
        let left = Leftovers::find(ctx);
        if left.is_empty() {
            return Ok(Outcome::unchanged("nothing is left of a boot test"));
        }
        left.remove(ctx)?;
        return Ok(Outcome::changed("what a boot test left is removed"));
    }
    Err(Error::unsupported(format!(
        "nothing can be repaired for \"{}\"",
        shown(check)
    )))
}

/// The check for what [`probes`] finds.
const PROBES: &str = "qemu.probes";

/// A corral that was killed during its boot test of KVM may leave the test guest.
fn probes(ctx: &Ctx) -> Option<Check> {
    let left = Leftovers::find(ctx);
    if left.is_empty() {
        return None;
    }
    let message = if left.pids.is_empty() {
        let dir = ctx.state_dir();
        format!("{}: files of a boot test that was killed", dir.display())
    } else {
        let pids: Vec<String> = left.pids.iter().map(u32::to_string).collect();
        let list = pids.join(", ");
        format!("test guests of a corral that was killed still run (process {list})")
    };
    let check = Check::warn(PROBES, message)
        .remedy("corral doctor --fix")
        .by(left
            .pids
            .iter()
            .map(|pid| Step::new("End the test guest", format!("kill -9 {pid}"))))
        .by(left
            .files
            .iter()
            .map(|file| mending::removal("Remove", file)));
    Some(check.fix(fix()))
}

fn unfinished(ctx: &Ctx) -> Vec<Check> {
    let left = match op::leftovers(&ctx.store) {
        Ok(left) => left,
        Err(error) => return vec![failed("qemu.unfinished", error)],
    };
    left.into_iter()
        .map(|left| {
            let id = format!(
                "qemu.unfinished.{}",
                crate::model::encode_segment(&left.name)
            );
            let message = left.message();
            match left.op.clone() {
                // Only a person can tell what a record that cannot be read stood for.
                Some(Err(error)) => failed(&id, error),
                None if ctx
                    .store
                    .dir(&left.name)
                    .is_ok_and(|dir| recover::foreign(&dir)) =>
                {
                    let dir = ctx.store.dir(&left.name).unwrap_or_default();
                    Check::warn(
                        &id,
                        format!(
                            "{} holds files, but no definition says what they are",
                            dir.display()
                        ),
                    )
                    .remedy("Put its definition back, or move that folder away.")
                }
                _ => Check::fail(&id, message)
                    .remedy("corral doctor --fix")
                    .by(mending::steps(ctx, &left))
                    .fix(fix()),
            }
        })
        .collect()
}
