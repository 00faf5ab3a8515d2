//! Exports that are one file.

use std::path::{Path, PathBuf};

use super::super::ctx::Ctx;
use super::super::image::{self, quoted};
use super::convert;
use super::export::Exporting;
use super::form::Form;
use super::pieces::Piece;
use super::target;
use crate::backend::contract::TaskCx;
use crate::backend::portable::{gzip, ova};
use crate::model::{Error, Portable, Result, Step, encode_segment};

/// What qemu-img writes for a piece: format and file. What is packed afterwards is written beside.
pub fn written(form: Form, partial: &Path, piece: &Piece) -> (&'static str, PathBuf) {
    match form {
        Form::Folder => ("qcow2", partial.join(piece.file())),
        Form::Qcow2 => ("qcow2", partial.to_owned()),
        Form::Raw => ("raw", partial.to_owned()),
        Form::Gz => ("raw", target::part(partial, "raw")),
        Form::Ova => (
            "vmdk",
            target::part(partial, &format!("{}.vmdk", piece.file())),
        ),
    }
}

/// The step that packs, for a plan.
pub fn step(form: Form, to: &Path) -> Option<Step> {
    let partial = target::partial(to);
    match form {
        Form::Gz => Some(Step::new(
            "Pack it",
            format!("gzip -3 > {}", quoted(&partial)),
        )),
        Form::Ova => Some(Step::new(
            "Pack descriptor (OVF), disks and checksums",
            format!("tar cf {} …", quoted(&partial)),
        )),
        _ => None,
    }
}

/// Writes it. Its place is claimed.
pub async fn write(
    ctx: &Ctx,
    cx: &TaskCx,
    exporting: &Exporting,
    partial: &Path,
    portable: &Portable,
) -> Result<()> {
    let tool = image::tool(&ctx.env)?;
    let total = exporting.pieces.iter().map(|piece| piece.size.0).sum();
    let mut before = 0;
    let mut parts = Vec::new();
    let base = encode_segment(&portable.name);
    for (n, piece) in exporting.pieces.iter().enumerate() {
        cx.checkpoint()?;
        cx.step(format!("Write {}", crate::model::shown(&piece.name)));
        let (format, file) = written(exporting.form, partial, piece);
        if file != partial {
            convert::blank(&file)?;
        }
        let cmd = exporting.access.convert(&tool, piece, format, &file);
        convert::write(cx, &cmd, &file, before, piece.size, total).await?;
        let capacity = if exporting.form == Form::Ova {
            image::info_as(&ctx.env, &file, Some(format), false)
                .await?
                .size
                .0
        } else {
            piece.size.0
        };
        before += piece.size.0;
        parts.push(ova::Part {
            name: format!("{base}-disk{n}.vmdk"),
            path: file,
            capacity,
        });
    }
    if matches!(exporting.form, Form::Gz | Form::Ova) {
        cx.step("Pack it");
        // What held its place.
        target::remove(partial)?;
        let (form, to, task) = (exporting.form, partial.to_owned(), cx.clone());
        let (name, hardware) = (portable.name.clone(), portable.hardware.clone());
        let packed = tokio::task::spawn_blocking(move || {
            let length = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.len());
            let total: u64 = parts.iter().map(|part| length(&part.path)).sum();
            let go = |done: u64| {
                if task.cancel.is_cancelled() {
                    return Err(Error::refused("cancelled"));
                }
                if done % (32 << 20) < (1 << 20) {
                    task.progress(done, total);
                }
                Ok(())
            };
            if form == Form::Ova {
                return ova::write(&to, &base, &name, &hardware, &parts, go);
            }
            for part in &parts {
                gzip::pack(&part.path, &to, go)?;
                target::remove(&part.path)?;
            }
            Ok(())
        });
        packed.await.map_err(convert::internal)??;
    }
    Ok(())
}
