//! Events of a VM. Its journal is the one truth: whichever corral holds the event socket writes what
//! QEMU says, each change writes what it did, and every corral reads what the journal gains.

mod during;
mod journal;

pub use during::{During, during};
pub use journal::{Tail, journal, record, say, see_end};

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use super::ctx::Ctx;
use super::definition::Definition;
use super::inventory::load;
use super::{locks, process};
use crate::backend::contract::{Events, ReadCx};
use crate::link::qmp::{Qmp, QmpEvent};
use crate::model::{ErrorKind, Event, EventLevel, InstanceId, Result, shown};

/// The event socket of a running VM, if it runs and no other corral reads it.
///
/// # Errors
/// As [`Qmp::connect`].
pub async fn follow(ctx: &Ctx, vm: &Definition) -> Result<Option<Qmp>> {
    let paths = ctx.paths(&vm.uuid)?;
    if !paths.events.exists() {
        return Ok(None);
    }
    let Some(lock) = locks::events(ctx, &vm.uuid).await? else {
        return Ok(None);
    };
    match Qmp::connect(&paths.events, &ctx.called(vm), process::MONITOR).await {
        Ok(mut qmp) => {
            qmp.hold(lock);
            Ok(Some(qmp))
        }
        Err(error) if error.kind == ErrorKind::Unreachable => Ok(None),
        Err(error) => Err(error),
    }
}

/// A QMP event as one of the fleet; `None` for what happens all the time and tells nothing.
pub fn translate(ctx: &Ctx, vm: &Definition, event: &QmpEvent) -> Option<Event> {
    let text = |key: &str| {
        let value = event.data.get(key).and_then(Value::as_str).unwrap_or("?");
        shown(value).into_owned()
    };
    let guest = event.data.get("guest").and_then(Value::as_bool) == Some(true);
    let by = if guest { "the guest" } else { "the host" };
    use EventLevel::{Error, Info, Warn};
    let (level, message) = match event.name.as_str() {
        "RTC_CHANGE"
        | "BALLOON_CHANGE"
        | "NIC_RX_FILTER_CHANGED"
        | "VSERPORT_CHANGE"
        | "VNC_CONNECTED"
        | "VNC_INITIALIZED"
        | "VNC_DISCONNECTED"
        | "JOB_STATUS_CHANGE" => {
            return None;
        }
        "STOP" => (Info, "CPUs halted".to_owned()),
        "RESUME" => (Info, "CPUs go on".to_owned()),
        "POWERDOWN" => (Info, "asked to shut down".to_owned()),
        "SHUTDOWN" => (Info, format!("powered off by {by} ({})", text("reason"))),
        "RESET" => (Info, format!("reset by {by} ({})", text("reason"))),
        "BLOCK_IO_ERROR" => (
            Error,
            format!(
                "I/O error on {} ({}): {}",
                text("node-name"),
                text("operation"),
                text("reason")
            ),
        ),
        "GUEST_PANICKED" => (Error, "the guest's kernel panicked".to_owned()),
        "GUEST_CRASHLOADED" => (Error, "the guest's kernel crashed and dumps".to_owned()),
        "WATCHDOG" => (Warn, format!("watchdog fired: {}", text("action"))),
        "DEVICE_DELETED" => (Info, format!("device {} is gone", text("device"))),
        other => (Info, shown(other).into_owned()),
    };
    Some(Event {
        at: event.at.unwrap_or_else(Timestamp::now),
        context: ctx.spec.name.clone(),
        instance: Some(ctx.id(&vm.name)),
        level,
        kind: shown(&event.name).into_owned(),
        message,
    })
}

/// The events family.
#[derive(Debug)]
pub struct Recorded(pub Arc<Ctx>);

#[async_trait]
impl Events for Recorded {
    async fn recorded(&self, _cx: &ReadCx, id: Option<&InstanceId>) -> Result<Vec<Event>> {
        let ctx = &self.0;
        let vms = match id {
            Some(id) => vec![load(ctx, id)?],
            None => ctx
                .store
                .list()?
                .into_iter()
                .filter_map(|entry| entry.definition.ok())
                .collect(),
        };
        let mut all = Vec::new();
        for vm in vms {
            all.extend(journal(&ctx.paths(&vm.uuid)?));
        }
        all.sort_by_key(|event: &Event| event.at);
        Ok(all)
    }
}
