//! What the tests of real VMs share: the guest, a context in a folder of its own, tasks.

#![allow(
    clippy::unused_self,
    dead_code,
    reason = "each test takes what it needs"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corral::backend::contract::{
    Backend, Changes, CreateRequest, DiskSource, Env, Firmware, NoAsker, Permit, PermitRequest,
    Prepared, ReadCx, TaskCx,
};
use corral::backend::qemu::ctx::{Ctx, KIND};
use corral::backend::qemu::families::Create;
use corral::backend::qemu::{INFO, process};
use corral::model::{
    Bytes, Consent, ContextSpec, Dirs, Error, Gate, Instance, InstanceId, InstanceKind, Outcome,
    Result, State, Support,
};
use tokio_util::sync::CancellationToken;

/// The guest's disk; `None` (and a line that says so) where it was not built and CI did not ask.
pub fn guest() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = std::env::var_os("CORRAL_LAB_GUEST")
        .map_or_else(|| root.join("target/lab/guest"), PathBuf::from);
    let disk = dir.join("guest.qcow2");
    if !disk.exists() && std::env::var_os("CI").is_some() {
        let built = Command::new(root.join("tests/lab/guest-image.sh"))
            .arg(&dir)
            .status()
            .unwrap();
        assert!(built.success(), "tests/lab/guest-image.sh failed");
    }
    if disk.exists() {
        return Some(disk);
    }
    eprintln!("skipped: no guest; build it: tests/lab/guest-image.sh");
    None
}

/// Whether QEMU is here; a line that says how to get it where it is not.
pub fn has_qemu() -> bool {
    let there = Command::new("qemu-img").arg("--version").output().is_ok()
        && Command::new("qemu-system-x86_64")
            .arg("--version")
            .output()
            .is_ok();
    if !there {
        assert!(std::env::var_os("CI").is_none(), "QEMU is not installed");
        eprintln!("skipped: no QEMU; apt install qemu-system-x86 qemu-utils ovmf");
    }
    there
}

/// A context that no other test sees, in a home of its own. Its VMs end with it.
pub struct Lab {
    pub ctx: Arc<Ctx>,
    pub root: tempfile::TempDir,
}

impl Lab {
    pub fn new() -> Self {
        let root = tempfile::Builder::new().prefix("cl").tempdir().unwrap();
        let env = Env {
            dirs: Dirs {
                config: root.path().join(".config/corral"),
                data: root.path().join(".local/share/corral"),
                state: root.path().join(".local/state/corral"),
                cache: root.path().join(".cache/corral"),
            },
            path: std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect(),
            vars: std::collections::BTreeMap::new(),
            home: root.path().to_owned(),
        };
        let ctx = Arc::new(Ctx::new(ContextSpec::new("local", KIND), Arc::new(env)));
        Self { ctx, root }
    }

    /// The same context as the fleet has it.
    pub fn backend(&self) -> Arc<dyn Backend> {
        (INFO.open)(self.ctx.spec.clone(), self.ctx.env.clone()).unwrap()
    }

    /// The program itself, with this folder as its home.
    pub fn corral(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_corral"));
        command
            .env_clear()
            .env("HOME", self.root.path())
            .env("PATH", std::env::var_os("PATH").unwrap())
            .arg("--headless")
            .args(words)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        command
    }

    pub fn instance(&self, name: &str, state: State) -> Instance {
        let id = InstanceId::new("local", None, name);
        Instance::new(id, KIND, InstanceKind::Vm, state, jiff::Timestamp::now())
    }

