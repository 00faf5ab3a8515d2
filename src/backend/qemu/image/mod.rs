//! Image files, by `qemu-img`: what they are, and what it means when it fails.

mod chain;
mod foreign;
mod header;
mod known;
mod make;
mod source;

pub use chain::chain;
pub use foreign::foreign;
pub use header::{Header, header, snapshot_sizes};
pub use make::{
    From, QUICK, blank_cmd, convert_cmd, copy_cmd, grow_cmd, into_cmd, make, new_cmd, overlay_cmd,
    raw_copy_cmd, rebase_cmd, resize_cmd, settle, settle_all, write,
};
pub use source::{CHECK, check, defined, disc, give_back, needed, needed_as, needed_of, recognise};

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::definition::DiskDef;
use crate::backend::contract::Env;
use crate::link::child::{Cmd, Output, run};
use crate::link::files::fault;
use crate::model::{Bytes, Error, Result, shown};

/// `qemu-img` only reads headers for this; a network file system may be slow.
const LOOK: Duration = Duration::from_secs(15);

/// Finds `qemu-img`.
pub fn tool(env: &Env) -> Result<PathBuf> {
    env.which("qemu-img").ok_or_else(|| {
        Error::unsupported("qemu-img is not installed").remedy("apt install qemu-utils")
    })
}

/// What `qemu-img info` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Format, as probed.
    pub format: String,
    /// Size the guest sees.
    pub size: Bytes,
    /// Space it takes, where known.
    pub used: Option<Bytes>,
    /// The file it is an overlay of.
    pub backing: Option<PathBuf>,
    /// That file is named from where this one lies.
    pub backing_is_relative: bool,
    /// The format that file is said to have.
    pub backing_format: Option<String>,
    /// Another file that holds its data.
    pub data_file: Option<PathBuf>,
    /// Marked corrupt by QEMU.
    pub corrupt: bool,
    /// Encrypted.
    pub encrypted: bool,
    /// Internal snapshots.
    pub snapshots: Vec<Internal>,
}

/// A snapshot inside of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Internal {
    /// Its name.
    pub tag: String,
    /// Seconds since the epoch.
    pub seconds: Option<i64>,
    /// Bytes of RAM state with it; 0 is none.
    pub vm_state: u64,
}

impl Image {
    /// Reads what `qemu-img info --output=json` or `query-named-block-nodes` says of an image.
    /// What is missing or of another type is left at "not known".
    pub fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let number = |name: &str| value.get(name).and_then(Value::as_u64);
        let data = value.pointer("/format-specific/data");
        Some(Self {
            format: text("format")?,
            size: Bytes(number("virtual-size")?),
            used: number("actual-size").map(Bytes),
            backing: text("full-backing-filename")
                .or_else(|| text("backing-filename"))
                .map(PathBuf::from),
            backing_is_relative: text("backing-filename")
                .is_some_and(|base| !base.starts_with('/') && !base.contains(':')),
            backing_format: text("backing-filename-format"),
            data_file: data
                .and_then(|d| d.get("data-file"))
                .and_then(Value::as_str)
                .map(PathBuf::from),
            corrupt: data.and_then(|d| d.get("corrupt")).and_then(Value::as_bool) == Some(true),
            encrypted: value.get("encrypted").and_then(Value::as_bool) == Some(true),
            snapshots: internal(value.get("snapshots")),
        })
    }

    /// The file that it, at `path`, is an overlay of, and the format of that one.
    ///
    /// # Errors
    /// `Refused` where the format is not written down: a guess lets what is in the base decide.
    pub fn base(&self, path: &Path) -> Result<Option<(&Path, &str)>> {
        let Some(base) = &self.backing else {
            return Ok(None);
        };
        let Some(format) = &self.backing_format else {
            return Err(Error::refused(format!(
                "{} does not say which format its base {} has",
                show(path),
                show(base)
            ))
            .remedy(format!(
                "Write it down: qemu-img rebase -u -f qcow2 -F FORMAT -b {} {}",
                quoted(base),
                quoted(path)
            )));
        };
        Ok(Some((base, format)))
    }
}

