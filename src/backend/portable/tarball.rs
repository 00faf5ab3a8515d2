//! What is in an OVA, without unpacking it: members lie in it as they are, so a disk is read in place.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::folder::is_plain_name;
use crate::link::files::fault;
use crate::model::{Error, Result, shown};

/// More members are no machine.
const MOST: usize = 256;
/// Longer descriptors and manifests are none.
const TEXT: u64 = 4 << 20;

/// A member of the package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name, without a folder.
    pub name: String,
    /// Where its bytes begin.
    pub offset: u64,
    /// How many there are.
    pub size: u64,
}

/// Whether these first bytes are those of a tar.
pub fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar")
}

/// The members of a package. Nothing is written anywhere.
///
/// # Errors
/// `Invalid` for links, devices, folders, names that lead elsewhere, members that come twice, and
/// a package that ends too early.
pub fn index(path: &Path, file: &File) -> Result<Vec<Member>> {
    let name = shown(&path.to_string_lossy()).into_owned();
    let bad = |why: String| {
        Error::invalid(format!("{name}: {why}"))
            .remedy("It is damaged, or no OVA: get it again, or look: tar tvf FILE")
    };
    let length = file.metadata().map_err(|e| fault("read", path, e))?.len();
    let mut at_start = file;
    at_start
        .seek(SeekFrom::Start(0))
        .map_err(|e| fault("read", path, e))?;
    let mut archive = tar::Archive::new(file);
    let mut members = Vec::new();
    let mut seen = BTreeSet::new();
    let entries = archive
        .entries_with_seek()
        .map_err(|e| bad(format!("cannot be read: {e}")))?;
    for entry in entries {
        let entry = entry.map_err(|e| bad(format!("cannot be read: {}", shown(&e.to_string()))))?;
        let raw = entry.path_bytes();
        let text = String::from_utf8_lossy(&raw).into_owned();
        let said = shown(&text).into_owned();
        let kind = entry.header().entry_type();
        if !matches!(kind, tar::EntryType::Regular | tar::EntryType::Continuous) {
            let what = match kind {
                tar::EntryType::Symlink | tar::EntryType::Link => "a link",
                tar::EntryType::Directory => "a folder",
                tar::EntryType::GNUSparse => "a sparse file",
                tar::EntryType::Fifo | tar::EntryType::Char | tar::EntryType::Block => "a device",
                _ => "no plain file",
            };
            return Err(bad(format!("\"{said}\" in it is {what}")));
        }
        let plain = text.strip_prefix("./").unwrap_or(&text).to_owned();
        if !is_plain_name(&plain) || std::str::from_utf8(&raw).is_err() {
            return Err(bad(format!("\"{said}\" in it leads out of the package")));
        }
        if !seen.insert(plain.clone()) {
            return Err(bad(format!("\"{said}\" is in it twice")));
        }
        let (offset, size) = (entry.raw_file_position(), entry.size());
        if offset.checked_add(size).is_none_or(|end| end > length) {
            return Err(bad(format!("\"{said}\" is cut off: the file is too short")));
        }
        members.push(Member {
            name: plain,
            offset,
            size,
        });
        if members.len() > MOST {
            return Err(bad(format!("more than {MOST} members")));
        }
    }
    if members.is_empty() {
        return Err(bad("nothing is in it".to_owned()));
    }
    Ok(members)
}

/// A member that is a short text.
pub fn text(path: &Path, mut file: &File, member: &Member) -> Result<String> {
    let name = shown(&member.name).into_owned();
    if member.size > TEXT {
        return Err(Error::invalid(format!(
            "{name} in it is too long for a text"
        )));
    }
    let mut bytes = vec![0; member.size as usize];
    file.seek(SeekFrom::Start(member.offset))
        .and_then(|_| file.read_exact(&mut bytes))
        .map_err(|e| fault("read", path, e))?;
    String::from_utf8(bytes).map_err(|_| Error::invalid(format!("{name} in it is no text (UTF-8)")))
}

/// What a manifest says: member and SHA-256. Other algorithms are left out.
pub fn manifest(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter_map(|line| {
            let (kind, rest) = line.trim().split_once('(')?;
            let (name, sum) = rest.rsplit_once(')')?;
            let sum = sum.trim_start().strip_prefix('=')?.trim();
            (kind.trim().eq_ignore_ascii_case("SHA256") && super::sums::is_sum(sum))
                .then(|| (name.to_owned(), sum.to_ascii_lowercase()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(members: &[(&str, tar::EntryType, &[u8])]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut tar = tar::Builder::new(file.reopen().unwrap());
        for (name, kind, content) in members {
            let mut header = tar::Header::new_ustar();
            // The library refuses such names itself where it writes.
            let bytes = header.as_old_mut();
            bytes.name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            if matches!(kind, tar::EntryType::Symlink | tar::EntryType::Link) {
                header.set_link_name("/etc/shadow").unwrap();
            }
            header.set_cksum();
            tar.append(&header, *content).unwrap();
        }
        tar.finish().unwrap();
        file
    }

    #[test]
    fn what_leads_out_of_a_package_is_refused() {
        use tar::EntryType::{Char, Directory, Fifo, Link, Regular, Symlink};
        for (members, wanted) in [
            (&[("../x.ovf", Regular, &b"a"[..])][..], "leads out"),
            (&[("/etc/x.ovf", Regular, b"a")], "leads out"),
            (&[("a/b.ovf", Regular, b"a")], "leads out"),
            (&[("x", Symlink, b"")], "is a link"),
            (&[("x", Link, b"")], "is a link"),
            (&[("x", Fifo, b"")], "is a device"),
            (&[("x", Char, b"")], "is a device"),
            (&[("x/", Directory, b"")], "is a folder"),
            (
                &[("x", Regular, b"1"), ("./x", Regular, b"2")],
                "is in it twice",
            ),
            (&[], "nothing is in it"),
        ] {
            let file = packed(members);
            let error = index(file.path(), file.as_file()).unwrap_err();
            assert!(error.message.contains(wanted), "{wanted}: {error}");
        }
        let whole = packed(&[("a.ovf", Regular, b"hello"), ("d", Regular, &[7; 2000])]);
        let members = index(whole.path(), whole.as_file()).unwrap();
        assert_eq!(
            text(whole.path(), whole.as_file(), &members[0]).unwrap(),
            "hello"
        );
        assert_eq!((members[1].offset, members[1].size), (1536, 2000));
        whole.as_file().set_len(2000).unwrap();
        let error = index(whole.path(), whole.as_file()).unwrap_err();
        assert!(error.message.contains("cut off"), "{error}");
    }

    #[test]
    fn manifests() {
        let sum = "b".repeat(64);
        let text = format!("SHA256(a (1).vmdk)= {sum}\nSHA1(x)= 00\nSHA256 (y) = {sum}\njunk");
        let found = manifest(&text);
        assert_eq!(
            found,
            [
                ("a (1).vmdk".to_owned(), sum.clone()),
                ("y".to_owned(), sum)
            ]
        );
    }
}
