//! NBD: the bytes of a disk that a process serves on a unix socket. Only reading.
//!
//! The peer may hang, lie or die: every wait has a deadline, and no length is believed that was not
//! asked for.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::model::{Bytes, Error, Result, shown};

/// Bytes of one request at most: what every server takes.
pub const BLOCK: u32 = 2 << 20;
/// Longest answer to an option, longest message of an error.
const LONGEST: u32 = 64 << 10;

const GREETING: u64 = u64::from_be_bytes(*b"NBDMAGIC");
const OPTION: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const GO: u32 = 7;
const STRUCTURED: u32 = 8;
const ACK: u32 = 1;
const INFO: u32 = 3;
const REQUEST: u32 = 0x2560_9513;
const SIMPLE_REPLY: u32 = 0x6744_6698;
const CHUNK: u32 = 0x668e_33ef;

/// A disk that is served.
#[derive(Debug)]
pub struct Nbd {
    stream: UnixStream,
    size: u64,
    limit: Duration,
    next: u64,
}

impl Nbd {
    /// Connects to what is called `name` there; each answer takes at most `limit`.
    ///
    /// # Errors
    /// `Unreachable` when nobody listens, `NotFound` when it serves nothing of that name,
    /// `TimedOut` when it says nothing, `Backend` when it is no NBD.
    pub async fn connect(path: &Path, name: &str, limit: Duration) -> Result<Self> {
        let stream = UnixStream::connect(path).await.map_err(|e| {
            Error::unreachable(format!("nobody serves {}: {e}", shown(name))).because(e)
        })?;
        let mut nbd = Self {
            stream,
            size: 0,
            limit,
            next: 0,
        };
        timeout(limit, nbd.greet(name))
            .await
            .map_err(|_| silent())??;
        Ok(nbd)
    }

    /// Its size.
    pub fn size(&self) -> Bytes {
        Bytes(self.size)
    }

    async fn greet(&mut self, name: &str) -> Result<()> {
        if self.u64().await? != GREETING || self.u64().await? != OPTION {
            return Err(lied("it greets otherwise"));
        }
        let flags = self.u16().await?;
        if flags & 1 == 0 {
            return Err(lied("it is too old"));
        }
        self.send(&u32::from(flags & 3).to_be_bytes()).await?;
        // Holes come as such then. Who cannot answers so, and sends zeros.
        self.option(STRUCTURED, &[]).await?;
        while let (STRUCTURED, INFO, _) = self.answer().await? {}
        let mut wanted = (name.len() as u32).to_be_bytes().to_vec();
        wanted.extend_from_slice(name.as_bytes());
        wanted.extend_from_slice(&[0, 0]);
        self.option(GO, &wanted).await?;
        let mut size = None;
        loop {
            let (option, kind, data) = self.answer().await?;
            match (option, kind) {
                (GO, ACK) => break,
                (GO, INFO) if data.starts_with(&[0, 0]) => {
                    let bytes = data.get(2..10).and_then(|b| b.try_into().ok());
                    size = bytes.map(u64::from_be_bytes);
                }
                (GO, INFO) => {}
                _ => {
                    return Err(Error::not_found(format!(
                        "nothing called {} is served: {}",
                        shown(name),
                        shown(&String::from_utf8_lossy(&data))
                    )));
                }
            }
        }
        self.size = size.ok_or_else(|| lied("it does not say how large the disk is"))?;
        Ok(())
    }

