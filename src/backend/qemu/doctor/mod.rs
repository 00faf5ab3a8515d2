//! What this context needs, and what is left lying about.

mod orphans;
pub(super) mod vms;

use super::accel::probe::Leftovers;
use super::ctx::Ctx;
use super::{accel, autostart, firmware, machine, op, recover};
use crate::backend::contract::{ReadCx, TaskCx};
use crate::model::{Action, Bytes, Check, Error, Outcome, Result, shown};

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
    all.extend(vms::checks(ctx, cx).await);
    all.extend(unfinished(ctx));
    all.extend(orphans::checks(ctx));
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

async fn program(ctx: &Ctx) -> Check {
    match machine::ask_version(ctx).await {
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
    let check = Check::warn(PROBES, message).remedy("corral doctor --fix");
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
            match left.op {
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
                    .fix(fix()),
            }
        })
        .collect()
}
