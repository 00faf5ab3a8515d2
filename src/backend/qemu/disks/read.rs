//! What the images themselves say of a VM's disks.

use serde_json::Value;

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::image::{self, Image};
use super::live;
use crate::link::qmp::Qmp;
use crate::model::{Disk, shown};

/// Fills in size, use, snapshots and, of a running VM, what is in its drives now. What cannot be
/// read stays as the definition has it.
pub async fn fill(
    ctx: &Ctx,
    vm: &Definition,
    monitor: Option<&mut Qmp>,
    disks: &mut [Disk],
    problems: &mut Vec<String>,
) {
    let drives = match monitor {
        Some(qmp) => match qmp.execute("query-block", Value::Null, live::ANSWER).await {
            Ok(answer) => Some(answer),
            Err(error) => {
                problems.push(format!("disks cannot be looked at: {}", error.message));
                return;
            }
        },
        None => None,
    };
    for disk in disks {
        let own = super::find(vm, &disk.name);
        let found = match (&drives, own) {
            (Some(drives), _) => {
                let drive = live::items(drives).find(|drive| live::is_drive(drive, &disk.name));
                let Some(drive) = drive else {
                    // Also where a guest let go of it after nobody waited for it any more.
                    problems.push(format!(
                        "{}: the running VM does not have it; it is there again with the next start",
                        shown(&disk.name)
                    ));
                    continue;
                };
                if own.is_none() {
                    // A medium may be changed by the guest, and by other tools.
                    disk.source = live::file_in(drive).map(|file| shown(file).into_owned());
                }
                drive.pointer("/inserted/image").and_then(Image::from_json)
            }
            (None, Some(own)) => image::of_disk(&ctx.env, own, false).await.ok(),
            (None, None) => None,
        };
        let Some(found) = found else { continue };
        disk.size_bytes = Some(found.size);
        disk.used_bytes = found.used.or(disk.used_bytes);
        if found.format == "qcow2" {
            disk.snapshots = Some(found.snapshots.len() as u64);
        }
    }
}
