//! What a file from anywhere is, told by its own first bytes before any tool opens it: never by its
//! name, and never followed to where it points.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use crate::link::files::fault;
use crate::model::{Bytes, Error, ErrorKind, Result, shown};

/// No disk is larger; whoever says so lies.
pub const LARGEST: Bytes = Bytes(1 << 46);

/// Part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The file.
    pub path: std::path::PathBuf,
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub size: u64,
    /// It is not all of the file.
    pub inner: bool,
    /// What messages call it.
    pub name: String,
}

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// An image in this format, by QEMU's word.
    Image(&'static str),
    /// Packed by gzip.
    Gzip,
}

/// Tells what it is, and refuses what points elsewhere, is encrypted or is cut off.
///
/// # Errors
/// One message each, with what would help.
pub fn identify(slice: &Slice, file: &File) -> Result<Content> {
    let head = Head::read(slice, file)?;
    let name = shown(&slice.name);
    let b = &head.bytes;
    if b.starts_with(b"\x1f\x8b") {
        return Ok(Content::Gzip);
    }
    if b.starts_with(b"QFI\xfb") {
        return qcow(&name, &head);
    }
    if b.starts_with(b"KDMV") {
        return vmdk(&name, slice, file, &head);
    }
    if b.starts_with(b"# Disk Desc") || b.starts_with(b"COWD") {
        return Err(elsewhere(
            &name,
            "is only the descriptor of a VMDK in several files",
        ));
    }
    if b.starts_with(b"vhdxfile") {
        return Ok(Content::Image("vhdx"));
    }
    if let Some(content) = vhd(&name, slice, file, &head)? {
        return Ok(content);
    }
    if head.le32(0x40) == Some(0xbeda_107f) {
        return vdi(&name, slice, &head);
    }
    if b.starts_with(b"QED\0") {
        if head.le64(16).unwrap_or(1) & 1 != 0 {
            return Err(overlay(&name));
        }
        return Ok(Content::Image("qed"));
    }
    raw(&name, slice, &head)?;
    Ok(Content::Image("raw"))
}

/// Refuses a file that points at another one; what else is wrong with it is not looked for.
///
/// # Errors
/// `Refused`, with the way to make one file of it.
pub fn stands_alone(path: &std::path::Path) -> Result<()> {
    let file = File::open(path).map_err(|e| fault("read", path, e))?;
    let slice = Slice {
        path: path.to_owned(),
        offset: 0,
        size: file.metadata().map_err(|e| fault("read", path, e))?.len(),
        inner: false,
        name: path.to_string_lossy().into_owned(),
    };
    match identify(&slice, &file) {
        Err(error) if error.kind == ErrorKind::Refused => Err(error),
        _ => Ok(()),
    }
}

/// How many bytes a packed image may become, by its first bytes.
pub fn unpacked(head: &[u8], most: Bytes) -> Bytes {
    let declared = head
        .starts_with(b"QFI\xfb")
        .then(|| head.get(24..32)?.try_into().ok().map(u64::from_be_bytes))
        .flatten();
    match declared {
        // With its tables, and what its snapshots may hold.
        Some(size) => Bytes(size.saturating_mul(2).saturating_add(64 << 20).min(most.0)),
        None => most,
    }
}

fn qcow(name: &str, head: &Head) -> Result<Content> {
    let version = head.be32(4).unwrap_or(0);
    let (crypt, features) = match version {
        1 => (head.be32(36), 0),
        2 => (head.be32(32), 0),
        3 => (head.be32(32), head.be64(72).unwrap_or(u64::MAX)),
        _ => {
            return Err(Error::invalid(format!(
                "{name} is a qcow2 image of version {version}, which nothing reads"
            )));
        }
    };
    if head.be64(8) != Some(0) {
        return Err(overlay(name));
    }
    if crypt != Some(0) {
        return Err(Error::unsupported(format!("{name} is encrypted")).remedy(
            "Decrypt it first, for LUKS: qemu-img convert --object secret,id=k,file=KEYFILE \
             --image-opts driver=qcow2,file.filename=FILE,encrypt.key-secret=k -O qcow2 NEW",
        ));
    }
    if features & 4 != 0 {
        return Err(elsewhere(name, "keeps its data in another file"));
    }
    if features & 2 != 0 {
        return Err(Error::invalid(format!("{name} is marked corrupt"))
            .remedy("Get it again, or mend a copy of it: qemu-img check -r all COPY"));
    }
    size(name, head.be64(24))?;
    Ok(Content::Image(if version == 1 { "qcow" } else { "qcow2" }))
}

