//! Disks as streams of bytes whose checksum is known at their end.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::sums::Running;
use crate::backend::contract::DiskStream;
use crate::model::Bytes;

/// A stream of exactly so many bytes: less is an error, more is not read.
pub fn stream(size: Bytes, inner: impl AsyncRead + Send + Unpin + 'static) -> DiskStream {
    let sum = Arc::new(OnceLock::new());
    let bytes = Summed {
        inner,
        left: size.0,
        running: Some(Running::new()),
        sum: Arc::clone(&sum),
    };
    DiskStream {
        size,
        bytes: Box::new(bytes),
        sum,
    }
}

struct Summed<R> {
    inner: R,
    left: u64,
    running: Option<Running>,
    sum: Arc<OnceLock<String>>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Summed<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        if self.left == 0 {
            // What it says at its end may be that none of it was true.
            let mut one = [0];
            let mut more = ReadBuf::new(&mut one);
            ready!(Pin::new(&mut self.inner).poll_read(cx, &mut more))?;
            if let Some(running) = self.running.take() {
                let _ = self.sum.set(running.finish());
            }
            return Poll::Ready(Ok(()));
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let most = most.min(buffer.remaining());
        if most == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
        ready!(Pin::new(&mut self.inner).poll_read(cx, &mut part))?;
        let n = part.filled().len();
        if n == 0 {
            return Poll::Ready(Err(Error::from(ErrorKind::UnexpectedEof)));
        }
        if let Some(running) = &mut self.running {
            running.update(part.filled());
        }
        buffer.advance(n);
        self.left -= n as u64;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn a_stream_has_its_sum_at_the_end_and_is_never_short() {
        let mut whole = stream(Bytes(3), &b"abcd"[..]);
        let mut bytes = Vec::new();
        whole.bytes.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes, b"abc");
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(whole.sum.get().map(String::as_str), Some(sum));
        let mut short = stream(Bytes(5), &b"abcd"[..]);
        assert!(short.bytes.read_to_end(&mut bytes).await.is_err());
        assert_eq!(short.sum.get(), None);
    }
}
