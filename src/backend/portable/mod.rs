//! Instances as files: a folder with `portable.json`, or one package. Nothing here knows a backend.

use std::path::Path;

pub mod folder;
pub mod gzip;
pub mod ova;
pub mod ovf;
pub mod ovf_read;
pub mod stream;
pub mod sums;
pub mod tarball;

/// A name for what is imported, where none is given: what it calls itself, else the file's.
pub fn name_of(from: &Path) -> Option<String> {
    if from.is_dir() && folder::is_one(from) {
        return folder::read(from).ok().map(|portable| portable.name);
    }
    let described = || {
        let path = std::fs::canonicalize(from).ok()?;
        let file = folder::open_plain(&path).ok()?;
        let members = tarball::index(&path, &file).ok()?;
        let ending = |m: &&tarball::Member| m.name.to_lowercase().ends_with(".ovf");
        let ovf = members.iter().find(ending)?;
        ovf_read::read(&tarball::text(&path, &file, ovf).ok()?)
            .ok()?
            .name
    };
    if let Some(name) = described() {
        return Some(name);
    }
    let mut name = from.file_name()?.to_str()?;
    for ending in [
        ".gz", ".qcow2", ".raw", ".img", ".vmdk", ".vdi", ".vhd", ".vhdx", ".ova", ".ovf",
    ] {
        name = name.strip_suffix(ending).unwrap_or(name);
    }
    Some(name.to_owned())
}

/// A new file that only its user can read: it holds a guest's data.
pub fn private(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}
