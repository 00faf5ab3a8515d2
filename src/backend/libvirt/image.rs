//! What a disk is made from: a volume by name, a volume by path, a file of this machine that is sent there.

use std::path::{Path, PathBuf};

use super::ctx::Ctx;
use super::volumes::{self, Pool, Vol};
use crate::backend::contract::ReadCx;
use crate::backend::qemu::image::header;
use crate::model::{Bytes, Error, Result, shown};

/// An image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// A volume over there.
    Volume(Vol),
    /// A file of this machine.
    File(PathBuf, String, Bytes),
}

impl Image {
    /// What a guest sees.
    pub fn size(&self) -> Bytes {
        match self {
            Self::Volume(vol) => vol.capacity,
            Self::File(_, _, size) => *size,
        }
    }

    /// `qcow2`, `raw`.
    pub fn format(&self) -> &str {
        match self {
            Self::Volume(vol) => vol.format.as_deref().unwrap_or("raw"),
            Self::File(_, format, _) => format,
        }
    }
}

/// Finds an image: `POOL/VOLUME`, the bare name of a volume of any pool, a path of the host that is in a pool, or a
/// file of this machine.
///
/// # Errors
/// `NotFound` with where was looked; `Refused` for a file that cannot be a disk.
pub async fn find(ctx: &Ctx, cx: &ReadCx, text: &str) -> Result<Image> {
    let path = Path::new(text);
    if path.is_absolute() {
        if let Some(vol) = volumes::at_path(ctx, cx, text).await? {
            return Ok(Image::Volume(vol));
        }
        if path.is_file() {
            return file(path);
        }
        return Err(Error::not_found(format!(
            "{} is neither a file here nor in a pool of {}",
            shown(text),
            ctx.spec.name
        ))
        .remedy(format!(
            "See what is there: corral storage list --context {}",
            ctx.spec.name
        )));
    }
    if let Some((pool, name)) = text.split_once('/')
        && let Some(vol) = volumes::named(ctx, cx, pool, name).await?
    {
        return Ok(Image::Volume(vol));
    }
    let mut found = Vec::new();
    for pool in active(ctx, cx).await? {
        if let Some(vol) = volumes::named(ctx, cx, &pool.name, text).await? {
            found.push(vol);
        }
    }
    match found.len() {
        0 => Err(
            Error::not_found(format!("{} has no image {}", ctx.spec.name, shown(text))).remedy(
                format!(
                    "See which there are: corral image list --context {}",
                    ctx.spec.name
                ),
            ),
        ),
        1 => found
            .pop()
            .map(Image::Volume)
            .ok_or_else(|| Error::backend("internal: lost")),
        _ => {
            let places: Vec<String> = found
                .iter()
                .map(|vol| format!("{}/{}", vol.pool, vol.name))
                .collect();
            Err(Error::new(
                crate::model::ErrorKind::Ambiguous,
                format!("{} is in several pools", shown(text)),
            )
            .remedy(format!("Say which: {}", places.join(", "))))
        }
    }
}

/// A file of this machine that can be a disk as it is.
fn file(path: &Path) -> Result<Image> {
    let unfit = |why: &str| {
        Err(Error::refused(format!("{}: {why}", shown(&path.display().to_string())))
            .remedy("Make a whole qcow2 or raw image of it first: qemu-img convert -O qcow2 FILE WHOLE.qcow2"))
    };
    let size = std::fs::metadata(path)
        .map_err(|e| crate::link::files::fault("read", path, e))?
        .len();
    let head = header(path);
    let format = head.as_ref().and_then(|head| head.format);
    match (format, &head) {
        (Some("qcow2"), Some(head)) => {
            if head.backing.is_some() {
                return unfit("it is on top of another file");
            }
            match head.size {
                Some(size) => Ok(Image::File(path.to_owned(), "qcow2".to_owned(), size)),
                None => unfit("its size cannot be read"),
            }
        }
        (Some("raw") | None, _) => Ok(Image::File(path.to_owned(), "raw".to_owned(), Bytes(size))),
        (Some(other), _) => unfit(&format!("it is a {other} image")),
    }
}

