//! The Incus client's own configuration: its remotes, its certificate. Read, never written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::json::{Look as _, is_true};
use crate::backend::contract::Env;
use crate::model::{Error, Result, shown};

/// A server as the client's configuration names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its name.
    pub name: String,
    /// `https://host:port`, `unix://`, `unix:///path`.
    pub address: String,
    /// Speaks `simplestreams`: images only.
    pub simple: bool,
    /// Anybody may read its public images.
    pub public: bool,
    /// The project that is meant where none is named.
    pub project: Option<String>,
    /// The server's certificate, PEM, where it was kept.
    pub certificate: Option<PathBuf>,
}

/// A client's configuration.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// The folder it is in.
    pub dir: PathBuf,
    /// By name.
    pub remotes: BTreeMap<String, Remote>,
}

/// The image server that every client knows.
const IMAGES: (&str, &str) = ("images", "https://images.linuxcontainers.org");

impl Client {
    /// Where configurations may be: the one that is named, Incus's own, LXD's.
    fn dirs(env: &Env) -> Vec<PathBuf> {
        let var = |name: &str| {
            env.vars
                .get(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        if let Some(named) = var("INCUS_CONF") {
            return vec![named];
        }
        let config = var("XDG_CONFIG_HOME").unwrap_or_else(|| env.home.join(".config"));
        let mut dirs = vec![config.join("incus")];
        dirs.extend(var("LXD_CONF"));
        dirs.push(env.home.join("snap/lxd/common/config"));
        dirs.push(config.join("lxc"));
        dirs
    }

    /// The first configuration that is there; an empty one where there is none.
    ///
    /// # Errors
    /// `Invalid` where it cannot be read.
    pub fn read(env: &Env) -> Result<Self> {
        let dirs = Self::dirs(env);
        let there = dirs.iter().find(|dir| dir.join("config.yml").exists());
        let dir = there.or(dirs.first()).cloned().unwrap_or_default();
        let mut remotes = BTreeMap::new();
        remotes.insert(
            IMAGES.0.to_owned(),
            Remote {
                name: IMAGES.0.to_owned(),
                address: IMAGES.1.to_owned(),
                simple: true,
                public: true,
                project: None,
                certificate: None,
            },
        );
        if there.is_some() {
            for remote in parse(&dir)? {
                remotes.insert(remote.name.clone(), remote);
            }
        }
        Ok(Self { dir, remotes })
    }

    /// The remote of this name.
    ///
    /// # Errors
    /// `NotFound` with those there are.
    pub fn remote(&self, name: &str) -> Result<&Remote> {
        self.remotes.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.remotes.keys().map(String::as_str).collect();
            Error::not_found(format!(
                "the Incus client's configuration in {} has no remote {:?}",
                shown(&self.dir.display().to_string()),
                shown(name)
            ))
            .remedy(format!("There are: {}", shown(&names.join(", "))))
        })
    }

    /// The client's certificate and key, where both are there.
    pub fn identity(&self, remote: Option<&str>) -> Option<(PathBuf, PathBuf)> {
        let own = remote.map(|name| {
            let dir = self.dir.join("clientcerts");
            (
                dir.join(format!("{name}.crt")),
                dir.join(format!("{name}.key")),
            )
        });
        let common = (self.dir.join("client.crt"), self.dir.join("client.key"));
        own.into_iter()
            .chain([common])
            .find(|(certificate, key)| certificate.exists() && key.exists())
    }
}

fn parse(dir: &Path) -> Result<Vec<Remote>> {
    let file = dir.join("config.yml");
    let bad = |why: String| {
        Error::invalid(format!(
            "{} cannot be read: {}",
            shown(&file.display().to_string()),
            shown(&why)
        ))
    };
    let text = std::fs::read_to_string(&file).map_err(|error| bad(error.to_string()))?;
    let value: Value = serde_saphyr::from_str(&text).map_err(|error| bad(error.to_string()))?;
    let Some(remotes) = value.object("remotes") else {
        return Ok(Vec::new());
    };
    // One that is odd hides no other.
    let read = remotes.iter().filter_map(|(name, remote)| {
        let certificate = dir.join("servercerts").join(format!("{name}.crt"));
        let protocol = remote.text("protocol").unwrap_or("incus");
        Some(Remote {
            name: name.clone(),
            address: remote.text("addr")?.trim_end_matches('/').to_owned(),
            simple: protocol == "simplestreams",
            public: remote.flag("public").unwrap_or(false) || is_true(remote.text("public")),
            project: remote.text("project").map(str::to_owned),
            certificate: certificate.exists().then_some(certificate),
        })
    });
    Ok(read.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_remote_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join("config.yml"),
            "default-remote: local\nremotes:\n  a: {addr: 'https://h:8443/', protocol: incus, public: false, project: p}\n  b: 3\n  c: {protocol: x}\n  d: {addr: 'https://i', protocol: simplestreams, public: true}\naliases: {}\n",
        )
        .unwrap();
        let remotes = parse(dir.path()).unwrap();
        let names: Vec<_> = remotes
            .iter()
            .map(|r| (r.name.as_str(), r.simple))
            .collect();
        assert_eq!(names, [("a", false), ("d", true)]);
        assert_eq!(remotes[0].address, "https://h:8443");
        assert_eq!(remotes[0].project.as_deref(), Some("p"));
        std::fs::write(dir.path().join("config.yml"), "remotes: [").unwrap();
        assert!(parse(dir.path()).is_err());
        std::fs::write(dir.path().join("config.yml"), "remotes: 7").unwrap();
        assert_eq!(parse(dir.path()).unwrap(), []);
    }
}
