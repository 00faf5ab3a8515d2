//! An instance as a folder: `portable.json`, one file per disk, `SHA256SUMS`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::sums;
use crate::link::files::{fault, write_atomically};
use crate::model::{Error, PORTABLE, Portable, Result, shown};

/// The description's name.
pub const FILE: &str = "portable.json";

/// Longer descriptions are none.
const LONGEST: u64 = 4 << 20;

/// Whether a folder is one of these, whole or damaged.
pub fn is_one(dir: &Path) -> bool {
    std::fs::symlink_metadata(dir.join(FILE)).is_ok_and(|meta| meta.is_file())
}

/// Writes description and checksums beside the disks. The description is the last: a folder with
/// one is whole.
pub fn write(dir: &Path, portable: &Portable) -> Result<()> {
    let mut json = serde_json::to_vec_pretty(portable)
        .map_err(|e| Error::backend(format!("the description cannot be written: {e}")))?;
    json.push(b'\n');
    let mut through = sums::Summed::new(&json[..]);
    let _ = std::io::copy(&mut through, &mut std::io::sink());
    let (own, _) = through.finish();
    let disks = portable
        .disks
        .iter()
        .map(|disk| (disk.file.as_str(), disk.sha256.as_str()));
    let text = sums::text(disks.chain([(FILE, own.as_str())]));
    write_atomically(&dir.join(sums::FILE), text.as_bytes())?;
    write_atomically(&dir.join(FILE), &json)
}

/// Reads a description, and makes sure that every file it names is a plain file beside it.
///
/// # Errors
/// `NotFound` without one; `Invalid` naming what is wrong.
pub fn read(dir: &Path) -> Result<Portable> {
    let path = dir.join(FILE);
    let mut text = String::new();
    open_plain(&path)?
        .take(LONGEST + 1)
        .read_to_string(&mut text)
        .map_err(|e| fault("read", &path, e))?;
    let name = shown(&path.to_string_lossy()).into_owned();
    if text.len() as u64 > LONGEST {
        return Err(Error::invalid(format!("{name} is too long")));
    }
    let portable: Portable = serde_json::from_str(&text).map_err(|e| {
        Error::invalid(format!("{name}: {}", shown(&e.to_string())))
            .remedy("It is damaged, or no export of corral.")
    })?;
    if portable.schema != PORTABLE {
        return Err(Error::invalid(format!(
            "{name} is of version \"{}\", this corral knows {PORTABLE}",
            shown(&portable.schema)
        ))
        .remedy("Use a newer corral."));
    }
    let mut seen = BTreeSet::new();
    for disk in &portable.disks {
        let file = shown(&disk.file);
        if !is_plain_name(&disk.file) {
            return Err(Error::invalid(format!(
                "{name}: \"{file}\" is no name of a file in that folder"
            )));
        }
        if !seen.insert(&disk.file) || disk.file == FILE || disk.file == sums::FILE {
            return Err(Error::invalid(format!("{name}: {file} is named twice")));
        }
        let file = open_plain(&dir.join(&disk.file))?;
        let length = file
            .metadata()
            .map_err(|e| fault("read", &dir.join(&disk.file), e))?
            .len();
        if length != disk.file_bytes.0 {
            return Err(Error::invalid(format!(
                "{}: should be {} bytes long, is {length}",
                shown(&dir.join(&disk.file).to_string_lossy()),
                disk.file_bytes.0
            ))
            .remedy("The file is damaged: get it again."));
        }
    }
    as_written(dir, &text, &name)?;
    Ok(portable)
}

/// Where there are checksums, the description has one, too: a bit that fell over may make another machine of it.
fn as_written(dir: &Path, text: &str, name: &str) -> Result<()> {
    let list = dir.join(sums::FILE);
    if !list.exists() {
        return Ok(());
    }
    let mut known = String::new();
    open_plain(&list)?
        .take(LONGEST)
        .read_to_string(&mut known)
        .map_err(|e| fault("read", &list, e))?;
    let mut own = sums::Running::new();
    own.update(text.as_bytes());
    let own = own.finish();
    let mut sums = sums::parse(&known).into_iter();
    match sums.find(|(file, _)| file == FILE) {
        Some((_, sum)) => sums::same(name, &sum, &own),
        None => Ok(()),
    }
}

/// Computes every checksum anew.
///
/// # Errors
/// `Invalid` naming the first file whose checksum is wrong.
pub fn verify(
    dir: &Path,
    portable: &Portable,
    mut go: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut before = 0;
    for disk in &portable.disks {
        let path = dir.join(&disk.file);
        let file = open_plain(&path)?;
        let (found, length) = sums::of_file(&path, &file, |at| go(before + at))?;
        sums::same(&path.to_string_lossy(), &disk.sha256, &found)?;
        before += length;
    }
    Ok(())
}

/// A name without a folder in it.
pub fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && name != "."
        && name != ".."
        && name.len() <= 255
        && !name.contains(['/', '\\', '\0'])
}

/// Opens a file that is neither a link nor a device.
///
/// # Errors
/// One message each for what it is instead.
pub fn open_plain(path: &Path) -> Result<File> {
    let name = shown(&path.to_string_lossy()).into_owned();
    let meta = std::fs::symlink_metadata(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::not_found(format!("there is no file {name}")),
        _ => fault("read", path, e),
    })?;
    if !meta.is_file() {
        let what = if meta.is_symlink() {
            "a link"
        } else if meta.is_dir() {
            "a folder"
        } else {
            "a device or a pipe"
        };
        return Err(Error::invalid(format!("{name} is {what}, not a file"))
            .remedy("Put the file itself there."));
    }
    // Without waiting, should it become a pipe meanwhile.
    let flags = rustix::fs::OFlags::RDONLY
        | rustix::fs::OFlags::CLOEXEC
        | rustix::fs::OFlags::NOFOLLOW
        | rustix::fs::OFlags::NONBLOCK;
    rustix::fs::open(path, flags, rustix::fs::Mode::empty())
        .map(File::from)
        .map_err(|e| fault("read", path, e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_folders_are_none() {
        for bad in ["", ".", "..", "/etc/shadow", "a/b", "..\\x", "x\0"] {
            assert!(!is_plain_name(bad), "{bad:?}");
        }
        assert!(is_plain_name("disk 0.qcow2"));
    }

    #[test]
    fn a_description_that_changed_is_told_by_its_checksum() {
        let dir = tempfile::tempdir().unwrap();
        let portable: Portable = serde_json::from_value(serde_json::json!({
            "schema": PORTABLE, "name": "web", "origin": {"backend": "qemu", "id": "local/web"},
            "taken_at": "2026-11-30T05:14:02Z", "consistency": "offline", "disks": [],
            "hardware": {"cpus": 2, "memory_bytes": 268_435_456, "firmware": "bios", "nics": []}
        }))
        .unwrap();
        write(dir.path(), &portable).unwrap();
        assert_eq!(read(dir.path()).unwrap().name, "web");
        let file = dir.path().join(FILE);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("268435456", "536870912")).unwrap();
        let error = read(dir.path()).unwrap_err();
        assert!(error.message.contains("checksum"), "{error}");
        // By hand, without checksums, it is what it is.
        std::fs::remove_file(dir.path().join(sums::FILE)).unwrap();
        assert_eq!(read(dir.path()).unwrap().name, "web");
    }

    #[test]
    fn links_and_folders_are_no_files() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("l")).unwrap();
        for (name, what) in [("l", "a link"), ("", "a folder"), ("no", "no file")] {
            let error = open_plain(&dir.path().join(name)).unwrap_err();
            assert!(error.message.contains(what), "{error}");
        }
    }
}
