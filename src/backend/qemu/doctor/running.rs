//! Guests that run: on which QEMU, started by which corral, with or without an agent.

use jiff::Timestamp;

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::live::Live;
use super::super::process::{LAUNCH, Launch};
use crate::link::signal;
use crate::model::{Check, State, encode_segment};

/// A guest that boots has no agent yet.
const BOOT: i64 = 300;

/// A running VM as [`super::vms`] saw it.
pub(super) struct Runs<'a> {
    pub(super) vm: &'a Definition,
    pub(super) live: &'a Live,
}

/// What is worth knowing of all that run. `installed` is QEMU's version on disk.
pub(super) fn checks(ctx: &Ctx, running: &[Runs<'_>], installed: Option<&str>) -> Vec<Check> {
    let mut out: Vec<Check> = Vec::new();
    let mut agentless = Vec::new();
    for Runs { vm, live } in running {
        out.extend(replaced(ctx, vm, live, installed));
        let launch = ctx.paths(&vm.uuid).ok().and_then(|p| Launch::read(&p));
        out.extend(launch.as_ref().and_then(|launch| older(ctx, vm, launch)));
        let since = launch.map_or(Timestamp::UNIX_EPOCH, |launch| launch.at);
        let booted = Timestamp::now().duration_since(since).as_secs() > BOOT;
        if live.state == State::Running && live.agent == Some(false) && booted {
            agentless.push(ctx.called(vm));
        }
    }
    if !agentless.is_empty() {
        out.push(
            Check::warn(
                "qemu.agent",
                format!(
                    "no guest agent in {}: no addresses, quiesced snapshots or file copies there",
                    agentless.join(", ")
                ),
            )
            .remedy("Inside: apt install qemu-guest-agent, or what your distribution calls it"),
        );
    }
    out
}

/// A guest keeps the program it was started with until it is started anew, security fixes or not.
fn replaced(ctx: &Ctx, vm: &Definition, live: &Live, installed: Option<&str>) -> Option<Check> {
    let id = ctx.called(vm);
    let has = live.version.as_deref().unwrap_or("");
    let how = match installed {
        // A distribution adds its own words behind the number.
        Some(now) if !has.is_empty() && !now.starts_with(has) => format!("{now} is installed"),
        _ if live.pid.is_some_and(signal::is_replaced) => {
            "its program was replaced since".to_owned()
        }
        _ => return None,
    };
    let message = format!("{id} runs on QEMU {has}, and {how}");
    Some(
        Check::warn(
            &format!("qemu.replaced.{}", encode_segment(&vm.name)),
            message,
        )
        .remedy(format!("When it suits: corral restart --cold {id}")),
    )
}

/// What a newer corral starts guests with, this one does not have.
fn older(ctx: &Ctx, vm: &Definition, launch: &Launch) -> Option<Check> {
    if launch.format >= LAUNCH {
        return None;
    }
    let id = ctx.called(vm);
    Some(
        Check::warn(
            &format!("qemu.older.{}", encode_segment(&vm.name)),
            format!("{id} was started by an older corral: what this one adds is not there yet"),
        )
        .remedy(format!("When it suits: corral restart --cold {id}")),
    )
}
