//! A large disk that is off, written in parts: an export that was interrupted goes on with the next
//! one. What is noted as written is on the disk, and the note counts only while the source is the
//! same; the whole is summed up in the end like any other.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::super::ctx::Ctx;
use super::super::image;
use super::convert::{self, internal};
use super::pieces::Piece;
use super::target::{self, Progress};
use crate::backend::contract::TaskCx;
use crate::link::child::{Cmd, run};
use crate::model::{Result, shown};

/// A part. Each costs a start of `qemu-img` and a wait for the disk.
const PART: u64 = 8 << 30;
/// Looking through the tables of what is there.
const CHECK: Duration = Duration::from_secs(600);

/// A disk of which the bytes before `upto` are written.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Begun {
    /// Its name.
    pub disk: String,
    /// So far.
    pub upto: u64,
}

/// Whether a disk is written so.
pub fn apply(piece: &Piece) -> bool {
    piece.size.0 > PART
}

/// The command that writes the bytes of one part into an image that is there.
fn cmd(tool: &Path, piece: &Piece, to: &Path, (at, size): (u64, u64)) -> Cmd {
    let node = |format: &str, path: &Path| {
        json!({"driver": "raw", "offset": at, "size": size, "file":
            {"driver": format, "file": {"driver": "file", "filename": path.to_string_lossy()}}})
    };
    Cmd::new(tool)
        .args(["convert", "-p", "-n", "--target-is-zero"])
        .args(image::QUICK)
        .args(["--image-opts", "--target-image-opts"])
        .arg(options(&node(&piece.format, &piece.path), ""))
        .arg(options(&node("qcow2", to), ""))
}

/// A node as `key=value,…`, which is all that a target can be.
fn options(node: &serde_json::Value, prefix: &str) -> String {
    let fields = node.as_object().into_iter().flatten();
    let words: Vec<String> = fields
        .map(|(key, value)| match value.as_str() {
            _ if value.is_object() => options(value, &format!("{prefix}{key}.")),
            Some(text) => format!("{prefix}{key}={}", text.replace(',', ",,")),
            None => format!("{prefix}{key}={value}"),
        })
        .collect();
    words.join(",")
}

/// All commands, for a plan.
pub fn shown_as(tool: &Path, piece: &Piece, to: &Path) -> String {
    let blank = image::blank_cmd(tool, to, piece.size).shown();
    let parts = piece.size.0.div_ceil(PART);
    let first = cmd(tool, piece, to, (0, PART)).shown();
    format!("{blank}; {first}; … ({parts} parts)")
}

/// Writes a disk, or what is missing of it. `before` and `total` are for the progress.
pub async fn write(
    ctx: &Ctx,
    cx: &TaskCx,
    (piece, file): (&Piece, &Path),
    (partial, progress): (&Path, &mut Progress),
    (before, total): (u64, u64),
) -> Result<()> {
    let tool = image::tool(&ctx.env)?;
    // As the image has it: a definition may be behind.
    let all = convert::size(ctx, &piece.path, &piece.format).await?;
    let begun = progress.begun.take().filter(|b| b.disk == piece.name);
    let mut upto = match begun {
        Some(begun) if begun.upto < all.0 && is_sound(&tool, file).await => begun.upto,
        _ => 0,
    };
    if upto == 0 {
        convert::blank(file)?;
        let blank = image::blank_cmd(&tool, file, all);
        image::write(&blank, file, &cx.cancel, |_| {}).await?;
    } else {
        let name = shown(&piece.name);
        cx.log(format!(
            "{} of {name} are there already",
            crate::model::Bytes(upto)
        ));
    }
    while upto < all.0 {
        cx.checkpoint()?;
        let size = (all.0 - upto).min(PART);
        let part = cmd(&tool, piece, file, (upto, size));
        image::write(&part, file, &cx.cancel, |percent| {
            let done = (u128::from(size) * u128::from(percent) / 100) as u64;
            cx.progress(before + upto + done, total);
        })
        .await?;
        let own = file.to_owned();
        let settled = tokio::task::spawn_blocking(move || image::settle(&own));
        settled.await.map_err(internal)??;
        upto += size;
        progress.begun = Some(Begun {
            disk: piece.name.clone(),
            upto,
        });
        target::note(partial, progress)?;
    }
    progress.begun = None;
    Ok(())
}

/// Whether what a killed `qemu-img` left is an image in order; what it took and did not fill is given
/// back.
async fn is_sound(tool: &Path, file: &Path) -> bool {
    let cmd = Cmd::new(tool)
        .args(["check", "-q", "-r", "leaks", "-f", "qcow2"])
        .arg(file);
    run(&cmd, CHECK)
        .await
        .is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bytes, DiskRole};

    #[test]
    fn the_parts_cover_the_disk_and_paths_stay_whole() {
        let piece = Piece {
            name: "disk0".to_owned(),
            path: "/a,b/disk0.qcow2".into(),
            format: "qcow2".to_owned(),
            size: Bytes(PART + 512),
            role: DiskRole::Disk,
            bus: None,
            readonly: false,
        };
        assert!(apply(&piece));
        let last = cmd(Path::new("qemu-img"), &piece, Path::new("/to"), (PART, 512)).shown();
        assert!(last.contains(&format!("offset={PART},size=512")), "{last}");
        assert!(
            last.contains("file.file.filename=/a,,b/disk0.qcow2"),
            "{last}"
        );
    }
}
