//! Plain data that every floor speaks: no I/O, no clocks, no terminal.

mod action;
mod bytes;
mod context;
mod data;
mod detail;
mod dirs;
mod duration;
mod error;
mod event;
mod field;
mod fleet;
mod id;
mod image;
mod instance;
mod kind;
mod nearest;
mod nouns;
mod operation;
mod plan;
mod portable;
mod prompt;
mod selector;
mod support;
mod task;
mod text;

pub use action::{Action, Args, Scope};
pub use bytes::Bytes;
pub use context::{ContextSpec, Secret, SecretText};
pub use data::{
    Body, ConfigProblem, ContextRow, Data, DiskRow, HistoryEntry, HistoryLeft, InstanceNic,
    MatrixCell, MatrixRow, MetricSeries, PathRow, PublishedPort, SCHEMA, SettingRow, TrustRow,
    WaitRow,
};
pub use detail::{
    Consistency, Detail, Disk, Facts, Host, Inventory, Native, NativeFormat, Nic, Problem, Sample,
    Snapshot,
};
pub use dirs::Dirs;
pub use duration::{age, parse_duration, print_duration, typed_duration};
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, EventLevel};
pub use field::{Field, FieldKind, GroupNoun};
pub use fleet::{ContextView, FleetView, Health};
pub use id::{InstanceId, SnapshotRef, decode_segment, encode_segment};
pub use image::{Sum, SumKind, is_image_name};
pub use instance::{Address, Instance, InstanceKind, Port, State, Usage};
pub use kind::Kind;
pub use nearest::nearest;
pub use nouns::{
    Backup, Image, LogLine, LogSource, LogText, NativeText, Network, Picture, Screenshot,
    StorageDetail, StoragePool, Volume,
};
pub use operation::{Family, Operation};
pub use plan::{Consent, Gate, LeftOut, Outcome, Plan, Refusal, Step, TargetPlan};
pub use portable::{
    DiskRole, FirmwareKind, Hardware, Origin, PORTABLE, Portable, PortableDisk, PortableNic,
};
pub use prompt::{Prompt, PromptKind};
pub use selector::Selector;
pub use support::{Check, CheckStatus, Support};
pub use task::{TargetState, Task, TaskEvent, TaskState, TaskTarget};
pub use text::{counted, shown, shown_width};
