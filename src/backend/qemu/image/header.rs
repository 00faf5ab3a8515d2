//! What the first bytes of an image say, read here: a list of hundreds of files starts no program.

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::model::Bytes;

/// What a header says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// `qcow2`, `vmdk`, `iso` …; `None` is a file that says nothing of itself: raw, or no image at all.
    pub format: Option<&'static str>,
    /// Size a guest sees, where the header says it.
    pub size: Option<Bytes>,
    /// The file it is an overlay of, absolute. What is reached over a network is left out.
    pub backing: Option<PathBuf>,
    /// It has a partition table or a boot sector.
    pub partitioned: bool,
}

/// Longest backing file name of qcow2.
const LONGEST: u32 = 1023;

/// Reads it; `None` for what is no plain file, or cannot be read.
pub fn header(path: &Path) -> Option<Header> {
    // To open a pipe is to wait for someone who writes.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut file = File::open(path).ok()?;
    let mut head = Vec::with_capacity(512);
    file.by_ref().take(512).read_to_end(&mut head).ok()?;
    Some(read(path, &mut file, &head))
}

fn read(path: &Path, file: &mut File, head: &[u8]) -> Header {
    let mut found = Header {
        partitioned: head.get(510..512) == Some(&[0x55, 0xaa]),
        ..Header::default()
    };
    if head.starts_with(b"QFI\xfb") {
        found.format = Some(if u32_at(head, 4) == Some(1) {
            "qcow"
        } else {
            "qcow2"
        });
        found.size = u64_at(head, 24).map(Bytes);
        found.backing = backing(path, file, head);
    } else if head.starts_with(b"KDMV") {
        found.format = Some("vmdk");
        let sectors: Option<[u8; 8]> = head.get(12..20).and_then(|b| b.try_into().ok());
        found.size = sectors.map(|b| Bytes(u64::from_le_bytes(b).saturating_mul(512)));
    } else if head.get(64..68) == Some(&[0x7f, 0x10, 0xda, 0xbe]) {
        found.format = Some("vdi");
        let size: Option<[u8; 8]> = head.get(368..376).and_then(|b| b.try_into().ok());
        found.size = size.map(|b| Bytes(u64::from_le_bytes(b)));
    } else if head.starts_with(b"vhdxfile") {
        found.format = Some("vhdx");
    } else if head.starts_with(b"conectix") {
        found.format = Some("vpc");
        found.size = u64_at(head, 48).map(Bytes);
    } else if head.starts_with(b"QED\0") {
        found.format = Some("qed");
    } else if is_iso(file) {
        found.format = Some("iso");
    }
    found
}

