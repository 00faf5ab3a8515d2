//! What several definitions have in common and should not: a UUID, an image.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::super::definition::Definition;
use super::super::image::header;
use super::super::op;
use super::{Entry, LONGEST, Store};
use crate::model::{Error, InstanceId, Result, shown};

impl Store {
    /// Which of two definitions with one UUID a process belongs to cannot be known, so neither is
    /// touched until one of them is changed: `cp -r` of a VM's folder makes such twins.
    pub(super) fn tell_twins(&self, entries: &mut [Entry]) {
        let mut of = std::collections::BTreeMap::<uuid::Uuid, Vec<usize>>::new();
        for (n, entry) in entries.iter().enumerate() {
            if let Ok(vm) = &entry.definition {
                of.entry(vm.uuid).or_default().push(n);
            }
        }
        for (uuid, twins) in of.into_iter().filter(|(_, twins)| twins.len() > 1) {
            let names: Vec<String> = twins.iter().map(|n| entries[*n].name.clone()).collect();
            for n in twins {
                let own = entries[n].name.clone();
                let others: Vec<String> = names
                    .iter()
                    .filter(|name| **name != own)
                    .map(|name| format!("\"{}\"", shown(name)))
                    .collect();
                let file = self.file(&own).unwrap_or_default();
                entries[n].definition = Err(Error::invalid(format!(
                    "{}: it has the uuid of {} too ({uuid})",
                    file.display(),
                    others.join(", ")
                ))
                .remedy(format!(
                    "Give the copy one of its own: uuid = \"{}\"",
                    uuid::Uuid::new_v4()
                )));
            }
        }
    }

    /// What stands in a definition, readable or not; what cannot be had is empty.
    pub fn text(&self, name: &str) -> String {
        let bytes = self.file(name).ok().and_then(|file| start_of(&file));
        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
    }

    /// VMs other than `name` that need this file: as a disk, a base or a medium, or below any image in their folder. A
    /// definition that cannot be read needs it when it names it anywhere.
    pub fn users_of(&self, file: &Path, name: &str) -> Result<Vec<String>> {
        self.needing(file, name, |vm, wanted| {
            files(vm).any(|path| real(path) == wanted)
        })
    }

    /// Those whose disks are overlays of a disk that this VM writes: each would be garbage once it
    /// had written.
    pub fn linked_to(&self, vm: &Definition) -> Result<Vec<String>> {
        let mut users = Vec::new();
        for disk in vm.disks.iter().filter(|disk| !disk.readonly) {
            users.extend(self.needing(&disk.path, &vm.name, |other, wanted| {
                let mut bases = other.disks.iter().filter_map(|disk| disk.backing.as_ref());
                bases.any(|base| real(base) == wanted)
            })?);
        }
        users.sort();
        users.dedup();
        Ok(users)
    }

    /// Why this VM must not write to its disks: others are on top of them.
    pub fn held_by_clones(&self, vm: &Definition, id: &InstanceId) -> Result<Option<Error>> {
        let users = self.linked_to(vm)?;
        if users.is_empty() {
            return Ok(None);
        }
        let names: Vec<_> = users.iter().map(|name| shown(name)).collect();
        let names = names.join(", ");
        Ok(Some(
            Error::refused(format!(
                "{id} must stay as it is: {names} is on top of its disks, and would be spoilt"
            ))
            .remedy(format!(
                "Use a copy of it: corral clone {id} --name NAME. Or delete {names} first."
            )),
        ))
    }

    /// Whether a definition names this file: what lies beside a definition says nothing of whom to trust.
    pub fn is_named(&self, file: &Path) -> Result<bool> {
        let wanted = real(file);
        let mut named = self.folders()?.into_iter().filter(|name| {
            let vm = self.alone(name);
            vm.is_ok_and(|vm| files(&vm).any(|path| real(path) == wanted))
        });
        Ok(named.next().is_some())
    }

    fn needing(
        &self,
        file: &Path,
        name: &str,
        needs: impl Fn(&Definition, &Path) -> bool,
    ) -> Result<Vec<String>> {
        let wanted = real(file);
        let mut users = Vec::new();
        for other in self.folders()?.into_iter().filter(|other| other != name) {
            let needs = if let Ok(vm) = self.alone(&other) {
                needs(&vm, &wanted)
            } else {
                names(&self.text(&other), &wanted)
            };
            // Whatever a definition says, or whether it says anything: what lies in the folder may be all there is left.
            if needs || self.claims(&other, &wanted) || !self.overlays(&other, &wanted).is_empty() {
                users.push(other);
            }
        }
        users.sort();
        Ok(users)
    }

    /// Whether a change of a VM that is under way, or was left half-done, takes this file or deletes it.
    fn claims(&self, name: &str, wanted: &Path) -> bool {
        let record = self.dir(name).ok().map(|dir| op::read(&dir.join(op::FILE)));
        let Some(Ok(Some(op))) = record else {
            return false;
        };
        op.change.claims().any(|path| real(path) == wanted)
    }

