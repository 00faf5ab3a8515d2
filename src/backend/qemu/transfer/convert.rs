//! Disks read as they are at one moment, written as something else.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::ctx::Ctx;
use super::super::image;
use super::pieces::Piece;
use crate::backend::contract::{Env, TaskCx};
use crate::backend::portable::{self, sums};
use crate::link::child::{Cmd, run};
use crate::link::files::fault;
use crate::model::{Bytes, Error, Result, shown};

/// How the images of a VM are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nobody writes them.
    Files,
    /// From a snapshot inside of them, whoever writes them.
    Snapshot(String),
    /// From the running QEMU, which keeps what they were.
    Live(PathBuf),
}

impl Access {
    /// Arguments that name the source, without `-U` and `-l`.
    fn source(&self, piece: &Piece) -> Vec<String> {
        match self {
            // Nothing writes what the guest only reads: its file will do.
            Self::Live(socket) if !piece.readonly => {
                let node = json!({"driver": "raw", "file": {"driver": "nbd", "export": piece.name,
                    "server": {"type": "unix", "path": socket.to_string_lossy()}}});
                vec![format!("json:{node}")]
            }
            _ => vec![
                "-f".to_owned(),
                piece.format.clone(),
                piece.path.to_string_lossy().into_owned(),
            ],
        }
    }

    /// What goes before it.
    fn flags(&self, piece: &Piece) -> Vec<String> {
        let mut flags = Vec::new();
        if *self != Self::Files {
            flags.push("-U".to_owned());
        }
        if let Self::Snapshot(tag) = self
            && !piece.readonly
        {
            flags.push("-l".to_owned());
            flags.push(format!("snapshot.name={}", tag.replace(',', ",,")));
        }
        flags
    }

    /// The command that writes a piece into a new file.
    pub fn convert(&self, tool: &Path, piece: &Piece, format: &str, to: &Path) -> Cmd {
        let mut cmd = Cmd::new(tool).args(["convert", "-p"]);
        cmd = cmd.args(self.flags(piece)).args(["-O", format]);
        cmd = match format {
            "vmdk" => cmd.args(["-o", "subformat=streamOptimized"]),
            _ => cmd.args(image::QUICK),
        };
        cmd.args(self.source(piece)).arg(to)
    }

    /// Space that a copy takes at most, as far as it can be told beforehand.
    pub async fn measure(&self, env: &Env, piece: &Piece) -> Result<Bytes> {
        let mut cmd = Cmd::new(image::tool(env)?).args(["measure", "--output=json", "-O", "qcow2"]);
        cmd = match self {
            // Before anything is begun: the guest may write a little more until then.
            Self::Live(_) => cmd.args(["-U", "-f", &piece.format]).arg(&piece.path),
            other => cmd.args(other.flags(piece)).args(other.source(piece)),
        };
        let output = run(&cmd, image::CHECK).await?;
        if !output.status.success() {
            return Err(image::complaint(&piece.path, &output));
        }
        serde_json::from_slice::<Value>(&output.stdout)
            .ok()
            .and_then(|value| value.get("required").and_then(Value::as_u64))
            .map(Bytes)
            .ok_or_else(|| {
                Error::backend(format!(
                    "qemu-img said nothing useful of {}",
                    shown(&piece.path.to_string_lossy())
                ))
            })
    }
}

/// The size a guest sees, from the header itself where it says.
/// A raw disk's own bytes are never taken for one.
pub async fn size(ctx: &Ctx, path: &Path, format: &str) -> Result<Bytes> {
    if format == "raw"
        && let Ok(meta) = std::fs::metadata(path)
        && meta.is_file()
    {
        return Ok(Bytes(meta.len()));
    }
    if format == "qcow2"
        && let Some(header) = image::header(path)
        && header.format == Some("qcow2")
        && let Some(size) = header.size
    {
        return Ok(size);
    }
    Ok(image::info_as(&ctx.env, path, Some(format), true)
        .await?
        .size)
}

/// A new file for a conversion: qemu-img keeps the mode of one that it fills.
///
/// # Errors
/// When it cannot be made.
pub fn blank(to: &Path) -> Result<()> {
    super::target::remove(to)?;
    portable::private(to)
        .map(drop)
        .map_err(|e| fault("make", to, e))
}

/// Runs one conversion into a file that is there. What it wrote is not yet sure to be on the disk.
pub async fn write(
    cx: &TaskCx,
    cmd: &Cmd,
    to: &Path,
    before: u64,
    size: Bytes,
    total: u64,
) -> Result<()> {
    image::write(cmd, to, &cx.cancel, |percent| {
        // Bytes, but not so many that they do not fit.
        let done = (u128::from(size.0) * u128::from(percent) / 100) as u64;
        cx.progress(before + done, total);
    })
    .await
}

/// Makes sure that a file is on the disk, and computes its checksum meanwhile: the two wait for
/// different things.
pub async fn seal(cx: &TaskCx, path: &Path) -> Result<(String, Bytes)> {
    let own = path.to_owned();
    let syncing = tokio::task::spawn_blocking(move || {
        File::open(&own)
            .and_then(|file| file.sync_all())
            .map_err(|e| fault("write", &own, e))
    });
    let (sum, length) = checksum(cx, path).await?;
    syncing.await.map_err(internal)??;
    Ok((sum, length))
}

/// Checksum and length of a file.
pub async fn checksum(cx: &TaskCx, path: &Path) -> Result<(String, Bytes)> {
    let (own, cancel) = (path.to_owned(), cx.cancel.clone());
    let task = tokio::task::spawn_blocking(move || {
        let file = File::open(&own).map_err(|e| fault("read", &own, e))?;
        sums::of_file(&own, &file, |_| {
            if cancel.is_cancelled() {
                return Err(Error::refused("cancelled"));
            }
            Ok(())
        })
    });
    let (sum, length) = task.await.map_err(internal)??;
    Ok((sum, Bytes(length)))
}

/// A thread that ended before its work.
pub fn internal(error: tokio::task::JoinError) -> Error {
    Error::backend(format!("internal: {error}"))
}
