//! The contract that every backend keeps.
//!
//! Reads take a [`ReadCx`]. Changes come in two halves: `prepare` only reads and says what would be
//! done, `run` does it and takes a [`TaskCx`], which can only be made from a [`Permit`].

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::stream::BoxStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::link::Duplex;
use crate::model::{
    Bytes, Check, Consent, ContextSpec, Detail, Dirs, Error, Event, Facts, Family as FamilyName,
    Field, Gate, Instance, InstanceId, Inventory, Kind, Operation, Outcome, Prompt, Refusal,
    Result, Sample, SecretText, Step, Support, TaskEvent,
};

/// What the registry knows of a kind before any context of it exists.
#[derive(Clone, Copy)]
pub struct KindInfo {
    /// The kind's word.
    pub id: &'static str,
    /// How people write it: `QEMU`.
    pub title: &'static str,
    /// The native word for an instance: `VM`, `domain`, `instance`.
    pub noun: &'static str,
    /// What a `[[context]]` of this kind may say, besides the common keys.
    pub context_fields: &'static [Field],
    /// What `create` takes by `--set KEY=VALUE`.
    pub create_fields: &'static [Field],
    /// Looks on this machine, without connecting: sockets, binaries, files.
    pub discover: fn(&Env) -> Discovery,
    /// Opens a context. Does no I/O.
    pub open: fn(ContextSpec, Arc<Env>) -> Result<Arc<dyn Backend>>,
    /// The static cell of the support matrix.
    pub support: fn(Operation) -> Support,
}

impl KindInfo {
    /// The kind.
    pub const fn kind(&self) -> Kind {
        Kind::new(self.id)
    }
}

/// What discovery found for one kind.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// Contexts that are there and can be used at once.
    pub contexts: Vec<ContextSpec>,
    /// What was looked for and how to get it, for the first screen: (what, `no socket found`, `apt install …`).
    pub absent: Option<(String, String, String)>,
}

/// What a backend is given of the process it lives in.
#[derive(Clone, Debug)]
pub struct Env {
    /// Roots on disk.
    pub dirs: Dirs,
    /// `PATH` as a list; binaries are looked up here and nowhere else.
    pub path: Vec<PathBuf>,
    /// Environment variables that backends may read, by name.
    pub vars: std::collections::BTreeMap<String, String>,
    /// The home directory.
    pub home: PathBuf,
}

impl Env {
    /// Finds a binary on this environment's `PATH`.
    pub fn which(&self, binary: &str) -> Option<PathBuf> {
        let path = std::env::join_paths(&self.path).ok()?;
        which::which_in(binary, Some(path), &self.home).ok()
    }
}

/// A change seen by a watch.
#[derive(Clone, Debug)]
pub enum Change {
    /// A full answer.
    Reset(Inventory),
    /// One row is new or different.
    Upsert(Box<Instance>),
    /// One row is gone.
    Gone(InstanceId),
    /// Something was reported.
    Event(Event),
    /// The watch goes on, but sees less than all; why.
    Degraded(String),
}

/// One connection to one system.
#[async_trait]
pub trait Backend: Send + Sync {
    /// The kind.
    fn kind(&self) -> Kind;

    /// What can be done: the kind's static cell, the last probed facts, and `on`'s state. No I/O.
    fn support(&self, operation: Operation, on: Option<&Instance>) -> Support;

    /// Fetches what has to be there before the first question, such as a secret that a command prints. The
    /// families of a backend that is not ready may be missing. Asked anew only when somebody wants it: what
    /// failed may have made a person type.
    async fn ready(&self, cx: &ReadCx) -> Result<()> {
        let _ = cx;
        Ok(())
    }

    /// Who is at the other end.
    async fn probe(&self, cx: &ReadCx) -> Result<Facts>;

    /// Every instance, each once, paged to the end. A bad item becomes `State::Broken`.
    async fn inventory(&self, cx: &ReadCx) -> Result<Inventory>;

    /// Everything about one instance.
    async fn detail(&self, cx: &ReadCx, id: &InstanceId) -> Result<Detail>;

