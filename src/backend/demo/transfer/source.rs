//! Instances as data: each disk of the simulation says whose it is, and holds zeros behind that.

use std::io::Cursor;

use async_trait::async_trait;
use tokio::io::{AsyncReadExt as _, repeat};

use super::super::backend::Demo;
use crate::backend::contract::{DiskBytes, DiskStream, PortableSource, TaskCx};
use crate::backend::portable::stream::stream;
use crate::model::{
    Bytes, Consistency, DiskRole, Error, FirmwareKind, Hardware, Instance, Origin, PORTABLE,
    Portable, PortableDisk, PortableNic, Result, State, shown,
};

/// Where a disk's size is not known.
const SIZE: Bytes = Bytes(8 << 30);
/// What a read takes at most.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(30);

#[async_trait]
impl PortableSource for Demo {
    async fn portable(
        &self,
        cx: &TaskCx,
        on: &Instance,
        snapshot: Option<&str>,
    ) -> Result<Box<dyn DiskBytes>> {
        self.world.answer(&cx.read(LIMIT), "portable").await?;
        let guest = self.world.guest_as(on)?;
        let id = guest.id();
        if let Some(name) = snapshot
            && guest.snapshot(name).is_none()
        {
            return Err(
                Error::not_found(format!("{id} has no snapshot {}", shown(name)))
                    .remedy(format!("See: corral snapshot list {id}"))
                    .in_context(self.world.name()),
            );
        }
        let runs = guest.state() == State::Running || snapshot.is_some();
        let disks = guest.disks.iter().filter(|disk| disk.device != "cdrom");
        let disks = disks.map(|disk| {
            let size = disk.size_bytes.unwrap_or(SIZE);
            PortableDisk {
                name: disk.name.clone(),
                role: DiskRole::Disk,
                file: String::new(),
                format: "raw".to_owned(),
                size_bytes: size,
                file_bytes: size,
                sha256: String::new(),
                bus: disk.bus.clone(),
                readonly: disk.readonly,
            }
        });
        let nics = guest.nics.iter().map(|nic| PortableNic {
            model: nic.model.clone(),
            mac: nic.mac.clone(),
        });
        Ok(Box::new(Taken(Portable {
            schema: PORTABLE.to_owned(),
            name: guest.base.name.clone(),
            origin: Origin {
                backend: on.backend.clone(),
                id: id.to_string(),
                uid: Some(guest.uid.clone()),
            },
            taken_at: self.world.now(),
            consistency: if runs {
                Consistency::Crash
            } else {
                Consistency::Offline
            },
            snapshot: snapshot.map(str::to_owned),
            hardware: Hardware {
                cpus: on.cpus.unwrap_or(1),
                memory_bytes: on.memory_bytes.unwrap_or(Bytes(1 << 30)),
                firmware: match guest.firmware {
                    Some(known) if known.eq_ignore_ascii_case("bios") => FirmwareKind::Bios,
                    _ => FirmwareKind::Uefi,
                },
                secure_boot: false,
                tpm: false,
                os: on.os.clone(),
                nics: nics.collect(),
                tags: on.tags.clone(),
                note: on.note.clone(),
            },
            disks: disks.collect(),
            not_carried: vec!["snapshots".to_owned()],
        })))
    }
}

struct Taken(Portable);

#[async_trait]
impl DiskBytes for Taken {
    fn portable(&self) -> &Portable {
        &self.0
    }

    async fn open(&self, cx: &TaskCx, disk: &str) -> Result<DiskStream> {
        cx.checkpoint()?;
        let found = self.0.disks.iter().find(|known| known.name == disk);
        let Some(found) = found else {
            return Err(Error::not_found(format!(
                "{} has no disk {}",
                shown(&self.0.origin.id),
                shown(disk)
            )));
        };
        let head = format!("{} {}\n", self.0.origin.id, found.name).into_bytes();
        let bytes = Cursor::new(head).chain(repeat(0));
        Ok(stream(found.size_bytes, bytes))
    }
}
