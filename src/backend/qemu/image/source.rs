//! Whether a file can be the source of a disk.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::chain::chain_as;
use super::known::asked;
use super::{From, Image, absolute, header, quoted, readable, show, tool};
use crate::backend::contract::Env;
use crate::link::child::{Cmd, Output, run};
use crate::link::files::fault;
use crate::model::{Bytes, Error, Result};

/// A check reads all tables of an image: 1 TiB has 128 MiB of them.
pub const CHECK: Duration = Duration::from_secs(120);
/// A repair writes them, too.
const REPAIR: Duration = Duration::from_secs(600);

/// Describes a disk of a VM that is to be copied or stood upon, and makes sure that it can be. Its
/// definition says its format: of a raw disk the guest decides what its bytes look like. With
/// `shared`, also one that a running guest writes; it is not checked, since its tables are in flux.
///
/// # Errors
/// As [`super::info`]; and for encrypted and corrupt ones.
pub async fn defined(env: &Env, path: &Path, format: &str, shared: bool) -> Result<Image> {
    readable(path)?;
    // Before QEMU opens it whole, which does not end where the chain does not.
    let look = chain_as(env, path, Some(format), shared);
    if shared {
        return Ok(look.await?.swap_remove(0));
    }
    if header(path).is_some_and(|head| head.backing.is_none()) {
        // No chain: both at once.
        let (images, checked) = tokio::join!(look, check(env, path, format));
        return whole(path, images?.swap_remove(0), checked);
    }
    let image = look.await?.swap_remove(0);
    sound(env, path, image).await
}

/// Refuses one that is encrypted or corrupt.
pub(super) async fn sound(env: &Env, path: &Path, image: Image) -> Result<Image> {
    let checked = if image.encrypted || image.corrupt {
        Ok(None)
    } else {
        check(env, path, &image.format).await
    };
    whole(path, image, checked)
}

/// [`sound`], by what a check said.
fn whole(path: &Path, image: Image, checked: Result<Option<String>>) -> Result<Image> {
    if image.encrypted {
        return Err(Error::unsupported(format!("{} is encrypted", show(path)))
            .remedy("Decrypt it first: qemu-img convert"));
    }
    let damaged = if image.corrupt {
        Some("it is marked so".to_owned())
    } else {
        checked?
    };
    if let Some(why) = damaged {
        return Err(
            Error::invalid(format!("{} is corrupt: {why}", show(path))).remedy(format!(
                "Get it again, or mend a copy of it: qemu-img check -r all {}",
                quoted(path)
            )),
        );
    }
    Ok(image)
}

/// `Some(why)` when an image has errors beyond lost space. Formats that cannot be checked pass.
///
/// # Errors
/// When `qemu-img` cannot be run.
pub async fn check(env: &Env, path: &Path, format: &str) -> Result<Option<String>> {
    if format == "raw" {
        return Ok(None);
    }
    let cmd = Cmd::new(tool(env)?)
        .args(["check", "--output=json", "-f", format])
        .arg(absolute(path));
    let output = asked(&cmd, path, CHECK).await?;
    let Ok(value) = serde_json::from_slice::<Value>(&output.stdout) else {
        return Ok(match output.status.code() {
            // 63: no checks for this format.
            Some(0 | 63) => None,
            _ => Some(output.complaint()),
        });
    };
    let count = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
    let errors = count("corruptions") + count("check-errors");
    Ok((errors > 0).then(|| format!("{errors} errors")))
}

/// Gives back clusters of a qcow2 that are taken and hold nothing, as a QEMU that was killed leaves them. Nobody may use
/// the image meanwhile.
///
/// # Errors
/// When `qemu-img` cannot be run.
pub async fn give_back(env: &Env, path: &Path) -> Result<Output> {
    let cmd = Cmd::new(tool(env)?)
        .args(["check", "-r", "leaks", "--output=json", "-f", "qcow2", "--"])
        .arg(absolute(path));
    run(&cmd, REPAIR).await
}

/// Where the first descriptor of a CD-ROM has its name.
const DESCRIPTOR: u64 = 32769;

/// Makes sure that a file can be put into a CD-ROM drive: ISO 9660 or UDF.
///
/// # Errors
/// One message each for what is not there and for what is no such image.
pub fn disc(path: &Path) -> Result<()> {
    readable(path)?;
    let mut name = [0; 5];
    let mut file = fs::File::open(path).map_err(|e| fault("read", path, e))?;
    let read = file
        .seek(SeekFrom::Start(DESCRIPTOR))
        .and_then(|_| file.read_exact(&mut name));
    if read.is_ok() && matches!(&name, b"CD001" | b"BEA01" | b"NSR02" | b"NSR03") {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} is no CD-ROM image (ISO 9660 or UDF)",
        show(path)
    ))
    .remedy(format!(
        "If it is a disk: corral disk add INSTANCE --image {}",
        quoted(path)
    )))
}

