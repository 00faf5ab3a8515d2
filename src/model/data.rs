//! What a read gives back, in the envelope that `-o json` prints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::Action;
use super::detail::{Detail, Disk, Host, Nic, Sample, Snapshot};
use super::error::Error;
use super::event::Event;
use super::id::InstanceId;
use super::instance::{Instance, Port};
use super::nouns::{
    Backup, Image, LogSource, LogText, Network, Screenshot, StorageDetail, StoragePool,
};
use super::operation::Operation;
use super::plan::Plan;
use super::support::{Check, Support};
use super::task::Task;

/// Version of every JSON that corral prints. Within it only additions.
pub const SCHEMA: &str = "corral/1";

/// An answer: what was found, and whether it is all there is.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Data {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Every context in scope answered, fully.
    pub complete: bool,
    /// What failed.
    pub errors: Vec<Error>,
    /// Not failures, but worth a line on stderr.
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// Seconds old, for the rows of contexts in `errors`: context and age.
    #[serde(skip)]
    pub ages: Vec<(String, u64)>,
    /// What was to be checked is not good: the exit code says so.
    #[serde(skip)]
    pub faulty: bool,
    /// What people are told when there are no items, where the usual words would be untrue.
    #[serde(skip)]
    pub nothing: Option<&'static str>,
    /// The items.
    #[serde(flatten)]
    pub body: Body,
}

impl Data {
    /// Complete, without errors.
    pub fn new(body: Body) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            complete: true,
            errors: Vec::new(),
            warnings: Vec::new(),
            ages: Vec::new(),
            faulty: false,
            nothing: None,
            body,
        }
    }
}

impl Data {
    /// Takes in another answer to the same question, of somebody else.
    pub fn append(&mut self, other: Self) {
        self.complete &= other.complete;
        self.faulty |= other.faulty;
        self.errors.extend(other.errors);
        self.warnings.extend(other.warnings);
        self.ages.extend(other.ages);
        match (&mut self.body, other.body) {
            (Body::Hosts(all), Body::Hosts(more)) => all.extend(more),
            (Body::Pools(all), Body::Pools(more)) => all.extend(more),
            (Body::Networks(all), Body::Networks(more)) => all.extend(more),
            (Body::Images(all), Body::Images(more)) => all.extend(more),
            (Body::Snapshots(all), Body::Snapshots(more)) => all.extend(more),
            // No other question is asked of each context for itself.
            _ => {}
        }
    }
}

/// The items of an answer, under their own plural.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// `list`.
    Instances(Vec<Instance>),
    /// `info`: one element, under `instances` like every list of them.
    #[serde(rename = "instances")]
    Details(Vec<Detail>),
    /// `snapshot list`.
    Snapshots(Vec<Snapshot>),
    /// `nic list`.
    Nics(Vec<InstanceNic>),
    /// `ports list`.
    Ports(Vec<PublishedPort>),
    /// `host list`.
    Hosts(Vec<Host>),
    /// `host info`.
    #[serde(rename = "hosts")]
    HostDetails(Vec<Host>),
    /// `storage list`.
    Pools(Vec<StoragePool>),
    /// `storage info`.
    #[serde(rename = "pools")]
    PoolDetails(Vec<StorageDetail>),
    /// `network list`.
    Networks(Vec<Network>),
    /// `network info`.
    #[serde(rename = "networks")]
    NetworkDetails(Vec<Network>),
    /// `image list`, `image search`.
    Images(Vec<Image>),
    /// `backup list`.
    Backups(Vec<Backup>),
    /// `disk list`.
    Disks(Vec<DiskRow>),
    /// `events`.
    Events(Vec<Event>),
    /// `metrics`.
    Metrics(Vec<MetricSeries>),
    /// `context list`.
    Contexts(Vec<ContextRow>),
    /// `doctor`.
    Checks(Vec<Check>),
    /// `matrix`.
    Matrix(Vec<MatrixRow>),
    /// `history`.
    History(Vec<HistoryEntry>),
    /// `tasks list`.
    Tasks(Vec<Task>),
    /// `tasks show`, and what a change prints.
    Task(Box<Task>),
    /// `--dry-run`.
    Plan(Box<Plan>),
    /// `wait`.
    Waits(Vec<WaitRow>),
    /// `logs`.
    Log(LogText),
    /// `logs --list`.
    LogSources(Vec<LogSource>),
    /// `screenshot`.
    Screenshots(Vec<Screenshot>),
    /// `config show`.
    Settings(Vec<SettingRow>),
    /// `config check`.
    Problems(Vec<ConfigProblem>),
    /// `config path`.
    Paths(Vec<PathRow>),
    /// `context trust`.
    Pins(Vec<TrustRow>),
    /// Text that is its own format: completion scripts, man pages.
    Text(String),
}

