//! The few facts of a certificate that messages need: who, by whom, until when, for which names.
//!
//! This reads, it does not judge: signatures and chains are rustls' work. Certificates come from
//! strangers, so every step is bounded by the bytes at hand.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};

/// A presented certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertInfo {
    /// Common name, else organisation, of its holder.
    pub subject: String,
    /// The same of its issuer.
    pub issuer: String,
    /// SHA-256 over the whole certificate, `AB:CD:…`.
    pub fingerprint: String,
    /// Not valid before.
    pub not_before: Timestamp,
    /// Not valid after.
    pub not_after: Timestamp,
    /// It may issue others.
    pub is_ca: bool,
    /// Names and addresses it is for.
    pub names: Vec<String>,
}

impl CertInfo {
    /// Reads DER; `None` for what is no certificate.
    pub fn read(der: &[u8]) -> Option<Self> {
        let certificate = Reader(der).take(SEQUENCE)?;
        let mut tbs = Reader(Reader(certificate).take(SEQUENCE)?);
        tbs.skip_if(CONTEXT_0)?;
        tbs.take(INTEGER)?;
        tbs.take(SEQUENCE)?;
        let issuer = name(tbs.take(SEQUENCE)?);
        let mut validity = Reader(tbs.take(SEQUENCE)?);
        let not_before = time(validity.next()?)?;
        let not_after = time(validity.next()?)?;
        let subject = name(tbs.take(SEQUENCE)?);
        let mut info = Self {
            subject,
            issuer,
            fingerprint: fingerprint(der),
            not_before,
            not_after,
            is_ca: false,
            names: Vec::new(),
        };
        tbs.take(SEQUENCE)?;
        while let Some((tag, content)) = tbs.next() {
            if tag == CONTEXT_3 {
                info.extensions(Reader(Reader(content).take(SEQUENCE)?));
            }
        }
        Some(info)
    }

    fn extensions(&mut self, mut list: Reader<'_>) {
        while let Some(extension) = list.take(SEQUENCE) {
            let mut extension = Reader(extension);
            let Some(oid) = extension.take(OID) else {
                continue;
            };
            if extension.skip_if(BOOLEAN).is_none() {
                continue;
            }
            let Some(value) = extension.take(OCTETS) else {
                continue;
            };
            match oid {
                BASIC_CONSTRAINTS => {
                    self.is_ca = Reader(value)
                        .take(SEQUENCE)
                        .and_then(|inner| Reader(inner).take(BOOLEAN))
                        .is_some_and(|flag| flag != [0]);
                }
                ALTERNATIVE_NAMES => {
                    let mut names = Reader(Reader(value).take(SEQUENCE).unwrap_or_default());
                    while let Some((tag, content)) = names.next() {
                        self.names.extend(alternative(tag, content));
                    }
                }
                _ => {}
            }
        }
    }

    /// `CN`, and what kind of certificate it is.
    pub fn title(&self) -> String {
        let what = if self.is_ca { "CA" } else { "server" };
        format!("{what}: {}", self.subject)
    }
}

/// SHA-256 as colon-separated upper-case hex.
pub fn fingerprint(der: &[u8]) -> String {
    Sha256::digest(der)
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect::<Vec<_>>()
        .join(":")
}

/// SHA-256 of the first certificate of a PEM text.
pub fn pem_fingerprint(pem: &[u8]) -> Option<String> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    Some(fingerprint(&der))
}

/// Until when the first certificate of a PEM text is good.
pub fn pem_expiry(pem: &[u8]) -> Option<Timestamp> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    CertInfo::read(&der).map(|info| info.not_after)
}

/// A fingerprint as people write it (colons, spaces, dashes, any case) in the one form; `None`
/// when it is no SHA-256.
pub fn read_fingerprint(text: &str) -> Option<String> {
    let trimmed = text.trim();
    let bare = match trimmed.get(..7) {
        Some(prefix) if prefix.eq_ignore_ascii_case("sha256:") => &trimmed[7..],
        _ => trimmed,
    };
    let hex: Vec<char> = bare
        .chars()
        .filter(|c| !matches!(c, ':' | ' ' | '-'))
        .map(|c| c.to_ascii_uppercase())
        .collect();
    if hex.len() != 64 || !hex.iter().all(char::is_ascii_hexdigit) {
        return None;
    }
    let pairs: Vec<String> = hex.chunks(2).map(|pair| pair.iter().collect()).collect();
    Some(pairs.join(":"))
}

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERAL_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const CONTEXT_0: u8 = 0xa0;
const CONTEXT_3: u8 = 0xa3;
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANISATION: &[u8] = &[0x55, 4, 10];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 17];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];

