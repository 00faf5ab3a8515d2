//! How images are made, copied and grown.

use std::fs;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::complaint;
use crate::link::child::{Cmd, run_lines};
use crate::link::files::fault;
use crate::model::{Bytes, Result};

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
    progress: impl FnMut(u64) + Send,
) -> Result<()> {
    write(cmd, to, cancel, progress).await?;
    fs::File::open(to)
        .and_then(|file| file.sync_all())
        .map_err(|e| fault("write", to, e))
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
    fn progress_is_a_number() {
        assert_eq!(percent("    (12.34/100%)"), Some(12));
        assert_eq!(percent("(nan/100%)"), None);
    }
}
