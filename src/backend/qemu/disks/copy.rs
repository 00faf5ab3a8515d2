//! A file copied byte for byte and compared: what a format's own copy would leave behind (snapshots
//! inside of an image) comes along.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::link::files::fault;
use crate::model::{Error, Result};

const CHUNK: usize = 1 << 20;

/// Copies `from` into the empty file `to` and reads both again. Holes stay holes.
///
/// # Errors
/// `Refused` when cancelled; the caller removes what is half-made.
pub async fn copy(
    from: &Path,
    to: &Path,
    cancel: &CancellationToken,
    mut progress: impl FnMut(u64, u64) + Send,
) -> Result<()> {
    let (tell, mut told) = mpsc::channel::<(u64, u64)>(4);
    let (source, target, cancel) = (from.to_owned(), to.to_owned(), cancel.clone());
    let work = tokio::task::spawn_blocking(move || both(&source, &target, &cancel, &tell));
    while let Some((done, total)) = told.recv().await {
        progress(done, total);
    }
    work.await
        .map_err(|e| Error::backend(format!("internal: {e}")))?
}

fn both(
    from: &PathBuf,
    to: &PathBuf,
    cancel: &CancellationToken,
    tell: &mpsc::Sender<(u64, u64)>,
) -> Result<()> {
    let mut source = File::open(from).map_err(|e| fault("read", from, e))?;
    let total = source.metadata().map_err(|e| fault("read", from, e))?.len();
    let mut target = fs::OpenOptions::new()
        .write(true)
        .open(to)
        .map_err(|e| fault("write", to, e))?;
    let mut buffer = vec![0; CHUNK];
    let mut done = 0;
    while let Some(chunk) = chunk(&mut source, &mut buffer, from)? {
        step(cancel, tell, done, total)?;
        let wrote = if chunk.iter().all(|byte| *byte == 0) {
            target
                .seek(SeekFrom::Start(done + chunk.len() as u64))
                .map(drop)
        } else {
            target.write_all(chunk)
        };
        wrote.map_err(|e| fault("write", to, e))?;
        done += chunk.len() as u64;
    }
    target
        .set_len(total)
        .and_then(|()| target.sync_all())
        .map_err(|e| fault("write", to, e))?;
    compare(from, to, cancel, tell, total)
}

fn compare(
    from: &PathBuf,
    to: &PathBuf,
    cancel: &CancellationToken,
    tell: &mpsc::Sender<(u64, u64)>,
    total: u64,
) -> Result<()> {
    let mut source = File::open(from).map_err(|e| fault("read", from, e))?;
    let mut target = File::open(to).map_err(|e| fault("read", to, e))?;
    let (mut one, mut other) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut done = 0;
    loop {
        step(cancel, tell, done, total)?;
        let left = chunk(&mut source, &mut one, from)?;
        let right = chunk(&mut target, &mut other, to)?;
        if left != right {
            return Err(Error::backend(format!(
                "the copy {} is not what {} is",
                super::show(to),
                super::show(from)
            ))
            .remedy("Something wrote to one of them, or the storage is faulty."));
        }
        match left {
            Some(same) => done += same.len() as u64,
            None => return Ok(()),
        }
    }
}

fn step(
    cancel: &CancellationToken,
    tell: &mpsc::Sender<(u64, u64)>,
    done: u64,
    total: u64,
) -> Result<()> {
    if cancel.is_cancelled() {
        return Err(Error::refused("cancelled"));
    }
    // A reader that is slow misses some.
    if done.is_multiple_of(16 * CHUNK as u64) {
        let _ = tell.try_send((done, total));
    }
    Ok(())
}

/// As much as fits, or what is left; `None` at the end.
fn chunk<'a>(file: &mut File, buffer: &'a mut [u8], path: &Path) -> Result<Option<&'a [u8]>> {
    let mut have = 0;
    while have < buffer.len() {
        match file.read(&mut buffer[have..]) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(fault("read", path, e)),
        }
    }
    Ok((have > 0).then(|| &buffer[..have]))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[tokio::test]
    async fn every_byte_comes_and_holes_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a"), dir.path().join("b"));
        let mut bytes = vec![0; 5 * CHUNK + 77];
        bytes[2 * CHUNK + 5] = 7;
        bytes[5 * CHUNK + 70] = 9;
        fs::write(&from, &bytes).unwrap();
        fs::write(&to, "").unwrap();
        let never = CancellationToken::new();
        copy(&from, &to, &never, |_, _| ()).await.unwrap();
        assert_eq!(fs::read(&to).unwrap(), bytes);
        assert!(fs::metadata(&to).unwrap().blocks() * 512 < 3 * CHUNK as u64);
        let stop = CancellationToken::new();
        stop.cancel();
        assert!(copy(&from, &to, &stop, |_, _| ()).await.is_err());
    }
}
