//! Which server a context is, and how it is reached: a socket of this machine, a remote of the Incus client, a URL.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use super::identity;
use super::json::Look as _;
use super::remotes::{Client, Remote};
use crate::backend::contract::Env;
use crate::link::http::Reach;
use crate::link::tls::{Identity, endpoint};
use crate::link::trust::{Trust, TrustStore};
use crate::link::x509::{pem_fingerprint, read_fingerprint};
use crate::model::{ContextSpec, Error, Result, shown};

/// The port a server listens on where a URL names none.
const PORT: u16 = 8443;

/// A server, and the project that is meant.
#[derive(Debug)]
pub struct Target {
    /// How it is reached.
    pub reach: Reach,
    /// Only this project; `None` is all.
    pub project: Option<String>,
    /// Lets us in, once.
    pub token: Option<Token>,
}

impl Target {
    /// Reads what the context says. Connects to nobody.
    ///
    /// # Errors
    /// `Invalid` and `NotFound` with what is wrong.
    pub fn of(spec: &ContextSpec, env: &Env) -> Result<Self> {
        let token = spec.secret.as_ref().map(Token::read).transpose()?;
        let project = spec.text("project").map(str::to_owned);
        let given: Vec<&str> = ["socket", "remote", "url"]
            .into_iter()
            .filter(|key| spec.text(key).is_some())
            .collect();
        if given.len() > 1 {
            return Err(Error::invalid(format!(
                "{} exclude each other",
                given.join(" and ")
            )));
        }
        if let Some(name) = spec.text("remote") {
            let client = Client::read(env)?;
            let remote = client.remote(name)?;
            return Self::of_remote(spec, env, &client, remote, token, project);
        }
        let url = spec
            .text("url")
            .map(str::to_owned)
            .or_else(|| token.as_ref().and_then(Token::url));
        if let Some(url) = url {
            let client = Client::read(env).unwrap_or_default();
            let reach = tls(spec, env, &client, &url, None, token.as_ref())?;
            return Ok(Self {
                reach,
                project,
                token,
            });
        }
        let socket = match spec.text("socket") {
            Some(path) => PathBuf::from(path),
            None => local(env).ok_or_else(|| {
                Error::unreachable("no socket of Incus is found on this machine")
                    .remedy("sudo apt install incus")
            })?,
        };
        Ok(Self {
            reach: Reach::Socket(socket),
            project,
            token: None,
        })
    }

    fn of_remote(
        spec: &ContextSpec,
        env: &Env,
        client: &Client,
        remote: &Remote,
        token: Option<Token>,
        project: Option<String>,
    ) -> Result<Self> {
        if remote.simple {
            return Err(Error::invalid(format!(
                "the remote {} has images only: it runs no instances",
                shown(&remote.name)
            )));
        }
        let reach = match remote.address.strip_prefix("unix:") {
            Some(path) => {
                let path = path.trim_start_matches("//");
                let socket = if path.is_empty() {
                    local(env)
                } else {
                    Some(PathBuf::from(format!("/{}", path.trim_start_matches('/'))))
                };
                Reach::Socket(socket.ok_or_else(|| {
                    Error::unreachable("no socket of Incus is found on this machine")
                        .remedy("sudo apt install incus")
                })?)
            }
            None => tls(
                spec,
                env,
                client,
                &remote.address,
                Some(remote),
                token.as_ref(),
            )?,
        };
        Ok(Self {
            reach,
            project,
            token,
        })
    }
}

