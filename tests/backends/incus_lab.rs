//! The lab's Incus servers: where they are, and contexts of them.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "each test takes what it needs, and says what it skips"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use corral::backend::contract::{Backend, Env};
use corral::backend::incus::INFO;
use corral::model::{ContextSpec, Dirs};

/// What `tests/lab/incus-up.sh` wrote down; `None` (and a line that says so) where it is not up and CI did not ask.
pub fn facts() -> Option<&'static BTreeMap<String, String>> {
    static FACTS: OnceLock<Option<BTreeMap<String, String>>> = OnceLock::new();
    FACTS.get_or_init(look).as_ref()
}

fn look() -> Option<BTreeMap<String, String>> {
    let Some(dir) = std::env::var_os("CORRAL_LAB_INCUS").map(PathBuf::from) else {
        eprintln!("skipped (platform): servers of Incus are not asked for; LAB_INCUS=1 make test");
        return None;
    };
    if !answers(&dir) && std::env::var_os("CI").is_some() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/incus-up.sh");
        let up = Command::new(script)
            .env("LAB_DIR", &dir)
            .env("LAB_VM", "1")
            .status()
            .unwrap();
        assert!(up.success(), "tests/lab/incus-up.sh failed");
    }
    if !answers(&dir) {
        eprintln!("skipped (daemon): no Incus; as root: LAB_VM=1 tests/lab/incus-up.sh");
        return None;
    }
    Some(read(&dir))
}

fn read(dir: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(dir.join("env")).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn answers(dir: &Path) -> bool {
    let facts = read(dir);
    let up = |socket: &String| std::os::unix::net::UnixStream::connect(socket).is_ok();
    ["LAB_A_SOCKET", "LAB_B_SOCKET"]
        .iter()
        .all(|key| facts.get(*key).is_some_and(up))
}

/// A project of the lab's server `a` that no other test uses, in a home of its own. What is in it ends with it.
pub struct Place {
    pub facts: &'static BTreeMap<String, String>,
    pub home: tempfile::TempDir,
    pub project: String,
    pub host: char,
}

impl Place {
    pub fn new(project: &str) -> Option<Self> {
        Self::on('a', project)
    }

    pub fn on(host: char, project: &str) -> Option<Self> {
        let facts = facts()?;
        let home = tempfile::Builder::new().prefix("ci").tempdir().unwrap();
        let place = Self {
            facts,
            home,
            project: project.to_owned(),
            host,
        };
        place.client();
        place.clear();
        place.incus(&[
            "project",
            "create",
            project,
            "-c",
            "features.images=false",
            "-c",
            "features.profiles=false",
            "-c",
            "features.storage.volumes=true",
        ]);
        Some(place)
    }

    pub fn socket(&self) -> &str {
        let key = format!("LAB_{}_SOCKET", self.host.to_ascii_uppercase());
        &self.facts[&key]
    }

    /// A configuration of the Incus client that knows the lab's servers and nobody else.
    fn client(&self) {
        let (from, to) = (
            Path::new(&self.facts["INCUS_CONF"]),
            self.home.path().join("incus"),
        );
        std::fs::create_dir_all(to.join("servercerts")).unwrap();
        for file in ["client.crt", "client.key"] {
            std::fs::copy(from.join(file), to.join(file)).unwrap();
        }
        let mut text = "default-remote: local\nremotes:\n".to_owned();
        for (name, server) in [("lab-a", "A"), ("lab-b", "B"), ("images", "B")] {
            let certificate = &self.facts[&format!("LAB_{server}_SERVER_CERT")];
            std::fs::copy(certificate, to.join(format!("servercerts/{name}.crt"))).unwrap();
            let url = &self.facts[&format!("LAB_{server}_URL")];
            text.push_str(&format!(
                "  {name}:\n    addr: {url}\n    protocol: incus\n    public: false\n"
            ));
        }
        std::fs::write(to.join("config.yml"), text).unwrap();
    }

    pub fn env(&self) -> Arc<Env> {
        let root = self.home.path();
        let vars = [
            ("INCUS_CONF", root.join("incus").display().to_string()),
            ("INCUS_SOCKET", self.socket().to_owned()),
        ];
        Arc::new(Env {
            dirs: Dirs {
                config: root.join(".config/corral"),
                data: root.join(".local/share/corral"),
                state: root.join(".local/state/corral"),
                cache: root.join(".cache/corral"),
            },
            path: std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect(),
            vars: vars.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
            home: root.to_owned(),
        })
    }

    /// The context `lab`, of this project only.
    pub fn spec(&self) -> ContextSpec {
        let mut spec = ContextSpec::new("lab", INFO.kind());
        spec.fields
            .insert("project".to_owned(), self.project.clone().into());
        spec
    }

    pub fn backend(&self) -> Arc<dyn Backend> {
        (INFO.open)(self.spec(), self.env()).unwrap()
    }

    /// The Incus client on the server, in this project: what it printed.
    pub fn incus(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        assert!(
            output.status.success(),
            "incus {words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("incus");
        command
            .args(words)
            .env("INCUS_DIR", Path::new(self.socket()).parent().unwrap())
            .env("INCUS_CONF", self.home.path().join("incus"))
            .env("INCUS_PROJECT", &self.project)
            .stdin(std::process::Stdio::null());
        command
    }

    /// An instance made by the Incus client.
    pub fn launch(&self, name: &str) {
        self.incus(&["launch", "corral-tiny", name, "-q"]);
    }

    /// The program itself, with this place as its only server.
    pub fn corral(&self, words: &[&str]) -> Command {
        let config = self.home.path().join(".config/corral");
        std::fs::create_dir_all(&config).unwrap();
        std::fs::write(
            config.join("config.toml"),
            format!(
                "discover = false\ndefault-context = \"lab\"\n[[context]]\nname = \"lab\"\nbackend = \"incus\"\nsocket = \"{}\"\nproject = \"{}\"\n",
                self.socket(),
                self.project
            ),
        )
        .unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_corral"));
        command
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("INCUS_CONF", self.home.path().join("incus"))
            .arg("--headless")
            .args(words)
            .stdin(std::process::Stdio::null());
        command
    }

    fn clear(&self) {
        let quiet = |words: &[&str]| {
            let output = self.command(words).output();
            output
                .map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
                .unwrap_or_default()
        };
        for name in quiet(&["list", "-f", "csv", "-c", "n"]).lines() {
            quiet(&["config", "set", name, "security.protection.delete=false"]);
            quiet(&["delete", "--force", name]);
        }
        for pool in ["default", "second"] {
            let listed = quiet(&["storage", "volume", "list", pool, "-f", "csv", "-c", "tn"]);
            for name in listed
                .lines()
                .filter_map(|line| line.strip_prefix("custom,"))
            {
                quiet(&["storage", "volume", "delete", pool, name]);
            }
        }
        quiet(&["project", "delete", &self.project]);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clear();
    }
}
