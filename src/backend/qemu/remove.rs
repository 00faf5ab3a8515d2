//! Deleting a VM: exactly the files that the plan lists, and nothing that anyone else needs.

use std::fs;
use std::path::{Path, PathBuf};

use super::definition::Definition;
use super::disks::place;
use super::image::quoted;
use super::op::{self, Change, Journal, Phase};
use super::snapshots::record::Records;
use super::store::{DEFINITION, Store};
use crate::backend::contract::{Prepared, RemoveRequest, TaskCx};
use crate::link::files::{self, fault};
use crate::model::{Bytes, Error, ErrorKind, Instance, Outcome, Result, Step, shown};

/// What the definition is called when files of a deleted VM stay in its folder.
pub const KEPT: &str = "vm.toml.kept";

/// What `prepare` decided, for [`run`].
#[derive(Debug)]
pub struct Removing {
    /// The VM.
    pub definition: Definition,
    /// It must be powered off first.
    pub power_off: bool,
    goes: Vec<PathBuf>,
    stays: Vec<PathBuf>,
}

/// Says what deleting would do.
///
/// # Errors
/// When the store cannot be read.
pub fn prepare(store: &Store, on: &Instance, request: RemoveRequest) -> Result<Prepared> {
    let definition = match store.load(&on.name) {
        Ok(definition) => definition,
        Err(e) if e.kind == ErrorKind::NotFound => {
            return Ok(Prepared::unchanged("gone", "it is already gone"));
        }
        Err(e) => {
            let dir = store.dir(&on.name)?;
            return Ok(Prepared::refused(
                "unreadable",
                format!("what belongs to it cannot be known: {}", e.message),
                Some(format!("Mend it, or remove {} by hand.", quoted(&dir))),
            ));
        }
    };
    let token = format!("{} {}", definition.uuid, Store::hash(&definition));
    if let Some(why) = definition.readonly_reason() {
        return Ok(Prepared::refused(
            token,
            why,
            Some("Use the newer corral.".to_owned()),
        ));
    }
    if on.state.is_active() && !request.force {
        return Ok(Prepared::refused(
            token,
            format!("{} is {}", on.id, on.state),
            Some(format!(
                "Stop it first: corral stop {} (or add --force).",
                on.id
            )),
        ));
    }
    let dir = store.dir(&on.name)?;
    let mut sorted = Sorted::default();
    sorted.disks(store, &dir, &definition, request.keep_disks)?;
    sorted.rest(&dir)?;
    let snapshots = Records::load(&dir).unwrap_or_default().snapshots.len();
    if snapshots > 0 && !request.keep_disks {
        let s = if snapshots == 1 { "" } else { "s" };
        sorted.losses.push(format!("{snapshots} snapshot{s}"));
    }
    let mut steps = Vec::new();
    if on.state.is_active() {
        steps.push(Step::new("Power it off", "QMP quit"));
    }
    for path in &sorted.goes {
        steps.push(Step::new(
            format!(
                "Remove {}",
                path.file_name().unwrap_or_default().to_string_lossy()
            ),
            format!("rm {}", quoted(path)),
        ));
    }
    steps.push(if sorted.stays.iter().any(|path| path.starts_with(&dir)) {
        Step::new(
            "Forget it, keep its folder",
            format!("mv {} {KEPT}", quoted(&dir.join(DEFINITION))),
        )
    } else {
        Step::new("Remove its folder", format!("rm -r {}", quoted(&dir)))
    });
    let mut prepared = Prepared::new(token, steps);
    prepared.losses = sorted.losses;
    prepared.notes = sorted.notes;
    Ok(prepared.with(Removing {
        definition,
        power_off: on.state.is_active(),
        goes: sorted.goes,
        stays: sorted.stays,
    }))
}

#[derive(Default)]
struct Sorted {
    goes: Vec<PathBuf>,
    stays: Vec<PathBuf>,
    losses: Vec<String>,
    notes: Vec<String>,
}

impl Sorted {
    fn disks(&mut self, store: &Store, dir: &Path, vm: &Definition, keep: bool) -> Result<()> {
        for disk in &vm.disks {
            if fs::symlink_metadata(&disk.path).is_err() {
                self.notes.push(format!(
                    "{}: {} is gone already",
                    disk.name,
                    disk.path.display()
                ));
                continue;
            }
            let users = store.users_of(&disk.path, &vm.name)?;
            let why = if disk.owned && !place::is_own(vm, dir, disk) {
                Some("it is not in its folder, so corral did not make it".to_owned())
            } else if !disk.owned {
                Some("was not made for it".to_owned())
            } else if !users.is_empty() {
                let names: Vec<_> = users.iter().map(|name| shown(name)).collect();
                Some(format!("{} needs it", names.join(", ")))
            } else if keep && !disk.readonly {
                Some("--keep-disks".to_owned())
            } else {
                None
            };
            let size = Bytes(disk.size.0);
            if let Some(why) = why {
                self.notes.push(format!(
                    "Keeps {} {} {size}: {why}",
                    disk.name,
                    disk.path.display()
                ));
                self.stays.push(disk.path.clone());
            } else {
                if !disk.readonly {
                    self.losses
                        .push(format!("{} {} {size}", disk.name, disk.path.display()));
                }
                self.goes.push(disk.path.clone());
            }
            if let Some(base) = &disk.backing {
                self.notes
                    .push(format!("Keeps {}: base of {}", base.display(), disk.name));
            }
        }
        for path in vm.cdroms.iter().filter_map(|medium| medium.path.as_ref()) {
            self.notes
                .push(format!("Keeps {}: a medium", path.display()));
        }
        Ok(())
    }