    /// Changes as they happen; begins with a `Reset`. `None`: the fleet polls.
    fn watch(self: Arc<Self>) -> Option<BoxStream<'static, Result<Change>>> {
        None
    }

    /// Checks what this context needs.
    async fn doctor(&self, cx: &ReadCx) -> Vec<Check>;

    /// Repairs what a doctor check of this backend named by `id` offers to repair.
    async fn repair(&self, cx: &TaskCx, check: &str) -> Result<Outcome> {
        let _ = cx;
        Err(Error::unsupported(format!(
            "nothing can be repaired for {check:?}"
        )))
    }

    /// Start, stop, restart.
    fn power(&self) -> Option<&dyn Changes<PowerRequest>> {
        None
    }

    /// Pause and resume.
    fn pause(&self) -> Option<&dyn Changes<PauseRequest>> {
        None
    }

    /// Create. The instance given to `prepare` is a stub with the wanted ID.
    fn create(&self) -> Option<&dyn Changes<CreateRequest>> {
        None
    }

    /// Delete.
    fn remove(&self) -> Option<&dyn Changes<RemoveRequest>> {
        None
    }

    /// Snapshots. They are listed by `detail`.
    fn snapshots(&self) -> Option<&dyn Changes<SnapshotRequest>> {
        None
    }

    /// Ways in.
    fn routes(&self) -> Option<&dyn Routes> {
        None
    }

    /// Load.
    fn metrics(&self) -> Option<&dyn Metrics> {
        None
    }

    /// What the backend recorded.
    fn events(&self) -> Option<&dyn Events> {
        None
    }

    /// Whether the family is there. The support law: all its operations are `No` where it is not.
    fn has(&self, family: FamilyName) -> bool {
        match family {
            FamilyName::Power => self.power().is_some(),
            FamilyName::Pause => self.pause().is_some(),
            FamilyName::Create => self.create().is_some(),
            FamilyName::Remove => self.remove().is_some(),
            FamilyName::Snapshots => self.snapshots().is_some(),
            FamilyName::Routes => self.routes().is_some(),
            FamilyName::Metrics => self.metrics().is_some(),
            FamilyName::Events => self.events().is_some(),
        }
    }
}

/// A family of changes with requests of type `R`.
#[async_trait]
pub trait Changes<R: Send + Sync + 'static>: Send + Sync {
    /// Says what would be done. Only reads. What forbids it goes into `refusals`, not `Err`.
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: R) -> Result<Prepared>;

    /// Does what `prepare` said. Re-checks the token right before the first write; a difference is
    /// `Conflict` and nothing is done. Returns when the wanted state was seen.
    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome>;
}

/// Requests of the power family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PowerRequest {
    /// Power on.
    Start,
    /// Ask the guest to shut down and wait.
    Stop {
        /// Power off now instead.
        force: bool,
        /// Ask first, power off after this long.
        force_after: Option<Duration>,
    },
    /// Ask the guest to reboot, reset, or stop and start.
    Restart(RestartMode),
}

/// How to restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartMode {
    /// Ask the guest.
    Guest,
    /// Reset.
    Force,
    /// Stop and start.
    Cold,
}

/// Requests of the pause family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseRequest {
    /// Halt the CPUs.
    Pause,
    /// Go on.
    Resume,
}

/// What a new instance is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskSource {
    /// An empty disk.
    Blank,
    /// A copy of an image file (or of the backend's own image by name).
    Copy(String),
    /// An overlay that needs the image file to stay.
    Backed(String),
}

/// Firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firmware {
    /// UEFI.
    Uefi,
    /// BIOS.
    Bios,
}

/// First-boot configuration of a cloud image.
#[derive(Clone, Debug, Default)]
pub struct CloudInit {
    /// Extra user-data, YAML with a `#cloud-config` line; may hold secrets.
    pub user_data: Option<SecretText>,
    /// SSH public keys.
    pub ssh_keys: Vec<String>,
    /// Login user.
    pub user: Option<String>,
    /// Password of that user.
    pub password: Option<SecretText>,
    /// Host name; `None` is the instance's name.
    pub hostname: Option<String>,
}

