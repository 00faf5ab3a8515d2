//! Where the file of a disk is kept, and whether it is this VM's.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::super::definition::{Definition, DiskDef, folder_name};
use super::show;
use crate::link::files::fault;
use crate::model::{Error, Result};

/// The name of a disk's file: in its VM's own folder its slot's, elsewhere the VM's too.
pub fn file_name(vm: &str, own_folder: bool, disk: &str, format: &str) -> Result<String> {
    let disk = folder_name(disk)?;
    let extension = if format == "raw" { "img" } else { "qcow2" };
    Ok(if own_folder {
        format!("{disk}.{extension}")
    } else {
        format!("{}-{disk}.{extension}", folder_name(vm)?)
    })
}

/// A folder that new files can be put into.
///
/// # Errors
/// One message for a name that is no path, for what is not there and for what is no folder.
pub fn folder(place: &str) -> Result<PathBuf> {
    let path = Path::new(place);
    if !path.is_absolute() {
        return Err(
            Error::not_found(format!("there is no storage \"{}\" here", show(path)))
                .remedy("Name a folder: /var/vms, ~/vms or ./vms"),
        );
    }
    let real = fs::canonicalize(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::not_found(format!("there is no folder {}", show(path)))
                .remedy(format!("Make it first: mkdir -p {}", super::quoted(path)))
        }
        _ => fault("read", path, e),
    })?;
    if !real.is_dir() {
        return Err(Error::invalid(format!("{} is no folder", show(path))));
    }
    rustix::fs::access(
        &real,
        rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK,
    )
    .map_err(|e| fault("write into", &real, e.into()))?;
    Ok(real)
}

/// Refuses a file that is there already.
pub fn unused(path: &Path) -> Result<()> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    Err(
        Error::conflict(format!("{} is there already", show(path))).remedy(format!(
            "If it is the disk that you mean: --image {}. Else move it away, or name another folder.",
            super::quoted(path)
        )),
    )
}

/// Makes an empty file that was not there: from here on it is this change's own.
pub fn reserve(path: &Path) -> Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map(drop)
        .map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => {
                Error::conflict(format!("{} was made by someone else meanwhile", show(path)))
            }
            _ => fault("make", path, e),
        })
}

/// Whether corral made a disk's file for this VM. A definition is a text that anyone may edit: it is
/// believed where the file lies in the VM's folder, or its name says the same.
pub fn is_own(vm: &Definition, dir: &Path, disk: &DiskDef) -> bool {
    if !disk.owned {
        return false;
    }
    let real = |path: &Path| fs::canonicalize(path).ok();
    let inside = disk
        .path
        .parent()
        .and_then(real)
        .is_some_and(|parent| Some(parent) == real(dir));
    let named = file_name(&vm.name, false, &disk.name, &disk.format);
    inside || disk.path.file_name().and_then(|name| name.to_str()) == named.ok().as_deref()
}

/// Whether a file of a VM's folder is one that corral named for a disk, attached or detached since:
/// `disk1.qcow2`, `disk1-2.img`.
pub fn is_named(file: &Path) -> bool {
    let Some(("disk", rest)) = file
        .file_stem()
        .and_then(|stem| stem.to_str())
        .and_then(|stem| stem.split_at_checked(4))
    else {
        return false;
    };
    let kind = file.extension().and_then(|e| e.to_str());
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    matches!(kind, Some("qcow2" | "img")) && rest.splitn(2, '-').all(number)
}

/// A block device that is mounted or held by something else must not be given to a guest.
///
/// # Errors
/// `Conflict` for one in use.
pub fn device_is_free(path: &Path) -> Result<()> {
    use std::os::unix::fs::FileTypeExt as _;
    let meta = fs::metadata(path).map_err(|e| fault("read", path, e))?;
    if !meta.file_type().is_block_device() {
        return Ok(());
    }
    let exclusive = rustix::fs::OFlags::EXCL.bits();
    let flags = i32::try_from(exclusive).unwrap_or_default();
    match fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
    {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::ResourceBusy => Err(Error::conflict(format!(
            "{} is in use on this machine: mounted, or a part of something",
            show(path)
        ))
        .remedy("See what has it: lsblk; unmount it first.")),
        Err(e) => Err(fault("open", path, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::definition::tests::sample;
    use super::*;

    #[test]
    fn files_outside_are_believed_by_their_name_only() {
        let dir = tempfile::tempdir().unwrap();
        let mut vm = sample("a b", dir.path());
        assert!(is_own(&vm, dir.path(), &vm.disks[0]));
        for (path, own) in [
            ("/elsewhere/a%20b-disk0.qcow2", true),
            ("/elsewhere/a b-disk0.qcow2", false),
            ("/elsewhere/disk0.qcow2", false),
            ("/elsewhere/web-disk0.qcow2", false),
        ] {
            vm.disks[0].path = path.into();
            assert_eq!(is_own(&vm, dir.path(), &vm.disks[0]), own, "{path}");
        }
        vm.disks[0].path = dir.path().join("disk0.qcow2");
        vm.disks[0].owned = false;
        assert!(!is_own(&vm, dir.path(), &vm.disks[0]));
    }

    #[test]
    fn names_of_disks_are_known() {
        for (name, own) in [
            ("disk0.qcow2", true),
            ("disk12-2.img", true),
            ("disk.qcow2", false),
            ("disk1-.img", false),
            ("disk1-2-3.img", false),
            ("data.qcow2", false),
            ("disk1.iso", false),
        ] {
            assert_eq!(is_named(Path::new(name)), own, "{name}");
        }
    }

    #[test]
    fn places_are_folders() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x");
        fs::write(&file, "").unwrap();
        for (place, word) in [
            ("local-lvm", "no storage"),
            (file.to_str().unwrap(), "no folder"),
            ("/nonexistent/x", "there is no folder"),
        ] {
            let error = folder(place).unwrap_err();
            assert!(error.message.contains(word), "{error}");
        }
        assert!(reserve(&file).is_err() && unused(&file).is_err());
        assert!(folder(dir.path().to_str().unwrap()).is_ok());
    }
}
