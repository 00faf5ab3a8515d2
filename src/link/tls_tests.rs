//! A real server on loopback, with every kind of certificate.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::link::trust::{Pin, PinKind, TrustStore, TrustedBy};
use crate::link::x509::fingerprint;
use crate::model::{Dirs, ErrorKind};

const LONG: Duration = Duration::from_secs(30);

struct Authority(Issuer<'static, KeyPair>, CertificateDer<'static>);

fn authority(name: &str) -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let cert = params.self_signed(&key).unwrap();
    let der = cert.der().clone();
    Authority(Issuer::new(params, key), der)
}

struct Server {
    chain: Vec<CertificateDer<'static>>,
    port: u16,
}

/// Serves `names` until the test's runtime ends.
async fn serve(names: &[&str], by: Option<&Authority>, years: (i32, i32)) -> Server {
    let key = KeyPair::generate().unwrap();
    let mut params =
        CertificateParams::new(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()).unwrap();
    params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
    params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
    let (leaf, mut chain) = match by {
        Some(by) => (params.signed_by(&key, &by.0).unwrap(), vec![by.1.clone()]),
        None => (params.self_signed(&key).unwrap(), Vec::new()),
    };
    chain.insert(0, leaf.der().clone());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.clone(), key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(mut stream) = acceptor.accept(stream).await {
                    let _ = stream.write_all(b"hello").await;
                    let _ = stream.shutdown().await;
                }
            });
        }
    });
    Server { chain, port }
}

async fn verdict(server: &Server, pins: &[&CertificateDer<'_>]) -> Verdict {
    let trust = Trust {
        pins: pins.iter().map(|der| fingerprint(der)).collect(),
        exclusive: false,
    };
    let seen = probe("127.0.0.1", server.port, &trust, LONG).await.unwrap();
    let connected = connect("pve", "127.0.0.1", server.port, &trust, LONG).await;
    assert_eq!(
        connected.is_ok(),
        matches!(seen.verdict, Verdict::Ok(_)),
        "connecting and looking must agree: {:?}",
        seen.verdict
    );
    seen.verdict
}

fn says(verdict: Verdict) -> String {
    let error = verdict
        .into_result("pve", "127.0.0.1", "127.0.0.1:8006")
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    error.to_string()
}

const NOW: (i32, i32) = (2020, 2090);

#[tokio::test]
async fn an_unknown_server_is_told_with_the_line_that_pins_it() {
    let server = serve(&["127.0.0.1"], None, NOW).await;
    let found = verdict(&server, &[]).await;
    let Verdict::NotKnown { offer } = &found else {
        panic!("{found:?}")
    };
    assert_eq!(offer.what, PinKind::Leaf);
    let print = fingerprint(&server.chain[0]);
    let text = says(found);
    assert!(
        text.contains(&format!("corral context trust pve --fingerprint {print}")),
        "{text}"
    );
}

#[tokio::test]
async fn a_pinned_server_is_good_under_any_name_until_it_expires() {
    let server = serve(&["elsewhere.example"], None, NOW).await;
    let found = verdict(&server, &[&server.chain[0]]).await;
    assert_eq!(found, Verdict::Ok(TrustedBy::PinnedLeaf));
    let old = serve(&["127.0.0.1"], None, (2001, 2002)).await;
    let text = says(verdict(&old, &[&old.chain[0]]).await);
    assert!(text.contains("expired on 2002-01-01"), "{text}");
}

#[tokio::test]
async fn one_pinned_ca_is_good_for_every_server_it_vouches_for() {
    let ca = authority("Cluster CA");
    let one = serve(&["127.0.0.1"], Some(&ca), NOW).await;
    let Verdict::NotKnown { offer } = verdict(&one, &[]).await else {
        panic!("known")
    };
    assert_eq!(
        (offer.what, offer.certificate.subject.as_str()),
        (PinKind::Ca, "Cluster CA")
    );
    for server in [one, serve(&["127.0.0.1"], Some(&ca), NOW).await] {
        assert_eq!(
            verdict(&server, &[&ca.1]).await,
            Verdict::Ok(TrustedBy::PinnedCa)
        );
    }
}

#[tokio::test]
async fn a_pinned_ca_is_strict_about_names_and_dates() {
    let ca = authority("Cluster CA");
    let other = serve(&["other.example"], Some(&ca), NOW).await;
    let text = says(verdict(&other, &[&ca.1]).await);
    assert!(
        text.contains("is for other.example, not for 127.0.0.1"),
        "{text}"
    );
    let old = serve(&["127.0.0.1"], Some(&ca), (2001, 2002)).await;
    assert!(says(verdict(&old, &[&ca.1]).await).contains("expired on 2002-01-01"));
    let early = serve(&["127.0.0.1"], Some(&ca), (2080, 2090)).await;
    assert!(says(verdict(&early, &[&ca.1]).await).contains("only from 2080-01-01"));
}

#[tokio::test]
async fn a_changed_certificate_is_told_apart_from_a_new_one() {
    let server = serve(&["127.0.0.1"], None, NOW).await;
    let before = serve(&["127.0.0.1"], None, NOW).await;
    let found = verdict(&server, &[&before.chain[0]]).await;
    assert!(matches!(found, Verdict::Changed { .. }), "{found:?}");
    let text = says(found);
    assert!(text.contains("is not the pinned one (pinned "), "{text}");
    assert!(
        text.contains("corral context trust pve; if not, stop here"),
        "{text}"
    );
}

#[tokio::test]
async fn a_pinned_ca_that_only_stands_in_the_chain_vouches_for_nobody() {
    // An impostor appends the real CA's public certificate to its own self-signed one.
    let ca = authority("Cluster CA");
    let impostor = authority("Impostor");
    let mut server = serve(&["127.0.0.1"], Some(&impostor), NOW).await;
    server.chain.push(ca.1.clone());
    let found = judge(
        &server.chain,
        &ServerName::try_from("127.0.0.1").unwrap(),
        UnixTime::now(),
        &Arc::new(RootCertStore::empty()),
        &Trust {
            pins: vec![fingerprint(&ca.1)],
            exclusive: false,
        },
    );
    assert!(matches!(found, Verdict::Changed { .. }), "{found:?}");
}

#[tokio::test]
async fn the_systems_roots_need_no_pin_unless_pins_are_written_down() {
    let ca = authority("Public CA");
    let server = serve(&["a.example"], Some(&ca), NOW).await;
    let mut roots = RootCertStore::empty();
    roots.add(ca.1.clone()).unwrap();
    let roots = Arc::new(roots);
    let name = |text: &'static str| ServerName::try_from(text).unwrap();
    let judged = |name: &ServerName<'_>, trust: &Trust| {
        judge(&server.chain, name, UnixTime::now(), &roots, trust)
    };
    assert_eq!(
        judged(&name("a.example"), &Trust::default()),
        Verdict::Ok(TrustedBy::System)
    );
    assert!(matches!(
        judged(&name("b.example"), &Trust::default()),
        Verdict::WrongName { .. }
    ));
    let strict = Trust {
        pins: vec!["AB".to_owned()],
        exclusive: true,
    };
    assert!(matches!(
        judged(&name("a.example"), &strict),
        Verdict::Changed { .. }
    ));
}