fn vmdk(name: &str, slice: &Slice, file: &File, head: &Head) -> Result<Content> {
    let capacity = head.le64(12).unwrap_or(0);
    // Then a description in it names the files that hold the data.
    if capacity == 0 {
        return Err(elsewhere(name, "keeps its data in other files"));
    }
    size(name, capacity.checked_mul(512))?;
    let at = head.le64(28).unwrap_or(0).saturating_mul(512);
    if at != 0 {
        let text = read_at(slice, file, at, 20 << 10)?;
        let text = String::from_utf8_lossy(&text).to_lowercase();
        let has_parent = text.lines().any(|line| {
            let line = line.trim();
            line.starts_with("parentfilenamehint")
                || line.strip_prefix("parentcid").is_some_and(|rest| {
                    !rest.trim_start_matches([' ', '=']).starts_with("ffffffff")
                })
        });
        if has_parent {
            return Err(overlay(name));
        }
    }
    Ok(Content::Image("vmdk"))
}

fn vhd(name: &str, slice: &Slice, file: &File, head: &Head) -> Result<Option<Content>> {
    let first = head.bytes.starts_with(b"conectix");
    let footer = match slice.size.checked_sub(512) {
        Some(at) => read_at(slice, file, at, 512)?,
        None => Vec::new(),
    };
    let last = footer.starts_with(b"conectix");
    if !first && !last {
        return Ok(None);
    }
    if !last {
        return Err(cut(name));
    }
    let kind = footer
        .get(60..64)
        .map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    if kind == Some(4) {
        return Err(overlay(name));
    }
    Ok(Some(Content::Image("vpc")))
}

fn vdi(name: &str, slice: &Slice, head: &Head) -> Result<Content> {
    if head.le32(0x4c) == Some(4) {
        return Err(overlay(name));
    }
    size(name, head.le64(0x170))?;
    let data = u64::from(head.le32(0x158).unwrap_or(0));
    let block = u64::from(head.le32(0x178).unwrap_or(0)) + u64::from(head.le32(0x17c).unwrap_or(0));
    let blocks = u64::from(head.le32(0x184).unwrap_or(0));
    if data.saturating_add(block.saturating_mul(blocks)) > slice.size {
        return Err(cut(name));
    }
    Ok(Content::Image("vdi"))
}

fn raw(name: &str, slice: &Slice, head: &Head) -> Result<()> {
    if head.bytes.get(510..512) != Some(&[0x55, 0xaa]) {
        return Err(Error::invalid(format!(
            "{name} is no disk image: no known format and no partition table"
        ))
        .remedy(
            "If it is a raw disk all the same: qemu-img convert -f raw -O qcow2 FILE disk.qcow2",
        ));
    }
    let sectors = slice.size / 512;
    let whole = slice.size.is_multiple_of(512);
    let beyond = (0..4).any(|n| {
        let at = 446 + n * 16;
        let kind = head.bytes.get(at + 4).copied().unwrap_or(0);
        let begin = u64::from(head.le32(at + 8).unwrap_or(0));
        let count = u64::from(head.le32(at + 12).unwrap_or(0));
        // A table that only stands for the other one covers what it can.
        kind != 0 && kind != 0xee && begin + count > sectors
    });
    let gpt = head.bytes.get(512..520) == Some(b"EFI PART");
    let last = head.le64(512 + 32).unwrap_or(0);
    if !whole || beyond || (gpt && last >= sectors) {
        return Err(cut(name));
    }
    size(name, Some(slice.size))
}

fn size(name: &str, size: Option<u64>) -> Result<()> {
    match size {
        Some(size) if size <= LARGEST.0 => Ok(()),
        _ => Err(Error::invalid(format!(
            "{name} says that its disk is larger than {LARGEST}, which no disk is"
        ))),
    }
}

fn overlay(name: &str) -> Error {
    elsewhere(name, "is an overlay of another image")
}

fn elsewhere(name: &str, why: &str) -> Error {
    Error::refused(format!("{name} {why}; only what is in the file itself is taken")).remedy(
        "If you trust it, make one file of it where all its files are: qemu-img convert -O qcow2 FILE WHOLE.qcow2",
    )
}

/// It ends too early.
pub fn cut(name: &str) -> Error {
    Error::invalid(format!("{name} is cut off: it says that it is longer"))
        .remedy("Get it again, all of it.")
}

struct Head {
    bytes: Vec<u8>,
}

impl Head {
    fn read(slice: &Slice, file: &File) -> Result<Self> {
        let bytes = read_at(slice, file, 0, 1024)?;
        if bytes.is_empty() {
            return Err(
                Error::invalid(format!("{} is empty", shown(&slice.name))).remedy("Get it again.")
            );
        }
        Ok(Self { bytes })
    }

    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..at + N)?.try_into().ok()
    }

    fn be32(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_be_bytes)
    }

    fn be64(&self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_be_bytes)
    }

    fn le32(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    fn le64(&self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }
}

/// At most `most` bytes of a slice.
fn read_at(slice: &Slice, mut file: &File, at: u64, most: u64) -> Result<Vec<u8>> {
    let failed = |e| fault("read", &slice.path, e);
    let length = most.min(slice.size.saturating_sub(at));
    let mut bytes = Vec::new();
    if length > 0 {
        file.seek(SeekFrom::Start(slice.offset.saturating_add(at)))
            .map_err(failed)?;
        file.take(length).read_to_end(&mut bytes).map_err(failed)?;
    }
    Ok(bytes)
}