/// The first bytes of a file say what it is when it is no disk image at all. Gives whether they are
/// those of a format; else it can only be a raw disk.
///
/// # Errors
/// One message each, with what would help.
pub fn recognise(path: &Path, raw: bool) -> Result<bool> {
    let mut file = fs::File::open(path).map_err(|e| fault("read", path, e))?;
    let mut head = [0; 512];
    let mut have = 0;
    while have < head.len() {
        match file.read(&mut head[have..]) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(e) => return Err(fault("read", path, e)),
        }
    }
    let head = &head[..have];
    let refuse = |what: &str, remedy: String| {
        Err(Error::invalid(format!("{} {what}", show(path))).remedy(remedy))
    };
    let packed = [
        (&b"\x1f\x8b"[..], "gzip", "gunzip -k"),
        (b"\xfd7zXZ\x00", "xz", "unxz -k"),
        (b"\x28\xb5\x2f\xfd", "zstd", "unzstd"),
        (b"BZh", "bzip2", "bunzip2 -k"),
        (b"PK\x03\x04", "zip", "unzip"),
    ];
    for (magic, name, tool) in packed {
        if head.starts_with(magic) {
            return refuse(
                &format!("is compressed ({name})"),
                format!("Unpack it first: {tool} {}", quoted(path)),
            );
        }
    }
    if head.is_empty() {
        return refuse("is empty", "Get it again.".to_owned());
    }
    let mut iso = [0; 5];
    let is_iso = file.seek(SeekFrom::Start(DESCRIPTOR)).is_ok()
        && file.read_exact(&mut iso).is_ok()
        && &iso == b"CD001";
    let partitioned = head.get(510..512) == Some(&[0x55, 0xaa]);
    if is_iso {
        return refuse(
            "is a CD-ROM image, not a disk",
            format!("Use it so: --cdrom {}", quoted(path)),
        );
    }
    let known = [
        &b"QFI\xfb"[..],
        b"KDMV",
        b"# Disk DescriptorFile",
        b"vhdxfile",
        b"conectix",
        b"cxsparse",
        b"<<< ",
        b"WithoutFreeSpace",
        b"WithouFreSpacExt",
        b"QED\0",
    ];
    let known = known.iter().any(|magic| head.starts_with(magic));
    if !raw && !partitioned && !known {
        return refuse(
            "is no disk image: no known format and no partition table",
            format!(
                "If it is a raw disk all the same: qemu-img convert -f raw -O qcow2 {} disk.qcow2",
                quoted(path)
            ),
        );
    }
    Ok(known)
}

/// Space that a copy as qcow2 takes at most; `None` where qemu-img cannot say.
pub async fn needed(env: &Env, path: &Path, format: &str) -> Option<Bytes> {
    let from = From {
        path,
        format,
        snapshot: None,
        shared: false,
    };
    needed_of(env, &from).await
}

/// [`needed`] for a copy in another format.
pub async fn needed_as(env: &Env, path: &Path, format: &str, into: &str) -> Option<Bytes> {
    let cmd = Cmd::new(tool(env).ok()?)
        .args(["measure", "--output=json", "-O", into, "-f", format])
        .arg(absolute(path));
    required(&cmd).await
}

/// [`needed`], also of a snapshot.
pub async fn needed_of(env: &Env, from: &From<'_>) -> Option<Bytes> {
    let cmd = Cmd::new(tool(env).ok()?)
        .args(["measure", "--output=json", "-O", "qcow2"])
        .args(from.options())
        .arg(absolute(from.path));
    required(&cmd).await
}

async fn required(cmd: &Cmd) -> Option<Bytes> {
    let output = run(cmd, CHECK).await.ok()?;
    let value: Value = serde_json::from_slice(&output.stdout).ok()?;
    value.get("required").and_then(Value::as_u64).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_image_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x y.img");
        for (content, wanted) in [
            (&b"\x1f\x8b\x08rest"[..], "compressed (gzip)"),
            (b"", "is empty"),
            (b"hello", "no disk image"),
        ] {
            fs::write(&file, content).unwrap();
            let error = recognise(&file, false).unwrap_err();
            assert!(
                error.message.contains(wanted) && error.remedy.is_some(),
                "{error}"
            );
        }
        let mut iso = vec![0; 40000];
        iso[32769..32774].copy_from_slice(b"CD001");
        fs::write(&file, iso).unwrap();
        assert!(
            recognise(&file, false)
                .unwrap_err()
                .to_string()
                .contains("--cdrom '")
        );
    }
}