#[tokio::test]
async fn what_is_no_tls_server_is_unreachable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"SSH-2.0-x\x1b[2J\r\n").await;
        }
    });
    let error = probe("127.0.0.1", port, &Trust::default(), LONG)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable);
    assert!(!error.to_string().chars().any(char::is_control));
}

#[tokio::test]
async fn a_silent_server_ends_at_the_deadline() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let error = probe(
        "127.0.0.1",
        port,
        &Trust::default(),
        Duration::from_millis(200),
    )
    .await
    .unwrap_err();
    assert!(
        error.message.contains("no connection to 127.0.0.1"),
        "{error}"
    );
}

#[test]
fn pins_are_kept_per_context_and_endpoint() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let store = TrustStore::new(&Dirs::under(home.path()));
    let pin = |context: &str, print: &str| Pin {
        context: context.into(),
        endpoint: "h:1".into(),
        fingerprint: print.into(),
        what: PinKind::Leaf,
        subject: "x\"\n".into(),
    };
    assert!(!store.forget("a").unwrap());
    assert!(store.replace(pin("a", "AA")).unwrap());
    assert!(!store.replace(pin("a", "AA")).unwrap());
    assert!(store.replace(pin("b", "BB")).unwrap());
    assert!(store.replace(pin("a", "CC")).unwrap());
    assert_eq!(store.pins("a", "h:1").unwrap(), [pin("a", "CC")]);
    assert_eq!(store.pins("a", "h:2").unwrap(), []);
    assert!(store.forget("a").unwrap());
    assert_eq!(store.all().unwrap(), [pin("b", "BB")]);
    let file = home.path().join("state/trust.toml");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    for damage in ["format = 2\n", "format = \"x\"", "\u{1b}["] {
        std::fs::write(&file, damage).unwrap();
        assert!(store.all().is_err(), "{damage:?}");
        assert!(store.replace(pin("a", "AA")).is_err(), "{damage:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), damage);
    }
}
