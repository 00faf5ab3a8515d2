//! The screen as a picture: QEMU writes it into the VM's own folder, from where it is read.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;

use super::ctx::Ctx;
use super::inventory::load;
use super::process;
use crate::backend::contract::{ReadCx, Screenshots};
use crate::link::files::fault;
use crate::link::qmp::Qmp;
use crate::model::{Error, Instance, Picture, Result};

/// Larger than any screen is: 8k with 4 bytes for each pixel.
const LARGEST: u64 = 256 << 20;

/// The screenshot family.
#[derive(Clone, Debug)]
pub struct Screen(pub Arc<Ctx>);

#[async_trait]
impl Screenshots for Screen {
    async fn screenshot(&self, cx: &ReadCx, on: &Instance) -> Result<Picture> {
        let ctx = &self.0;
        let vm = load(ctx, &on.id)?;
        let Some(mut qmp) = process::connect_within(ctx, &vm, cx.left()).await? else {
            return Err(Error::refused(format!("{} does not run", on.id))
                .remedy(format!("Start it: corral start {}", on.id)));
        };
        // Made by us, so that what QEMU writes into is neither a link nor anybody else's.
        let dir = ctx.paths(&vm.uuid)?.dir;
        let file = tempfile::Builder::new()
            .prefix("screen-")
            .tempfile_in(&dir)
            .map_err(|e| fault("write", &dir, e))?;
        dump(&mut qmp, file.path(), cx).await?;
        drop(qmp);
        let picture = read(file.path())?;
        media_type(&picture)
            .map(|media_type| Picture {
                media_type: media_type.to_owned(),
                bytes: picture,
            })
            .ok_or_else(|| {
                Error::backend(format!("{}: QEMU wrote no picture that is known", on.id))
            })
    }
}

/// As PNG, or as PPM where this QEMU (before 7.1) knows no other.
async fn dump(qmp: &mut Qmp, file: &Path, cx: &ReadCx) -> Result<()> {
    let png = json!({ "filename": file, "format": "png" });
    let Err(error) = qmp.execute("screendump", png, cx.left()).await else {
        return Ok(());
    };
    if error.message.contains("'format'") || error.message.contains("PNG") {
        let plain = json!({ "filename": file });
        qmp.execute("screendump", plain, cx.left()).await?;
        return Ok(());
    }
    if error.message.contains("surface") {
        return Err(error.remedy("Nothing is on its screen yet: try again in a moment"));
    }
    Err(error)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    let size = std::fs::metadata(file)
        .map_err(|e| fault("read", file, e))?
        .len();
    if size > LARGEST {
        return Err(Error::backend("QEMU wrote a picture of more than 256 MiB"));
    }
    std::fs::read(file).map_err(|e| fault("read", file, e))
}

/// What it is, by its first bytes; `None` also for one that was cut off.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return bytes.ends_with(b"IEND\xaeB`\x82").then_some("image/png");
    }
    bytes
        .starts_with(b"P6")
        .then_some("image/x-portable-pixmap")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_known_by_its_bytes() {
        assert_eq!(
            media_type(b"P6\n1 1\n255\nabc"),
            Some("image/x-portable-pixmap")
        );
        assert_eq!(media_type(b"\x89PNG\r\n\x1a\nIHDR"), None);
        let whole = b"\x89PNG\r\n\x1a\n....IEND\xaeB`\x82";
        assert_eq!(media_type(whole), Some("image/png"));
        assert_eq!(media_type(b""), None);
    }
}
