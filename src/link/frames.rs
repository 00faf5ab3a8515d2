//! A child process that is spoken to in frames: a length (u32, big endian) and as many bytes. It ends with whoever
//! holds it.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};

use super::child::{Cmd, Spoken};
use crate::model::{Error, Result};

/// The longest frame, bytes.
pub const MOST: usize = 16 << 20;

/// Frames to the child.
pub struct FrameWriter(ChildStdin);

/// Frames from the child.
pub struct FrameReader(BufReader<ChildStdout>);

/// Starts a child that is spoken to in frames. It is killed with its group when the third part is dropped.
///
/// # Errors
/// `NotFound` when it cannot be started.
pub fn start(cmd: &Cmd) -> Result<(FrameReader, FrameWriter, Spoken)> {
    let (stdin, stdout, child) = cmd.spoken()?;
    Ok((
        FrameReader(BufReader::with_capacity(64 * 1024, stdout)),
        FrameWriter(stdin),
        child,
    ))
}

impl FrameReader {
    /// The next frame; `None` at the end.
    ///
    /// # Errors
    /// `Backend` for a frame that is cut off or too long.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let length = match self.0.read_u32().await {
            Ok(length) => length as usize,
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(broken(error)),
        };
        if length > MOST {
            return Err(broken(std::io::Error::other(format!(
                "a frame of {length} bytes is longer than allowed"
            ))));
        }
        let mut frame = vec![0; length];
        self.0.read_exact(&mut frame).await.map_err(broken)?;
        Ok(Some(frame))
    }
}

impl FrameWriter {
    /// Sends a frame.
    ///
    /// # Errors
    /// `Invalid` for one that is too long, `Backend` when nobody reads.
    pub async fn send(&mut self, frame: &[u8]) -> Result<()> {
        let length = u32::try_from(frame.len())
            .ok()
            .filter(|length| *length as usize <= MOST)
            .ok_or_else(|| Error::invalid("this is too long to be sent"))?;
        let write = async {
            self.0.write_all(&length.to_be_bytes()).await?;
            self.0.write_all(frame).await?;
            self.0.flush().await
        };
        write.await.map_err(broken)
    }
}

fn broken(error: std::io::Error) -> Error {
    Error::backend(format!("the helper process ended its talk: {error}")).because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_come_back_and_odd_ones_are_errors() {
        let (mut from, mut to, _child) = start(&Cmd::new("cat")).unwrap();
        for frame in [b"".as_slice(), b"abc", &vec![7; 100_000]] {
            to.send(frame).await.unwrap();
            assert_eq!(from.next().await.unwrap().unwrap(), frame);
        }
        assert!(to.send(&vec![0; MOST + 1]).await.is_err());
        drop(to);
        assert_eq!(from.next().await.unwrap(), None);
        for odd in ["printf '\\377\\377\\377\\377x'", "printf '\\0\\0\\0\\11x'"] {
            let cmd = Cmd::new("sh").arg("-c").arg(odd);
            let (mut from, _to, _child) = start(&cmd).unwrap();
            assert!(from.next().await.is_err(), "{odd}");
        }
    }

    #[tokio::test]
    async fn a_child_ends_with_its_holder() {
        let (_from, to, child) = start(&Cmd::new("sleep").arg("1000")).unwrap();
        let pid = child.pid().unwrap();
        drop((to, child));
        let began = tokio::time::Instant::now();
        while crate::link::signal::is_alive(pid) {
            assert!(began.elapsed() < std::time::Duration::from_secs(20));
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}
