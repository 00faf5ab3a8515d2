//! A row: everything about one action in one place.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;

use super::engine::Engine;
use super::planner::Planned;
use super::session::OpenSession;
use crate::model::{Action, Data, Field, FieldKind, GroupNoun, Operation, Result};

/// A function that reads.
pub type ReadFn = fn(Arc<Engine>, Action) -> BoxFuture<'static, Result<Data>>;
/// A function that goes on answering.
pub type FollowFn = fn(Arc<Engine>, Action) -> BoxStream<'static, Result<Data>>;
/// A function that plans a change.
pub type ChangeFn = fn(Arc<Engine>, Action) -> BoxFuture<'static, Result<Planned>>;
/// A function that opens a live stream.
pub type OpenFn = fn(Arc<Engine>, Action) -> BoxFuture<'static, Result<OpenSession>>;

/// How an action is carried out.
#[derive(Clone, Copy)]
pub enum Run {
    /// Answers once.
    Read(ReadFn),
    /// Goes on answering.
    Follow(FollowFn),
    /// Changes something: planned, gated, journalled.
    Change(ChangeFn),
    /// Opens a live stream.
    Open(OpenFn),
    /// Only a front can do it.
    Front,
}

/// Where a row stands in help and docs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Looking.
    Look,
    /// Power and life.
    Power,
    /// Making and deleting.
    Life,
    /// Snapshots.
    Snapshots,
    /// Copies outside of the backend.
    Copies,
    /// What an instance is made of.
    Devices,
    /// Getting in.
    Reach,
    /// What stands around instances.
    Around,
    /// corral's own work.
    Work,
    /// Contexts and configuration.
    Setup,
    /// Shell helpers.
    Shell,
}

impl Group {
    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Look => "Look",
            Self::Power => "Power",
            Self::Life => "Create and delete",
            Self::Snapshots => "Snapshots",
            Self::Copies => "Export, import and backups",
            Self::Devices => "Disks, media and networks",
            Self::Reach => "Get in",
            Self::Around => "Hosts, storage, networks, images",
            Self::Work => "Tasks and history",
            Self::Setup => "Contexts and configuration",
            Self::Shell => "Shell",
        }
    }
}

/// What an action asks of the user by itself; guards can only raise it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// Nothing.
    Free,
    /// A yes.
    Confirm,
    /// The name.
    TypeName,
}

/// How many positionals a row takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// None.
    None,
    /// Exactly one.
    One,
    /// At least one, or a filter.
    Some,
    /// Any number; none means everything.
    Any,
}

/// What the positionals of a row with one target say besides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// Nothing.
    None,
    /// Those after the target are values of this field.
    Rest(&'static str),
    /// `FROM TO`, one of which is `INSTANCE:/PATH`: the fields `from` and `to`, where a path of the
    /// instance begins with a colon.
    FromTo,
}

/// One action, as data. clap, completion, man pages, help, palette, forms, keymap checks and docs
/// are built from rows.
pub struct Row {
    /// Its name, words joined by a space: `snapshot create`.
    pub name: &'static str,
    /// Other full names: `rm`, `snapshot rm`.
    pub aliases: &'static [&'static str],
    /// Where it stands in help.
    pub group: Group,
    /// One line, third person: "Asks the guest to shut down".
    pub summary: &'static str,
    /// More, where one line is not enough.
    pub details: &'static str,
    /// Headless command lines without `corral`; each is parsed by a test.
    pub examples: &'static [&'static str],
    /// What its positionals are.
    pub noun: GroupNoun,
    /// How many.
    pub targets: Targets,
    /// What positionals say besides the target.
    pub words: Words,
    /// Its arguments.
    pub fields: &'static [Field],
    /// The full-screen view asks for its fields first: its name and targets alone say too little.
    pub form: bool,
    /// What it asks by itself.
    pub risk: Risk,
    /// Shown in danger style.
    pub danger: bool,
    /// One at a time per host.
    pub heavy: bool,
    /// The operations it needs of a backend.
    pub operations: &'static [Operation],
    /// What `--for` can wait for after it. Empty: it leaves the state as it is.
    pub leads_to: &'static [&'static str],
    /// How it is carried out.
    pub run: Run,
    /// A flag of the row that selects another shape.
    pub shapes: &'static [(&'static str, Run)],
}

impl Row {
    /// A row with nothing special; rows are written as updates of it.
    pub const fn new(name: &'static str, group: Group, summary: &'static str, run: Run) -> Self {
        Self {
            name,
            aliases: &[],
            group,
            summary,
            details: "",
            examples: &[],
            noun: GroupNoun::None,
            targets: Targets::None,
            words: Words::None,
            fields: &[],
            form: false,
            risk: Risk::Free,
            danger: false,
            heavy: false,
            operations: &[],
            leads_to: &[],
            run,
            shapes: &[],
        }
    }

    /// The shape that this action selects.
    pub fn shape(&self, action: &Action) -> Run {
        self.shapes
            .iter()
            .find(|(flag, _)| action.args.flag(flag))
            .map_or(self.run, |(_, run)| *run)
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Its name and targets alone say too little: the full-screen view asks for its fields first.
    pub fn asks_first(&self) -> bool {
        self.form || self.words != Words::None || self.fields.iter().any(|f| f.required)
    }

    /// It may change something.
    pub fn is_change(&self) -> bool {
        matches!(self.run, Run::Change(_))
            || self
                .shapes
                .iter()
                .any(|(_, run)| matches!(run, Run::Change(_)))
    }

    /// The verb's last word, for questions: `Stop db?`.
    pub fn verb_word(&self) -> &'static str {
        self.name.split(' ').next_back().unwrap_or(self.name)
    }

    /// The flags that every change takes, besides the row's own fields.
    pub const CHANGE_FLAGS: &'static [Field] = &[
        Field::flag("dry-run", "Prints the plan; nothing is done"),
        Field::flag("yes", "Answers the question with yes").short('y'),
        Field::new(
            "confirm",
            FieldKind::Text,
            "The name, or `verb number` for several",
        ),
        Field::flag("no-wait", "Returns once accepted, prints the task ID"),
        Field::flag("wait", "Waits for the wanted state (default)"),
        Field::new("for", FieldKind::Choice(WAITS), "Also waits for readiness"),
        Field::new(
            "timeout",
            FieldKind::Duration,
            "How long to wait, per target",
        ),
        Field::new("jobs", FieldKind::Count, "At the same time, per context").short('j'),
        Field::new(
            "on-error",
            FieldKind::Choice(&["continue", "stop"]),
            "What to do after a failure",
        ),
    ];

    /// The flags of a row about what stands around instances: hosts, storage, networks, images.
    pub const AROUND_FLAGS: &'static [Field] = &[
        Self::SCOPE_FLAGS[0],
        Self::SCOPE_FLAGS[1],
        Self::SCOPE_FLAGS[3],
    ];

    /// The flags that every row with instances takes.
    pub const SCOPE_FLAGS: &'static [Field] = &[
        Field::new("context", FieldKind::Context, "Only this context").many(),
        Field::new("backend", FieldKind::Text, "Only this kind").many(),
        Field::new(
            "filter",
            FieldKind::Text,
            "Only what matches, such as 'state:running tag:prod'",
        ),
        Field::flag(
            "allow-partial",
            "Goes on without contexts that do not answer",
        ),
    ];
}

/// What `--for` can wait for, with the operations that exist.
pub const WAITS: &[&str] = &["running", "stopped", "paused", "address", "agent", "gone"];