    async fn option(&mut self, option: u32, data: &[u8]) -> Result<()> {
        let mut bytes = OPTION.to_be_bytes().to_vec();
        bytes.extend_from_slice(&option.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
        self.send(&bytes).await
    }

    async fn answer(&mut self) -> Result<(u32, u32, Vec<u8>)> {
        if self.u64().await? != OPTION_REPLY {
            return Err(lied("its answer is none"));
        }
        let (option, kind, length) = (self.u32().await?, self.u32().await?, self.u32().await?);
        let data = self.some(length).await?;
        Ok((option, kind, data))
    }

    /// Reads a block. `None` is nothing but zeros.
    ///
    /// # Errors
    /// `Backend` where it could not be read, `TimedOut` where nothing came. The connection is of
    /// no use then.
    pub async fn read(&mut self, at: u64, length: u32) -> Result<Option<Vec<u8>>> {
        timeout(self.limit, self.block(at, length))
            .await
            .map_err(|_| silent())?
    }

    async fn block(&mut self, at: u64, length: u32) -> Result<Option<Vec<u8>>> {
        self.next += 1;
        let handle = self.next;
        let mut request = REQUEST.to_be_bytes().to_vec();
        request.extend_from_slice(&[0, 0, 0, 0]);
        request.extend_from_slice(&handle.to_be_bytes());
        request.extend_from_slice(&at.to_be_bytes());
        request.extend_from_slice(&length.to_be_bytes());
        self.send(&request).await?;
        let mut block: Option<Vec<u8>> = None;
        let mut had = 0u64;
        loop {
            let magic = self.u32().await?;
            if magic == SIMPLE_REPLY {
                let error = self.u32().await?;
                if self.u64().await? != handle || error != 0 {
                    return Err(unread(at, &format!("error {error}")));
                }
                let mut all = vec![0; length as usize];
                self.fill(&mut all).await?;
                return Ok(Some(all));
            }
            if magic != CHUNK {
                return Err(lied("its answer is none"));
            }
            let (flags, kind) = (self.u16().await?, self.u16().await?);
            if self.u64().await? != handle {
                return Err(lied("it answers what was not asked"));
            }
            let bytes = self.u32().await?;
            match kind {
                0 if bytes == 0 => {}
                1 if bytes > 8 => {
                    let n = bytes - 8;
                    let from = within(self.u64().await?, n, at, length)?;
                    let whole = block.get_or_insert_with(|| vec![0; length as usize]);
                    let part = whole
                        .get_mut(from..from + n as usize)
                        .ok_or_else(|| lied("it sends too much"))?;
                    timeout(self.limit, self.stream.read_exact(part))
                        .await
                        .map_err(|_| silent())?
                        .map_err(gone)?;
                    had += u64::from(n);
                }
                2 if bytes == 12 => {
                    let (from, n) = (self.u64().await?, self.u32().await?);
                    within(from, n, at, length)?;
                    had += u64::from(n);
                }
                _ if kind & 0x8000 != 0 => {
                    let said = self.some(bytes).await?;
                    let said = said.get(6..).unwrap_or_default();
                    return Err(unread(at, &String::from_utf8_lossy(said)));
                }
                _ => return Err(lied("it sends what was not asked for")),
            }
            if flags & 1 != 0 {
                break;
            }
            if had > u64::from(length) {
                return Err(lied("it sends too much"));
            }
        }
        if had != u64::from(length) {
            return Err(lied("it sends too little"));
        }
        Ok(block)
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await.map_err(gone)
    }

    async fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.stream.read_exact(buffer).await.map_err(gone)?;
        Ok(())
    }

    async fn some(&mut self, length: u32) -> Result<Vec<u8>> {
        if length > LONGEST {
            return Err(lied("its answer is too long"));
        }
        let mut data = vec![0; length as usize];
        self.fill(&mut data).await?;
        Ok(data)
    }

    async fn u16(&mut self) -> Result<u16> {
        self.stream.read_u16().await.map_err(gone)
    }

    async fn u32(&mut self) -> Result<u32> {
        self.stream.read_u32().await.map_err(gone)
    }

    async fn u64(&mut self) -> Result<u64> {
        self.stream.read_u64().await.map_err(gone)
    }
}

