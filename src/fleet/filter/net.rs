//! Addresses: the beginning of one, a glob, or a network.

use std::fmt;
use std::net::IpAddr;

use super::pattern::Pattern;
use super::words::{Char, text};

/// What an address is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Net {
    /// A beginning, or a glob.
    Begins(Pattern),
    /// `10.0.3.0/24`.
    Network(IpAddr, u8),
}

impl Net {
    /// Reads one.
    pub fn read(chars: &[Char]) -> Result<Self, String> {
        let value = text(chars);
        let Some((address, bits)) = value.split_once('/') else {
            return Ok(Self::Begins(Pattern::read(chars)));
        };
        let address: IpAddr = address
            .parse()
            .map_err(|_| format!("{address:?} is not an address"))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits: u8 = bits
            .parse()
            .ok()
            .filter(|bits| *bits <= most)
            .ok_or_else(|| format!("/{bits} is not 0 to {most}"))?;
        Ok(Self::Network(address, bits))
    }

    /// Whether an address is meant.
    pub fn holds(&self, ip: &str) -> bool {
        match self {
            Self::Begins(pattern) => pattern.begins(ip),
            Self::Network(network, bits) => {
                ip.parse().is_ok_and(|ip| in_network(ip, *network, *bits))
            }
        }
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begins(pattern) => pattern.fmt(f),
            Self::Network(address, bits) => write!(f, "{address}/{bits}"),
        }
    }
}

fn in_network(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    let wide = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, true),
        IpAddr::V6(v6) => (v6.to_bits(), false),
    };
    let ((a, four), (b, other)) = (wide(ip), wide(network));
    four == other && (bits == 0 || (a ^ b) >> (128 - u32::from(bits)) == 0)
}
