//! Image files, by `qemu-img`: what they are, whether they are sound, and how they are made.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::backend::contract::Env;
use crate::link::child::{Cmd, Output, run, run_lines};
use crate::link::files::fault;
use crate::model::{Bytes, Error, Result, shown};

/// `qemu-img` only reads headers for this; a network file system may be slow.
const LOOK: Duration = Duration::from_secs(15);
/// A check reads all tables of an image: 1 TiB has 128 MiB of them.
const CHECK: Duration = Duration::from_secs(120);

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
            corrupt: data.and_then(|d| d.get("corrupt")).and_then(Value::as_bool) == Some(true),
            encrypted: value.get("encrypted").and_then(Value::as_bool) == Some(true),
            snapshots: internal(value.get("snapshots")),
        })
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
    readable(path)?;
    let mut cmd = Cmd::new(tool(env)?).arg("info").arg("--output=json");
    if shared {
        cmd = cmd.arg("-U");
    }
    let output = run(&cmd.arg(absolute(path)), LOOK).await?;
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

/// Describes an image that is to be the source of a disk, and makes sure that it can be one.
///
/// # Errors
/// As [`info`]; and for ISO images, compressed files, encrypted, corrupt and unknown ones.
pub async fn source(env: &Env, path: &Path) -> Result<Image> {
    readable(path)?;
    recognise(path)?;
    let image = info(env, path, false).await?;
    if image.encrypted {
        return Err(Error::unsupported(format!("{} is encrypted", show(path)))
            .remedy("Decrypt it first: qemu-img convert"));
    }
    if let Some(backing) = &image.backing {
        base_of(path, backing)?;
    }
    let damaged = if image.corrupt {
        Some("it is marked so".to_owned())
    } else {
        check(env, path, &image.format).await?
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
async fn check(env: &Env, path: &Path, format: &str) -> Result<Option<String>> {
    if format == "raw" {
        return Ok(None);
    }
    let cmd = Cmd::new(tool(env)?)
        .args(["check", "--output=json", "-f", format])
        .arg(absolute(path));
    let output = run(&cmd, CHECK).await?;
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

fn base_of(path: &Path, backing: &Path) -> Result<()> {
    let base = path.parent().unwrap_or(Path::new("/")).join(backing);
    if fs::metadata(&base).is_ok() {
        return Ok(());
    }
    Err(Error::not_found(format!(
        "{} is an overlay of {}, which is gone",
        show(path),
        show(&base)
    ))
    .remedy(format!(
        "Bring it back, or name its new place: qemu-img rebase -u -b NEW {}",
        quoted(path)
    )))
}

/// The first bytes of a file say what it is when it is no disk image at all.
fn recognise(path: &Path) -> Result<()> {
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
    let is_iso = file.seek(SeekFrom::Start(32769)).is_ok()
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
    if !partitioned && !known.iter().any(|magic| head.starts_with(magic)) {
        return refuse(
            "is no disk image: no known format and no partition table",
            format!(
                "If it is a raw disk all the same: qemu-img convert -f raw -O qcow2 {} disk.qcow2",
                quoted(path)
            ),
        );
    }
    Ok(())
}

/// Makes sure that a file is there, plain and readable.
pub fn readable(path: &Path) -> Result<()> {
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
    fs::File::open(path)
        .map(drop)
        .map_err(|e| fault("read", path, e))
}

/// Space that a copy as qcow2 takes at most; `None` where qemu-img cannot say.
pub async fn needed(env: &Env, path: &Path, format: &str) -> Option<Bytes> {
    let cmd = Cmd::new(tool(env).ok()?)
        .args(["measure", "--output=json", "-O", "qcow2", "-f", format])
        .arg(absolute(path));
    let output = run(&cmd, CHECK).await.ok()?;
    let value: Value = serde_json::from_slice(&output.stdout).ok()?;
    value.get("required").and_then(Value::as_u64).map(Bytes)
}

/// Refuses what would fill the file system.
pub fn room(dir: &Path, needs: Bytes) -> Result<()> {
    let there = dir
        .ancestors()
        .find(|dir| dir.exists())
        .unwrap_or(Path::new("/"));
    let Ok(stat) = rustix::fs::statvfs(there) else {
        return Ok(());
    };
    let free = Bytes(stat.f_bavail.saturating_mul(stat.f_frsize));
    if free >= needs {
        return Ok(());
    }
    Err(Error::refused(format!(
        "not enough space in {}: needs {needs}, {free} free. Nothing was created",
        show(there)
    ))
    .remedy(format!("Free some: df -h {}", quoted(there))))
}

/// The command that makes an empty qcow2.
pub fn blank_cmd(tool: &Path, to: &Path, size: Bytes) -> Cmd {
    Cmd::new(tool)
        .args(["create", "-q", "-f", "qcow2"])
        .arg(to)
        .arg(size.0.to_string())
}

/// The command that makes an overlay.
pub fn overlay_cmd(tool: &Path, to: &Path, base: &Path, format: &str, size: Option<Bytes>) -> Cmd {
    let cmd = Cmd::new(tool)
        .args(["create", "-q", "-f", "qcow2", "-F", format, "-b"])
        .arg(base)
        .arg(to);
    match size {
        Some(size) => cmd.arg(size.0.to_string()),
        None => cmd,
    }
}

/// The command that copies any format into a qcow2 without a base.
pub fn copy_cmd(tool: &Path, from: &Path, format: &str, to: &Path) -> Cmd {
    Cmd::new(tool)
        .args(["convert", "-p", "-f", format, "-O", "qcow2"])
        .arg(from)
        .arg(to)
}

/// The command that grows a qcow2.
pub fn grow_cmd(tool: &Path, disk: &Path, size: Bytes) -> Cmd {
    Cmd::new(tool)
        .args(["resize", "-q", "-f", "qcow2"])
        .arg(disk)
        .arg(size.0.to_string())
}

/// Runs a command that writes `to` and makes sure that what it wrote is on the disk.
///
/// # Errors
/// A full disk says so; the caller removes what is half-made.
pub async fn make(
    cmd: &Cmd,
    to: &Path,
    cancel: &CancellationToken,
    mut progress: impl FnMut(u64) + Send,
) -> Result<()> {
    let mut last = 0;
    let output = run_lines(cmd, None, cancel, |line| {
        if let Some(percent) = percent(line)
            && percent > last
        {
            last = percent;
            progress(percent);
        }
    })
    .await?;
    if !output.status.success() {
        return Err(complaint(to, &output));
    }
    fs::File::open(to)
        .and_then(|file| file.sync_all())
        .map_err(|e| fault("write", to, e))
}

/// `    (12.34/100%)`
fn percent(line: &str) -> Option<u64> {
    let (number, _) = line.trim().strip_prefix('(')?.split_once("/100%)")?;
    number
        .trim()
        .parse::<f64>()
        .ok()
        .filter(|p| (0.0..=100.0).contains(p))
        .map(|p| p as u64)
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
        assert_eq!(percent("    (12.34/100%)"), Some(12));
        assert_eq!(percent("(nan/100%)"), None);
    }

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
            let error = recognise(&file).unwrap_err();
            assert!(
                error.message.contains(wanted) && error.remedy.is_some(),
                "{error}"
            );
        }
        let mut iso = vec![0; 40000];
        iso[32769..32774].copy_from_slice(b"CD001");
        fs::write(&file, iso).unwrap();
        assert!(
            recognise(&file)
                .unwrap_err()
                .to_string()
                .contains("--cdrom '")
        );
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