/// Pools in use.
///
/// # Errors
/// Those of libvirt.
pub async fn active(ctx: &Ctx, cx: &ReadCx) -> Result<Vec<Pool>> {
    let all = volumes::pools(ctx, cx).await?;
    Ok(all
        .into_iter()
        .filter_map(|(_, pool)| pool.ok())
        .filter(|pool| pool.active)
        .collect())
}

/// The pool for something new: the one that is named, that of the first disk, `default`, or the only one.
///
/// # Errors
/// `NotFound`, `Refused` with what to say.
pub async fn pool_for(
    ctx: &Ctx,
    cx: &ReadCx,
    wanted: Option<&str>,
    beside: Option<&str>,
) -> Result<Pool> {
    let pool = match wanted {
        Some(name) => volumes::pool(ctx, cx, name).await?,
        None => {
            let mut all = active(ctx, cx).await?;
            let named = |name: &str| all.iter().position(|pool| pool.name == name);
            let place = beside.and_then(named).or_else(|| named("default"));
            match place {
                Some(n) => all.swap_remove(n),
                None if all.len() == 1 => all.swap_remove(0),
                None if all.is_empty() => {
                    return Err(Error::refused(format!("{} has no pool in use", ctx.spec.name))
                        .remedy("Make one: virsh pool-define-as default dir --target /var/lib/libvirt/images, virsh pool-start default"));
                }
                None => {
                    let names: Vec<String> = all.into_iter().map(|pool| pool.name).collect();
                    return Err(
                        Error::refused("it is not clear where the disk is to be kept")
                            .remedy(format!("Say where: {}", names.join(", "))),
                    );
                }
            }
        }
    };
    match (&pool.kind[..], &pool.path) {
        ("dir" | "fs" | "netfs" | "logical", Some(_)) => Ok(pool),
        (kind, _) => Err(Error::unsupported(format!(
            "new disks in a pool of kind {kind} ({}) are not possible yet",
            shown(&pool.name)
        ))
        .remedy("Make the volume by hand (virsh vol-create-as) and attach it: corral disk add --image POOL/VOLUME")),
    }
}

/// Where a volume of this name will be.
pub fn path_in(pool: &Pool, name: &str) -> String {
    format!(
        "{}/{name}",
        pool.path
            .as_deref()
            .unwrap_or_default()
            .trim_end_matches('/')
    )
}

/// Formats that a pool keeps: block devices hold raw data only.
pub fn format_in<'a>(pool: &Pool, wanted: &'a str) -> &'a str {
    if pool.kind == "logical" {
        "raw"
    } else {
        wanted
    }
}

/// The XML of a new volume; `backing` is what it is on top of.
pub fn volume_xml(name: &str, format: &str, size: Bytes, backing: Option<(&str, &str)>) -> String {
    let name = super::xml::escaped(name);
    let backing = backing.map_or_else(String::new, |(path, format)| {
        format!(
            "<backingStore><path>{}</path><format type='{format}'/></backingStore>",
            super::xml::escaped(path)
        )
    });
    let allocation = if format == "raw" && backing.is_empty() {
        "<allocation unit='bytes'>0</allocation>"
    } else {
        ""
    };
    format!(
        "<volume><name>{name}</name><capacity unit='bytes'>{}</capacity>{allocation}<target><format type='{format}'/></target>{backing}</volume>",
        size.0
    )
}

/// A name for a volume that no other has.
///
/// # Errors
/// Those of libvirt.
pub async fn free_name(
    ctx: &Ctx,
    cx: &ReadCx,
    pool: &Pool,
    stem: &str,
    end: &str,
) -> Result<String> {
    let all = volumes::in_pool(ctx, cx, &pool.name).await?;
    let there = |name: &str| all.iter().any(|(known, _)| known == name);
    let stem: String = stem
        .chars()
        .map(|c| if c == '/' || c.is_control() { '_' } else { c })
        .collect();
    let first = format!("{stem}{end}");
    if !there(&first) {
        return Ok(first);
    }
    let mut n = 2;
    loop {
        let name = format!("{stem}-{n}{end}");
        if !there(&name) {
            return Ok(name);
        }
        n += 1;
    }
}
