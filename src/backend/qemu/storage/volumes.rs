//! The images in one folder.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{Folder, Users};
use crate::backend::qemu::image::{Header, header};
use crate::link::files::fault;
use crate::model::{Bytes, Result, Volume};

/// More files than anybody looks through.
const MOST: usize = 10_000;

/// Endings of files that hold disks, whatever is in them.
const ENDINGS: [&str; 10] = [
    "qcow2", "qcow", "img", "raw", "iso", "vmdk", "vdi", "vhd", "vhdx", "partial",
];

/// Every image of a folder, by name.
///
/// # Errors
/// When the folder cannot be read. One that is not there is empty.
pub(super) fn list(folder: &Folder, users: &Users) -> Result<Vec<Volume>> {
    let mut files = Vec::new();
    walk(&folder.place, if folder.deep { 2 } else { 0 }, &mut files)
        .map_err(|e| fault("read", &folder.place, e))?;
    files.sort();
    let mut volumes: Vec<Volume> = files
        .iter()
        .filter_map(|file| volume(folder, file, users))
        .collect();
    // What a definition names and is not there is the first thing to be seen.
    for gone in users.files().filter(|file| is_in(folder, file)) {
        if !super::super::store::is_there(gone) {
            volumes.insert(
                0,
                Volume {
                    format: Some("missing".to_owned()),
                    size_bytes: None,
                    used_bytes: None,
                    ..named(folder, gone, users)
                },
            );
        }
    }
    Ok(volumes)
}

fn is_in(folder: &Folder, file: &Path) -> bool {
    let place = super::super::store::real(&folder.place);
    if folder.deep {
        file.starts_with(&place)
    } else {
        file.parent() == Some(&place)
    }
}

fn walk(dir: &Path, deeper: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    for entry in entries.filter_map(std::result::Result::ok) {
        if files.len() >= MOST {
            return Ok(());
        }
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            if deeper > 0 {
                // One folder that is closed to this user hides no other.
                let _ = walk(&entry.path(), deeper - 1, files);
            }
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn volume(folder: &Folder, file: &Path, users: &Users) -> Option<Volume> {
    let meta = fs::metadata(file).ok().filter(fs::Metadata::is_file)?;
    let found = header(file).unwrap_or_default();
    let volume = named(folder, file, users);
    if volume.used_by.is_empty() && !is_image(file, &found) {
        return None;
    }
    let format = match (found.format, is_partial(file)) {
        (_, true) => "partial",
        (Some(format), _) => format,
        (None, _) => "raw",
    };
    Some(Volume {
        format: Some(format.to_owned()),
        size_bytes: match found.format {
            None | Some("iso") => Some(Bytes(meta.len())),
            Some(_) => found.size,
        },
        used_bytes: Some(Bytes(meta.blocks().saturating_mul(512))),
        ..volume
    })
}

fn named(folder: &Folder, file: &Path, users: &Users) -> Volume {
    let place = super::super::store::real(&folder.place);
    let name = file
        .strip_prefix(&folder.place)
        .or_else(|_| file.strip_prefix(&place))
        .unwrap_or(file);
    let used_by = users.of(file);
    Volume {
        pool: folder.name.clone(),
        name: name.to_string_lossy().into_owned(),
        format: None,
        size_bytes: None,
        used_bytes: None,
        orphan: used_by.is_empty(),
        used_by,
    }
}

fn ending(file: &Path) -> Option<String> {
    Some(file.extension()?.to_str()?.to_ascii_lowercase())
}

fn is_partial(file: &Path) -> bool {
    ending(file).is_some_and(|ending| ending == "partial")
}

fn is_image(file: &Path, header: &Header) -> bool {
    header.format.is_some() || ending(file).is_some_and(|e| ENDINGS.contains(&e.as_str()))
}