    /// Images in a VM's folder that are on top of this file: those of its definition, detached ones, and those that were
    /// kept when it was deleted.
    pub fn overlays(&self, name: &str, base: &Path) -> Vec<PathBuf> {
        let base = real(base);
        let all = self.images_on_top(name).into_iter();
        all.filter(|(_, below)| real(below) == base)
            .map(|(image, _)| image)
            .collect()
    }

    /// Images in a VM's folder that are on top of another file, and that file.
    pub fn images_on_top(&self, name: &str) -> Vec<(PathBuf, PathBuf)> {
        let Some(entries) = self.dir(name).ok().and_then(|dir| fs::read_dir(dir).ok()) else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| {
                let image = entry.ok()?.path();
                let below = header(&image)?.backing?;
                Some((image, below))
            })
            .collect()
    }
}

/// Whether a text names a file with its folder, however the rest of the path is written.
pub(in super::super) fn names(text: &str, file: &Path) -> bool {
    let folder = file.parent().and_then(Path::file_name);
    let tail = folder
        .zip(file.file_name())
        .map(|(folder, file)| format!("{}/{}", folder.to_string_lossy(), file.to_string_lossy()));
    tail.is_some_and(|tail| text.contains(&tail))
}

/// Every file that a definition names.
pub fn files(definition: &Definition) -> impl Iterator<Item = &Path> {
    let disks = definition
        .disks
        .iter()
        .flat_map(|disk| std::iter::once(&disk.path).chain(&disk.backing));
    let media = definition.cdroms.iter().flat_map(|medium| &medium.path);
    disks
        .chain(media)
        .chain(&definition.firmware.vars)
        .map(PathBuf::as_path)
}

/// Where a path leads; itself when it leads nowhere.
pub(in super::super) fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// As much of a plain file as a definition may have. A pipe is not waited for.
fn start_of(file: &Path) -> Option<Vec<u8>> {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let mut open = fs::OpenOptions::new();
    let file = open.read(true).custom_flags(flags).open(file).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::super::definition::tests::sample;
    use super::*;
    use crate::model::Dirs;

    /// The header of a qcow2 image on top of `base`; nothing else of it is read.
    fn overlay(base: &Path) -> Vec<u8> {
        let name = base.to_string_lossy();
        let mut bytes = vec![0; 512];
        bytes[..4].copy_from_slice(b"QFI\xfb");
        bytes[4..8].copy_from_slice(&3u32.to_be_bytes());
        bytes[8..16].copy_from_slice(&112u64.to_be_bytes());
        bytes[16..20].copy_from_slice(&(name.len() as u32).to_be_bytes());
        bytes[112..112 + name.len()].copy_from_slice(name.as_bytes());
        bytes
    }

    #[test]
    fn a_base_is_held_by_overlays_whose_definition_is_damaged_or_gone() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::open(&Dirs::under(root.path()));
        let dir = store.dir("base").unwrap();
        let base = sample("base", &dir);
        store.save(&base).unwrap();
        let disk = base.disks[0].path.clone();
        fs::write(&disk, b"").unwrap();
        assert_eq!(store.linked_to(&base).unwrap(), [""; 0]);
        for name in ["empty", "kept"] {
            let dir = store.dir(name).unwrap();
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("disk0.qcow2"), overlay(&disk)).unwrap();
        }
        fs::write(store.file("empty").unwrap(), "").unwrap();
        // A clone whose disk was detached.
        let mut other = sample("other", &store.dir("other").unwrap());
        other.disks.clear();
        store.save(&other).unwrap();
        let detached = store.dir("other").unwrap().join("disk0.qcow2");
        fs::write(detached, overlay(&disk)).unwrap();
        let held = ["empty", "kept", "other"];
        assert_eq!(store.linked_to(&base).unwrap(), held);
        assert_eq!(store.users_of(&disk, "base").unwrap(), held);
    }

    #[test]
    fn a_definition_that_is_a_pipe_or_endless_holds_nobody_up() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::open(&Dirs::under(root.path()));
        let disk = Path::new("/images/base.qcow2");
        for name in ["pipe", "long"] {
            fs::create_dir_all(store.dir(name).unwrap()).unwrap();
        }
        let made = std::process::Command::new("mkfifo")
            .arg(store.file("pipe").unwrap())
            .status();
        assert!(made.unwrap().success());
        let long = fs::File::create(store.file("long").unwrap()).unwrap();
        long.set_len(1 << 40).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&long, b"\"/images/base.qcow2\"", 0).unwrap();
        assert_eq!(store.text("pipe"), "");
        assert_eq!(store.text("long").len() as u64, LONGEST);
        assert_eq!(store.users_of(disk, "web").unwrap(), ["long"]);
    }
}