    /// What else is in the folder: corral's own files go, anyone else's stay.
    fn rest(&mut self, dir: &Path) -> Result<()> {
        let entries = fs::read_dir(dir).map_err(|e| fault("read", dir, e))?;
        let mut paths: Vec<PathBuf> = entries
            .filter_map(std::result::Result::ok)
            .map(|entry| entry.path())
            .collect();
        paths.sort();
        for path in paths {
            if self.goes.contains(&path) || self.stays.contains(&path) {
                continue;
            }
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name == DEFINITION || name == op::FILE {
                continue;
            }
            if is_ours(&name) {
                if name == super::hibernate::FILE {
                    self.losses
                        .push("the state that was saved when it was hibernated".to_owned());
                } else if name == "efivars.qcow2" {
                    self.losses.push("its UEFI variables".to_owned());
                } else if name == "tpm" {
                    self.losses.push("the keys in its TPM".to_owned());
                }
                self.goes.push(path);
            } else {
                let why = if place::is_named(&path) {
                    "it was detached; corral doctor tells what nobody uses"
                } else {
                    "not made by corral"
                };
                self.notes.push(format!("Keeps {}: {why}", path.display()));
                self.stays.push(path);
            }
        }
        Ok(())
    }
}

fn is_ours(name: &str) -> bool {
    let exact = [
        "efivars.qcow2",
        "seed.img",
        "tpm",
        "snapshots.toml",
        super::hibernate::FILE,
        super::clone::identity::FILE,
        "vm.toml.new",
        "op.json.new",
    ];
    exact.contains(&name)
        || Path::new(name)
            .extension()
            .is_some_and(|e| e == "lock" || e == "log" || e == "new")
}

/// A delete that nothing forbids any more.
#[derive(Debug)]
pub struct Begun {
    /// `None` where the disk is too full to write it down.
    journal: Option<Journal>,
}

