//! Files of this machine, sent to the server.

use std::pin::Pin;
use std::task::{Context, Poll};

use serde_json::Value;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::call::Call;
use super::ctx::Ctx;
use super::json::Look as _;
use crate::backend::contract::TaskCx;
use crate::link::http::{Body, Request};
use crate::model::{Error, Result, shown};

/// Told after so many bytes.
const TELL: u64 = 8 << 20;

/// Counts what is read.
pub struct Counted<R> {
    inner: R,
    done: u64,
    told: u64,
    tell: UnboundedSender<u64>,
}

impl<R> Counted<R> {
    /// `inner`, and where its progress is told.
    pub fn new(inner: R) -> (Self, UnboundedReceiver<u64>) {
        let (tell, told) = unbounded_channel();
        let counted = Self {
            inner,
            done: 0,
            told: 0,
            tell,
        };
        (counted, told)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Counted<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let poll = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.done += (buf.filled().len() - before) as u64;
        if self.done - self.told >= TELL {
            self.told = self.done;
            let _ = self.tell.send(self.done);
        }
        poll
    }
}

/// Sends `reader` as the body of a request and follows what it begins; `total` is for progress.
///
/// # Errors
/// As a change; `Refused` when cancelled: what was sent so far is the server's to forget.
pub async fn stream(
    ctx: &Ctx,
    cx: &TaskCx,
    path: &str,
    headers: &[(&str, &str)],
    reader: Box<dyn AsyncRead + Send + Sync + Unpin>,
    total: Option<u64>,
) -> Result<Value> {
    let api = ctx.api()?;
    let (counted, mut told) = Counted::new(reader);
    let request = Request {
        method: "POST",
        path,
        headers,
        body: Body::Stream(Box::new(counted)),
    };
    let sent = api.exchange(request);
    tokio::pin!(sent);
    let reply = loop {
        tokio::select! {
            reply = &mut sent => break reply,
            Some(done) = told.recv() => {
                if let Some(total) = total {
                    cx.progress(done, total);
                }
            }
            () = cx.cancel.cancelled() => {
                return Err(Error::refused("cancelled while it was sent; nothing was made"));
            }
        }
    };
    api.finished(cx, reply.map_err(|error| ctx.own(error))?)
        .await
}

/// Sends the file that `call` names.
///
/// # Errors
/// As [`stream`].
pub async fn file(ctx: &Ctx, cx: &TaskCx, call: &Call) -> Result<Value> {
    let path = call.body.text("file").unwrap_or_default();
    let odd = |error: std::io::Error| {
        Error::invalid(format!("{} cannot be read: {error}", shown(path))).because(error)
    };
    let file = tokio::fs::File::open(path).await.map_err(odd)?;
    let total = file.metadata().await.map_err(odd)?.len();
    let mut headers = vec![("content-type", "application/octet-stream")];
    headers.extend(call.body.text("name").map(|name| ("x-incus-name", name)));
    headers.extend(call.body.text("name").map(|name| ("x-lxd-name", name)));
    headers.extend(call.body.text("type").map(|kind| ("x-incus-type", kind)));
    headers.extend(call.body.text("type").map(|kind| ("x-lxd-type", kind)));
    headers.extend(call.body.text("pool").map(|pool| ("x-incus-pool", pool)));
    headers.extend(
        call.body
            .text("filename")
            .map(|name| ("x-incus-filename", name)),
    );
    headers.extend(
        call.body
            .text("filename")
            .map(|name| ("x-lxd-filename", name)),
    );
    stream(ctx, cx, &call.path, &headers, Box::new(file), Some(total)).await
}