/// Where a part lies in the block that was asked for.
fn within(from: u64, n: u32, at: u64, length: u32) -> Result<usize> {
    let offset = from.checked_sub(at);
    offset
        .filter(|offset| offset.saturating_add(u64::from(n)) <= u64::from(length))
        .and_then(|offset| usize::try_from(offset).ok())
        .ok_or_else(|| lied("it sends what was not asked for"))
}

fn silent() -> Error {
    Error::timed_out("the disk's server does not answer")
}

fn lied(what: &str) -> Error {
    Error::backend(format!("what serves the disk is no NBD server: {what}"))
}

fn unread(at: u64, why: &str) -> Error {
    Error::backend(format!("the disk cannot be read at {at}: {}", shown(why)))
}

fn gone(error: std::io::Error) -> Error {
    Error::backend(format!("the disk's server is gone: {error}")).because(error)
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    /// A server that says exactly this and keeps the connection.
    async fn saying(bytes: Vec<u8>) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.write_all(&bytes).await;
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
        });
        (dir, path)
    }

    fn hello(size: u64, then: &[u8]) -> Vec<u8> {
        let mut bytes = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
        let mut reply = |option: u32, kind: u32, data: &[u8]| {
            bytes.extend_from_slice(&OPTION_REPLY.to_be_bytes());
            for n in [option, kind, data.len() as u32] {
                bytes.extend_from_slice(&n.to_be_bytes());
            }
            bytes.extend_from_slice(data);
        };
        reply(STRUCTURED, ACK, b"");
        let mut info = vec![0, 0];
        info.extend_from_slice(&size.to_be_bytes());
        info.extend_from_slice(&[0, 1]);
        reply(GO, INFO, &info);
        reply(GO, ACK, b"");
        bytes.extend_from_slice(then);
        bytes
    }

    fn chunk(flags: u16, kind: u16, data: &[u8]) -> Vec<u8> {
        let mut bytes = CHUNK.to_be_bytes().to_vec();
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&1u64.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    fn hole(at: u64, n: u32) -> Vec<u8> {
        [&at.to_be_bytes()[..], &n.to_be_bytes()].concat()
    }

    const LIMIT: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn data_and_holes_are_put_together() {
        let mut then = chunk(0, 2, &hole(0, 4));
        then.extend(chunk(1, 1, &[&4u64.to_be_bytes()[..], b"data"].concat()));
        let (_dir, path) = saying(hello(8, &then)).await;
        let mut nbd = Nbd::connect(&path, "disk0", LIMIT).await.unwrap();
        assert_eq!(nbd.size(), Bytes(8));
        assert_eq!(nbd.read(0, 8).await.unwrap().unwrap(), b"\0\0\0\0data");
    }

    #[tokio::test]
    async fn a_server_that_lies_is_not_believed() {
        for (then, wanted) in [
            (chunk(1, 2, &hole(0, 9)), "not asked for"),
            (chunk(1, 2, &hole(0, 4)), "too little"),
            (
                chunk(1, 1, &[&u64::MAX.to_be_bytes()[..], b"x"].concat()),
                "not asked for",
            ),
            (chunk(1, 0x8001, b"\0\0\0\x05\0\x03bad"), "bad"),
            (chunk(1, 0x8001, b"\0"), "cannot be read"),
            (b"nonsense nonsense".to_vec(), "its answer is none"),
        ] {
            let (_dir, path) = saying(hello(8, &then)).await;
            let mut nbd = Nbd::connect(&path, "disk0", LIMIT).await.unwrap();
            let error = nbd.read(0, 8).await.unwrap_err();
            assert!(error.message.contains(wanted), "{error}");
        }
        for hello in [&b"HTTP/1.1 200 OK\r\n\r\n"[..], b"NBDMAGICIHAVEOPT\0\0"] {
            let (_dir, path) = saying(hello.to_vec()).await;
            let error = Nbd::connect(&path, "disk0", LIMIT).await.unwrap_err();
            assert!(error.message.contains("no NBD server"), "{error}");
        }
    }
}
