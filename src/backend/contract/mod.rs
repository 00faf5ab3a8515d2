//! The contract that every backend keeps.
//!
//! Reads take a [`ReadCx`]. Changes come in two halves: `prepare` only reads and says what would be
//! done, `run` does it and takes a [`TaskCx`], which can only be made from a [`Permit`].

mod cx;
mod devices;
mod families;
mod life;
mod marks;
mod migrate;
mod permit;
mod prepared;
mod reads;
mod request;
mod snapshots;
mod transfer;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;

pub use cx::{Asker, NoAsker, ReadCx, TaskCx};
pub use devices::{
    DiskMoveRequest, DiskRequest, Growth, MediaRequest, NicRequest, PublishRequest, ResizeRequest,
    SendKeyRequest,
};
pub use families::{Families, NoFamilies};
pub use life::{
    CloneRequest, CloudInit, CreateRequest, DiskSource, Firmware, HibernateRequest, PauseRequest,
    PowerRequest, RemoveRequest, RenameRequest, RestartMode, TemplateRequest, UnlockRequest,
};
pub use marks::{AutostartRequest, EditRequest, NoteRequest, TagsRequest, check_note, check_tag};
pub use migrate::{Destination, MigrateRequest};
pub use permit::{Permit, PermitRequest};
pub use prepared::Prepared;
pub use reads::{
    EditNative, Events, Hosts, Images, Logs, Metrics, Networks, Opener, Route, Routes, Screenshots,
    Storage, Way,
};
pub use request::Request;
pub use snapshots::{NUMBER, SnapshotRequest, TakeSnapshot, free_name, satisfies};
pub use transfer::{
    BackupRequest, Backups, DiskBytes, DiskStream, ExportRequest, FilesRequest, ImageRequest,
    ImportRequest, PortableSource,
};

use crate::model::{
    Check, ContextSpec, Detail, Dirs, Error, Event, Facts, Field, Instance, InstanceId, Inventory,
    Kind, Operation, Outcome, Result, Support,
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

    /// What it can do beyond looking.
    fn families(&self) -> &dyn Families;
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
