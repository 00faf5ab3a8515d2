//! Disks of a running VM, through its monitor.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::ctx::Ctx;
use super::super::definition::{Definition, DiskDef};
use super::super::drive::{self, device_id};
use super::super::process;
use super::super::slots::Slot;
use super::super::unplug::{self, Unplug, unplug};
use crate::link::qmp::Qmp;
use crate::model::{Error, Result, shown};

/// Commands that do no more than change a table.
pub const ANSWER: Duration = Duration::from_secs(30);
/// The monitor is held no longer than this at a time: others look at the VM too.
pub const SLICE: Duration = Duration::from_millis(1500);
/// Between two slices.
pub const GAP: Duration = Duration::from_millis(100);

/// Whether QEMU has the device of this disk.
///
/// # Errors
/// When the monitor does not say.
pub async fn has_device(qmp: &mut Qmp, name: &str) -> Result<bool> {
    unplug::has_device(qmp, &device_id(name)).await
}

/// Whether it has a SCSI controller, which only a start can bring.
///
/// # Errors
/// When the monitor does not say.
pub async fn has_scsi(qmp: &mut Qmp) -> Result<bool> {
    unplug::has_device(qmp, "scsi0").await
}

/// The root ports that something is plugged into.
///
/// # Errors
/// When the monitor does not say.
pub async fn taken_spares(qmp: &mut Qmp) -> Result<BTreeSet<Slot>> {
    let answer = qmp.execute("query-pci", Value::Null, ANSWER).await?;
    let mut taken = BTreeSet::new();
    for bus in items(&answer) {
        for device in bus.get("devices").into_iter().flat_map(items) {
            let busy = device
                .pointer("/pci_bridge/devices")
                .is_some_and(|inner| items(inner).next().is_some());
            let slot = word(device, "qdev_id").and_then(|id| id.parse::<Slot>().ok());
            taken.extend(slot.filter(|_| busy));
        }
    }
    Ok(taken)
}

/// What a drive called `name` has in it now, as `query-block` tells it; `None` when there is no such
/// drive. A disk that was moved while it ran is another node than the one it was started with.
///
/// # Errors
/// When the monitor does not say.
pub async fn drive_of(qmp: &mut Qmp, name: &str) -> Result<Option<Value>> {
    let answer = qmp.execute("query-block", Value::Null, ANSWER).await?;
    Ok(items(&answer).find(|block| is_drive(block, name)).cloned())
}

/// Whether an element of `query-block` is the drive called `name`.
pub fn is_drive(block: &Value, name: &str) -> bool {
    let wanted = device_id(name);
    // `disk0-dev`, or `/machine/peripheral/disk0-dev/virtio-backend`.
    word(block, "qdev").is_some_and(|path| path.split('/').any(|part| part == wanted))
}

/// The node that a drive reads and writes.
pub fn node_in(block: &Value) -> Option<&str> {
    block.pointer("/inserted/node-name").and_then(Value::as_str)
}

/// The file that a drive reads and writes.
pub fn file_in(block: &Value) -> Option<&str> {
    block
        .pointer("/inserted/image/filename")
        .or_else(|| block.pointer("/inserted/file"))
        .and_then(Value::as_str)
}

/// The node that a disk is now.
///
/// # Errors
/// `NotFound` when the running VM has no such disk.
pub async fn node_of(qmp: &mut Qmp, name: &str) -> Result<String> {
    let found = drive_of(qmp, name).await?;
    found
        .as_ref()
        .and_then(node_in)
        .map(str::to_owned)
        .ok_or_else(|| {
            Error::not_found(format!("the running VM has no {}", shown(name)))
                .remedy("The definition was changed since the start: restart it with --cold first.")
        })
}

/// Plugs a disk in. Where that fails nothing of it stays.
///
/// # Errors
/// In QEMU's words.
pub async fn attach(qmp: &mut Qmp, disk: &DiskDef, slot: Slot) -> Result<()> {
    qmp.execute("blockdev-add", drive::node(disk)?, ANSWER)
        .await?;
    let device = drive::disk(disk, slot, None).arguments();
    if let Err(error) = qmp.execute("device_add", device, ANSWER).await {
        drop_node(qmp, &disk.name).await?;
        return Err(error);
    }
    Ok(())
}

/// Closes a node that no device uses; one that is not there is fine.
///
/// # Errors
/// When it is still in use.
pub async fn drop_node(qmp: &mut Qmp, node: &str) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        if !has_node(qmp, node).await? {
            return Ok(());
        }
        let done = qmp
            .execute("blockdev-del", json!({"node-name": node}), ANSWER)
            .await;
        match done {
            Ok(_) => return Ok(()),
            // A device that has just gone lets go of it a moment later.
            Err(_) if Instant::now() < until => tokio::time::sleep(GAP).await,
            Err(error) => return Err(error),
        }
    }
}

async fn has_node(qmp: &mut Qmp, node: &str) -> Result<bool> {
    let answer = qmp
        .execute("query-named-block-nodes", json!({"flat": true}), ANSWER)
        .await?;
    Ok(items(&answer).any(|item| word(item, "node-name") == Some(node)))
}

/// Asks the guest to let go of a disk and waits for it. The image is closed only when the guest has.
///
/// # Errors
/// As [`unplug`].
pub async fn detach(
    ctx: &Ctx,
    vm: &Definition,
    name: &str,
    cancel: &CancellationToken,
    limit: Duration,
) -> Result<Unplug> {
    let Some(mut qmp) = process::connect(ctx, vm).await? else {
        return Ok(Unplug::Ended);
    };
    let drive = drive_of(&mut qmp, name).await?;
    let node = drive.as_ref().and_then(node_in).unwrap_or(name).to_owned();
    drop(qmp);
    let done = unplug(ctx, vm, name, cancel, limit).await?;
    if done == Unplug::Out {
        let Some(mut qmp) = process::connect(ctx, vm).await? else {
            return Ok(Unplug::Ended);
        };
        drop_node(&mut qmp, &node).await?;
    }
    Ok(done)
}

/// The elements of a list; of anything else, none.
pub fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A text in an object.
pub fn word<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_are_known_by_their_device() {
        let block = json!({"qdev": "/machine/peripheral/disk1-dev/virtio-backend",
            "inserted": {"node-name": "disk1-m", "file": "/x", "image": {"filename": "/y"}}});
        assert!(is_drive(&block, "disk1") && !is_drive(&block, "disk"));
        assert_eq!(
            (node_in(&block), file_in(&block)),
            (Some("disk1-m"), Some("/y"))
        );
        assert!(is_drive(&json!({"qdev": "cdrom0-dev"}), "cdrom0"));
        for odd in [json!(null), json!({"qdev": 3}), json!({"inserted": []})] {
            assert!(!is_drive(&odd, "disk1") && node_in(&odd).is_none());
        }
    }
}
