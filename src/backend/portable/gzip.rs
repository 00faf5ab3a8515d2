//! gzip, streaming: holes stay holes on both ways, and a bomb stops where the space does.

use std::fs::File;
use std::io::{BufWriter, Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::private;
use super::sums;
use crate::link::files::fault;
use crate::model::{Bytes, Error, Result, shown};

const BLOCK: usize = 1 << 20;
/// What a file system keeps free for others while something is unpacked.
const SPARE: u64 = 256 << 20;
/// Free space is looked at every so many bytes.
const LOOK: u64 = 64 << 20;

/// Packs a file. `go` is asked between blocks with the bytes done.
pub fn pack(from: &Path, to: &Path, mut go: impl FnMut(u64) -> Result<()>) -> Result<()> {
    let failed = |e| fault("write", to, e);
    let mut file = File::open(from).map_err(|e| fault("read", from, e))?;
    let length = file.metadata().map_err(|e| fault("read", from, e))?.len();
    let out = BufWriter::with_capacity(BLOCK, private(to).map_err(failed)?);
    let mut packed = GzEncoder::new(out, Compression::new(3));
    let zeros = vec![0; BLOCK];
    let mut buffer = vec![0; BLOCK];
    let mut at = 0;
    while at < length {
        go(at)?;
        let data = sums::next_data(&file, at).unwrap_or(length).min(length);
        let n = if data > at {
            let n = (data - at).min(BLOCK as u64) as usize;
            packed.write_all(&zeros[..n]).map_err(failed)?;
            n
        } else {
            let n = (length - at).min(BLOCK as u64) as usize;
            file.seek(SeekFrom::Start(at))
                .and_then(|_| file.read_exact(&mut buffer[..n]))
                .map_err(|e| fault("read", from, e))?;
            packed.write_all(&buffer[..n]).map_err(failed)?;
            n
        };
        at += n as u64;
    }
    let out = packed.finish().map_err(failed)?;
    let file = out.into_inner().map_err(|e| failed(e.into_error()))?;
    file.sync_all().map_err(failed)
}

/// Unpacks into a file of at most so many bytes as `limit` says of its first ones, and never more than the file system has.
/// Returns its length. `go` is asked between blocks with the packed bytes that were read.
///
/// # Errors
/// `Refused` where it would be too large, `Invalid` where it is damaged.
pub fn unpack(
    name: &str,
    from: impl Read,
    to: &Path,
    limit: impl Fn(&[u8]) -> Bytes,
    mut go: impl FnMut(u64) -> Result<()>,
) -> Result<Bytes> {
    let failed = |e| fault("write", to, e);
    let counted = Counted {
        inner: from,
        count: std::rc::Rc::default(),
    };
    let read = std::rc::Rc::clone(&counted.count);
    let mut unpacked = MultiGzDecoder::new(std::io::BufReader::with_capacity(BLOCK, counted));
    let mut out = private(to).map_err(failed)?;
    let mut buffer = vec![0; BLOCK];
    let (mut at, mut since) = (0u64, LOOK);
    let mut largest = None;
    loop {
        go(read.get())?;
        let n = fill(&mut unpacked, &mut buffer).map_err(|e| {
            Error::invalid(format!("{} is damaged: {e}", shown(name)))
                .remedy(format!("Get it again; look: gzip -t {}", shown(name)))
        })?;
        if n == 0 {
            break;
        }
        let largest = *largest.get_or_insert_with(|| limit(&buffer[..n]));
        if at + n as u64 > largest.0 {
            return Err(Error::refused(format!(
                "{}: what it unpacks to is larger than {largest}",
                shown(name)
            ))
            .remedy("Unpack it yourself if it is what you want: gunzip -k FILE"));
        }
        if buffer[..n].iter().any(|byte| *byte != 0) {
            since += n as u64;
            if since >= LOOK {
                since = 0;
                room_left(to, name)?;
            }
            out.write_all(&buffer[..n]).map_err(failed)?;
        } else {
            out.seek(SeekFrom::Start(at + n as u64)).map_err(failed)?;
        }
        at += n as u64;
    }
    out.set_len(at).map_err(failed)?;
    Ok(Bytes(at))
}

struct Counted<R> {
    inner: R,
    count: std::rc::Rc<std::cell::Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.count.set(self.count.get() + n as u64);
        Ok(n)
    }
}

/// As much as there is: whole blocks, so that holes are found.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut have = 0;
    while have < buffer.len() {
        match from.read(&mut buffer[have..])? {
            0 => break,
            n => have += n,
        }
    }
    Ok(have)
}

fn room_left(to: &Path, name: &str) -> Result<()> {
    let dir = to.parent().unwrap_or(to);
    let Ok(stat) = rustix::fs::statvfs(dir) else {
        return Ok(());
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free > SPARE {
        return Ok(());
    }
    Err(Error::refused(format!(
        "not enough space in {} to unpack {}: {} free",
        shown(&dir.to_string_lossy()),
        shown(name),
        Bytes(free)
    ))
    .remedy(format!("Free some: df -h '{}'", dir.display())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn comes_back_with_its_holes_and_a_limit_holds() {
        let dir = tempfile::tempdir().unwrap();
        let [raw, packed, back, none] =
            ["raw", "raw.gz", "back", "none"].map(|n| dir.path().join(n));
        let mut file = File::create(&raw).unwrap();
        file.write_all(b"begin").unwrap();
        file.seek(SeekFrom::Start(20 << 20)).unwrap();
        file.write_all(b"end").unwrap();
        file.set_len((64 << 20) + 3).unwrap();
        pack(&raw, &packed, |_| Ok(())).unwrap();
        let open = || File::open(&packed).unwrap();
        let length = unpack("x", open(), &back, |_| Bytes::gib(1), |_| Ok(())).unwrap();
        assert_eq!(length, Bytes((64 << 20) + 3));
        assert_eq!(std::fs::read(&raw).unwrap(), std::fs::read(&back).unwrap());
        assert!(std::fs::metadata(&back).unwrap().blocks() * 512 < 8 << 20);
        let error = unpack("x", open(), &none, |_| Bytes::mib(1), |_| Ok(())).unwrap_err();
        assert!(error.message.contains("larger than 1"), "{error}");
        let half = std::fs::read(&packed).unwrap();
        std::fs::remove_file(&none).unwrap();
        let cut = &half[..half.len() / 2];
        let error = unpack("x", cut, &none, |_| Bytes::gib(1), |_| Ok(())).unwrap_err();
        assert!(error.message.contains("is damaged"), "{error}");
    }
}
