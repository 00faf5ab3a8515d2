//! Pools and volumes as libvirt describes them.

use super::ctx::Ctx;
use super::domain::{DiskDef, Source};
use super::wire::{Call, Fault, Thing};
use super::xml::{at, attr_at, child, parse, size, text_at};
use crate::backend::contract::ReadCx;
use crate::model::{Bytes, Error, ErrorKind, Result, shown};

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vol {
    /// Its pool.
    pub pool: String,
    /// Its name.
    pub name: String,
    /// `file`, `block`, `network` …
    pub kind: String,
    /// Its path at the host.
    pub path: String,
    /// `qcow2`, `raw`, `iso` …
    pub format: Option<String>,
    /// What a guest sees.
    pub capacity: Bytes,
    /// What it takes.
    pub allocation: Option<Bytes>,
    /// What it is on top of.
    pub backing: Option<String>,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// `dir`, `logical`, `rbd` …
    pub kind: String,
    /// Where it is.
    pub path: Option<String>,
    /// Space in all.
    pub capacity: Option<Bytes>,
    /// Space left.
    pub available: Option<Bytes>,
    /// It is in use.
    pub active: bool,
}

impl Vol {
    /// Reads one.
    ///
    /// # Errors
    /// `Backend` for XML that is not of a volume.
    pub fn read(pool: &str, thing: &Thing) -> Result<Self> {
        let xml = xml_of(&thing.xml)?;
        let document = parse(xml)?;
        let root = document.root_element();
        let bytes = |name: &str| {
            child(root, name).and_then(|node| match node.attribute("unit") {
                // A volume's number without a unit is bytes, a domain's is KiB.
                None => super::xml::text(node)?.parse().ok(),
                Some(_) => size(node),
            })
        };
        Ok(Self {
            pool: pool.to_owned(),
            name: text_at(root, &["name"]).unwrap_or_else(|| thing.name.clone()),
            kind: root.attribute("type").unwrap_or("file").to_owned(),
            path: text_at(root, &["target", "path"]).unwrap_or_default(),
            format: attr_at(root, &["target", "format"], "type"),
            capacity: Bytes(bytes("capacity").ok_or_else(|| {
                Error::backend(format!("volume {} has no size", shown(&thing.name)))
            })?),
            allocation: bytes("physical").or_else(|| bytes("allocation")).map(Bytes),
            backing: text_at(root, &["backingStore", "path"]),
        })
    }
}

impl Pool {
    /// Reads one.
    ///
    /// # Errors
    /// `Backend` for XML that is not of a pool.
    pub fn read(thing: &Thing) -> Result<Self> {
        let xml = xml_of(&thing.xml)?;
        let document = parse(xml)?;
        let root = document.root_element();
        let bytes = |name: &str| child(root, name).and_then(size).map(Bytes);
        Ok(Self {
            name: thing.name.clone(),
            kind: root.attribute("type").unwrap_or("?").to_owned(),
            path: text_at(root, &["target", "path"])
                .or_else(|| attr_at(root, &["source", "host"], "name"))
                .or_else(|| at(root, &["source", "name"]).and_then(super::xml::text)),
            capacity: bytes("capacity"),
            available: bytes("available"),
            active: thing.active == Some(true),
        })
    }
}

fn xml_of(xml: &Result<String, Fault>) -> Result<&str> {
    xml.as_deref().map_err(super::fault::error)
}

/// All pools; one that cannot be read is an error of its own.
///
/// # Errors
/// Those of libvirt.
pub async fn pools(ctx: &Ctx, cx: &ReadCx) -> Result<Vec<(String, Result<Pool>)>> {
    let things: Vec<Thing> = ctx.client.ask(cx, Call::Pools {}).await?;
    Ok(things
        .iter()
        .map(|thing| (thing.name.clone(), Pool::read(thing)))
        .collect())
}

/// One pool, in use.
///
/// # Errors
/// `NotFound`, `Refused` for one that is not in use.
pub async fn pool(ctx: &Ctx, cx: &ReadCx, name: &str) -> Result<Pool> {
    let all = pools(ctx, cx).await?;
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    let remedy = format!("Pools of {}: {}", ctx.spec.name, names.join(", "));
    let found = all.iter().position(|(known, _)| known == name);
    let Some(found) = found else {
        return Err(
            Error::not_found(format!("{} has no pool {}", ctx.spec.name, shown(name)))
                .remedy(remedy),
        );
    };
    let (_, pool) = all.into_iter().nth(found).ok_or_else(lost)?;
    let pool = pool?;
    if !pool.active {
        return Err(
            Error::refused(format!("pool {} is not in use", shown(name)))
                .remedy(format!("Start it: virsh pool-start {}", shown(name))),
        );
    }
    Ok(pool)
}

fn lost() -> Error {
    Error::backend("internal: a pool was lost")
}

/// The volumes of a pool.
///
/// # Errors
/// Those of libvirt.
pub async fn in_pool(ctx: &Ctx, cx: &ReadCx, pool: &str) -> Result<Vec<(String, Result<Vol>)>> {
    let call = Call::Volumes {
        pool: pool.to_owned(),
    };
    let things: Vec<Thing> = ctx.client.ask(cx, call).await?;
    Ok(things
        .iter()
        .map(|thing| (thing.name.clone(), Vol::read(pool, thing)))
        .collect())
}

/// The volume at a path; `None` for a file that is in no pool.
///
/// # Errors
/// Those of libvirt.
pub async fn at_path(ctx: &Ctx, cx: &ReadCx, path: &str) -> Result<Option<Vol>> {
    let call = Call::VolumeAt {
        path: path.to_owned(),
    };
    match ctx.client.ask::<(String, Thing)>(cx, call).await {
        Ok((pool, thing)) => Vol::read(&pool, &thing).map(Some),
        Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Unsupported) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// A volume by its name; `None` where it is not.
///
/// # Errors
/// Those of libvirt.
pub async fn named(ctx: &Ctx, cx: &ReadCx, pool: &str, name: &str) -> Result<Option<Vol>> {
    let call = Call::VolumeIn {
        pool: pool.to_owned(),
        name: name.to_owned(),
    };
    match ctx.client.ask::<Thing>(cx, call).await {
        Ok(thing) => Vol::read(pool, &thing).map(Some),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The volume of a disk, where it has one that can be found.
pub async fn of_disk(ctx: &Ctx, cx: &ReadCx, disk: &DiskDef) -> Option<Vol> {
    let found = match disk.source.as_ref()? {
        Source::Path(path) => at_path(ctx, cx, path).await,
        Source::Volume(pool, name) => named(ctx, cx, pool, name).await,
        Source::Other(_) => Ok(None),
    };
    found.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_volumes_and_pools_are_read() {
        let thing = |xml: &str| Thing {
            name: "x".to_owned(),
            xml: Ok(xml.to_owned()),
            active: Some(true),
        };
        let vol = include_str!("../../../tests/fixtures/libvirt/vol.xml");
        let vol = Vol::read("default", &thing(vol)).unwrap();
        assert_eq!(vol.name, "lab2.qcow2");
        assert_eq!(vol.capacity, Bytes(314_572_800));
        assert_eq!(vol.allocation, Some(Bytes(21_561_344)));
        let pool = include_str!("../../../tests/fixtures/libvirt/pool.xml");
        let pool = Pool::read(&thing(pool)).unwrap();
        assert_eq!(pool.available, Some(Bytes(241_690_124_288)));
        assert!(pool.active && pool.kind == "dir");
        assert!(Vol::read("default", &thing("<volume/>")).is_err());
    }
}