fn tls(
    spec: &ContextSpec,
    env: &Env,
    client: &Client,
    url: &str,
    remote: Option<&Remote>,
    token: Option<&Token>,
) -> Result<Reach> {
    let (host, port) = place(url)?;
    let mut pins = Vec::new();
    for text in spec.fields.get("fingerprint").into_iter().flat_map(texts) {
        pins.push(read_fingerprint(text).ok_or_else(|| {
            Error::invalid(format!("{:?} is no SHA-256 fingerprint", shown(text)))
        })?);
    }
    let exclusive = !pins.is_empty();
    if !exclusive {
        let kept = TrustStore::new(&env.dirs).pins(&spec.name, &endpoint(&host, port))?;
        pins.extend(kept.into_iter().map(|pin| pin.fingerprint));
        if let Some(file) = remote.and_then(|remote| remote.certificate.as_deref()) {
            pins.push(pem_fingerprint(&read(file)?).ok_or_else(|| {
                Error::invalid(format!("{} holds no certificate", file.display()))
            })?);
        }
        pins.extend(token.and_then(|token| token.fingerprint.clone()));
    }
    let given = match (spec.text("certificate"), spec.text("key")) {
        (Some(certificate), Some(key)) => Some((PathBuf::from(certificate), PathBuf::from(key))),
        (None, None) => client
            .identity(remote.map(|remote| remote.name.as_str()))
            .or_else(|| Some(identity::own(env)).filter(|(_, key)| key.exists())),
        _ => {
            return Err(Error::invalid(
                "certificate and key are given together, or neither",
            ));
        }
    };
    let given = match given {
        // A token lets in whoever shows a certificate with it.
        None if token.is_some() => {
            identity::make(env)?;
            Some(identity::own(env))
        }
        given => given,
    };
    let identity = given
        .map(|(certificate, key)| identity_of(&certificate, &key))
        .transpose()?;
    Ok(Reach::Tls {
        host,
        port,
        trust: Trust { pins, exclusive },
        identity: identity.map(Box::new),
    })
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|error| {
        Error::invalid(format!(
            "{} cannot be read: {error}",
            shown(&file.display().to_string())
        ))
    })
}

/// A certificate and its key, from their files.
///
/// # Errors
/// `Invalid` where they cannot be read.
pub fn identity_of(certificate: &Path, key: &Path) -> Result<Identity> {
    let key = String::from_utf8(read(key)?)
        .map_err(|_| Error::invalid(format!("{} holds no key", key.display())))?;
    Ok(Identity {
        certificates: read(certificate)?,
        key: SecretString::from(key),
    })
}

/// Host and port of `https://host[:port]`.
pub fn place(url: &str) -> Result<(String, u16)> {
    let bad = || {
        Error::invalid(format!("{:?} is no URL of a server", shown(url)))
            .remedy("Write https://HOST:8443")
    };
    let rest = url.strip_prefix("https://").ok_or_else(bad)?;
    let rest = rest.trim_end_matches('/');
    if rest.is_empty() || rest.contains(['/', '?', '#', '@']) {
        return Err(bad());
    }
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (host, tail) = rest.split_once(']').ok_or_else(bad)?;
            (host, tail.strip_prefix(':'))
        }
        None => match rest.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        },
    };
    let port = port.map_or(Ok(PORT), str::parse).map_err(|_| bad())?;
    Ok((host.to_owned(), port))
}