/// Makes sure that it can be done, before the VM is powered off for it; `None`: it is gone.
///
/// # Errors
/// `Conflict` when the definition changed since the plan was made, or another change was left
/// half-done.
pub fn begin(
    store: &Store,
    cx: &TaskCx,
    removing: &Removing,
    token: &str,
) -> Result<Option<Begun>> {
    let name = &removing.definition.name;
    let now = match store.load(name) {
        Ok(now) => now,
        Err(e) if e.kind == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    if format!("{} {}", now.uuid, Store::hash(&now)) != token {
        return Err(
            Error::conflict("its definition changed since the plan was made")
                .remedy("Look at it again: corral info"),
        );
    }
    for path in &removing.goes {
        let users = store.users_of(path, name)?;
        if !users.is_empty() {
            let users: Vec<_> = users.iter().map(|user| shown(user)).collect();
            return Err(Error::conflict(format!(
                "{} has come to need {} since the plan was made. Nothing was done",
                users.join(", "),
                quoted(path)
            ))
            .remedy("Look at it and ask again."));
        }
    }
    cx.checkpoint()?;
    let change = Change::Delete {
        files: removing.goes.clone(),
        keep: removing.stays.clone(),
    };
    let begun = Journal::begin(&store.dir(name)?, change);
    Ok(Some(Begun {
        journal: unless_full(cx, begun)?,
    }))
}

/// To delete is the way out of a full disk. The definition goes last, so that what is cut short can
/// be asked for again.
fn unless_full<T>(cx: &TaskCx, written: Result<T>) -> Result<Option<T>> {
    match written {
        Ok(written) => Ok(Some(written)),
        Err(error) if files::is_full(&error) => {
            cx.log("the disk is full: deleted without a record of it".to_owned());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Begun {
    /// It is not done after all.
    ///
    /// # Errors
    /// When its record cannot be removed.
    pub fn leave(self) -> Result<()> {
        self.journal.map_or(Ok(()), Journal::finish)
    }
}

/// Deletes. The VM must be off by now.
///
/// # Errors
/// When a file stays.
pub fn run(store: &Store, cx: &TaskCx, removing: &Removing, begun: Begun) -> Result<Outcome> {
    let name = &removing.definition.name;
    let dir = store.dir(name)?;
    let journal = match begun.journal {
        Some(mut journal) => {
            let working = journal.phase(Phase::Working);
            unless_full(cx, working.map(|()| journal))?
        }
        None => None,
    };
    // From here on there is no way back: it is completed, now or by doctor.
    cx.step("Remove its files");
    finish(&dir, &removing.goes, &removing.stays).map_err(|error| op::remedied(&dir, error))?;
    if let Some(journal) = journal {
        journal.gone();
    }
    Ok(Outcome::changed(format!("{} is deleted", shown(name))))
}

/// Removes the files, then the definition, then the record, then the folder. Can be run again.
pub(super) fn finish(dir: &Path, goes: &[PathBuf], stays: &[PathBuf]) -> Result<()> {
    for path in goes {
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_dir() => {
                fs::remove_dir_all(path).map_err(|e| fault("remove", path, e))?;
            }
            Ok(_) => op::remove(path)?,
            Err(_) => {}
        }
    }
    let file = dir.join(DEFINITION);
    if stays.iter().any(|path| path.starts_with(dir)) {
        match fs::rename(&file, dir.join(KEPT)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(fault("rename", &file, e));
            }
            _ => {}
        }
        return op::remove(&dir.join(op::FILE));
    }
    op::remove(&file)?;
    op::remove(&dir.join(op::FILE))?;
    match fs::remove_dir(dir) {
        // Something that came into the folder meanwhile is not ours to remove.
        Ok(()) => Ok(()),
        Err(e)
            if matches!(
                e.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::DirectoryNotEmpty
            ) =>
        {
            Ok(())
        }
        Err(e) => Err(fault("remove", dir, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::definition::tests::sample;
    use super::*;
    use crate::model::{Dirs, InstanceId, InstanceKind, Kind, State};

    fn instance(name: &str, state: State) -> Instance {
        let id = InstanceId::new("local", None, name);
        Instance::new(
            id,
            Kind::new("qemu"),
            InstanceKind::Vm,
            state,
            jiff::Timestamp::UNIX_EPOCH,
        )
    }

    const DELETE: RemoveRequest = RemoveRequest {
        keep_disks: false,
        force: false,
    };

    #[test]
    fn req_16_the_base_of_another_vm_stays() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::open(&Dirs::under(root.path()));
        let base = store.dir("base").unwrap();
        store.save(&sample("base", &base)).unwrap();
        fs::write(base.join("disk0.qcow2"), "x").unwrap();
        fs::write(base.join("mine.txt"), "x").unwrap();
        fs::write(base.join("efivars.qcow2"), "x").unwrap();
        let mut over = sample("over", &store.dir("over").unwrap());
        over.disks[0].backing = Some(base.join("disk0.qcow2"));
        store.save(&over).unwrap();
        let mut prepared = prepare(&store, &instance("base", State::Stopped), DELETE).unwrap();
        let all = format!("{:?}", prepared.notes);
        assert!(
            all.contains("over needs it") && all.contains("mine.txt"),
            "{all}"
        );
        let removing: Removing = prepared.take().unwrap();
        finish(&base, &removing.goes, &removing.stays).unwrap();
        assert!(base.join("disk0.qcow2").exists() && base.join("mine.txt").exists());
        assert!(base.join(KEPT).exists() && !base.join("efivars.qcow2").exists());
        assert!(op::leftovers(&store).unwrap().is_empty());
    }

    #[test]
    fn a_disk_that_lies_elsewhere_stays_whatever_the_definition_says() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::open(&Dirs::under(root.path()));
        let dir = store.dir("v").unwrap();
        let outside = root.path().join("precious.qcow2");
        for path in [outside.clone(), dir.join("../../../precious.qcow2")] {
            let mut vm = sample("v", &dir);
            assert!(vm.disks[0].owned);
            vm.disks[0].path.clone_from(&path);
            store.save(&vm).unwrap();
            fs::write(&outside, "x").unwrap();
            assert!(path.exists(), "{}", path.display());
            let mut prepared = prepare(&store, &instance("v", State::Stopped), DELETE).unwrap();
            assert!(prepared.losses.is_empty(), "{:?}", prepared.losses);
            assert!(
                prepared.notes[0].contains("not in its folder"),
                "{:?}",
                prepared.notes
            );
            let removing: Removing = prepared.take().unwrap();
            finish(&dir, &removing.goes, &removing.stays).unwrap();
            assert!(outside.exists());
        }
    }

    #[test]
    fn req_17_gone_is_success_and_running_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::open(&Dirs::under(root.path()));
        assert!(
            prepare(&store, &instance("x", State::Stopped), DELETE)
                .unwrap()
                .unchanged
        );
        store.save(&sample("x", &store.dir("x").unwrap())).unwrap();
        let refused = prepare(&store, &instance("x", State::Running), DELETE).unwrap();
        assert!(
            refused.refusals[0]
                .remedy
                .as_ref()
                .unwrap()
                .contains("corral stop local/x")
        );
        let forced = RemoveRequest {
            force: true,
            ..DELETE
        };
        assert!(
            prepare(&store, &instance("x", State::Running), forced)
                .unwrap()
                .refusals
                .is_empty()
        );
    }
}