/// A network interface and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InstanceNic {
    /// The instance.
    pub instance: InstanceId,
    /// The interface.
    #[serde(flatten)]
    pub nic: Nic,
}

/// A published port and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PublishedPort {
    /// The instance.
    pub instance: InstanceId,
    /// The port.
    #[serde(flatten)]
    pub port: Port,
    /// The instance is on, so that something listens.
    pub open: bool,
}

/// A disk or a medium of an instance, for `disk list`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DiskRow {
    /// The instance.
    pub instance: InstanceId,
    /// The disk.
    #[serde(flatten)]
    pub disk: Disk,
}

/// A context, for `context list`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ContextRow {
    /// Name.
    pub name: String,
    /// Kind.
    pub backend: String,
    /// `ok`, `connecting`, `stale`, `failed`, `login-needed`, `disabled`, `not-added`.
    pub health: String,
    /// Routes commands without a target.
    pub default: bool,
    /// Written in config; false: found here.
    pub configured: bool,
    /// Refuses changes.
    pub readonly: bool,
    /// Asks for names.
    pub protected: bool,
    /// Instances, where an answer says so.
    pub instances: Option<u64>,
    /// Server version.
    pub version: Option<String>,
    /// Where it leads: URL, socket, or a hint what is missing.
    pub endpoint: Option<String>,
    /// Why it does not answer.
    pub error: Option<Error>,
    /// Milliseconds of the last answer.
    pub latency_ms: Option<u64>,
}

/// One row of the support matrix.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MatrixRow {
    /// The operation.
    pub operation: Operation,
    /// As printed.
    pub title: String,
    /// A cell per kind.
    pub cells: Vec<MatrixCell>,
}

/// One cell of the support matrix.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MatrixCell {
    /// The kind, or the instance where one was named.
    pub backend: String,
    /// What it can.
    #[serde(flatten)]
    pub support: Support,
}

/// Metric samples of one instance.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MetricSeries {
    /// The instance.
    pub id: InstanceId,
    /// Oldest first.
    pub samples: Vec<Sample>,
}

/// One journalled change.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HistoryEntry {
    /// The task.
    pub task: String,
    /// When it began.
    pub at: jiff::Timestamp,
    /// When it ended; `None` while it runs or when corral was killed.
    pub ended_at: Option<jiff::Timestamp>,
    /// The headless command.
    pub command: String,
    /// The action, so that it can be run again.
    pub action: Action,
    /// `done`, `failed`, `partial`, `cancelled`, `interrupted`, `running`.
    pub state: String,
    /// IDs.
    pub targets: Vec<String>,
    /// Those of them that did not do it; all others did.
    pub left: Vec<HistoryLeft>,
    /// First failure.
    pub error: Option<String>,
    /// Who: user name of the process.
    pub user: String,
}

/// A target of a change that was left as it was, or on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryLeft {
    /// Its ID.
    pub id: String,
    /// Why: what failed, how far it was, or that it was not begun.
    pub why: String,
}

/// One `wait` result.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WaitRow {
    /// The instance.
    pub id: InstanceId,
    /// What was waited for.
    pub wanted: String,
    /// It came about.
    pub reached: bool,
    /// How long, seconds.
    pub seconds: f64,
}

/// One setting and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SettingRow {
    /// Key.
    pub key: String,
    /// Value as TOML; secrets masked.
    pub value: String,
    /// `built-in`, `file`, `environment`, `flag`.
    pub source: String,
}

/// A fault in the configuration. The rest works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConfigProblem {
    /// The file.
    pub file: String,
    /// Line, from 1; 0 when it concerns the whole file.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// What is wrong and what is allowed.
    pub message: String,
    /// Only a warning.
    pub warning: bool,
}

impl ConfigProblem {
    /// Where it is, as editors read it: `file:line:column`.
    pub fn place(&self) -> String {
        format!("{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A path corral uses.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PathRow {
    /// What for.
    pub what: String,
    /// Where.
    pub path: String,
    /// It is there.
    pub exists: bool,
}

/// A pinned certificate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TrustRow {
    /// Context.
    pub context: String,
    /// `host:port`.
    pub endpoint: String,
    /// SHA-256, colon-separated upper-case hex.
    pub fingerprint: String,
    /// Subject or a word for what it is.
    pub subject: String,
}

impl ContextRow {
    /// The words `health` may hold.
    pub const HEALTH: [&'static str; 7] = [
        "ok",
        "connecting",
        "stale",
        "failed",
        "login-needed",
        "disabled",
        "not-added",
    ];
}
