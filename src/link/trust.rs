//! Which certificates are trusted: pins on disk, and the verdict over a presented chain.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, RootCertStore};
use serde::{Deserialize, Serialize};

use super::files::{lock_beside, write_atomically};
use super::x509::CertInfo;
use crate::model::{Dirs, Error, Result, shown};

/// What a pin is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PinKind {
    /// The issuing CA: asked once for all servers of a cluster.
    Ca,
    /// The server's own certificate.
    Leaf,
}

/// A certificate the user has accepted for one endpoint of one context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// Context.
    pub context: String,
    /// `host:port`.
    pub endpoint: String,
    /// SHA-256, `AB:CD:…`.
    pub fingerprint: String,
    /// What it is of.
    pub what: PinKind,
    /// Who it names.
    pub subject: String,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    #[serde(default, rename = "pin")]
    pins: Vec<Pin>,
}

const FORMAT: u32 = 1;

/// The pins, in `trust.toml` below the state folder.
#[derive(Clone, Debug)]
pub struct TrustStore {
    path: PathBuf,
}

impl TrustStore {
    /// The store of these roots. Nothing is read yet.
    pub fn new(dirs: &Dirs) -> Self {
        Self {
            path: dirs.state.join("trust.toml"),
        }
    }

    /// All pins. A file that cannot be read is an error, never "nothing is pinned": that would turn
    /// a changed certificate into a first contact.
    pub fn all(&self) -> Result<Vec<Pin>> {
        let bad = |why: &str| {
            Error::invalid(format!("{} {why}", shown(&self.path.display().to_string())))
                .remedy("Mend it, or move it away and pin again: corral context trust NAME")
        };
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(bad(&format!("cannot be read: {error}"))),
        };
        let stored: Stored = toml::from_str(&text)
            .map_err(|error| bad(&format!("is damaged: {}", shown(error.message()))))?;
        if stored.format != FORMAT {
            return Err(bad(&format!(
                "has format {}, this corral knows {FORMAT}",
                stored.format
            )));
        }
        Ok(stored.pins)
    }

    /// The pins of one endpoint of a context.
    pub fn pins(&self, context: &str, endpoint: &str) -> Result<Vec<Pin>> {
        let mut pins = self.all()?;
        pins.retain(|pin| pin.context == context && pin.endpoint == endpoint);
        Ok(pins)
    }

    /// Accepts `pin` in place of whatever was pinned for its endpoint. False: it was so already.
    pub fn replace(&self, pin: Pin) -> Result<bool> {
        self.change(|pins| {
            let same = |old: &Pin| old.context == pin.context && old.endpoint == pin.endpoint;
            if pins.iter().filter(|old| same(old)).eq([&pin]) {
                return false;
            }
            pins.retain(|old| !same(old));
            pins.push(pin);
            true
        })
    }

    /// Forgets all pins of a context.
    pub fn forget(&self, context: &str) -> Result<bool> {
        if !self.path.exists() {
            return Ok(false);
        }
        self.change(|pins| {
            let before = pins.len();
            pins.retain(|pin| pin.context != context);
            pins.len() != before
        })
    }

    fn change(&self, edit: impl FnOnce(&mut Vec<Pin>) -> bool) -> Result<bool> {
        let _lock = lock_beside(&self.path)?;
        let mut pins = self.all()?;
        if !edit(&mut pins) {
            return Ok(false);
        }
        let stored = Stored {
            format: FORMAT,
            pins,
        };
        let text = toml::to_string(&stored)
            .map_err(|error| Error::backend(format!("pins cannot be written: {error}")))?;
        write_atomically(&self.path, text.as_bytes())?;
        Ok(true)
    }
}

/// What one connection trusts.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Fingerprints of CAs or of the server, `AB:CD:…`.
    pub pins: Vec<String>,
    /// Only the pins count, not the system's roots: they were written into the configuration.
    pub exclusive: bool,
}