/// The `snapshots` list of an image; elements without a name are left out.
fn internal(list: Option<&Value>) -> Vec<Internal> {
    let items = list
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    items
        .iter()
        .filter_map(|item| {
            Some(Internal {
                tag: item.get("name")?.as_str()?.to_owned(),
                seconds: item
                    .get("date-sec")
                    .and_then(Value::as_i64)
                    .filter(|s| *s > 0),
                vm_state: item
                    .get("vm-state-size")
                    .and_then(Value::as_u64)
                    .unwrap_or(0),
            })
        })
        .collect()
}

/// Describes an image. With `shared`, also one that a running guest writes.
///
/// # Errors
/// One message each for a file that is missing, locked, unreadable or whose base is gone.
pub async fn info(env: &Env, path: &Path, shared: bool) -> Result<Image> {
    info_as(env, path, None, shared).await
}

/// [`info`] of a disk of a VM. Its definition says its format: a guest may write into its raw disk
/// what looks like the header of another, with a file of this machine as its base.
///
/// # Errors
/// As [`info`]; also where the file is not of that format.
pub async fn of_disk(env: &Env, disk: &DiskDef, shared: bool) -> Result<Image> {
    info_as(env, &disk.path, Some(&disk.format), shared).await
}

/// [`info`] of an image whose format is known.
pub async fn info_as(env: &Env, path: &Path, format: Option<&str>, shared: bool) -> Result<Image> {
    readable(path)?;
    let mut cmd = Cmd::new(tool(env)?).arg("info").arg("--output=json");
    if let Some(format) = format {
        cmd = cmd.args(["-f", format]);
    }
    let output = if shared {
        // Of a running guest: it is another one each time.
        run(&cmd.arg("-U").arg(absolute(path)), LOOK).await?
    } else {
        known::asked(&cmd.arg(absolute(path)), path, LOOK).await?
    };
    if !output.status.success() {
        return Err(complaint(path, &output));
    }
    serde_json::from_slice::<Value>(&output.stdout)
        .ok()
        .and_then(|value| Image::from_json(&value))
        .ok_or_else(|| {
            Error::backend(format!("qemu-img said nothing useful of {}", show(path)))
                .remedy(format!("Look at it: qemu-img info {}", quoted(path)))
        })
}

/// Makes sure that a file or block device is there and readable.
pub fn readable(path: &Path) -> Result<()> {
    use std::os::unix::fs::FileTypeExt as _;
    let meta = fs::metadata(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::not_found(format!("there is no file {}", show(path))).remedy(format!(
                "Look: ls -l {}",
                quoted(path.parent().unwrap_or(path))
            ))
        }
        _ => fault("read", path, e),
    })?;
    if meta.is_dir() {
        return Err(Error::invalid(format!("{} is a folder", show(path)))
            .remedy("Name an image file in it."));
    }
    // To open a pipe is to wait for someone who writes.
    let kind = meta.file_type();
    if !meta.is_file() && !kind.is_block_device() {
        let what = if kind.is_fifo() {
            "a pipe"
        } else if kind.is_socket() {
            "a socket"
        } else {
            "a device that holds no image"
        };
        return Err(
            Error::invalid(format!("{} is {what}, not an image file", show(path)))
                .remedy("Name a file, or a block device."),
        );
    }
    fs::File::open(path)
        .map(drop)
        .map_err(|e| fault("read", path, e))
}

/// Space that is left where a folder is, or will be; `None` where that cannot be known.
pub fn free(dir: &Path) -> Option<Bytes> {
    let there = dir
        .ancestors()
        .find(|dir| dir.exists())
        .unwrap_or(Path::new("/"));
    let stat = rustix::fs::statvfs(there).ok()?;
    Some(Bytes(stat.f_bavail.saturating_mul(stat.f_frsize)))
}

/// Space that a qcow2 of this size takes when all of it is written: beside the data a 2000th for
/// its tables, which is more than they need.
pub fn at_most(size: Bytes) -> Bytes {
    Bytes(size.0.saturating_add(size.0 / 2048).saturating_add(1 << 20))
}

/// Whether so much fits in any case: then nobody needs to know how much it is.
pub fn fits(dir: &Path, most: Bytes) -> bool {
    free(dir).is_some_and(|free| free >= most)
}

