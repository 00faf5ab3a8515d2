//! A network interface into a running QEMU and out of it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::argv::{nic_device, user_net};
use super::super::ctx::Ctx;
use super::super::definition::{Definition, NicDef};
use super::super::drive::device_id;
use super::super::process;
use super::super::slots::Slot;
use super::super::unplug::{Unplug, has_device, unplug};
use crate::link::qmp::Qmp;
use crate::model::{Error, ErrorKind, Result, shown};

/// What `netdev_add` gets, as a start would have it.
pub fn netdev_args(nic: &NicDef) -> Value {
    match nic.network.split_once(':') {
        Some(("bridge", bridge)) => json!({"type": "bridge", "id": nic.name, "br": bridge}),
        _ => match user_net(&nic.name, 0) {
            Some(net) => json!({"type": "user", "id": nic.name, "net": net}),
            None => json!({"type": "user", "id": nic.name}),
        },
    }
}

/// What `device_add` gets.
pub fn device_args(nic: &NicDef) -> Value {
    let bus = nic.slot.map_or_else(String::new, |slot| slot.to_string());
    json!({
        "driver": nic_device(&nic.model).unwrap_or_default(), "id": device_id(&nic.name),
        "netdev": nic.name, "mac": nic.mac, "bus": bus, "addr": "0x0",
    })
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
        Ok(_) if has_device(qmp, &device_id(&nic.name)).await? => Ok(()),
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
/// `TimedOut` when the guest keeps it, `Refused` when cancelled: then it is as it was.
pub async fn remove(
    ctx: &Ctx,
    vm: &Definition,
    nic: &str,
    cancel: &CancellationToken,
    patience: Duration,
) -> Result<()> {
    if unplug(ctx, vm, nic, cancel, patience).await? == Unplug::Kept {
        return Err(Error::timed_out(format!(
            "the guest has not let go of {}; it keeps it for now",
            shown(nic)
        ))
        .remedy("Ask again once the guest has booted, or stop it first"));
    }
    // With its QEMU the network is gone too.
    let Some(mut qmp) = process::connect(ctx, vm).await? else {
        return Ok(());
    };
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

/// Whether the running VM still has it.
///
/// # Errors
/// When its monitor does not say.
pub async fn is_in(ctx: &Ctx, vm: &Definition, nic: &str) -> Result<bool> {
    match process::connect(ctx, vm).await? {
        Some(mut qmp) => has_device(&mut qmp, &device_id(nic)).await,
        None => Ok(false),
    }
}
