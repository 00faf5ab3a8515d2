//! A certificate of corral's own, for users without an Incus client.

use std::path::PathBuf;

use crate::backend::contract::Env;
use crate::link::files::{make_dir, write_atomically};
use crate::model::{Error, Result};

/// Where certificate and key are.
pub fn own(env: &Env) -> (PathBuf, PathBuf) {
    let dir = env.dirs.data.join("incus");
    (dir.join("client.crt"), dir.join("client.key"))
}

/// Makes them, once.
///
/// # Errors
/// When it cannot be made or written.
pub fn make(env: &Env) -> Result<()> {
    let (certificate, key) = own(env);
    if certificate.exists() && key.exists() {
        return Ok(());
    }
    let failed =
        |error: rcgen::Error| Error::backend(format!("no certificate can be made: {error}"));
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).map_err(failed)?;
    let mut wanted = rcgen::CertificateParams::new(Vec::new()).map_err(failed)?;
    wanted.distinguished_name = rcgen::DistinguishedName::new();
    wanted
        .distinguished_name
        .push(rcgen::DnType::CommonName, "corral");
    wanted
        .distinguished_name
        .push(rcgen::DnType::OrganizationName, "corral");
    wanted.not_before = rcgen::date_time_ymd(2020, 1, 1);
    wanted.not_after = rcgen::date_time_ymd(2099, 1, 1);
    wanted.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let made = wanted.self_signed(&pair).map_err(failed)?;
    if let Some(dir) = key.parent() {
        make_dir(dir)?;
    }
    write_atomically(&key, pair.serialize_pem().as_bytes())?;
    write_atomically(&certificate, made.pem().as_bytes())
}
