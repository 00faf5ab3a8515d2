//! qcow2 images of VMs that are off, looked through by `qemu-img check` as far as the time goes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::live::{self, Live};
use super::super::{image, locks, op, process};
use super::{failed, fix};
use crate::link::child::{Cmd, run};
use crate::model::{
    Check, Error, ErrorKind, Outcome, Result, State, Step, counted, encode_segment, shown,
};

/// The checks' names begin so.
pub(super) const LEAKS: &str = "qemu.leaks.";
/// A mend reads all of the image's tables, and writes some.
const MEND: Duration = Duration::from_secs(600);

/// What `qemu-img check` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Good,
    /// So many clusters are taken and used by nobody.
    Leaks(u64),
    /// So many entries contradict each other.
    Corrupt(u64),
    /// Nobody could tell.
    Unclear,
}

/// Checks of the images of `vms`, all off, until `until`.
pub(super) async fn checks(ctx: &Ctx, vms: &[&Definition], until: Instant) -> Vec<Check> {
    let Ok(tool) = image::tool(&ctx.env) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    let (mut good, mut left) = (0, 0);
    for (vm, path) in vms.iter().flat_map(|vm| images(vm).map(move |p| (vm, p))) {
        let time = until.saturating_duration_since(Instant::now());
        if time.is_zero() {
            left += 1;
            continue;
        }
        let id = ctx.id(&vm.name);
        let file = shown(&path.display().to_string()).into_owned();
        match look(&tool, &path, time).await {
            Ok(Found::Good) => good += 1,
            Ok(Found::Leaks(n)) => out.push(
                Check::warn(
                    &format!("{LEAKS}{}", key(vm, &path)),
                    format!("{id}: {file}: {n} clusters are taken and hold nothing: no harm, but space"),
                )
                .remedy("corral doctor --fix (qemu-img check -r leaks)")
                .by([Step::new(
                    "Give the leaked clusters back",
                    format!("qemu-img check -r leaks {}", image::quoted(&path)),
                )])
                .fix(fix()),
            ),
            Ok(Found::Corrupt(n)) => out.push(
                Check::fail(
                    &format!("qemu.corrupt.{}", key(vm, &path)),
                    format!("{id}: {file}: {n} errors in its tables: data of it may be lost"),
                )
                .remedy(format!(
                    "Copy the file first, then: qemu-img check -r all '{file}'; or go back to a copy"
                )),
            ),
            // Another program has it, or it is no image any more: other checks tell.
            Ok(Found::Unclear) => {}
            Err(error) if error.kind == ErrorKind::TimedOut => left += 1,
            Err(error) => out.push(failed("qemu.check", error)),
        }
    }
    if left > 0 {
        let message = format!(
            "{} not looked through for want of time: qemu-img check FILE",
            counted(left, "disk image")
        );
        out.push(Check::ok("qemu.check", message));
    } else if good > 0 {
        let message = format!(
            "disks of VMs that are off are sound ({})",
            counted(good, "image")
        );
        out.push(Check::ok("qemu.check", message));
    }
    out
}

/// What a repair finds again.
fn key(vm: &Definition, path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{}.{}", encode_segment(&vm.name), encode_segment(&file))
}

/// The qcow2 files that this VM writes.
fn images(vm: &Definition) -> impl Iterator<Item = PathBuf> + '_ {
    vm.snapshot_nodes()
        .into_iter()
        .map(|(_, path)| path)
        .filter(|path| path.is_file())
}

/// Whether nobody uses its disks: it is off, and no change of it is under way.
pub(super) fn is_idle(ctx: &Ctx, vm: &Definition, live: &Live) -> bool {
    let dir = ctx.store.dir(&vm.name).unwrap_or_default();
    let off = matches!(
        live.state,
        State::Stopped | State::Crashed | State::Hibernated
    );
    off && !live.is_active() && !dir.join(op::FILE).exists()
}

async fn look(tool: &Path, image: &Path, limit: Duration) -> Result<Found> {
    let cmd = Cmd::new(tool)
        .args(["check", "--output=json", "-f", "qcow2", "--"])
        .arg(image);
    let output = run(&cmd, limit).await?;
    Ok(found(&output.stdout))
}

/// What its answer says, whatever its exit code: several faults share one.
fn found(json: &[u8]) -> Found {
    let Ok(value) = serde_json::from_slice::<Value>(json) else {
        return Found::Unclear;
    };
    let number = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
    if number("corruptions") > 0 {
        return Found::Corrupt(number("corruptions"));
    }
    if number("leaks") > 0 {
        return Found::Leaks(number("leaks"));
    }
    match number("check-errors") {
        0 if value.get("filename").is_some() => Found::Good,
        _ => Found::Unclear,
    }
}

/// Gives leaked clusters back, of a VM that is off.
pub(super) async fn mend(ctx: &Ctx, wanted: &str) -> Result<Outcome> {
    let all = ctx.store.list()?.into_iter();
    let all: Vec<Definition> = all.filter_map(|entry| entry.definition.ok()).collect();
    let found = all.iter().find_map(|vm| {
        let path = images(vm).find(|path| key(vm, path) == wanted)?;
        Some((vm, path))
    });
    let (vm, path) = found.ok_or_else(|| Error::not_found("that image is gone"))?;
    if let Some(why) = vm.readonly_reason() {
        return Err(Error::refused(why).remedy("Use the newer corral."));
    }
    let _lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
    let live = live::look(ctx, vm, process::MONITOR).await;
    if !is_idle(ctx, vm, &live) {
        return Err(Error::conflict(format!(
            "{} is not off any more: its disks are left alone",
            ctx.called(vm)
        )));
    }
    let tool = image::tool(&ctx.env)?;
    let output = image::give_back(&ctx.env, &path).await?;
    let name = shown(&path.display().to_string()).into_owned();
    match look(&tool, &path, MEND).await? {
        Found::Good => Ok(Outcome::changed(format!("{name} holds no leaks any more"))),
        _ => Err(Error::backend(format!(
            "{name}: leaks could not be mended: {}",
            output.complaint()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaks_and_corruptions_are_told_apart() {
        let said = |rest: &str| found(format!("{{\"filename\": \"x\"{rest}}}").as_bytes());
        assert_eq!(said(", \"check-errors\": 0"), Found::Good);
        assert_eq!(said(", \"leaks\": 3, \"check-errors\": 0"), Found::Leaks(3));
        assert_eq!(
            said(", \"leaks\": 3, \"corruptions\": 1"),
            Found::Corrupt(1)
        );
        assert_eq!(said(", \"check-errors\": 1"), Found::Unclear);
        assert_eq!(
            said(", \"leaks\": null, \"corruptions\": \"x\""),
            Found::Good
        );
        assert_eq!(found(b""), Found::Unclear);
        assert_eq!(found(b"[]"), Found::Unclear);
    }
}
