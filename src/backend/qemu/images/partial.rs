//! What has come of an image so far: a file that only grows, and beside it where it comes from.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::checksum::Counting;
use super::shelf::record_of;
use crate::link::files::{fault, write_atomically};
use crate::model::{Result, Sum};

/// Where the bytes of a partial file come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Origin {
    url: String,
    /// What the server called this version.
    version: Option<String>,
    /// What all of it must add up to, where that was known.
    checksum: Option<String>,
}

/// A file that is not whole yet, open to be continued.
pub struct Partial {
    path: PathBuf,
    file: File,
    origin: Origin,
    counting: Counting,
    expected: Option<Sum>,
    have: u64,
}

impl Partial {
    /// Opens what is there of this image, if it can be continued; else begins anew.
    ///
    /// # Errors
    /// When the file cannot be written or read.
    pub fn open(path: &Path, url: &str, expected: Option<&Sum>) -> Result<Self> {
        let known = fs::read(record_of(path)).ok();
        let known: Option<Origin> = known.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let checksum = expected.map(ToString::to_string);
        // Without a checksum and without a version nobody could tell that the rest belongs to another file.
        let origin = known.filter(|origin| {
            origin.url == url
                && origin.checksum == checksum
                && (origin.version.is_some() || checksum.is_some())
        });
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(origin.is_none())
            .mode(0o600)
            .open(path)
            .map_err(|e| fault("open", path, e))?;
        let mut partial = Self {
            path: path.to_owned(),
            file,
            origin: origin.unwrap_or(Origin {
                url: url.to_owned(),
                version: None,
                checksum,
            }),
            counting: Counting::new(expected),
            expected: expected.cloned(),
            have: 0,
        };
        partial.count()?;
        Ok(partial)
    }

    /// Counts what is there; the file is at its end then.
    fn count(&mut self) -> Result<()> {
        let mut buffer = vec![0; 1 << 20];
        loop {
            match self.file.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(n) => {
                    self.counting.add(&buffer[..n]);
                    self.have += n as u64;
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(fault("read", &self.path, e)),
            }
        }
    }

    /// Bytes that are there.
    pub fn have(&self) -> u64 {
        self.have
    }

    /// What the server called the version that is there.
    pub fn version(&self) -> Option<&str> {
        self.origin.version.as_deref()
    }

    /// What is to come is the whole file, of this version: what was there is dropped.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(&mut self, version: Option<String>) -> Result<()> {
        use std::io::Seek as _;
        let failed = |e| fault("write", &self.path, e);
        self.file.set_len(0).map_err(failed)?;
        self.file.rewind().map_err(failed)?;
        self.counting = Counting::new(self.expected.as_ref());
        self.have = 0;
        self.origin.version = version;
        let text = serde_json::to_vec(&self.origin).unwrap_or_default();
        write_atomically(&record_of(&self.path), &text)
    }

    /// More of it.
    ///
    /// # Errors
    /// When it cannot be written: a full disk.
    pub fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(|e| fault("write", &self.path, e))?;
        self.counting.add(bytes);
        self.have += bytes.len() as u64;
        Ok(())
    }

    /// All of it is there and on the disk: what it adds up to.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn end(self) -> Result<Sum> {
        self.file
            .sync_all()
            .map_err(|e| fault("write", &self.path, e))?;
        Ok(self.counting.end())
    }
}

/// Deletes what has come, and says whether there was anything.
///
/// # Errors
/// When it cannot be deleted.
pub fn drop_partial(path: &Path) -> Result<bool> {
    let _ = fs::remove_file(record_of(path));
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(fault("delete", path, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_surely_the_same_file_is_continued() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.partial");
        let open = |url: &str, sum: Option<&Sum>| Partial::open(&path, url, sum).unwrap();
        let begin = |version: Option<&str>| {
            let mut partial = open("u", None);
            partial.begin(version.map(str::to_owned)).unwrap();
            partial.add(b"abc").unwrap();
        };
        begin(Some("\"1\""));
        assert_eq!(open("u", None).have(), 3);
        assert_eq!(
            open("u", None).end().unwrap().to_string()[..15],
            *"sha256:ba7816bf"
        );
        assert_eq!(open("other", None).have(), 0);
        begin(None);
        assert_eq!(open("u", None).have(), 0, "no version was known");
        begin(Some("\"1\""));
        let sum = Sum::read(&"a".repeat(64)).unwrap();
        assert_eq!(open("u", Some(&sum)).have(), 0, "another checksum");
        begin(Some("\"1\""));
        fs::write(record_of(&path), "{\"url\":5}").unwrap();
        assert_eq!(open("u", None).have(), 0);
        assert!(drop_partial(&path).unwrap() && !drop_partial(&path).unwrap());
    }
}