/// Why a chain is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedBy {
    /// A root of this system.
    System,
    /// A pinned CA.
    PinnedCa,
    /// The server's own certificate is pinned.
    PinnedLeaf,
}

/// What is to be said of a presented chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Good.
    Ok(TrustedBy),
    /// Its time is over.
    Expired {
        /// Since then.
        since: Timestamp,
    },
    /// Its time has not come; often this machine's clock.
    NotYet {
        /// From then on.
        from: Timestamp,
    },
    /// Good, but for other names.
    WrongName {
        /// It is for these.
        names: Vec<String>,
    },
    /// Something else than this is pinned.
    Changed {
        /// What is pinned.
        pinned: Vec<String>,
        /// What would be pinned now.
        offer: Box<Offer>,
    },
    /// Nobody vouches for it and nothing is pinned.
    NotKnown {
        /// What would be pinned.
        offer: Box<Offer>,
    },
    /// No certificate, or one that cannot be used at all.
    Unusable {
        /// Why.
        why: String,
    },
}

/// The certificate that would be pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// What it is.
    pub what: PinKind,
    /// Its facts.
    pub certificate: CertInfo,
}

impl Verdict {
    /// `Err` for anything but a good one, in the words a user needs.
    pub fn into_result(self, context: &str, host: &str, endpoint: &str) -> Result<TrustedBy> {
        let host = shown(host);
        let date = |at: Timestamp| at.strftime("%Y-%m-%d").to_string();
        let error = match self {
            Self::Ok(by) => return Ok(by),
            Self::Expired { since } => Error::refused(format!(
                "the certificate of {host} expired on {}",
                date(since)
            ))
            .remedy(format!("Renew it on {host}; corral does not go on with an expired one.")),
            Self::NotYet { from } => Error::refused(format!(
                "the certificate of {host} is valid only from {}",
                date(from)
            ))
            .remedy("Check this machine's clock: date"),
            Self::WrongName { names } => Error::refused(format!(
                "the certificate of {host} is for {}, not for {host}",
                if names.is_empty() { "no name at all".to_owned() } else { names.join(", ") }
            ))
            .remedy(format!(
                "Use one of these names: corral context set {context} --set url=…"
            )),
            Self::Changed { pinned, offer } => Error::refused(format!(
                "the certificate of {host} is not the pinned one (pinned {}, now {})",
                pinned.iter().map(|pin| short(pin)).collect::<Vec<_>>().join(" or "),
                short(&offer.certificate.fingerprint)
            ))
            .remedy(format!(
                "If it was renewed: corral context trust {context}; if not, stop here."
            )),
            Self::NotKnown { offer } => Error::refused(format!(
                "{} is not known ({}, SHA-256 {})",
                shown(endpoint),
                offer.certificate.title(),
                offer.certificate.fingerprint
            ))
            .remedy(format!(
                "Compare the fingerprint on the host, then pin it: corral context trust {context} --fingerprint {}",
                offer.certificate.fingerprint
            )),
            Self::Unusable { why } => {
                Error::refused(format!("the certificate of {host} cannot be used: {}", shown(&why)))
            }
        };
        Err(error.in_context(context))
    }
}

/// The first bytes of a fingerprint.
fn short(fingerprint: &str) -> String {
    match fingerprint.get(..11) {
        Some(start) => format!("{start}…"),
        None => fingerprint.to_owned(),
    }
}