/// Request of the create family.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    /// Name.
    pub name: String,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory.
    pub memory: Bytes,
    /// Size of the first disk; `None` is the image's, or the backend's default.
    pub disk_size: Option<Bytes>,
    /// The first disk.
    pub source: DiskSource,
    /// CD-ROM images in drive order; the first boots when the disk is blank.
    pub cdroms: Vec<String>,
    /// Firmware; `None` is the backend's default.
    pub firmware: Option<Firmware>,
    /// Guest family for defaults: `linux`, `windows`.
    pub os: Option<String>,
    /// Virtual TPM 2.0.
    pub tpm: bool,
    /// Secure Boot.
    pub secure_boot: bool,
    /// `NoCloud` seed or the backend's equivalent.
    pub cloud_init: Option<CloudInit>,
    /// Published ports: host address and port (0 picks one), guest port.
    pub publish: Vec<(String, u16, u16)>,
    /// Tags.
    pub tags: Vec<String>,
    /// Note.
    pub note: Option<String>,
    /// Start it once it is made.
    pub start: bool,
    /// The kind's own fields, validated against `KindInfo::create_fields`.
    pub set: Vec<(String, String)>,
}

/// Request of the remove family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveRequest {
    /// Leave every disk where it is.
    pub keep_disks: bool,
    /// Power off a running instance first.
    pub force: bool,
}

/// Requests of the snapshot family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotRequest {
    /// Take one.
    Create {
        /// Its name.
        name: String,
        /// Free text.
        note: Option<String>,
        /// With RAM.
        memory: bool,
    },
    /// Go back to one.
    Restore {
        /// Its name.
        name: String,
        /// Stop a running instance first.
        stop: bool,
        /// Start it afterwards.
        start: bool,
        /// Take a snapshot of the present first, with this name.
        keep_present: Option<String>,
    },
    /// Delete one. A missing one is success, unchanged.
    Delete {
        /// Its name.
        name: String,
    },
}

/// What `prepare` found.
pub struct Prepared {
    /// What would be done, in order; empty with `unchanged`.
    pub steps: Vec<Step>,
    /// What is lost.
    pub losses: Vec<String>,
    /// What stays, or is worth knowing.
    pub notes: Vec<String>,
    /// Why it cannot be done.
    pub refusals: Vec<Refusal>,
    /// uid + etag, digest, resourceVersion or config hash.
    pub token: String,
    /// Goes on at its server when corral leaves.
    pub detachable: bool,
    /// Already as wanted.
    pub unchanged: bool,
    payload: Option<Box<dyn Any + Send + Sync>>,
}

impl Prepared {
    /// A change with these steps, valid while `token` holds.
    pub fn new(token: impl Into<String>, steps: Vec<Step>) -> Self {
        Self {
            steps,
            losses: Vec::new(),
            notes: Vec::new(),
            refusals: Vec::new(),
            token: token.into(),
            detachable: false,
            unchanged: false,
            payload: None,
        }
    }

    /// Already as wanted: `run` must not be called.
    pub fn unchanged(token: impl Into<String>, note: impl Into<String>) -> Self {
        let mut prepared = Self::new(token, Vec::new());
        prepared.unchanged = true;
        prepared.notes.push(note.into());
        prepared
    }

    /// Cannot be done.
    pub fn refused(
        token: impl Into<String>,
        message: impl Into<String>,
        remedy: Option<String>,
    ) -> Self {
        let mut prepared = Self::new(token, Vec::new());
        prepared.refusals.push(Refusal::new(message, remedy));
        prepared
    }

    /// Cannot be done, and an error says why.
    pub fn failed(token: impl Into<String>, error: &Error) -> Self {
        let mut prepared = Self::new(token, Vec::new());
        prepared.refusals.push(Refusal::from(error));
        prepared
    }

