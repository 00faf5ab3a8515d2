//! What images may be called, and their checksums: the same in configuration, commands and backends.

use std::fmt;

use super::error::{Error, Result};
use super::text::shown;

/// What an image may be called: it becomes a file's name.
pub fn is_image_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= 100
        && bytes.next().is_some_and(|b| b.is_ascii_alphanumeric())
        && bytes.all(|b| b.is_ascii_alphanumeric() || b"._+-".contains(&b))
}

/// How a checksum is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumKind {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl SumKind {
    fn word(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }
}

/// A checksum of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    kind: SumKind,
    hex: String,
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

    /// The digits alone; `None` for what has not as many of them.
    pub fn of_hex(hex: &str) -> Option<Self> {
        let kind = match hex.len() {
            64 => SumKind::Sha256,
            128 => SumKind::Sha512,
            _ => return None,
        };
        hex.bytes().all(|b| b.is_ascii_hexdigit()).then(|| Self {
            kind,
            hex: hex.to_ascii_lowercase(),
        })
    }

    /// As it was computed.
    pub fn of_digest(kind: SumKind, digest: &[u8]) -> Self {
        let hex = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { kind, hex }
    }

    /// How it is made.
    pub fn kind(&self) -> SumKind {
        self.kind
    }

    /// Its digits, in lower case.
    pub fn hex(&self) -> &str {
        &self.hex
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
    }

    #[test]
    fn a_name_of_an_image_is_a_files_name() {
        for bad in ["", "a/b", ".a", "-a", "a b", "a\n", "é", &"a".repeat(101)] {
            assert!(!is_image_name(bad), "{bad}");
        }
        assert!(is_image_name("ubuntu-24.04") && is_image_name(&"a".repeat(100)));
    }
}
