//! Where the data of an added disk comes from: nowhere, an image as it is, or a copy of one.

use std::path::{Path, PathBuf};

use super::super::definition::DiskDef;
use super::super::image::{self, Image};
use super::super::images::Shelf;
use super::super::store::{files, real};
use super::{Target, place, show, users};
use crate::link::files::fault;
use crate::model::{Bytes, Error, Result, shown};

/// Tables of a new image.
const TABLES: Bytes = Bytes::mib(4);

/// Where its data comes from.
pub(super) enum Source {
    Blank,
    /// Used as it is, while it stays what it was.
    Image {
        stamp: String,
    },
    Copy {
        from: PathBuf,
        format: String,
        grow: bool,
        stamp: String,
    },
}

/// What is asked for.
pub(super) struct Wanted {
    pub(super) size: Option<Bytes>,
    pub(super) image: Option<String>,
    pub(super) copy: bool,
    pub(super) bus: Option<String>,
    pub(super) format: Option<String>,
    pub(super) readonly: bool,
    pub(super) storage: Option<String>,
}

/// File, format and size.
pub(super) async fn data(
    target: &Target<'_>,
    wanted: &Wanted,
    name: &str,
    notes: &mut Vec<String>,
) -> Result<(DiskDef, Source)> {
    let env = &target.ctx.env;
    let format = wanted.format.as_deref();
    if let Some(other) = format.filter(|f| !matches!(*f, "qcow2" | "raw")) {
        return Err(
            Error::invalid(format!("--format {}: not known", shown(other)))
                .remedy("One of: qcow2, raw"),
        );
    }
    let size = wanted
        .size
        .map(super::super::create::disk_size)
        .transpose()?;
    let disk = |path: PathBuf, format: &str, size: Bytes| DiskDef {
        name: name.to_owned(),
        path,
        format: format.to_owned(),
        bus: String::new(),
        size,
        backing: None,
        owned: true,
        serial: String::new(),
        readonly: wanted.readonly,
        slot: None,
    };
    let Some(from) = wanted
        .image
        .as_deref()
        .map(|from| Shelf::under(env).place(from))
        .transpose()?
    else {
        if wanted.copy {
            return Err(Error::invalid("--copy: of which image?").remedy("Add --image FILE"));
        }
        let size = size.ok_or_else(|| {
            Error::invalid("how large?")
                .remedy("Add --size 20G, or --image FILE for one that is there")
        })?;
        if wanted.readonly {
            return Err(
                Error::invalid("an empty disk that is read-only stays empty")
                    .remedy("Leave --write-protect out, or name an --image."),
            );
        }
        let format = format.unwrap_or("qcow2");
        let path = own_file(target, wanted, name, format, TABLES)?;
        return Ok((disk(path, format, size), Source::Blank));
    };
    place::device_is_free(&from)?;
    let image = image::foreign(env, &target.ctx.store, &from, format == Some("raw")).await?;
    let stamp = image::stamp(&from)?;
    if !wanted.copy {
        let attached = attachable(target, wanted, &from, &image, notes)?;
        let mut disk = disk(attached, &image.format, image.size);
        disk.owned = came_back(target, &disk.path)?;
        disk.backing = image.backing.map(|base| real(&absolute_base(&from, &base)));
        return Ok((disk, Source::Image { stamp }));
    }
    let into = format.unwrap_or("qcow2");
    let larger = size.filter(|size| *size != image.size);
    if let Some(size) = larger.filter(|size| *size < image.size) {
        return Err(Error::invalid(format!(
            "{} is {} large: a disk of {size} is too small for it",
            show(&from),
            image.size
        ))
        .remedy("Leave --size out, or ask for more; disks only grow."));
    }
    let needs = image::needed_as(env, &from, &image.format, into)
        .await
        .or(image.used)
        .unwrap_or(image.size);
    let path = own_file(target, wanted, name, into, needs)?;
    let source = Source::Copy {
        from,
        format: image.format,
        grow: larger.is_some(),
        stamp,
    };
    Ok((disk(path, into, larger.unwrap_or(image.size)), source))
}