    /// Carries what `run` needs.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(mut self, payload: T) -> Self {
        self.payload = Some(Box::new(payload));
        self
    }

    /// What `prepare` put in.
    pub fn take<T: Any + Send + Sync>(&mut self) -> Result<T> {
        self.payload
            .take()
            .and_then(|payload| payload.downcast::<T>().ok())
            .map(|payload| *payload)
            .ok_or_else(|| Error::backend("internal: a plan without its payload was run"))
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared")
            .field("steps", &self.steps)
            .field("losses", &self.losses)
            .field("refusals", &self.refusals)
            .field("token", &self.token)
            .field("unchanged", &self.unchanged)
            .finish_non_exhaustive()
    }
}

/// Ways to a guest's port.
#[async_trait]
pub trait Routes: Send + Sync {
    /// All ways to `port`, best first; empty with a reason is an error.
    async fn routes(&self, cx: &ReadCx, on: &Instance, port: u16) -> Result<Vec<Route>>;
}

/// One way to a guest's port.
pub struct Route {
    /// How.
    pub way: Way,
    /// Why it is believed: `forwarded port`, `DHCP lease`.
    pub why: String,
    /// How old that knowledge is, seconds.
    pub age: Option<u64>,
}

/// How a route is taken.
pub enum Way {
    /// Plain TCP from here.
    Tcp(String, u16),
    /// TCP from a host that is logged in to by SSH.
    Jump {
        /// `[user@]host[:port]`.
        host: String,
        /// Address beyond it.
        address: String,
        /// Port beyond it.
        port: u16,
    },
    /// A stream that the backend opens.
    Stream(Box<dyn Opener>),
}

/// Opens a stream on demand.
#[async_trait]
pub trait Opener: Send + Sync {
    /// Opens it.
    async fn open(&self) -> Result<Duplex>;
}

/// Load.
#[async_trait]
pub trait Metrics: Send + Sync {
    /// One sample of each instance that can be read; rates are over the time since the last call.
    /// The number of calls behind it does not grow with the instances where the backend allows.
    async fn sample(&self, cx: &ReadCx, ids: &[InstanceId]) -> Result<Vec<(InstanceId, Sample)>>;
}

/// What the backend recorded.
#[async_trait]
pub trait Events: Send + Sync {
    /// Recorded events of one instance, or of the context; oldest first.
    async fn recorded(&self, cx: &ReadCx, id: Option<&InstanceId>) -> Result<Vec<Event>>;
}

/// Who answers questions.
#[async_trait]
pub trait Asker: Send + Sync {
    /// Asks. `Refused` with the exact remedy where nobody can answer.
    async fn ask(&self, prompt: Prompt) -> Result<SecretText>;
}

/// Answers nothing: background refreshes and headless runs.
pub struct NoAsker;

#[async_trait]
impl Asker for NoAsker {
    async fn ask(&self, prompt: Prompt) -> Result<SecretText> {
        Err(
            Error::new(crate::model::ErrorKind::Unauthorized, prompt.question)
                .remedy(prompt.remedy)
                .in_context(&prompt.context),
        )
    }
}

/// What a read may use.
#[derive(Clone)]
pub struct ReadCx {
    /// When it must have ended.
    pub deadline: Instant,
    /// Who answers questions.
    pub asker: Arc<dyn Asker>,
}

impl ReadCx {
    /// A read of at most `limit` that asks nobody.
    pub fn quiet(limit: Duration) -> Self {
        Self {
            deadline: Instant::now() + limit,
            asker: Arc::new(NoAsker),
        }
    }

    /// Time left.
    pub fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Runs `work` until the deadline; then `TimedOut` with `what`.
    pub async fn within<T>(
        &self,
        what: &str,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        match tokio::time::timeout_at(self.deadline.into(), work).await {
            Ok(result) => result,
            Err(_) => Err(Error::timed_out(format!("{what} did not answer in time"))),
        }
    }
}

