//! TLS to a server: the system's roots, else what is pinned.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use secrecy::ExposeSecret as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::trust::{Trust, Verdict, judge};
use super::x509::CertInfo;
use crate::model::{Error, Result, SecretText, shown};

/// What a server presented.
#[derive(Clone, Debug)]
pub struct Presented {
    /// `host:port`.
    pub endpoint: String,
    /// Its certificates, its own first.
    pub chain: Vec<CertInfo>,
    /// What is to be said of them.
    pub verdict: Verdict,
}

/// The cryptography all connections use.
pub(super) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())))
}

/// The system's roots, read once. One that cannot be read is left out.
fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    Arc::clone(ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    }))
}

/// Trusts whom the system trusts, and nobody else.
pub(super) fn with_system_roots() -> Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::backend(format!("TLS cannot be set up: {error}")).because(error))?;
    Ok(builder
        .with_root_certificates(system_roots())
        .with_no_client_auth())
}

/// `host:port`, an IPv6 address in brackets.
pub fn endpoint(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Connects and refuses, with the words the user needs, what is not trusted.
pub async fn connect(
    context: &str,
    host: &str,
    port: u16,
    trust: &Trust,
    limit: Duration,
) -> Result<TlsStream<TcpStream>> {
    let verifier = Arc::new(Verifier::new(trust.clone(), false));
    let shaken = shake(host, port, Arc::clone(&verifier), limit).await;
    match (shaken, verifier.taken()) {
        (Ok(stream), _) => Ok(stream),
        (Err(_), Some((verdict, _))) if !matches!(verdict, Verdict::Ok(_)) => {
            let end = endpoint(host, port);
            match verdict.into_result(context, host, &end) {
                Err(error) => Err(error),
                // The guard above leaves only verdicts that are errors.
                Ok(_) => Err(Error::refused("the certificate was refused")),
            }
        }
        (Err(error), _) => Err(error.in_context(context)),
    }
}

/// Looks at what a server presents. Nothing is sent but the handshake, and no key is accepted.
pub async fn probe(host: &str, port: u16, trust: &Trust, limit: Duration) -> Result<Presented> {
    let verifier = Arc::new(Verifier::new(trust.clone(), true));
    let shaken = shake(host, port, Arc::clone(&verifier), limit).await;
    match (verifier.taken(), shaken) {
        (Some((verdict, chain)), _) => Ok(Presented {
            endpoint: endpoint(host, port),
            chain,
            verdict,
        }),
        (None, Err(error)) => Err(error),
        (None, Ok(_)) => Err(Error::backend(format!(
            "{} presented no certificate",
            shown(&endpoint(host, port))
        ))),
    }
}

/// Who we are to a server that asks: certificates and key, PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Our certificate, and those above it.
    pub certificates: Vec<u8>,
    /// Its key: PKCS#8, PKCS#1 or SEC1.
    pub key: SecretText,
}

/// Trusts as `verifier` says, and shows `identity` where it is asked for.
fn client_config(verifier: Arc<Verifier>, identity: Option<&Identity>) -> Result<ClientConfig> {
    let set_up = |error: rustls::Error| {
        Error::backend(format!("TLS cannot be set up: {error}")).because(error)
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(set_up)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let Some(identity) = identity else {
        return Ok(builder.with_no_client_auth());
    };
    let unusable = |error: pem::Error| {
        Error::invalid(format!(
            "the client's certificate or key cannot be read: {error}"
        ))
    };
    let chain = CertificateDer::pem_slice_iter(&identity.certificates)
        .collect::<Result<Vec<_>, _>>()
        .map_err(unusable)?;
    let key =
        PrivateKeyDer::from_pem_slice(identity.key.expose_secret().as_bytes()).map_err(unusable)?;
    builder.with_client_auth_cert(chain, key).map_err(|error| {
        Error::invalid(format!(
            "the client's certificate and key do not fit: {error}"
        ))
        .because(error)
    })
}

/// How connections of one context are secured, and what was last said of the server's certificate.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    verifier: Arc<Verifier>,
    config: Arc<ClientConfig>,
}

