//! Writes an OVA: a tar of descriptor, disks and manifest, in one pass.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::ovf::{OvfDisk, descriptor};
use super::private;
use super::sums::Summed;
use crate::link::files::fault;
use crate::model::{Hardware, Result};

const BUFFER: usize = 1 << 20;

/// A disk as a streamOptimized VMDK, to be packed.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its member's name.
    pub name: String,
    /// The file, removed once it is in.
    pub path: PathBuf,
    /// Size the guest sees.
    pub capacity: u64,
}

/// Packs. `go` is asked between blocks with the bytes done.
pub fn write(
    to: &Path,
    base: &str,
    name: &str,
    hardware: &Hardware,
    parts: &[Part],
    mut go: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let failed = |e| fault("write", to, e);
    let mut disks = Vec::new();
    for part in parts {
        let meta = std::fs::metadata(&part.path).map_err(|e| fault("read", &part.path, e))?;
        disks.push(OvfDisk {
            file: part.name.clone(),
            file_bytes: meta.len(),
            capacity: part.capacity,
        });
    }
    let out = BufWriter::with_capacity(BUFFER, private(to).map_err(failed)?);
    let mut tar = tar::Builder::new(out);
    let text = descriptor(name, hardware, &disks)?;
    let ovf = format!("{base}.ovf");
    let mut manifest = String::new();
    let sum = member(&mut tar, &ovf, text.len() as u64, &text[..]).map_err(failed)?;
    manifest.push_str(&format!("SHA256({ovf})= {sum}\n"));
    let mut before = 0;
    for (part, disk) in parts.iter().zip(&disks) {
        let file = File::open(&part.path).map_err(|e| fault("read", &part.path, e))?;
        let mut stopped = None;
        let mut done = 0;
        let watched = Watched {
            inner: file.take(disk.file_bytes),
            note: |n| {
                done += n;
                go(before + done).map_err(|e| {
                    stopped = Some(e);
                    std::io::Error::other("stopped")
                })
            },
        };
        let sum = member(&mut tar, &part.name, disk.file_bytes, watched);
        if let Some(error) = stopped {
            return Err(error);
        }
        let sum = sum.map_err(failed)?;
        manifest.push_str(&format!("SHA256({})= {sum}\n", part.name));
        before += disk.file_bytes;
        std::fs::remove_file(&part.path).map_err(|e| fault("remove", &part.path, e))?;
    }
    let bytes = manifest.as_bytes();
    member(&mut tar, &format!("{base}.mf"), bytes.len() as u64, bytes).map_err(failed)?;
    let out = tar.into_inner().map_err(failed)?;
    let file = out.into_inner().map_err(|e| failed(e.into_error()))?;
    file.sync_all().map_err(failed)
}

fn member(
    tar: &mut tar::Builder<impl Write>,
    name: &str,
    length: u64,
    from: impl Read,
) -> std::io::Result<String> {
    let mut header = tar::Header::new_gnu();
    header.set_size(length);
    header.set_mode(0o644);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mtime(u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or_default());
    let mut summed = Summed::new(from);
    tar.append_data(&mut header, name, &mut summed)?;
    let (sum, passed) = summed.finish();
    if passed != length {
        return Err(std::io::Error::other("it changed while it was packed"));
    }
    Ok(sum)
}

struct Watched<R, F> {
    inner: R,
    note: F,
}

impl<R: Read, F: FnMut(u64) -> std::io::Result<()>> Read for Watched<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        (self.note)(n as u64)?;
        Ok(n)
    }
}