/// Everything the check before a change looks at.
#[derive(Debug)]
pub struct PermitRequest<'a> {
    /// The context or the whole of corral refuses changes; why.
    pub readonly: Option<String>,
    /// What the gate wants, protection already included.
    pub gate: &'a Gate,
    /// What the user said.
    pub consent: &'a Consent,
    /// What the backend says of the operation for this instance.
    pub support: &'a Support,
    /// The headless command, for the remedy.
    pub command: &'a str,
}

/// Proof that a change was checked. The only way to a [`TaskCx`].
#[derive(Debug)]
pub struct Permit(());

impl Permit {
    /// Checks read-only, support and consent, in this order.
    ///
    /// # Errors
    /// `Refused` or `Unsupported` with the remedy; nothing was done.
    pub fn issue(request: &PermitRequest<'_>) -> Result<Self> {
        if let Some(why) = &request.readonly {
            return Err(Error::refused(format!("{why}. Nothing was done")));
        }
        if let Support::No(why) = request.support {
            return Err(Error::unsupported(why.clone()));
        }
        let command = request.command;
        match request.gate {
            Gate::Free => {}
            Gate::Confirm if request.consent.yes || request.consent.typed.is_some() => {}
            Gate::Confirm => {
                return Err(Error::refused("this needs a yes. Nothing was done")
                    .remedy(format!("Add -y: {command} -y")));
            }
            Gate::Type { text } if request.consent.typed.as_deref() == Some(text) => {}
            Gate::Type { text } => {
                let quoted = if text.contains(' ') {
                    format!("'{text}'")
                } else {
                    text.clone()
                };
                let message = if request.consent.typed.is_some() {
                    "the confirmation does not match. Nothing was done"
                } else {
                    "this needs to be confirmed by name. Nothing was done"
                };
                return Err(Error::refused(message).remedy(format!(
                    "Add --confirm {quoted}: {command} --confirm {quoted}"
                )));
            }
        }
        Ok(Self(()))
    }
}

/// What a change may use. Cannot be made without a [`Permit`].
#[derive(Clone)]
pub struct TaskCx {
    id: InstanceId,
    events: mpsc::UnboundedSender<TaskEvent>,
    /// Cancelled when the user asks: the backend answers by stopping at a safe point, or goes on
    /// when it is too late.
    pub cancel: CancellationToken,
    /// Who answers questions.
    pub asker: Arc<dyn Asker>,
    /// How long to wait for the wanted state.
    pub timeout: Option<Duration>,
}

impl TaskCx {
    /// For one target. `events` is unbounded because progress is coalesced by the backend's own
    /// pace (a few lines a second) and must never block a change.
    pub fn new(
        _permit: Permit,
        id: InstanceId,
        events: mpsc::UnboundedSender<TaskEvent>,
        cancel: CancellationToken,
        asker: Arc<dyn Asker>,
        timeout: Option<Duration>,
    ) -> Self {
        Self {
            id,
            events,
            cancel,
            asker,
            timeout,
        }
    }

    /// A step begins.
    pub fn step(&self, title: impl Into<String>) {
        let _ = self.events.send(TaskEvent::Step {
            id: self.id.clone(),
            title: title.into(),
        });
    }

    /// A step moves on.
    pub fn progress(&self, done: u64, total: u64) {
        let _ = self.events.send(TaskEvent::Progress {
            id: self.id.clone(),
            done,
            total,
        });
    }

    /// A line for the log.
    pub fn log(&self, line: impl Into<String>) {
        let _ = self.events.send(TaskEvent::Log {
            id: self.id.clone(),
            line: line.into(),
        });
    }

    /// The server's own task.
    pub fn native_task(&self, task: impl Into<String>) {
        let _ = self.events.send(TaskEvent::Native {
            id: self.id.clone(),
            task: task.into(),
        });
    }

    /// A read on behalf of this change, of at most `limit`.
    pub fn read(&self, limit: Duration) -> ReadCx {
        ReadCx {
            deadline: Instant::now() + limit,
            asker: Arc::clone(&self.asker),
        }
    }

    /// `Err(Refused)` once the user has cancelled: call it where stopping is safe.
    pub fn checkpoint(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(Error::refused("cancelled"));
        }
        Ok(())
    }
}