/// Refuses what would fill the file system.
pub fn room(dir: &Path, needs: Bytes) -> Result<()> {
    match free(dir) {
        Some(free) if free < needs => Err(Error::refused(format!(
            "not enough space in {}: needs {needs}, {free} free. Nothing was created",
            show(dir)
        ))
        .remedy(format!("Free some: df -h {}", quoted(dir)))),
        _ => Ok(()),
    }
}

/// What a failed `qemu-img` means.
pub(super) fn complaint(path: &Path, output: &Output) -> Error {
    use std::os::unix::process::ExitStatusExt as _;
    let said = output.complaint();
    let lower = said.to_lowercase();
    let file = show(path);
    if lower.contains("lock") {
        return Error::conflict(format!("{file} is in use by another program")).remedy(format!(
            "Stop the guest that has it; who it is: fuser {}",
            quoted(path)
        ));
    }
    // SIGXFSZ: the file size limit of this user.
    if lower.contains("no space left")
        || lower.contains("file too large")
        || lower.contains("quota")
        || output.status.signal() == Some(25)
    {
        let dir = path.parent().unwrap_or(path);
        return Error::backend(format!(
            "no space left in {} while {file} was written",
            show(dir)
        ))
        .remedy(format!("Free some: df -h {}", quoted(dir)));
    }
    if lower.contains("backing file") || lower.contains("no such file") {
        return Error::not_found(format!("{file}: {said}")).remedy(format!(
            "Look at its chain: qemu-img info --backing-chain {}",
            quoted(path)
        ));
    }
    Error::backend(format!("{file}: {said}"))
        .remedy(format!("Look at it: qemu-img info {}", quoted(path)))
}

/// Which file it is, its size and its times: another content has another stamp.
pub fn stamp(path: &Path) -> Result<String> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = std::fs::metadata(path).map_err(|e| fault("read", path, e))?;
    Ok(format!(
        "{}-{}-{}.{}-{}.{}",
        meta.ino(),
        meta.len(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec()
    ))
}

/// A path from the command line as an absolute one: QEMU changes its folder, and a name such as
/// `nbd:x` must not be taken for a protocol.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn show(path: &Path) -> String {
    shown(&path.to_string_lossy()).into_owned()
}

/// A path as one word of a shell line.
pub(super) fn quoted(path: &Path) -> String {
    let text = show(path);
    if text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "/._-+:,=@%".contains(c))
    {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_answers_are_tolerated() {
        let value = serde_json::json!({
            "format": "qcow2", "virtual-size": 5, "actual-size": null, "backing-filename": 7,
            "snapshots": [{"name": "a", "vm-state-size": "x", "date-sec": -1}, {"name": null}, 3],
            "format-specific": {"data": []}
        });
        let image = Image::from_json(&value).unwrap();
        assert_eq!(
            (image.size, image.used, image.backing),
            (Bytes(5), None, None)
        );
        assert_eq!(
            image.snapshots,
            [Internal {
                tag: "a".into(),
                seconds: None,
                vm_state: 0
            }]
        );
        for odd in ["{}", "[]", "null", r#"{"format":1,"virtual-size":-4}"#] {
            assert!(Image::from_json(&serde_json::from_str(odd).unwrap()).is_none());
        }
    }

    #[test]
    fn the_format_of_a_base_is_never_guessed() {
        let path = Path::new("/d/a.qcow2");
        let mut image = Image::default();
        assert_eq!(image.base(path).unwrap(), None);
        image.backing = Some("/d/b".into());
        let error = image.base(path).unwrap_err();
        assert!(
            error.message.contains("/d/b") && error.remedy.is_some(),
            "{error}"
        );
        image.backing_format = Some("raw".into());
        let base = (Path::new("/d/b"), "raw");
        assert_eq!(image.base(path).unwrap(), Some(base));
    }

    #[test]
    fn what_cannot_be_read_or_held_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert!(
            readable(&dir.path().join("no"))
                .unwrap_err()
                .message
                .contains("no file")
        );
        assert!(readable(dir.path()).unwrap_err().message.contains("folder"));
        let error = room(&dir.path().join("not/yet"), Bytes(u64::MAX)).unwrap_err();
        assert!(error.message.starts_with("not enough space in"), "{error}");
    }
}