fn u32_at(head: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(head.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(head: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(head.get(at..at + 8)?.try_into().ok()?))
}

fn backing(path: &Path, file: &mut File, head: &[u8]) -> Option<PathBuf> {
    let at = u64_at(head, 8).filter(|at| *at > 0)?;
    let length = u32_at(head, 16).filter(|n| (1..=LONGEST).contains(n))?;
    file.seek(SeekFrom::Start(at)).ok()?;
    let mut name = vec![0; length as usize];
    file.read_exact(&mut name).ok()?;
    let name = PathBuf::from(String::from_utf8(name).ok()?);
    if !super::chain::is_local(&name) {
        return None;
    }
    Some(path.parent().unwrap_or(Path::new("/")).join(name))
}

/// The size that a qcow2 had in each snapshot inside of it, by tag. What does not say so is left out: `qemu-img` prints
/// no such size. (`docs/interop/qcow2.txt` of QEMU, "Snapshots".)
pub fn snapshot_sizes(path: &Path) -> Vec<(String, Bytes)> {
    let mut found = Vec::new();
    if std::fs::metadata(path).is_ok_and(|meta| meta.is_file())
        && let Ok(file) = File::open(path)
    {
        let _ = read_snapshots(&mut BufReader::new(file), &mut found);
    }
    found
}

/// Ends at the first entry that is not whole.
fn read_snapshots(file: &mut BufReader<File>, found: &mut Vec<(String, Bytes)>) -> Option<()> {
    let mut take = |at: Option<u64>, length: usize| {
        let mut bytes = vec![0; length];
        if let Some(at) = at {
            file.seek(SeekFrom::Start(at)).ok()?;
        }
        file.read_exact(&mut bytes).ok().map(|()| bytes)
    };
    let head = take(None, 72)?;
    if !head.starts_with(b"QFI\xfb") {
        return None;
    }
    let mut at = u64_at(&head, 64)?;
    for _ in 0..u32_at(&head, 60)? {
        let entry = take(Some(at), 40)?;
        let short = |n: usize| usize::from(u16::from_be_bytes([entry[n], entry[n + 1]]));
        let (id, name) = (short(12), short(14));
        let extra = take(None, u32_at(&entry, 36).filter(|n| *n <= 1024)? as usize)?;
        take(None, id)?;
        let name = String::from_utf8_lossy(&take(None, name)?).into_owned();
        let length = (40 + extra.len() + id + short(14)) as u64;
        found.extend(u64_at(&extra, 8).map(|size| (name, Bytes(size))));
        at += length.next_multiple_of(8);
    }
    Some(())
}

fn is_iso(file: &mut File) -> bool {
    let mut mark = [0; 5];
    file.seek(SeekFrom::Start(32769)).is_ok()
        && file.read_exact(&mut mark).is_ok()
        && &mark == b"CD001"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(dir: &Path, name: &str, bytes: &[u8]) -> Header {
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        header(&path).unwrap()
    }

    #[test]
    fn an_overlay_names_its_base() {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = vec![0; 1024];
        bytes[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
        bytes[8..16].copy_from_slice(&600u64.to_be_bytes());
        bytes[16..20].copy_from_slice(&9u32.to_be_bytes());
        bytes[24..32].copy_from_slice(&(5u64 << 30).to_be_bytes());
        bytes[600..609].copy_from_slice(b"../b.qcow");
        let found = written(dir.path(), "a.qcow2", &bytes);
        assert_eq!(found.format, Some("qcow2"));
        assert_eq!(found.size, Some(Bytes::gib(5)));
        assert_eq!(found.backing, Some(dir.path().join("../b.qcow")));
        // A name that is longer than the file, and one of another protocol.
        bytes[16..20].copy_from_slice(&900u32.to_be_bytes());
        assert_eq!(written(dir.path(), "b", &bytes).backing, None);
        bytes[16..20].copy_from_slice(&9u32.to_be_bytes());
        bytes[600..609].copy_from_slice(b"nbd://h/x");
        assert_eq!(written(dir.path(), "c", &bytes).backing, None);
    }

    #[test]
    fn snapshots_say_what_size_the_disk_had() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.qcow2");
        let mut bytes = vec![0; 256];
        bytes[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
        bytes[60..64].copy_from_slice(&9u32.to_be_bytes());
        bytes[64..72].copy_from_slice(&128u64.to_be_bytes());
        let mut entry = |at: usize, extra: u32, size: u64, name: &[u8]| {
            bytes[at + 12..at + 14].copy_from_slice(&1u16.to_be_bytes());
            bytes[at + 14..at + 16].copy_from_slice(&(name.len() as u16).to_be_bytes());
            bytes[at + 36..at + 40].copy_from_slice(&extra.to_be_bytes());
            bytes[at + 48..at + 56].copy_from_slice(&size.to_be_bytes());
            let from = at + 41 + extra as usize;
            bytes[from..from + name.len()].copy_from_slice(name);
        };
        entry(128, 16, 80 << 20, b"one");
        entry(128 + 64, 16, 90 << 20, b"two");
        std::fs::write(&path, &bytes).unwrap();
        // Two of nine: the file ends there.
        let one = ("one".to_owned(), Bytes::mib(80));
        assert_eq!(
            snapshot_sizes(&path)[..2],
            [one.clone(), ("two".to_owned(), Bytes::mib(90))]
        );
        for cut in 0..bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            assert!(
                snapshot_sizes(&path)
                    .iter()
                    .take(1)
                    .all(|found| *found == one)
            );
        }
        assert_eq!(snapshot_sizes(Path::new("/dev/zero")), []);
    }

    #[test]
    fn odd_files_are_no_images() {
        let dir = tempfile::tempdir().unwrap();
        for odd in [&b""[..], b"QFI\xfb", b"hello"] {
            let found = written(dir.path(), "x", odd);
            assert_eq!((found.size, found.backing), (None, None));
        }
        assert_eq!(header(dir.path()), None);
        assert_eq!(header(Path::new("/dev/zero")), None);
    }
}