/// Judges a chain, the server's certificate first, as presented to a client that wanted `name`.
pub fn judge(
    chain: &[CertificateDer<'_>],
    name: &ServerName<'_>,
    now: UnixTime,
    roots: &Arc<RootCertStore>,
    trust: &Trust,
) -> Verdict {
    let Some((leaf, rest)) = chain.split_first() else {
        return Verdict::Unusable {
            why: "none was presented".to_owned(),
        };
    };
    let Some(info) = CertInfo::read(leaf) else {
        return Verdict::Unusable {
            why: "it is damaged".to_owned(),
        };
    };
    let pinned = |fingerprint: &str| trust.pins.iter().any(|pin| pin == fingerprint);
    if pinned(&info.fingerprint) {
        // The pin is the identity: the name does not matter, the dates do.
        return dates(&info, now).unwrap_or(Verdict::Ok(TrustedBy::PinnedLeaf));
    }
    for ca in rest {
        if !pinned(&super::x509::fingerprint(ca)) {
            continue;
        }
        match check(leaf, rest, name, now, &only(ca)) {
            Ok(()) => return Verdict::Ok(TrustedBy::PinnedCa),
            Err(error) => {
                if let Some(verdict) = known_fault(&error, &info, rest, now) {
                    return verdict;
                }
            }
        }
    }
    let fault = if trust.exclusive {
        None
    } else {
        match check(leaf, rest, name, now, roots) {
            Ok(()) => return Verdict::Ok(TrustedBy::System),
            Err(error) => Some(error),
        }
    };
    let offer = Box::new(offer(&info, leaf, rest, name, now));
    if !trust.pins.is_empty() {
        return Verdict::Changed {
            pinned: trust.pins.clone(),
            offer,
        };
    }
    fault
        .and_then(|error| known_fault(&error, &info, rest, now))
        .or_else(|| dates(&info, now))
        .unwrap_or(Verdict::NotKnown { offer })
}

/// A store that holds this certificate only.
fn only(ca: &CertificateDer<'_>) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    // One that is no usable root leaves the store empty, and nothing is valid by that.
    let _ = roots.add(ca.clone().into_owned());
    Arc::new(roots)
}

fn check(
    leaf: &CertificateDer<'_>,
    rest: &[CertificateDer<'_>],
    name: &ServerName<'_>,
    now: UnixTime,
    roots: &Arc<RootCertStore>,
) -> Result<(), CertificateError> {
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::clone(roots), super::tls::provider())
            .build()
            .map_err(|_| CertificateError::UnknownIssuer)?;
    match verifier.verify_server_cert(leaf, rest, name, &[], now) {
        Ok(_) => Ok(()),
        Err(rustls::Error::InvalidCertificate(error)) => Err(error),
        Err(_) => Err(CertificateError::BadEncoding),
    }
}

/// Faults of a chain that somebody does vouch for.
fn known_fault(
    error: &CertificateError,
    leaf: &CertInfo,
    rest: &[CertificateDer<'_>],
    now: UnixTime,
) -> Option<Verdict> {
    match error {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Some(Verdict::WrongName {
                names: leaf.names.clone(),
            })
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => dates(leaf, now).or_else(|| {
            rest.iter()
                .filter_map(|ca| CertInfo::read(ca))
                .find_map(|ca| dates(&ca, now))
        }),
        CertificateError::Revoked => Some(Verdict::Unusable {
            why: "it was revoked".to_owned(),
        }),
        _ => None,
    }
}

fn dates(info: &CertInfo, now: UnixTime) -> Option<Verdict> {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now > info.not_after.as_second() {
        Some(Verdict::Expired {
            since: info.not_after,
        })
    } else if now < info.not_before.as_second() {
        Some(Verdict::NotYet {
            from: info.not_before,
        })
    } else {
        None
    }
}

/// The topmost presented CA that really vouches for the server, else the server's own certificate.
fn offer(
    info: &CertInfo,
    leaf: &CertificateDer<'_>,
    rest: &[CertificateDer<'_>],
    name: &ServerName<'_>,
    now: UnixTime,
) -> Offer {
    let vouching = rest.iter().rev().find_map(|ca| {
        let facts = CertInfo::read(ca).filter(|facts| facts.is_ca)?;
        let vouches = match check(leaf, rest, name, now, &only(ca)) {
            Ok(()) => true,
            Err(error) => known_fault(&error, info, rest, now).is_some(),
        };
        vouches.then_some(facts)
    });
    match vouching {
        Some(certificate) => Offer {
            what: PinKind::Ca,
            certificate,
        },
        None => Offer {
            what: PinKind::Leaf,
            certificate: info.clone(),
        },
    }
}
