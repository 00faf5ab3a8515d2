//! Bytes of volumes and pictures: each stream has a helper of its own, which ends with it.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::ctx::Ctx;
use super::fault;
use super::wire::{Call, PIECE, Told};
use crate::backend::contract::TaskCx;
use crate::link::files::fault as file_fault;
use crate::model::{Error, Result};

fn lost() -> Error {
    Error::unreachable("the stream to libvirt was lost")
}

fn answer<T: DeserializeOwned>(frame: Option<Vec<u8>>) -> Result<T> {
    match serde_json::from_slice(&frame.ok_or_else(lost)?) {
        Ok(Told::Answer {
            fault: Some(why), ..
        }) => Err(fault::error(&why)),
        Ok(Told::Answer { value, .. }) => serde_json::from_value(value.unwrap_or_default())
            .map_err(|e| Error::backend(format!("the helper's answer cannot be read: {e}"))),
        Ok(Told::Closed { why }) => Err(Error::unreachable(why)),
        _ => Err(lost()),
    }
}

/// A file of this machine into a volume.
///
/// # Errors
/// Those of the file and of libvirt; `Refused` when cancelled.
pub async fn upload(ctx: &Ctx, cx: &TaskCx, from: &Path, call: Call) -> Result<()> {
    let file = tokio::fs::File::open(from)
        .await
        .map_err(|e| file_fault("read", from, e))?;
    let total = file
        .metadata()
        .await
        .map_err(|e| file_fault("read", from, e))?
        .len();
    send(ctx, cx, file, total, call).await
}

/// Bytes into a volume.
///
/// # Errors
/// As [`upload`].
pub async fn send(
    ctx: &Ctx,
    cx: &TaskCx,
    mut bytes: impl AsyncRead + Unpin + Send,
    total: u64,
    call: Call,
) -> Result<()> {
    let (mut from, mut to, _child) = ctx.client.stream(call).await?;
    answer::<Value>(from.next().await?)?;
    let mut buffer = vec![0; PIECE];
    let mut done = 0;
    loop {
        cx.checkpoint()?;
        let got = bytes
            .read(&mut buffer)
            .await
            .map_err(|e| Error::backend(format!("the bytes cannot be read: {e}")).because(e))?;
        if let Err(broken) = to.send(&buffer[..got]).await {
            // What the other side says is the cause.
            return match answer::<Value>(from.next().await?) {
                Ok(_) => Err(broken),
                Err(error) => Err(error),
            };
        }
        if got == 0 {
            break;
        }
        done += got as u64;
        cx.progress(done, total.max(done));
    }
    answer::<Value>(from.next().await?).map(drop)
}

/// A picture: its type and its bytes, at most `most`.
///
/// # Errors
/// Those of libvirt.
pub async fn picture(ctx: &Ctx, call: Call, most: usize) -> Result<(String, Vec<u8>)> {
    let (mut from, _to, _child) = ctx.client.stream(call).await?;
    let mut bytes = Vec::new();
    loop {
        let piece = from.next().await?.ok_or_else(lost)?;
        if piece.is_empty() {
            break;
        }
        bytes.extend(piece);
        if bytes.len() > most {
            return Err(Error::backend("the picture is larger than any screen"));
        }
    }
    Ok((answer(from.next().await?)?, bytes))
}
