//! A network interface into a running QEMU and out of it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::argv::nic_device;
use super::super::definition::NicDef;
use super::super::process;
use super::super::slots::Slot;
use crate::link::qmp::Qmp;
use crate::model::{Error, ErrorKind, Result, shown};

/// A guest that has lost the request, while it boots, is asked again this often.
const AGAIN: Duration = Duration::from_secs(5);
/// How long one look at the events takes.
const LOOK: Duration = Duration::from_millis(500);

/// The ID of a NIC's device.
pub fn device(nic: &str) -> String {
    format!("{nic}-dev")
}

/// What `netdev_add` gets.
pub fn netdev_args(nic: &NicDef) -> Value {
    match nic.network.split_once(':') {
        Some(("bridge", bridge)) => json!({"type": "bridge", "id": nic.name, "br": bridge}),
        _ => json!({"type": "user", "id": nic.name}),
    }
}

/// What `device_add` gets.
pub fn device_args(nic: &NicDef) -> Value {
    let bus = nic.slot.map_or_else(String::new, |slot| slot.to_string());
    json!({
        "driver": nic_device(&nic.model).unwrap_or_default(), "id": device(&nic.name),
        "netdev": nic.name, "mac": nic.mac, "bus": bus, "addr": "0x0",
    })
}

/// Whether QEMU has a device of this ID.
///
/// # Errors
/// Those of the monitor.
pub async fn has_device(qmp: &mut Qmp, id: &str) -> Result<bool> {
    let all = qmp
        .execute(
            "qom-list",
            json!({"path": "/machine/peripheral"}),
            process::MONITOR,
        )
        .await?;
    let all = all
        .as_array()
        .ok_or_else(|| Error::backend("QEMU's list of devices is none"))?;
    Ok(all
        .iter()
        .any(|item| item.get("name").and_then(Value::as_str) == Some(id)))
}

/// Plugs one in, and looks whether it is there. A failure leaves nothing of it.
///
/// # Errors
/// With QEMU's words.
pub async fn add(qmp: &mut Qmp, nic: &NicDef) -> Result<()> {
    if !matches!(nic.slot, Some(Slot::Spare(_))) {
        return Err(Error::backend(format!(
            "internal: {} has no root port",
            shown(&nic.name)
        )));
    }
    qmp.execute("netdev_add", netdev_args(nic), process::MONITOR)
        .await?;
    let plugged = qmp
        .execute("device_add", device_args(nic), process::MONITOR)
        .await;
    let plugged = match plugged {
        Ok(_) if has_device(qmp, &device(&nic.name)).await? => Ok(()),
        Ok(_) => Err(Error::backend(format!(
            "QEMU took {} and does not have it",
            shown(&nic.name)
        ))),
        Err(error) => Err(error),
    };
    if plugged.is_err() {
        let _ = qmp
            .execute("netdev_del", json!({"id": nic.name}), process::MONITOR)
            .await;
    }
    plugged
}

/// Takes one out: asks the guest, waits until it has let go, and only then ends its network. QEMU
/// would end that under a guest that still uses it.
///
/// # Errors
/// `TimedOut` when the guest keeps it, `Refused` when `cancelled` says so: then it is as it was.
pub async fn remove(
    qmp: &mut Qmp,
    nic: &str,
    patience: Duration,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<()> {
    let id = device(nic);
    let until = Instant::now() + patience;
    let mut asked: Option<Instant> = None;
    while has_device(qmp, &id).await? {
        if asked.is_none_or(|at| at.elapsed() >= AGAIN) {
            match qmp
                .execute("device_del", json!({"id": id}), process::MONITOR)
                .await
            {
                Ok(_) => {}
                Err(error) if error.kind == ErrorKind::NotFound => break,
                // One that is being let go is not asked twice.
                Err(error) if asked.is_some() || error.message.contains("in the process") => {}
                Err(error) => return Err(error),
            }
            asked = Some(Instant::now());
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::timed_out(format!(
                "the guest has not let go of {}; it keeps it for now",
                shown(nic)
            ))
            .remedy("Ask again once the guest has booted, or stop it first"));
        }
        if cancelled() {
            return Err(Error::refused(format!(
                "cancelled; the guest was asked to let go of {} and may still do so",
                shown(nic)
            ))
            .remedy("See what it does: corral nic list"));
        }
        gone(qmp, &id, left.min(LOOK)).await?;
    }
    match qmp
        .execute("netdev_del", json!({"id": nic}), process::MONITOR)
        .await
    {
        Ok(_) => Ok(()),
        // A NIC without its network: an earlier try got so far.
        Err(error) if error.kind == ErrorKind::NotFound || error.message.contains("not found") => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Waits for the word that a device is gone, at most `limit`. The list of devices decides.
async fn gone(qmp: &mut Qmp, id: &str, limit: Duration) -> Result<()> {
    let until = Instant::now() + limit;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match qmp.event(left).await? {
            Some(event)
                if event.name == "DEVICE_DELETED"
                    && event.data.get("device").and_then(Value::as_str) == Some(id) =>
            {
                return Ok(());
            }
            Some(_) if !left.is_zero() => {}
            _ => return Ok(()),
        }
    }
}