/// What is left of a DER value.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The next tag and its content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            let count = usize::from(first & 0x7f);
            if !(1..=3).contains(&count) || rest.len() < count {
                return None;
            }
            let (bytes, rest) = rest.split_at(count);
            let length = bytes.iter().fold(0, |sum, b| sum << 8 | usize::from(*b));
            (length, rest)
        };
        if rest.len() < length {
            return None;
        }
        let (content, rest) = rest.split_at(length);
        self.0 = rest;
        Some((tag, content))
    }

    /// The content of the next value, which must have this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next()
            .and_then(|(found, content)| (found == tag).then_some(content))
    }

    /// Steps over an optional value.
    fn skip_if(&mut self, tag: u8) -> Option<()> {
        if *self.0.first()? == tag {
            self.next()?;
        }
        Some(())
    }
}

/// What a distinguished name is called.
fn name(content: &[u8]) -> String {
    let mut common = None;
    let mut organisation = None;
    let mut sets = Reader(content);
    while let Some(set) = sets.take(SET) {
        let mut pairs = Reader(set);
        while let Some(pair) = pairs.take(SEQUENCE) {
            let mut pair = Reader(pair);
            let (Some(oid), Some((_, text))) = (pair.take(OID), pair.next()) else {
                continue;
            };
            let text = || crate::model::shown(&String::from_utf8_lossy(text)).into_owned();
            match oid {
                COMMON_NAME => common = Some(text()),
                ORGANISATION => organisation = Some(text()),
                _ => {}
            }
        }
    }
    common
        .or(organisation)
        .unwrap_or_else(|| "(no name)".to_owned())
}

fn alternative(tag: u8, content: &[u8]) -> Option<String> {
    match (tag, content.len()) {
        (0x82, _) => Some(crate::model::shown(&String::from_utf8_lossy(content)).into_owned()),
        (0x87, 4) => {
            let bytes: [u8; 4] = content.try_into().ok()?;
            Some(std::net::Ipv4Addr::from(bytes).to_string())
        }
        (0x87, 16) => {
            let bytes: [u8; 16] = content.try_into().ok()?;
            Some(std::net::Ipv6Addr::from(bytes).to_string())
        }
        _ => None,
    }
}

fn time((tag, content): (u8, &[u8])) -> Option<Timestamp> {
    let text = std::str::from_utf8(content).ok()?;
    let digits = text.strip_suffix('Z')?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let short: i16 = digits[..2].parse().ok()?;
            (if short < 50 { 2000 } else { 1900 } + short, &digits[2..])
        }
        (GENERAL_TIME, 14) => (digits[..4].parse().ok()?, &digits[4..]),
        _ => return None,
    };
    let part = |at: usize| rest[at..at + 2].parse::<i8>().ok();
    let civil = DateTime::new(year, part(0)?, part(2)?, part(4)?, part(6)?, part(8)?, 0).ok()?;
    civil.to_zoned(TimeZone::UTC).ok().map(|at| at.timestamp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_a_certificate() {
        let mut params =
            rcgen::CertificateParams::new(vec!["pve.example".into(), "10.0.0.1".into()]).unwrap();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "the\u{1b}[2J node");
        params.not_after = rcgen::date_time_ymd(2034, 5, 6);
        let cert = params
            .self_signed(&rcgen::KeyPair::generate().unwrap())
            .unwrap();
        let info = CertInfo::read(cert.der()).unwrap();
        assert_eq!(info.subject, "the\\x1b[2J node");
        assert_eq!(info.issuer, info.subject);
        assert_eq!(info.names, ["pve.example", "10.0.0.1"]);
        assert_eq!(info.not_after.to_string(), "2034-05-06T00:00:00Z");
        assert!(!info.is_ca);
        assert_eq!(read_fingerprint(&info.fingerprint), Some(info.fingerprint));
    }

    #[test]
    fn fingerprints_are_read_as_people_write_them() {
        let hex = "ab".repeat(32);
        let want = vec!["AB"; 32].join(":");
        for text in [
            hex.clone(),
            format!(" sha256:{hex}"),
            hex.to_uppercase(),
            want.replace(':', " "),
        ] {
            assert_eq!(read_fingerprint(&text), Some(want.clone()), "{text}");
        }
        for text in ["", "AB:CD", &"zz".repeat(32), &"ab".repeat(20), "ü2345678"] {
            assert_eq!(read_fingerprint(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(bytes in any::<Vec<u8>>(), at in 0usize..500, to in any::<u8>()) {
            let _ = CertInfo::read(&bytes);
            let mut der = rcgen::CertificateParams::new(vec!["a".into()]).unwrap()
                .self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec();
            if let Some(byte) = der.get_mut(at) {
                *byte = to;
            }
            let _ = CertInfo::read(&der);
        }
    }
}