impl Guard {
    pub(super) fn new(trust: Trust, identity: Option<&Identity>) -> Result<Self> {
        let verifier = Arc::new(Verifier::new(trust, false));
        let config = Arc::new(client_config(Arc::clone(&verifier), identity)?);
        Ok(Self { verifier, config })
    }

    pub(super) fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// What the server last presented and was refused for, in the words the user needs.
    pub(super) fn fault(&self, context: &str, host: &str, port: u16) -> Option<Error> {
        let (verdict, _) = self.verifier.last()?;
        verdict
            .into_result(context, host, &endpoint(host, port))
            .err()
    }

    /// A connection of its own.
    pub(super) async fn connect(
        &self,
        context: &str,
        host: &str,
        port: u16,
        limit: Duration,
    ) -> Result<TlsStream<TcpStream>> {
        let shaken = shake_with(host, port, Arc::clone(&self.config), limit).await;
        shaken.map_err(|error| {
            self.fault(context, host, port)
                .unwrap_or_else(|| error.in_context(context))
        })
    }
}

async fn shake(
    host: &str,
    port: u16,
    verifier: Arc<Verifier>,
    limit: Duration,
) -> Result<TlsStream<TcpStream>> {
    shake_with(host, port, Arc::new(client_config(verifier, None)?), limit).await
}

async fn shake_with(
    host: &str,
    port: u16,
    config: Arc<ClientConfig>,
    limit: Duration,
) -> Result<TlsStream<TcpStream>> {
    let end = shown(&endpoint(host, port)).into_owned();
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| Error::invalid(format!("{:?} is no host name", shown(host))))?;
    let work = async {
        let stream = TcpStream::connect((host, port)).await.map_err(|error| {
            Error::unreachable(format!("no connection to {end}: {error}")).because(error)
        })?;
        let _ = stream.set_nodelay(true);
        TlsConnector::from(config)
            .connect(name, stream)
            .await
            .map_err(|error| {
                let why = if error.kind() == std::io::ErrorKind::UnexpectedEof {
                    "it hung up".to_owned()
                } else {
                    shown(&error.to_string()).into_owned()
                };
                Error::unreachable(format!("{end} does not speak TLS with us: {why}"))
                    .because(error)
            })
    };
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let seconds = limit.as_secs().max(1);
        Err(Error::unreachable(format!(
            "no connection to {end} in {seconds} s"
        )))
    })
}

/// Judges what is presented and remembers it, so that the message can tell what it was.
#[derive(Debug)]
struct Verifier {
    trust: Trust,
    /// Goes on whatever the verdict: only to look.
    look: bool,
    seen: Mutex<Option<(Verdict, Vec<CertInfo>)>>,
}

impl Verifier {
    fn new(trust: Trust, look: bool) -> Self {
        Self {
            trust,
            look,
            seen: Mutex::new(None),
        }
    }

    fn taken(&self) -> Option<(Verdict, Vec<CertInfo>)> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

impl Verifier {
    /// What was last seen; it stays to be told again.
    fn last(&self) -> Option<(Verdict, Vec<CertInfo>)> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // A stranger's chain may be long; no real one is.
        let chain: Vec<CertificateDer<'_>> = std::iter::once(leaf)
            .chain(rest)
            .take(10)
            .cloned()
            .collect();
        let verdict = judge(&chain, name, now, &system_roots(), &self.trust);
        let good = matches!(verdict, Verdict::Ok(_));
        let facts = chain.iter().filter_map(|der| CertInfo::read(der)).collect();
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some((verdict, facts));
        if good || self.look {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(rustls::Error::InvalidCertificate(
                rustls::CertificateError::ApplicationVerificationFailure,
            ))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