fn absolute_base(image: &Path, base: &Path) -> PathBuf {
    image.parent().unwrap_or(Path::new("/")).join(base)
}

/// Where a file that corral makes goes: the VM's folder, or the one that was named.
fn own_file(
    target: &Target<'_>,
    wanted: &Wanted,
    name: &str,
    format: &str,
    needs: Bytes,
) -> Result<PathBuf> {
    let dir = target.dir()?;
    let folder = match &wanted.storage {
        Some(storage) => place::folder(storage)?,
        None => dir.clone(),
    };
    image::room(&folder, needs)?;
    let own = real(&folder) == real(&dir);
    let vm = &target.vm().name;
    let mut file = folder.join(place::file_name(vm, own, name, format)?);
    if own {
        // The data of a disk that was detached keeps its name.
        let mut n = 1;
        while std::fs::symlink_metadata(&file).is_ok() && n < 1000 {
            n += 1;
            file = folder.join(place::file_name(vm, own, &format!("{name}-{n}"), format)?);
        }
    }
    place::unused(&file)?;
    Ok(file)
}

/// A disk that was detached from this VM: it lies in its folder, under a name that corral gave it.
fn came_back(target: &Target<'_>, file: &Path) -> Result<bool> {
    let parent = file.parent().map(real);
    Ok(parent == Some(real(&target.dir()?)) && place::is_named(file))
}

/// Whether an image can be a disk as it is.
fn attachable(
    target: &Target<'_>,
    wanted: &Wanted,
    from: &Path,
    image: &Image,
    notes: &mut Vec<String>,
) -> Result<PathBuf> {
    let vm = target.vm();
    let copy = "Attach a copy of it: --copy".to_owned();
    if !matches!(image.format.as_str(), "qcow2" | "raw") {
        return Err(Error::unsupported(format!(
            "{} is {}: only qcow2 and raw are used as they are",
            show(from),
            shown(&image.format)
        ))
        .remedy(copy));
    }
    if let Some(format) = wanted.format.as_deref().filter(|f| *f != image.format) {
        return Err(
            Error::invalid(format!("{} is {}, not {format}", show(from), image.format))
                .remedy(format!("{copy} turns it into {format}.")),
        );
    }
    if wanted.size.is_some_and(|size| size != image.size) {
        return Err(Error::invalid(format!(
            "--size is for a new disk or a copy: {} has {}",
            show(from),
            image.size
        ))
        .remedy(format!(
            "Attach it first, then: corral disk grow {} --disk DISK --to SIZE",
            target.seen.id
        )));
    }
    if wanted.storage.is_some() {
        return Err(Error::invalid("--storage is for a new disk or a copy").remedy("Add --copy."));
    }
    let file = real(from);
    if files(vm).any(|path| real(path) == file) {
        return Err(Error::refused(format!(
            "{} is in use by {} already",
            show(from),
            target.seen.id
        ))
        .remedy(copy));
    }
    let users = users(&target.ctx.store, from, &vm.name)?;
    if !users.is_empty() {
        return Err(Error::refused(format!(
            "{} is needed by {}: two that write it destroy it",
            show(from),
            users.join(", ")
        ))
        .remedy(copy));
    }
    if !wanted.readonly && file.starts_with(real(Shelf::under(&target.ctx.env).dir())) {
        return Err(Error::refused(format!(
            "{} is a pulled image: what is made of it later would have what this VM writes",
            show(from)
        ))
        .remedy(copy));
    }
    if !wanted.readonly {
        rustix::fs::access(&file, rustix::fs::Access::WRITE_OK)
            .map_err(|e| fault("write", &file, e.into()))?;
    }
    let end = if came_back(target, &file)? {
        "it was made for this VM, and is deleted with it"
    } else {
        "a delete of the VM leaves it"
    };
    notes.push(format!("Uses {} as it is; {end}", show(&file)));
    Ok(file)
}
