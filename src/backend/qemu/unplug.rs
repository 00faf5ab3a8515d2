//! A guest is asked to let go of a device. It may take its time: the monitor is given to others
//! between two looks.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ctx::Ctx;
use super::definition::Definition;
use super::disks::live::{ANSWER, GAP, SLICE, items, word};
use super::drive::device_id;
use super::process;
use crate::link::qmp::Qmp;
use crate::model::{Error, ErrorKind, Result, shown};

/// A request to let go is made again, since a guest that boots may have missed the first.
const AGAIN: Duration = Duration::from_secs(5);

/// What came of asking a guest to let go of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unplug {
    /// It is out.
    Out,
    /// The VM ended meanwhile.
    Ended,
    /// The guest did not let go in time; the request stays with it.
    Kept,
}

/// Whether QEMU has a device of this ID.
///
/// # Errors
/// When the monitor does not say.
pub async fn has_device(qmp: &mut Qmp, id: &str) -> Result<bool> {
    let answer = qmp
        .execute("qom-list", json!({"path": "/machine/peripheral"}), ANSWER)
        .await?;
    if !answer.is_array() {
        return Err(Error::backend("QEMU's list of devices is none"));
    }
    Ok(items(&answer).any(|item| word(item, "name") == Some(id)))
}

/// Asks the guest to let go of the device of a disk or network interface, and waits for it.
///
/// # Errors
/// When QEMU or the guest refuses; `Refused` when cancelled, where the request stays with the guest.
pub async fn unplug(
    ctx: &Ctx,
    vm: &Definition,
    name: &str,
    cancel: &CancellationToken,
    limit: Duration,
) -> Result<Unplug> {
    let until = Instant::now() + limit;
    let id = device_id(name);
    let mut asked: Option<Instant> = None;
    loop {
        let Some(mut qmp) = process::connect(ctx, vm).await? else {
            return Ok(Unplug::Ended);
        };
        if !has_device(&mut qmp, &id).await? {
            return Ok(Unplug::Out);
        }
        if cancel.is_cancelled() {
            return Err(Error::refused(format!(
                "cancelled: the guest was asked to let go of {} and may still do so",
                shown(name)
            )));
        }
        if Instant::now() >= until {
            return Ok(Unplug::Kept);
        }
        if asked.is_none_or(|at| at.elapsed() >= AGAIN) {
            let answer = qmp.execute("device_del", json!({"id": id}), ANSWER).await;
            // One that is being let go is not asked twice; one that is gone is seen at the next look.
            let known = |error: &Error| {
                asked.is_some()
                    || error.kind == ErrorKind::NotFound
                    || error.message.contains("in the process")
            };
            if let Err(error) = answer
                && !known(&error)
            {
                return Err(error);
            }
            asked = Some(Instant::now());
        }
        let slice = (Instant::now() + SLICE).min(until);
        while let Some(event) = qmp
            .event(slice.saturating_duration_since(Instant::now()))
            .await?
        {
            let ours = word(&event.data, "device") == Some(&id);
            if ours && event.name == "DEVICE_DELETED" {
                break;
            }
            if ours && event.name == "DEVICE_UNPLUG_GUEST_ERROR" {
                return Err(Error::refused(format!(
                    "the guest keeps {}: it refused to let go",
                    shown(name)
                ))
                .remedy("End what uses it inside the guest first."));
            }
        }
        drop(qmp);
        tokio::time::sleep(GAP).await;
    }
}
