//! What an image stands on: overlay, base, the base's base. Each is looked at by itself, since
//! QEMU follows a chain that runs in a circle for ever.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Image, absolute, info_as, quoted, show};
use crate::backend::contract::Env;
use crate::model::{Error, Result};

/// Longer chains are refused: nothing makes them, and each link is a process.
const LONGEST: usize = 200;

/// The image and all it stands on, the image itself first. What is reached over a network is not
/// followed.
///
/// # Errors
/// As [`super::info`]; one message each for a base or data file that is gone, and for a circle.
pub async fn chain(env: &Env, path: &Path, shared: bool) -> Result<Vec<Image>> {
    chain_as(env, path, None, shared).await
}

/// [`chain`] of an image whose format is known.
pub(super) async fn chain_as(
    env: &Env,
    path: &Path,
    format: Option<&str>,
    shared: bool,
) -> Result<Vec<Image>> {
    let mut images = Vec::new();
    let mut seen: Vec<((u64, u64), PathBuf)> = Vec::new();
    let mut next = Some((absolute(path), format.map(str::to_owned)));
    while let Some((file, format)) = next.take() {
        let image = info_as(env, &file, format.as_deref(), shared).await?;
        let identity = identity(&file);
        if seen.iter().any(|(other, _)| Some(*other) == identity) || seen.len() == LONGEST {
            return Err(circle(path, &seen, &file));
        }
        let dir = file.parent().unwrap_or(Path::new("/")).to_owned();
        if let Some(data) = image.data_file.as_ref().filter(|data| is_local(data)) {
            data_of(&file, &dir.join(data))?;
        }
        if let Some(backing) = image.backing.as_ref().filter(|backing| is_local(backing)) {
            let base = dir.join(backing);
            base_of(&file, &base)?;
            next = Some((base, image.backing_format.clone()));
        }
        seen.extend(identity.map(|identity| (identity, file)));
        images.push(image);
    }
    Ok(images)
}

/// Not `json:{…}`, `nbd://…` or another protocol of QEMU's.
pub(super) fn is_local(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.starts_with('/')
        || text
            .split('/')
            .next()
            .is_none_or(|part| !part.contains(':'))
}

/// Tells one file from another whatever it is called.
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

fn circle(path: &Path, seen: &[((u64, u64), PathBuf)], last: &Path) -> Error {
    let names: Vec<String> = seen
        .iter()
        .map(|(_, file)| file.as_path())
        .chain([last])
        .take(4)
        .map(|file| show(Path::new(file.file_name().unwrap_or_default())))
        .collect();
    Error::invalid(format!(
        "the overlays of {} have no end: {}",
        show(path),
        names.join(" on ")
    ))
    .remedy(format!(
        "Name its true base: qemu-img rebase -u -b BASE {}. Or get it again.",
        quoted(path)
    ))
}

fn base_of(path: &Path, base: &Path) -> Result<()> {
    if fs::metadata(base).is_ok() {
        return Ok(());
    }
    Err(Error::not_found(format!(
        "{} is an overlay of {}, which is gone",
        show(path),
        show(base)
    ))
    .remedy(format!(
        "Bring it back, or name its new place: qemu-img rebase -u -b NEW {}",
        quoted(path)
    )))
}

fn data_of(path: &Path, data: &Path) -> Result<()> {
    if fs::metadata(data).is_ok() {
        return Ok(());
    }
    Err(Error::not_found(format!(
        "{} keeps its data in {}, which is gone",
        show(path),
        show(data)
    ))
    .remedy(format!(
        "Bring that file back, or name its new place: qemu-img amend -o data_file=NEW {}",
        quoted(path)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_no_files() {
        for file in ["/a:b/c", "base.qcow2", "../x:y/z"] {
            assert!(is_local(Path::new(file)), "{file}");
        }
        for other in ["nbd://h/x", "json:{\"driver\":\"nbd\"}", "rbd:pool/x"] {
            assert!(!is_local(Path::new(other)), "{other}");
        }
    }
}