/// Sockets of this machine, in the order they are looked for: Incus, then LXD.
fn sockets(env: &Env) -> Vec<PathBuf> {
    let var = |name: &str| {
        env.vars
            .get(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    if let Some(named) = var("INCUS_SOCKET") {
        return vec![named];
    }
    if let Some(dir) = var("INCUS_DIR") {
        return vec![dir.join("unix.socket")];
    }
    let mut all: Vec<PathBuf> = ["/run/incus", "/var/lib/incus"]
        .iter()
        .flat_map(|dir| ["unix.socket", "unix.socket.user"].map(|file| Path::new(dir).join(file)))
        .collect();
    all.extend(lxd_sockets(env));
    all
}

fn lxd_sockets(env: &Env) -> Vec<PathBuf> {
    if let Some(named) = env.vars.get("LXD_SOCKET").filter(|v| !v.is_empty()) {
        return vec![PathBuf::from(named)];
    }
    if let Some(dir) = env.vars.get("LXD_DIR").filter(|v| !v.is_empty()) {
        return vec![Path::new(dir).join("unix.socket")];
    }
    vec![
        PathBuf::from("/var/snap/lxd/common/lxd/unix.socket"),
        PathBuf::from("/var/lib/lxd/unix.socket"),
    ]
}

/// The socket of this machine's own server; one that this user may use goes before one that he may not.
pub fn local(env: &Env) -> Option<PathBuf> {
    let mut there = sockets(env);
    there.retain(|path| path.exists());
    let usable =
        |path: &&PathBuf| rustix::fs::access(path.as_path(), rustix::fs::Access::WRITE_OK).is_ok();
    there.iter().find(usable).or(there.first()).cloned()
}

/// What `incus config trust add` prints: who the server is, where it listens, and a secret that lets one client in.
#[derive(Clone, Debug)]
pub struct Token {
    /// SHA-256 of the server's certificate.
    pub fingerprint: Option<String>,
    /// `host:port`.
    pub addresses: Vec<String>,
    /// As it was given.
    pub text: SecretString,
    /// The name the server's administrator gave this client.
    pub client: Option<String>,
}

impl Token {
    /// Reads one.
    ///
    /// # Errors
    /// `Invalid` for what is none.
    pub fn read(text: &SecretString) -> Result<Self> {
        let bad = || {
            Error::invalid("the secret of this context is no trust token of Incus")
                .remedy("Make one on the server: incus config trust add NAME")
        };
        let trimmed = text.expose_secret().trim();
        let json = base64::engine::general_purpose::STANDARD
            .decode(trimmed)
            .map_err(|_| bad())?;
        let value: Value = serde_json::from_slice(&json).map_err(|_| bad())?;
        value.text("secret").ok_or_else(bad)?;
        let addresses = value.list("addresses").iter().filter_map(Value::as_str);
        Ok(Self {
            fingerprint: value.text("fingerprint").and_then(read_fingerprint),
            addresses: addresses.map(str::to_owned).collect(),
            text: SecretString::from(trimmed.to_owned()),
            client: value.text("client_name").map(str::to_owned),
        })
    }

    /// Where the server says it is.
    fn url(&self) -> Option<String> {
        self.addresses.first().map(|end| format!("https://{end}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dirs;

    #[test]
    fn servers_are_named_as_people_write_them() {
        assert_eq!(place("https://h").unwrap(), ("h".to_owned(), 8443));
        assert_eq!(place("https://h:9/").unwrap(), ("h".to_owned(), 9));
        assert_eq!(place("https://[::1]:9").unwrap(), ("::1".to_owned(), 9));
        for odd in [
            "h",
            "http://h",
            "https://",
            "https://h/x",
            "https://u@h",
            "https://h:x",
        ] {
            assert!(place(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_token_says_where_and_who() {
        let json =
            r#"{"client_name":"c","fingerprint":"aa","addresses":["127.0.0.1:8443"],"secret":"s"}"#;
        let text = base64::engine::general_purpose::STANDARD.encode(json);
        let token = Token::read(&SecretString::from(format!(" {text}\n"))).unwrap();
        assert_eq!(token.url().unwrap(), "https://127.0.0.1:8443");
        assert_eq!(token.fingerprint, None, "that is no SHA-256");
        assert_eq!(token.client.as_deref(), Some("c"));
        for odd in ["", "x", "e30=", "bnVsbA=="] {
            assert!(Token::read(&SecretString::from(odd)).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_context_names_one_server_or_the_one_here() {
        let home = tempfile::tempdir().unwrap();
        let socket = home.path().join("unix.socket");
        std::fs::write(&socket, "").unwrap();
        let mut env = Env {
            dirs: Dirs::under(home.path()),
            path: Vec::new(),
            vars: std::collections::BTreeMap::new(),
            home: home.path().to_owned(),
        };
        let dir = home.path().to_str().unwrap().to_owned();
        env.vars.insert("INCUS_DIR".to_owned(), dir);
        let mut spec = ContextSpec::new("x", super::super::ctx::KIND);
        let target = Target::of(&spec, &env).unwrap();
        assert!(matches!(target.reach, Reach::Socket(path) if path == socket));
        spec.fields.insert("url".to_owned(), "https://h".into());
        assert!(matches!(
            Target::of(&spec, &env).unwrap().reach,
            Reach::Tls { port: 8443, .. }
        ));
        spec.fields.insert("remote".to_owned(), "r".into());
        let error = Target::of(&spec, &env).unwrap_err();
        assert!(error.message.contains("exclude each other"), "{error}");
        spec.fields.shift_remove("url");
        let error = Target::of(&spec, &env).unwrap_err();
        assert!(error.message.contains("no remote"), "{error}");
    }
}
