//! Lines from a peer that is not trusted.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Reads one line without its end. `partial` keeps what was read when the caller gave up waiting,
/// so that the next call goes on there. `None` at the end of the stream.
///
/// # Errors
/// `InvalidData` for a line longer than `most`, besides those of the stream.
pub async fn read_line(
    read: &mut (impl AsyncBufRead + Unpin),
    partial: &mut Vec<u8>,
    most: usize,
) -> io::Result<Option<Vec<u8>>> {
    loop {
        let buffer = read.fill_buf().await?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let take = end.unwrap_or(buffer.len());
        if partial.len() + take > most {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a line without end",
            ));
        }
        partial.extend_from_slice(&buffer[..take]);
        read.consume(end.map_or(take, |at| at + 1));
        if end.is_some() {
            let mut line = std::mem::take(partial);
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(Some(line));
        }
    }
}