    pub async fn prepare<R: Send + Sync + 'static>(
        &self,
        family: &dyn Changes<R>,
        on: &Instance,
        request: R,
    ) -> Prepared {
        family
            .prepare(&ReadCx::quiet(Duration::from_secs(60)), on, request)
            .await
            .unwrap()
    }

    /// Prepares and runs; the first refusal is an error.
    pub async fn change<R: Send + Sync + 'static>(
        &self,
        family: &dyn Changes<R>,
        on: &Instance,
        request: R,
    ) -> Result<Outcome> {
        let prepared = self.prepare(family, on, request).await;
        if let Some(refusal) = prepared.refusals.first() {
            let mut error = Error::refused(refusal.message.clone());
            error.remedy.clone_from(&refusal.remedy);
            return Err(error);
        }
        if prepared.unchanged {
            return Ok(Outcome::unchanged(prepared.notes.join(" ")));
        }
        family.run(&task(&on.id), prepared).await
    }

    /// Makes a VM.
    pub async fn make(&self, request: CreateRequest) -> Result<Outcome> {
        let on = self.instance(&request.name, State::Provisioning);
        self.change(&Create(self.ctx.clone()), &on, request).await
    }

    /// Waits for a text on the serial line, from byte `from`; gives the length of the log then.
    pub async fn serial(&self, name: &str, text: &str, from: usize) -> usize {
        let vm = self.ctx.store.load(name).unwrap();
        let log = self.ctx.paths(&vm.uuid).unwrap().serial_log;
        let until = Instant::now() + Duration::from_secs(300);
        loop {
            let bytes = std::fs::read(&log).unwrap_or_default();
            let seen = String::from_utf8_lossy(bytes.get(from..).unwrap_or_default()).into_owned();
            if seen.contains(text) {
                return bytes.len();
            }
            assert!(
                Instant::now() < until,
                "no {text:?} on the serial line:\n{seen}"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Types a line at the serial console.
    pub async fn types(&self, name: &str, line: &str) {
        use tokio::io::AsyncWriteExt as _;
        let vm = self.ctx.store.load(name).unwrap();
        let path = self.ctx.paths(&vm.uuid).unwrap().serial;
        let mut socket = tokio::net::UnixStream::connect(path).await.unwrap();
        socket
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
        // The line must reach the guest before the socket is closed.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }

    pub async fn login(&self, name: &str, from: usize) -> usize {
        let at = self.serial(name, "login:", from).await;
        self.types(name, "root").await;
        let at = self.serial(name, "Password:", at).await;
        self.types(name, "corral-test").await;
        self.serial(name, ":~# ", at).await
    }

    /// Runs a command in a logged-in guest and waits for its end.
    pub async fn shell(&self, name: &str, command: &str, from: usize) -> (String, usize) {
        self.types(name, &format!("{command}; echo 'en''d'")).await;
        let to = self.serial(name, "\nend", from).await;
        let vm = self.ctx.store.load(name).unwrap();
        let bytes = std::fs::read(self.ctx.paths(&vm.uuid).unwrap().serial_log).unwrap();
        (String::from_utf8_lossy(&bytes[from..to]).into_owned(), to)
    }

    pub async fn power_off(&self, name: &str) {
        let vm = self.ctx.store.load(name).unwrap();
        let monitor = process::connect(&self.ctx, &vm).await.unwrap();
        corral::backend::qemu::snapshots::power_off(&self.ctx, &vm, monitor)
            .await
            .unwrap();
    }
}

impl Drop for Lab {
    /// Ends what a failed test left: only processes that say this folder in their command line.
    fn drop(&mut self) {
        let mark = self.root.path().to_string_lossy().into_owned();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|n| n.parse::<i32>().ok())
            else {
                continue;
            };
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            if (line.starts_with("qemu") || line.contains("/qemu-") || line.contains("swtpm"))
                && line.contains(&mark)
                && let Some(pid) = rustix::process::Pid::from_raw(pid)
            {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

pub fn task(id: &InstanceId) -> TaskCx {
    let permit = Permit::issue(&PermitRequest {
        readonly: None,
        gate: &Gate::Free,
        consent: &Consent::default(),
        support: &Support::Native,
        command: "corral",
    })
    .unwrap();
    let (events, _) = tokio::sync::mpsc::unbounded_channel();
    TaskCx::new(
        permit,
        id.clone(),
        events,
        CancellationToken::new(),
        Arc::new(NoAsker),
        None,
    )
}

/// Other contexts hand out the same first port; each test takes one of its own.
fn free_port() -> u16 {
    let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    socket.local_addr().unwrap().port()
}

pub fn request(name: &str, source: DiskSource, firmware: Firmware) -> CreateRequest {
    CreateRequest {
        name: name.to_owned(),
        cpus: 1,
        memory: Bytes::mib(256),
        disk_size: None,
        source,
        cdroms: Vec::new(),
        firmware: Some(firmware),
        os: None,
        tpm: false,
        secure_boot: false,
        cloud_init: None,
        publish: vec![("127.0.0.1".to_owned(), free_port(), 22)],
        tags: Vec::new(),
        note: None,
        start: false,
        set: Vec::new(),
    }
}
