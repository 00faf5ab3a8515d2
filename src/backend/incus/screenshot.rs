//! The screen of a VM as a picture, on servers that take one.

use std::sync::Arc;

use async_trait::async_trait;

use super::ctx::Ctx;
use super::json::Look as _;
use super::seen::Seen;
use crate::backend::contract::{ReadCx, Screenshots};
use crate::link::http::Request;
use crate::model::{Error, Instance, InstanceKind, Picture, Result};

/// What a server has that takes pictures.
const EXTENSION: &str = "instance_console_screenshot";
/// Largest picture.
const LONGEST: u64 = 64 << 20;

/// The screenshot family.
#[derive(Clone, Debug)]
pub struct Screen(pub Arc<Ctx>);

#[async_trait]
impl Screenshots for Screen {
    async fn screenshot(&self, cx: &ReadCx, on: &Instance) -> Result<Picture> {
        let ctx = &*self.0;
        let seen = Seen::now(ctx, cx, &on.id).await?;
        let id = &seen.id;
        if seen.row.kind == InstanceKind::Ct {
            return Err(
                Error::unsupported(format!("{id} is a container and has no screen"))
                    .remedy(format!("Its console: corral logs {id}")),
            );
        }
        if !ctx.server(cx).await?.can(EXTENSION) {
            return Err(Error::unsupported(
                "its server is older than Incus 6.8 and takes no pictures",
            )
            .remedy(format!(
                "Look at it with a viewer: incus console {} --type=vga",
                seen.name
            )));
        }
        if !seen.state().is_active() {
            return Err(Error::refused(format!("{id} is {}", seen.state()))
                .remedy(format!("Start it: corral start {id}")));
        }
        let path = format!("{}&type=vga", seen.path(&["console"]));
        let asked = async {
            let answer = ctx.api()?.http.send(Request::get(&path)).await?;
            let (status, media) = (
                answer.status(),
                answer.header("content-type").map(str::to_owned),
            );
            let bytes = answer.whole(LONGEST).await?;
            if status != 200 {
                let said: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
                let said = said.text("error").unwrap_or("no reason given");
                return Err(super::api::fault(u64::from(status), said));
            }
            Ok((media, bytes))
        };
        let (media, bytes) = cx.within("the screen", asked).await?;
        if !bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            return Err(Error::backend(format!(
                "what the server sends of the screen of {id} is no PNG ({})",
                media.as_deref().unwrap_or("of no type")
            )));
        }
        Ok(Picture {
            media_type: "image/png".to_owned(),
            bytes,
        })
    }
}
