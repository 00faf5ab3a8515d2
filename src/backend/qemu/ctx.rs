//! What every part of this backend works with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::definition::Definition;
use super::store::Store;
use crate::backend::contract::Env;
use crate::model::{ContextSpec, Error, InstanceId, Kind, Result};

/// The kind's word.
pub const KIND: Kind = Kind::new("qemu");

/// The program.
const BINARY: &str = "qemu-system-x86_64";

/// Longest path of a unix socket: 108 bytes on Linux with its end, 104 elsewhere.
const SOCKET_PATH: usize = 104;

/// One context: definitions, processes and where they are.
#[derive(Clone, Debug)]
pub struct Ctx {
    /// The context as it was opened.
    pub spec: ContextSpec,
    /// The process it lives in.
    pub env: Arc<Env>,
    /// Definitions.
    pub store: Store,
}

impl Ctx {
    /// No I/O.
    pub fn new(spec: ContextSpec, env: Arc<Env>) -> Self {
        let store = Store::open(&env.dirs);
        Self { spec, env, store }
    }

    /// The address of the VM called `name`.
    pub fn id(&self, name: &str) -> InstanceId {
        InstanceId::new(&self.spec.name, None, name)
    }

    /// Where the state of all VMs is.
    pub fn state_dir(&self) -> PathBuf {
        self.env.dirs.state.join("vms")
    }

    /// The QEMU binary.
    ///
    /// # Errors
    /// `NotFound` with the line that installs it.
    pub fn qemu(&self) -> Result<PathBuf> {
        self.env.which(BINARY).ok_or_else(|| {
            Error::not_found(format!("{BINARY} is not installed"))
                .remedy("sudo apt install qemu-system-x86 qemu-utils ovmf")
                .in_context(&self.spec.name)
        })
    }

    /// Where this VM's sockets, pid and logs are.
    ///
    /// # Errors
    /// `Invalid` when a socket's path would be longer than the system takes.
    pub fn paths(&self, uuid: &uuid::Uuid) -> Result<Paths> {
        let short: String = uuid.simple().to_string().chars().take(12).collect();
        Paths::new(self.state_dir().join(short))
    }

    /// How messages call a VM: its ID.
    pub fn called(&self, definition: &Definition) -> String {
        self.id(&definition.name).to_string()
    }
}

/// The files of a VM's process, all in one folder of the state directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The folder.
    pub dir: PathBuf,
    /// Commands.
    pub qmp: PathBuf,
    /// Events.
    pub events: PathBuf,
    /// Guest agent.
    pub agent: PathBuf,
    /// Serial line.
    pub serial: PathBuf,
    /// What the serial line said.
    pub serial_log: PathBuf,
    /// Graphics.
    pub vnc: PathBuf,
    /// TPM control.
    pub tpm: PathBuf,
    /// Process number. QEMU removes it when it ends by itself.
    pub pid: PathBuf,
    /// The TPM's process number.
    pub tpm_pid: PathBuf,
    /// What QEMU said on its standard error, and how it was started.
    pub log: PathBuf,
    /// How the running process was started.
    pub launch: PathBuf,
    /// Events that were seen.
    pub journal: PathBuf,
    /// It was started, and its end has not been told yet.
    pub alive: PathBuf,
}

impl Paths {
    fn new(dir: PathBuf) -> Result<Self> {
        let at = |name: &str| dir.join(name);
        let longest = at("serial.sock");
        let length = longest.as_os_str().len();
        if length > SOCKET_PATH {
            return Err(Error::invalid(format!(
                "the socket {} would have a path of {length} bytes; the system takes {SOCKET_PATH}",
                longest.display()
            ))
            .remedy("Set XDG_STATE_HOME to a shorter folder."));
        }
        Ok(Self {
            qmp: at("qmp.sock"),
            events: at("ev.sock"),
            agent: at("ga.sock"),
            serial: longest,
            serial_log: at("serial.log"),
            vnc: at("vnc.sock"),
            tpm: at("tpm.sock"),
            pid: at("pid"),
            tpm_pid: at("tpm.pid"),
            log: at("qemu.log"),
            launch: at("launch.json"),
            journal: at("events.jsonl"),
            alive: at("alive.mark"),
            dir,
        })
    }

    /// Everything that a listening process leaves behind.
    pub fn sockets(&self) -> [&Path; 5] {
        [
            &self.qmp,
            &self.events,
            &self.agent,
            &self.serial,
            &self.vnc,
        ]
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::{Dirs, ErrorKind};

    /// A context over a folder, with this process's `PATH`.
    pub(crate) fn context(root: &Path) -> Ctx {
        let env = Env {
            dirs: Dirs::under(root),
            path: std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect(),
            vars: std::collections::BTreeMap::new(),
            home: root.to_owned(),
        };
        Ctx::new(ContextSpec::new("local", KIND), Arc::new(env))
    }

    #[test]
    fn a_socket_path_that_is_too_long_is_refused_with_the_remedy() {
        let uuid = uuid::Uuid::new_v4();
        let long = PathBuf::from("/tmp").join("x".repeat(90));
        let error = context(&long).paths(&uuid).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.to_string().contains("XDG_STATE_HOME"), "{error}");
        assert!(context(Path::new("/tmp/x")).paths(&uuid).is_ok());
    }
}
