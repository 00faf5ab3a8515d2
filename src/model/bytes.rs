//! Sizes in bytes: one way to read them, one way to print them.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{Error, Result};

/// A number of bytes. JSON carries the plain number; people see binary units (`4.0 GiB`).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u32); 6] = [
    ("EiB", 60),
    ("PiB", 50),
    ("TiB", 40),
    ("GiB", 30),
    ("MiB", 20),
    ("KiB", 10),
];

impl Bytes {
    /// So many kibibytes.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// So many mebibytes.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// So many gibibytes.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// As typed on a command line: exact, without a space, and read back to the same number.
    pub fn exact(self) -> String {
        for (unit, shift) in [("T", 40), ("G", 30), ("M", 20), ("K", 10)] {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return format!("{}{unit}", self.0 >> shift);
            }
        }
        self.0.to_string()
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self(0), |sum, one| Self(sum.0.saturating_add(one.0)))
    }
}

impl fmt::Display for Bytes {
    /// `0 B`, `512 B`, `1.5 KiB`, `20 GiB`: one decimal below ten.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in UNITS {
            if self.0 >> shift > 0 {
                let value = self.0 as f64 / (1u64 << shift) as f64;
                let text = if value < 9.95 {
                    format!("{value:.1} {unit}")
                } else {
                    format!("{value:.0} {unit}")
                };
                return f.pad(&text);
            }
        }
        f.pad(&format!("{} B", self.0))
    }
}

impl FromStr for Bytes {
    type Err = Error;

    /// `4096`, `512M`, `4G`, `4Gi`, `4GiB`, `4GB`, `1.5g`; all units are binary.
    fn from_str(text: &str) -> Result<Self> {
        let bad = || {
            Error::invalid(format!("{text:?} is not a size"))
                .remedy("Write it like 512M, 4G or 1.5GiB.")
        };
        let trimmed = text.trim();
        let split = trimmed
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let shift = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "ki" | "kb" | "kib" => 10,
            "m" | "mi" | "mb" | "mib" => 20,
            "g" | "gi" | "gb" | "gib" => 30,
            "t" | "ti" | "tb" | "tib" => 40,
            "p" | "pi" | "pb" | "pib" => 50,
            _ => return Err(bad()),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(1 << shift).map(Self).ok_or_else(bad);
        }
        let value: f64 = number.parse().map_err(|_| bad())?;
        let bytes = value * (1u64 << shift) as f64;
        if number.starts_with('.') || number.ends_with('.') || !(0.0..1.8e19).contains(&bytes) {
            return Err(bad());
        }
        Ok(Self(bytes.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, want) in [
            ("4096", 4096),
            ("512M", 512 << 20),
            ("4Gi", 4 << 30),
            ("4GiB", 4 << 30),
            ("1.5G", 3 << 29),
            (" 2 tb ", 2 << 40),
        ] {
            assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(want), "{text}");
        }
        for text in [
            "",
            "G",
            "-1G",
            "4X",
            "1..5G",
            "99999999999T",
            "NaN",
            "1e3",
            "5.G",
        ] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn prints_binary_units() {
        assert_eq!(Bytes(0).to_string(), "0 B");
        assert_eq!(Bytes::mib(1536).to_string(), "1.5 GiB");
        assert_eq!(Bytes::gib(20).to_string(), "20 GiB");
        assert_eq!(Bytes(u64::MAX).to_string(), "16 EiB");
    }

    proptest! {
        #[test]
        fn exact_round_trips(n in any::<u64>()) {
            prop_assert_eq!(Bytes(n).exact().parse::<Bytes>().unwrap(), Bytes(n));
        }

        #[test]
        fn never_panics(text in "\\PC*") {
            let _ = text.parse::<Bytes>();
        }
    }
}
