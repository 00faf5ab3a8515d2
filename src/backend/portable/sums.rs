//! SHA-256 of files, and `SHA256SUMS` as `sha256sum -c` reads it.

use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::link::files::fault;
use crate::model::{Error, Result, shown};

/// The file's name.
pub const FILE: &str = "SHA256SUMS";

const BLOCK: usize = 1 << 20;

/// A checksum of what comes bit by bit.
#[derive(Clone, Debug)]
pub struct Running(Sha256);

impl Running {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self(Sha256::new())
    }

    /// More of it.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum, lower-case hex.
    pub fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

impl Default for Running {
    fn default() -> Self {
        Self::new()
    }
}

/// Read-through that computes the checksum of what passes.
pub struct Summed<R> {
    inner: R,
    hash: Running,
    count: u64,
}

impl<R: Read> Summed<R> {
    /// Around a reader.
    pub fn new(inner: R) -> Self {
        Self {
            inner,
            hash: Running::new(),
            count: 0,
        }
    }

    /// The checksum and the number of bytes that passed.
    pub fn finish(self) -> (String, u64) {
        (self.hash.finish(), self.count)
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.hash.update(&buffer[..n]);
        self.count += n as u64;
        Ok(n)
    }
}

/// Checksum and length of an open file, from its beginning. Holes are not read. `go` is asked
/// between blocks with the bytes done, and ends it with its error.
pub fn of_file(
    path: &Path,
    mut file: &File,
    mut go: impl FnMut(u64) -> Result<()>,
) -> Result<(String, u64)> {
    let failed = |e| fault("read", path, e);
    let length = file.metadata().map_err(failed)?.len();
    let mut hash = Running::new();
    let mut buffer = vec![0; BLOCK];
    let zeros = vec![0; BLOCK];
    let mut at = 0;
    while at < length {
        let data = next_data(file, at).unwrap_or(length).min(length);
        while at < data {
            go(at)?;
            let n = (data - at).min(BLOCK as u64) as usize;
            hash.update(&zeros[..n]);
            at += n as u64;
        }
        let end = next_hole(file, at).unwrap_or(length).clamp(at, length);
        file.seek(SeekFrom::Start(at)).map_err(failed)?;
        while at < end {
            go(at)?;
            let n = (end - at).min(BLOCK as u64) as usize;
            file.read_exact(&mut buffer[..n]).map_err(failed)?;
            hash.update(&buffer[..n]);
            at += n as u64;
        }
    }
    Ok((hash.finish(), length))
}

/// Where data begins at or after `at`; `None`: there is none. A file system that knows no holes
/// has data everywhere.
pub fn next_data(file: &File, at: u64) -> Option<u64> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(at) => Some(at),
        Err(rustix::io::Errno::NXIO) => None,
        Err(_) => Some(at),
    }
}

/// Where the next hole begins.
pub fn next_hole(file: &File, at: u64) -> Option<u64> {
    rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(at)).ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `SHA256SUMS` of these files.
pub fn text<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    files
        .into_iter()
        .map(|(name, sum)| format!("{sum}  {name}\n"))
        .collect()
}

/// What a `SHA256SUMS` says of each file.
pub fn parse(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter_map(|line| {
            let (sum, name) = line.split_once(' ')?;
            // Two spaces, or a star where the tool was told that it is binary.
            let name = name.strip_prefix([' ', '*']).unwrap_or(name);
            is_sum(sum).then(|| (name.to_owned(), sum.to_ascii_lowercase()))
        })
        .collect()
}

/// 64 hex digits.
pub fn is_sum(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Fails naming the file where two checksums differ.
pub fn same(file: &str, wanted: &str, found: &str) -> Result<()> {
    if wanted.eq_ignore_ascii_case(found) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{}: the checksum is wrong: SHA-256 should be {}…, is {}…",
        shown(file),
        shown(&wanted.chars().take(12).collect::<String>()),
        &found[..12]
    ))
    .remedy("The file is damaged or was changed: get it again."))
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::*;

    #[test]
    fn a_file_with_holes_has_the_sum_of_its_bytes() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"begin").unwrap();
        file.seek(SeekFrom::Start(3 << 20)).unwrap();
        file.write_all(b"end").unwrap();
        file.as_file().set_len((5 << 20) + 7).unwrap();
        let whole = std::fs::read(file.path()).unwrap();
        let (sum, length) = of_file(file.path(), file.as_file(), |_| Ok(())).unwrap();
        assert_eq!(length, whole.len() as u64);
        assert_eq!(sum, hex(&Sha256::digest(&whole)));
        let mut through = Summed::new(&whole[..]);
        std::io::copy(&mut through, &mut std::io::sink()).unwrap();
        assert_eq!(through.finish(), (sum, length));
    }

    #[test]
    fn sums_are_read_as_sha256sum_writes_them() {
        let sum = "a".repeat(64);
        let text = format!(
            "{sum}  a b\n{} *c\nnonsense\n{sum}x  d\n",
            sum.to_uppercase()
        );
        assert_eq!(
            parse(&text),
            [
                ("a b".to_owned(), sum.clone()),
                ("c".to_owned(), sum.clone())
            ]
        );
        assert!(same("f", &sum, &sum).is_ok());
        let error = same("disk0\u{1b}", &sum, &"b".repeat(64)).unwrap_err();
        assert!(
            error.message.starts_with("disk0\\x1b: the checksum"),
            "{error}"
        );
    }
}
