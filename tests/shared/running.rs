//! A corral as it runs: its own home with a configuration file, and contexts of the one kind that needs no daemon.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use corral::action::fleet_api::{Fleet, FleetOptions};
use corral::action::reload::Source;
use corral::action::{Engine, EngineParts};
use corral::backend::contract::Env;
use corral::model::Dirs;

pub struct Running {
    pub engine: Arc<Engine>,
    home: tempfile::TempDir,
}

/// What must be in a VM's folder for it to be listed.
const VM: &str = "format = 1\nuuid = \"5b1f7a52-8c0e-4f0b-9a53-0f6f3a1d2c11\"\nname = \"web\"\ncpus = 2\nmemory = \"1 GiB\"\n\
machine = \"pc-q35-7.2\"\ncpu_model = \"qemu64\"\n[firmware]\nkind = \"bios\"\n";

impl Running {
    /// With this `config.toml` and one VM, `web`.
    pub fn new(config: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let vm = home.path().join("data/vms/web");
        std::fs::create_dir_all(&vm).unwrap();
        std::fs::write(vm.join("vm.toml"), VM).unwrap();
        let dirs = Dirs::under(home.path());
        std::fs::create_dir_all(&dirs.config).unwrap();
        write(&dirs.config.join("config.toml"), config);
        let env = Arc::new(Env {
            path: vec!["/usr/bin".into(), "/bin".into()],
            vars: BTreeMap::new(),
            home: home.path().to_owned(),
            dirs: dirs.clone(),
        });
        let source = Source::new(Arc::clone(&env), BTreeMap::new(), None, false, false);
        let config = source.load();
        assert_eq!(config.problems, []);
        let options = FleetOptions {
            watch: true,
            ..FleetOptions::default()
        };
        let fleet = Fleet::start(source.open(&config), options);
        let engine = Engine::new(EngineParts {
            fleet,
            env,
            readonly: source.readonly(&config),
            config,
            in_memory: false,
            source: Some(source),
        });
        Self { engine, home }
    }

    pub fn file(&self) -> PathBuf {
        self.home.path().join("config/config.toml")
    }

    /// As an editor or another corral does it.
    pub fn edit(&self, text: &str) {
        write(&self.file(), text);
    }
}

fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

/// A context of the configuration.
pub fn context(name: &str, more: &str) -> String {
    format!("[[context]]\nname = \"{name}\"\nbackend = \"qemu\"\n{more}\n")
}
