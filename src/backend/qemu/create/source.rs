//! What the first disk is made from.

use std::path::{Path, PathBuf};

use super::super::image::{self, stamp};
use super::super::images::Shelf;
use super::super::store::Store;
use super::shape;
use crate::backend::contract::{CreateRequest, DiskSource, Env};
use crate::model::{Bytes, Error, Result};

/// Size of a blank disk where none was asked for. Sparse: it takes what is written.
pub(super) const BLANK: Bytes = Bytes::gib(20);

/// Where the first disk comes from.
pub(super) enum Source {
    Blank,
    Copy {
        from: PathBuf,
        format: String,
        grow: bool,
    },
    Backed {
        base: PathBuf,
        format: String,
    },
}

/// Looks at what the first disk is made from: the source, the size of the disk, and what must
/// still hold of the source when the plan runs.
pub(super) async fn source(
    env: &Env,
    store: &Store,
    request: &CreateRequest,
    notes: &mut Vec<String>,
) -> Result<(Source, Bytes, String)> {
    let shelf = Shelf::under(env);
    let wanted = request.disk_size.map(shape::disk_size).transpose()?;
    let (path, backed) = match &request.source {
        DiskSource::Blank => {
            image::room(store.root(), Bytes::mib(4))?;
            return Ok((Source::Blank, wanted.unwrap_or(BLANK), String::new()));
        }
        DiskSource::Copy(path) => (shelf.place(path)?, false),
        DiskSource::Backed(path) => (shelf.place(path)?, true),
    };
    let image = image::foreign(env, store, &path, false).await?;
    if let Some(wanted) = wanted
        && wanted < image.size
    {
        return Err(Error::invalid(format!(
            "{} is {} large: a disk of {wanted} is too small for it",
            path.display(),
            image.size
        ))
        .remedy("Leave --disk out, or ask for more; disks only grow."));
    }
    let size = wanted.unwrap_or(image.size);
    let token = stamp(&path)?;
    if backed {
        let base = std::fs::canonicalize(&path).unwrap_or(path);
        writable_by(store, &base)?;
        image::room(store.root(), Bytes::mib(4))?;
        notes.push(format!("Needs {} to stay as it is", base.display()));
        return Ok((
            Source::Backed {
                base,
                format: image.format,
            },
            size,
            token,
        ));
    }
    if let Some(backing) = &image.backing {
        notes.push(format!(
            "Copies what {} takes from {} too",
            path.display(),
            backing.display()
        ));
    }
    let needs = image::needed(env, &path, &image.format)
        .await
        .or(image.used)
        .unwrap_or(image.size);
    image::room(store.root(), needs)?;
    let grow = size > image.size;
    Ok((
        Source::Copy {
            from: path,
            format: image.format,
            grow,
        },
        size,
        token,
    ))
}

/// An overlay of a disk that some VM writes would be garbage after its next start.
fn writable_by(store: &Store, base: &Path) -> Result<()> {
    for entry in store.list()? {
        let Ok(other) = entry.definition else {
            continue;
        };
        let writes = other.disks.iter().any(|disk| {
            !disk.readonly && std::fs::canonicalize(&disk.path).is_ok_and(|path| path == base)
        });
        if writes && !other.template {
            return Err(Error::refused(format!(
                "{} is a disk of {}: an overlay breaks when that VM writes to it",
                base.display(),
                crate::model::shown(&other.name)
            ))
            .remedy("Copy it instead: --image"));
        }
    }
    Ok(())
}
