//! What acts change besides the guest.

use super::Backup;
use super::places::pools;
use crate::backend::demo::act::Act;
use crate::backend::demo::guest::Guest;
use crate::backend::demo::world::World;
use crate::model::{Disk, Volume};

impl World {
    /// Keeps what `act` leaves besides `guest`, and forgets what it takes; gives what a restore
    /// brings back.
    pub(crate) fn keep(&self, act: &Act, guest: &Guest) -> Option<Guest> {
        let loose = |disk: &Disk| self.loose(disk);
        match act {
            Act::DetachDisk { slot } => {
                let volume = guest.disk(slot).and_then(loose);
                self.with_stores(|stores| stores.loose.extend(volume));
            }
            Act::Undefine { keep_disks: true } => {
                let owned = guest.disks.iter().filter(|d| d.owned);
                let volumes: Vec<Volume> = owned.filter_map(loose).collect();
                self.with_stores(|stores| stores.loose.extend(volumes));
            }
            Act::RemoveDisk { source } => {
                self.with_stores(|stores| stores.loose.retain(|v| v.name != *source));
            }
            Act::AddDisk { disk } => self.with_stores(|stores| {
                stores
                    .loose
                    .retain(|v| disk.source.as_deref() != Some(v.name.as_str()));
            }),
            Act::Export { to, .. } => {
                self.with_stores(|stores| stores.files.insert(to.clone(), guest.clone()));
            }
            Act::Backup { name, place } => {
                let backup = Backup {
                    name: name.clone(),
                    place: place.clone(),
                    taken_at: self.now(),
                    guest: guest.clone(),
                };
                self.with_stores(|stores| stores.backups.push(backup));
            }
            Act::DropBackup { name } => {
                self.with_stores(|stores| {
                    stores
                        .backups
                        .retain(|b| b.name != *name || b.guest.id() != guest.id());
                });
            }
            Act::RestoreBackup { name } => {
                return self.with_stores(|stores| {
                    let kept = stores
                        .backups
                        .iter()
                        .find(|b| b.name == *name && b.guest.id() == guest.id());
                    kept.map(|b| b.guest.clone())
                });
            }
            _ => {}
        }
        None
    }

    /// A disk that nobody has any more.
    fn loose(&self, disk: &Disk) -> Option<Volume> {
        let source = disk.source.clone()?;
        let pool = pools(self.dialect).iter().find(|p| p.holds(&source))?;
        Some(Volume {
            pool: pool.name.to_owned(),
            name: source,
            format: disk.format.clone(),
            size_bytes: disk.size_bytes,
            used_bytes: disk.used_bytes,
            used_by: Vec::new(),
            orphan: true,
        })
    }
}
