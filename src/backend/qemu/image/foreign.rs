//! Images from anywhere: one that points at another file would bring that file's content, any file of
//! this machine, into a guest.

use std::path::Path;

use super::super::images::Shelf;
use super::super::store::{Store, real};
use super::super::transfer::import::guard;
use super::chain::chain_as;
use super::source::sound;
use super::{Image, header, readable, recognise, show};
use crate::backend::contract::Env;
use crate::model::{Error, Result};

/// Describes an image that is to be the source of a disk, and makes sure that it can be one and that
/// all of it is in the one file. Overlays that corral made on its own files are such sources too.
/// With `raw`, whatever holds no known format is a raw disk.
///
/// # Errors
/// `Refused` for one that points at another file; as [`super::info`]; and for ISO images, compressed
/// files, encrypted, corrupt and unknown ones.
pub async fn foreign(env: &Env, store: &Store, path: &Path, raw: bool) -> Result<Image> {
    readable(path)?;
    let known = recognise(path, raw)? || header(path).is_some_and(|head| head.format.is_some());
    if let Err(mut error) = guard::stands_alone(path)
        && !is_own_overlay(Shelf::under(env).dir(), store, path)?
    {
        let said = error.remedy.unwrap_or_default();
        error.remedy = Some(format!(
            "{said}. For an overlay of a base that is whole: corral create NAME --backing BASE"
        ));
        return Err(error);
    }
    // QEMU knows more formats than are told apart here, and some of them name other files.
    let format = (!known).then_some("raw");
    let mut images = chain_as(env, path, format, false).await?;
    if images.iter().any(|image| image.data_file.is_some()) {
        return Err(
            Error::refused(format!("{} keeps its data in another file", show(path)))
                .remedy("Make one file of it: qemu-img convert -O qcow2 FILE WHOLE.qcow2"),
        );
    }
    sound(env, path, images.swap_remove(0)).await
}

/// An overlay among the store's files, on a base that is one of them, lies on the shelf, or is named
/// by a definition.
fn is_own_overlay(shelf: &Path, store: &Store, path: &Path) -> Result<bool> {
    let Some(base) = header(path).and_then(|head| head.backing) else {
        return Ok(false);
    };
    let root = real(store.root());
    let (path, base) = (real(path), real(&base));
    if !path.starts_with(&root) {
        return Ok(false);
    }
    let shelf = real(shelf);
    Ok(base.starts_with(&root) || base.starts_with(shelf) || store.is_named(&base)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dirs, ErrorKind};

    fn overlay(of: &Path) -> Vec<u8> {
        let base = of.to_str().unwrap().as_bytes();
        let mut bytes = vec![0; 65536];
        bytes[..8].copy_from_slice(b"QFI\xfb\0\0\0\x02");
        bytes[8..16].copy_from_slice(&512u64.to_be_bytes());
        bytes[16..20].copy_from_slice(&u32::try_from(base.len()).unwrap().to_be_bytes());
        bytes[20..24].copy_from_slice(&16u32.to_be_bytes());
        bytes[24..32].copy_from_slice(&(1u64 << 20).to_be_bytes());
        bytes[512..512 + base.len()].copy_from_slice(base);
        bytes
    }

    #[test]
    fn only_overlays_among_its_own_files_are_trusted() {
        let home = tempfile::tempdir().unwrap();
        let dirs = Dirs::under(home.path());
        let shelf = home.path().join("images");
        let store = Store::open(&dirs);
        let dir = store.dir("a").unwrap();
        std::fs::create_dir_all(&dir).unwrap();
        let (base, outside) = (dir.join("disk0.qcow2"), home.path().join("secret"));
        std::fs::write(&base, "x").unwrap();
        std::fs::write(&outside, "x").unwrap();
        for (file, on, own) in [
            (dir.join("disk1.qcow2"), &base, true),
            (dir.join("disk2.qcow2"), &outside, false),
            (home.path().join("ev.qcow2"), &outside, false),
            (home.path().join("ev2.qcow2"), &base, false),
        ] {
            std::fs::write(&file, overlay(on)).unwrap();
            assert_eq!(
                is_own_overlay(&shelf, &store, &file).unwrap(),
                own,
                "{}",
                file.display()
            );
            let error = guard::stands_alone(&file).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Refused, "{error}");
        }
        let descriptor = home.path().join("x.vmdk");
        std::fs::write(&descriptor, "# Disk DescriptorFile\nversion=1\n").unwrap();
        assert!(guard::stands_alone(&descriptor).is_err());
    }
}
