//! How images are made, copied and grown.

use std::fs;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::complaint;
use crate::link::child::{Cmd, run_lines};
use crate::link::files::fault;
use crate::model::{Bytes, Error, Result};

/// Blocks in the order in which they are read, several at once: faster with eight than with none or many (`benches/copies`).
pub const QUICK: [&str; 3] = ["-W", "-m", "8"];

/// The command that makes an empty qcow2.
pub fn blank_cmd(tool: &Path, to: &Path, size: Bytes) -> Cmd {
    new_cmd(tool, to, "qcow2", size)
}

/// The command that makes an empty image.
pub fn new_cmd(tool: &Path, to: &Path, format: &str, size: Bytes) -> Cmd {
    Cmd::new(tool)
        .args(["create", "-q", "-f", format])
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

/// What is copied.
#[derive(Clone, Copy, Debug)]
pub struct From<'a> {
    /// The image.
    pub path: &'a Path,
    /// Its format.
    pub format: &'a str,
    /// A snapshot in it instead of the present.
    pub snapshot: Option<&'a str>,
    /// Also while a guest writes it: of use for a snapshot only.
    pub shared: bool,
}

impl From<'_> {
    /// The options that say so, but for the image itself.
    pub(super) fn options(&self) -> Vec<String> {
        let mut options = vec!["-f".to_owned(), self.format.to_owned()];
        if self.shared {
            options.push("-U".to_owned());
        }
        if let Some(tag) = self.snapshot {
            options.push("-l".to_owned());
            // By its name alone: a bare one could be the number of another.
            options.push(format!("snapshot.name={}", tag.replace(',', ",,")));
        }
        options
    }
}

/// The command that copies any format into a qcow2 without a base.
pub fn copy_cmd(tool: &Path, from: &Path, format: &str, to: &Path) -> Cmd {
    let from = From {
        path: from,
        format,
        snapshot: None,
        shared: false,
    };
    convert_cmd(tool, &from, to)
}

/// [`copy_cmd`], also of a snapshot.
pub fn convert_cmd(tool: &Path, from: &From<'_>, to: &Path) -> Cmd {
    Cmd::new(tool)
        .args(["convert", "-p"])
        .args(QUICK)
        .args(from.options())
        .args(["-O", "qcow2"])
        .arg(from.path)
        .arg(to)
}

/// The command that copies any format into an image without a base, of the format `into`.
pub fn into_cmd(tool: &Path, from: &Path, format: &str, to: &Path, into: &str) -> Cmd {
    Cmd::new(tool)
        .args(["convert", "-p"])
        .args(QUICK)
        .args(["-f", format, "-O", into])
        .arg(from)
        .arg(to)
}

/// The command that copies a raw image as it is.
pub fn raw_copy_cmd(tool: &Path, from: &Path, to: &Path) -> Cmd {
    Cmd::new(tool)
        .args(["convert", "-p"])
        .args(QUICK)
        .args(["-f", "raw", "-O", "raw"])
        .arg(from)
        .arg(to)
}

/// The command that tells an overlay where its base is now. No data is touched.
pub fn rebase_cmd(tool: &Path, overlay: &Path, base: &Path, format: &str) -> Cmd {
    Cmd::new(tool)
        .args(["rebase", "-u", "-q", "-f", "qcow2", "-F", format, "-b"])
        .arg(base)
        .arg(overlay)
}

/// The command that grows a qcow2.
pub fn grow_cmd(tool: &Path, disk: &Path, size: Bytes) -> Cmd {
    resize_cmd(tool, disk, "qcow2", size)
}

/// The command that gives an image another size.
pub fn resize_cmd(tool: &Path, disk: &Path, format: &str, size: Bytes) -> Cmd {
    Cmd::new(tool)
        .args(["resize", "-q", "-f", format])
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
    progress: impl FnMut(u64) + Send,
) -> Result<()> {
    write(cmd, to, cancel, progress).await?;
    settle(to)
}

/// [`make`], but a power cut may lose what it wrote.
///
/// # Errors
/// As [`make`].
pub async fn write(
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
    Ok(())
}

/// Makes sure that a file is on the disk.
///
/// # Errors
/// When it could not be written.
pub fn settle(to: &Path) -> Result<()> {
    fs::File::open(to)
        .and_then(|file| file.sync_all())
        .map_err(|e| fault("write", to, e))
}

/// [`settle`] of several, away from what must go on meanwhile.
///
/// # Errors
/// When one could not be written.
pub async fn settle_all(files: Vec<PathBuf>) -> Result<()> {
    tokio::task::spawn_blocking(move || files.iter().try_for_each(|file| settle(file)))
        .await
        .map_err(|e| Error::backend(format!("internal: {e}")))?
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_named_whatever_its_name() {
        let from = From {
            path: Path::new("/d/a,b"),
            format: "qcow2",
            snapshot: Some("1,snapshot.id=2"),
            shared: true,
        };
        let cmd = convert_cmd(Path::new("qemu-img"), &from, Path::new("/d/c")).shown();
        assert_eq!(
            cmd,
            "qemu-img convert -p -W -m 8 -f qcow2 -U -l snapshot.name=1,,snapshot.id=2 -O qcow2 /d/a,b /d/c"
        );
    }

    #[test]
    fn progress_is_a_number() {
        assert_eq!(percent("    (12.34/100%)"), Some(12));
        assert_eq!(percent("(nan/100%)"), None);
    }
}
