//! What the tests of real VMs share: the guest, a context in a folder of its own, tasks.

#![allow(
    clippy::unused_self,
    dead_code,
    reason = "each test takes what it needs"
)]

#[path = "guest.rs"]
pub mod guest;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corral::backend::contract::{
    Backend, Changes, CreateRequest, DiskSource, Env, Firmware, NoAsker, PauseRequest, Permit,
    PermitRequest, PowerRequest, Prepared, ReadCx, TaskCx,
};
use corral::backend::qemu::ctx::{Ctx, KIND};
use corral::backend::qemu::definition::Definition;
use corral::backend::qemu::families::Create;
use corral::backend::qemu::pause::Pause;
use corral::backend::qemu::power::Power;
use corral::backend::qemu::{INFO, process};
use corral::model::{
    Bytes, Consent, ContextSpec, Dirs, Error, Gate, Instance, InstanceId, InstanceKind, Outcome,
    Result, State, Support,
};
use tokio_util::sync::CancellationToken;

/// More than any read takes on a loaded machine.
pub const READ: Duration = Duration::from_secs(30);

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
        let at = self.serial(name, ":~# ", at).await;
        // The disk is mounted beside the boot, and may be late.
        let mounted = "until grep -q ' /data ' /proc/mounts; do sleep 1; done";
        self.shell(name, mounted, at).await.1
    }

    /// Runs a command in a logged-in guest and waits for its end.
    pub async fn shell(&self, name: &str, command: &str, from: usize) -> (String, usize) {
        self.types(name, &format!("{command}; echo 'en''d'")).await;
        let to = self.serial(name, "\nend", from).await;
        let vm = self.ctx.store.load(name).unwrap();
        let bytes = std::fs::read(self.ctx.paths(&vm.uuid).unwrap().serial_log).unwrap();
        (String::from_utf8_lossy(&bytes[from..to]).into_owned(), to)
    }

    /// A VM with an overlay of the guest's disk.
    pub async fn define(&self, image: &Path, name: &str) -> Definition {
        let source = DiskSource::Backed(image.to_str().unwrap().to_owned());
        let wanted = request(name, source, Firmware::Bios);
        self.make(wanted).await.unwrap();
        self.ctx.store.load(name).unwrap()
    }

    /// A VM as the list has it.
    pub async fn row(&self, name: &str) -> Instance {
        let all = self
            .backend()
            .inventory(&ReadCx::quiet(READ))
            .await
            .unwrap();
        let found = all.instances.into_iter().find(|row| row.name == name);
        found.unwrap()
    }

    /// Waits for a state.
    pub async fn until(&self, name: &str, state: State) -> Instance {
        let until = Instant::now() + READ;
        loop {
            let row = self.row(name).await;
            if row.state == state {
                return row;
            }
            assert!(Instant::now() < until, "{name} is {row:?}, not {state}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    pub async fn power(&self, name: &str, request: PowerRequest) -> Result<Outcome> {
        let row = self.row(name).await;
        self.change(&Power(self.ctx.clone()), &row, request).await
    }

    pub async fn pause(&self, name: &str, request: PauseRequest) -> Result<Outcome> {
        let row = self.row(name).await;
        self.change(&Pause(self.ctx.clone()), &row, request).await
    }

    /// The process of a running VM.
    pub fn pid(&self, vm: &Definition) -> String {
        let file = self.ctx.paths(&vm.uuid).unwrap().pid;
        std::fs::read_to_string(file).unwrap().trim().to_owned()
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
                // The folder goes next, and a process that still ends would write into it.
                let until = Instant::now() + Duration::from_secs(5);
                while entry.path().join("exe").exists() && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }
}

pub fn task(id: &InstanceId) -> TaskCx {
    task_within(id, None)
}

/// A task that waits for a guest at most this long.
pub fn task_within(id: &InstanceId, timeout: Option<Duration>) -> TaskCx {
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
        timeout,
    )
}

/// Other contexts hand out the same first port; each test takes one of its own.
pub fn free_port() -> u16 {
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
