//! Checksums of images: as typed, and as the lists of distributions have them.

use sha2::{Digest as _, Sha256, Sha512};

use crate::model::{Error, Result, shown};

/// An expected checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    kind: Kind,
    hex: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sha256,
    Sha512,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.kind.word(), self.hex)
    }
}

impl Sum {
    /// `sha256:HEX`, `sha512:HEX`, or the digits alone: their number says which it is.
    ///
    /// # Errors
    /// `Invalid` for anything else.
    pub fn read(text: &str) -> Result<Self> {
        let bad = || {
            Error::invalid(format!("{:?} is no checksum", shown(text)))
                .remedy("Write sha256: and 64 hexadecimal digits, or sha512: and 128")
        };
        let (word, hex) = match text.trim().split_once(':') {
            Some((word, hex)) => (Some(word.to_ascii_lowercase()), hex),
            None => (None, text.trim()),
        };
        let sum = Self::of_hex(hex).ok_or_else(bad)?;
        match word {
            Some(word) if word != sum.kind.word() => Err(bad()),
            _ => Ok(sum),
        }
    }

    fn of_hex(hex: &str) -> Option<Self> {
        let kind = match hex.len() {
            64 => Kind::Sha256,
            128 => Kind::Sha512,
            _ => return None,
        };
        hex.bytes().all(|b| b.is_ascii_hexdigit()).then(|| Self {
            kind,
            hex: hex.to_ascii_lowercase(),
        })
    }

    /// The checksum of `file` in a list: `HEX  FILE`, `HEX *FILE`, `SHA256 (FILE) = HEX`, or nothing but one checksum.
    /// Signatures and comments around are passed over.
    pub fn in_list(list: &str, file: &str) -> Option<Self> {
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
        match expected.map(|sum| sum.kind) {
            Some(Kind::Sha512) => Self::Sha512(Box::default()),
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
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self {
            Self::Sha256(state) => Sum {
                kind: Kind::Sha256,
                hex: hex(&state.finalize()),
            },
            Self::Sha512(state) => Sum {
                kind: Kind::Sha512,
                hex: hex(&state.finalize()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read_as_people_write_them() {
        let hex = "a".repeat(64);
        let sum = Sum::read(&hex).unwrap();
        assert_eq!(sum.to_string(), format!("sha256:{hex}"));
        assert_eq!(
            Sum::read(&format!("SHA256:{}", hex.to_uppercase())).unwrap(),
            sum
        );
        assert!(
            Sum::read(&"b".repeat(128))
                .unwrap()
                .to_string()
                .starts_with("sha512:")
        );
        for bad in [
            "",
            "sha256:",
            "abc",
            &format!("sha512:{hex}"),
            &"g".repeat(64),
        ] {
            assert!(Sum::read(bad).is_err(), "{bad}");
        }
        let mut counting = Counting::new(None);
        counting.add(b"a");
        counting.add(b"bc");
        assert!(counting.end().hex.starts_with("ba7816bf"));
    }

    #[test]
    fn lists_of_all_distributions_are_read() {
        let (a, b) = ("a".repeat(64), "b".repeat(128));
        let find = |list: &str| Sum::in_list(list, "x.qcow2").map(|sum| sum.hex);
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
