//! Which table each kind of answer becomes, and what `-o name` prints of it.

mod around;
mod backups;
mod devices;
mod disks;
mod fleet;
mod setup;
mod work;

use jiff::Timestamp;

use super::table::{Cell, Column, Table, key};
use crate::model::{Body, encode_segment};
pub(crate) use around::{part_text, volumes};
pub(crate) use fleet::address;
pub(crate) use work::of_task;

/// A table and the name of each row.
pub(crate) struct Listing {
    pub(crate) table: Table,
    pub(crate) names: Vec<String>,
}

/// The table of an answer; `None` where it is no list (`info`, `doctor`, plans, texts).
pub(crate) fn listing(body: &Body, now: Timestamp) -> Option<Listing> {
    Some(match body {
        Body::Instances(rows) => fleet::instances(rows, now),
        Body::Nics(rows) => devices::nics(rows),
        Body::Ports(rows) => devices::ports(rows),
        Body::Backups(rows) => backups::backups(rows, now),
        Body::Disks(rows) => disks::disks(rows),
        Body::Events(rows) => fleet::events(rows),
        Body::Metrics(rows) => fleet::metrics(rows),
        Body::Hosts(rows) => around::hosts(rows),
        Body::Pools(rows) => around::pools(rows),
        Body::Networks(rows) => around::networks(rows),
        Body::Images(rows) => around::images(rows),
        Body::Contexts(rows) => fleet::contexts(rows),
        Body::History(rows) => work::history(rows, now),
        Body::Tasks(rows) => work::tasks(rows, now),
        Body::Waits(rows) => work::waits(rows),
        Body::Settings(rows) => setup::settings(rows),
        Body::Problems(rows) => setup::problems(rows),
        Body::Paths(rows) => setup::paths(rows),
        Body::Pins(rows) => setup::pins(rows),
        Body::LogSources(rows) => setup::log_sources(rows),
        Body::Screenshots(rows) => setup::screenshots(rows),
        Body::Details(_)
        | Body::Log(_)
        | Body::HostDetails(_)
        | Body::PoolDetails(_)
        | Body::NetworkDetails(_)
        | Body::Snapshots(_)
        | Body::Checks(_)
        | Body::Matrix(_)
        | Body::Task(_)
        | Body::Plan(_)
        | Body::Text(_) => return None,
    })
}

/// The columns that `--columns` may name for the answer of a command, as they are typed.
pub fn columns(verb: &str) -> Vec<String> {
    let body = match verb {
        "list" => Body::Instances(Vec::new()),
        "snapshot list" => return titles(&super::snapshots::tree(&[], Timestamp::UNIX_EPOCH).0),
        "nic list" => Body::Nics(Vec::new()),
        "ports list" => Body::Ports(Vec::new()),
        "backup list" => Body::Backups(Vec::new()),
        "disk list" => Body::Disks(Vec::new()),
        "events" => Body::Events(Vec::new()),
        "metrics" => Body::Metrics(Vec::new()),
        "host list" => Body::Hosts(Vec::new()),
        "storage list" => Body::Pools(Vec::new()),
        "network list" => Body::Networks(Vec::new()),
        "image list" | "image search" => Body::Images(Vec::new()),
        "context list" => Body::Contexts(Vec::new()),
        "history" => Body::History(Vec::new()),
        "tasks" | "tasks list" => Body::Tasks(Vec::new()),
        "wait" => Body::Waits(Vec::new()),
        "config show" => Body::Settings(Vec::new()),
        "config check" => Body::Problems(Vec::new()),
        "config path" => Body::Paths(Vec::new()),
        _ => return Vec::new(),
    };
    listing(&body, Timestamp::UNIX_EPOCH)
        .map(|listing| titles(&listing.table))
        .unwrap_or_default()
}

fn titles(table: &Table) -> Vec<String> {
    let titles = table.columns.iter().map(|column| key(column.title));
    titles.collect()
}

fn make<T>(
    rows: &[T],
    columns: &'static [Column],
    gap: usize,
    name: impl Fn(&T) -> String,
    cells: impl Fn(&T) -> Vec<Cell>,
) -> Listing {
    Listing {
        names: rows.iter().map(name).collect(),
        table: Table {
            columns,
            gap,
            rows: rows.iter().map(cells).collect(),
        },
    }
}

/// Whole seconds from `then` to `now`; a clock that went back counts as now.
pub(crate) fn seconds_between(then: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.as_second().saturating_sub(then.as_second())).unwrap_or(0)
}

/// Minutes are enough for people; JSON has the rest.
pub(crate) fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M").to_string()
}

fn second(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn time(at: Timestamp, text: String) -> Cell {
    Cell::number(at.as_millisecond() as f64, text)
}

/// `ID@SNAPSHOT`, as it can be typed.
pub(crate) fn snapshot_name(snapshot: &crate::model::Snapshot) -> String {
    format!("{}@{}", snapshot.instance, encode_segment(&snapshot.name))
}
