//! Checksums of images as the lists of distributions have them, and those of bytes that come.

use sha2::{Digest as _, Sha256, Sha512};

use crate::model::{Sum, SumKind};

/// The checksum of `file` in a list: `HEX  FILE`, `HEX *FILE`, `SHA256 (FILE) = HEX`, or nothing but one checksum.
/// Signatures and comments around are passed over.
pub fn in_list(list: &str, file: &str) -> Option<Sum> {
    let mut all = Vec::new();
    for line in list.lines().map(str::trim) {
        let Some((sum, name)) = entry(line) else {
            continue;
        };
        // Names may stand with a folder before them.
        if name.is_some_and(|name| name.rsplit('/').next() == Some(file)) {
            return Some(sum);
        }
        all.push(sum);
    }
    all.dedup();
    match all.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    }
}

fn entry(line: &str) -> Option<(Sum, Option<&str>)> {
    if line.starts_with('#') {
        return None;
    }
    if let Some((left, hex)) = line.rsplit_once('=')
        && let Some(sum) = Sum::of_hex(hex.trim())
    {
        let name = left
            .split_once('(')
            .and_then(|(_, rest)| rest.rsplit_once(')'));
        return Some((sum, name.map(|(name, _)| name)));
    }
    let (hex, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let sum = Sum::of_hex(hex)?;
    let name = name.trim_start();
    let name = name.strip_prefix('*').unwrap_or(name);
    Some((sum, (!name.is_empty()).then_some(name)))
}

/// Counts a checksum while bytes come.
pub enum Counting {
    /// SHA-256.
    Sha256(Box<Sha256>),
    /// SHA-512.
    Sha512(Box<Sha512>),
}

impl Counting {
    /// For what is expected; without, SHA-256.
    pub fn new(expected: Option<&Sum>) -> Self {
        match expected.map(Sum::kind) {
            Some(SumKind::Sha512) => Self::Sha512(Box::default()),
            _ => Self::Sha256(Box::default()),
        }
    }

    /// More bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(state) => state.update(bytes),
            Self::Sha512(state) => state.update(bytes),
        }
    }

    /// The checksum of all that came.
    pub fn end(self) -> Sum {
        match self {
            Self::Sha256(state) => Sum::of_digest(SumKind::Sha256, &state.finalize()),
            Self::Sha512(state) => Sum::of_digest(SumKind::Sha512, &state.finalize()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_counted_as_bytes_come() {
        let mut counting = Counting::new(None);
        counting.add(b"a");
        counting.add(b"bc");
        assert!(counting.end().hex().starts_with("ba7816bf"));
    }

    #[test]
    fn lists_of_all_distributions_are_read() {
        let (a, b) = ("a".repeat(64), "b".repeat(128));
        let find = |list: &str| in_list(list, "x.qcow2").map(|sum| sum.hex().to_owned());
        assert_eq!(
            find(&format!("{b}  y.qcow2\n{a}  x.qcow2\n")),
            Some(a.clone())
        );
        assert_eq!(
            find(&format!("{b} *y.qcow2\n{a} *./x.qcow2\n")),
            Some(a.clone())
        );
        let signed = format!(
            "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n# x.qcow2: 5 bytes\nSHA256 (y.qcow2) = {}\n\
             SHA256 (x.qcow2) = {a}\n-----BEGIN PGP SIGNATURE-----\n",
            "c".repeat(64)
        );
        assert_eq!(find(&signed), Some(a.clone()));
        // One checksum alone is meant, whatever the file is called there.
        assert_eq!(find(&format!("{b}\n")), Some(b.clone()));
        assert_eq!(find(&format!("{b}  x-20261101.qcow2\n")), Some(b.clone()));
        assert_eq!(find(&format!("{b}  y\n{a}  z\n")), None);
        assert_eq!(find("<html>not here</html>"), None);
    }
}
