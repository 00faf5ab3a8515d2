//! Which table each kind of answer becomes, and what `-o name` prints of it.

use jiff::Timestamp;

use super::style::{Role, of_state};
use super::table::{Cell, Column, Table, col};
use crate::model::{
    Body, ConfigProblem, ContextRow, Event, EventLevel, HistoryEntry, Instance, MetricSeries,
    PathRow, SettingRow, State, Task, TaskState, TrustRow, WaitRow, encode_segment,
};

/// A table and the name of each row.
pub(crate) struct Listing {
    pub(crate) table: Table,
    pub(crate) names: Vec<String>,
}

/// The table of an answer; `None` where it is no list (`info`, `doctor`, plans, texts).
pub(crate) fn listing(body: &Body, now: Timestamp) -> Option<Listing> {
    Some(match body {
        Body::Instances(rows) => instances(rows, now),
        Body::Events(rows) => events(rows),
        Body::Metrics(rows) => metrics(rows),
        Body::Contexts(rows) => contexts(rows),
        Body::History(rows) => history(rows, now),
        Body::Tasks(rows) => tasks(rows, now),
        Body::Waits(rows) => waits(rows),
        Body::Settings(rows) => settings(rows),
        Body::Problems(rows) => problems(rows),
        Body::Paths(rows) => paths(rows),
        Body::Pins(rows) => pins(rows),
        Body::Details(_)
        | Body::Snapshots(_)
        | Body::Checks(_)
        | Body::Matrix(_)
        | Body::Task(_)
        | Body::Plan(_)
        | Body::Text(_) => return None,
    })
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

const INSTANCES: &[Column] = &[
    col("NAME").min(11).shrink(8),
    col("KIND"),
    col("STATE").min(7),
    col("HOST").min(7).shrink(6),
    col("ADDRESS").min(7).shrink(9),
    col("CPU").wide(),
    col("MEM").wide(),
    col("DISK").wide(),
    col("UP").wide(),
    col("OS").wide(),
    col("TAGS").wide(),
    col("AUTO").wide(),
    col("SEEN").wide(),
    col("CONTEXT").extra(),
    col("BACKEND").extra(),
    col("NAMESPACE").extra(),
    col("AGENT").extra(),
    col("MAC").extra(),
    col("NOTE").extra(),
    col("PROTECTED").extra(),
    col("UID").extra(),
    col("REASON").extra(),
    col("ID"),
];

fn instances(rows: &[Instance], now: Timestamp) -> Listing {
    make(
        rows,
        INSTANCES,
        1,
        |row| row.id.to_string(),
        |row| {
            let macs = row.macs.as_ref().map(|macs| macs.join(","));
            vec![
                Cell::text(&row.name),
                Cell::text(&row.kind.to_string()),
                state(row),
                Cell::maybe(row.host.as_deref()),
                Cell::maybe(address(row).as_deref()),
                cpu(row),
                memory(row),
                Cell::bytes(row.disk_bytes),
                Cell::age(row.uptime_seconds),
                Cell::maybe(row.os.as_deref()),
                Cell::text(&row.tags.join(",")),
                Cell::flag(row.autostart),
                Cell::age(Some(seconds_between(row.observed_at, now))),
                Cell::text(&row.context),
                Cell::text(row.backend.as_str()),
                Cell::maybe(row.namespace.as_deref()),
                Cell::flag(row.agent),
                Cell::maybe(macs.as_deref()),
                Cell::maybe(row.note.as_deref()),
                Cell::flag(Some(row.protected)),
                Cell::maybe(row.uid.as_deref()),
                Cell::maybe(row.reason.as_deref()),
                Cell::text(&row.id.to_string()),
            ]
        },
    )
}

/// Whole seconds from `then` to `now`; a clock that went back counts as now.
pub(crate) fn seconds_between(then: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.as_second().saturating_sub(then.as_second())).unwrap_or(0)
}

fn state(row: &Instance) -> Cell {
    let mut text = match (row.state, row.last_state) {
        (State::Unknown, Some(last)) => format!("unknown ({last})"),
        (state, _) if row.template && state == State::Stopped => "template".to_owned(),
        (state, _) => state.to_string(),
    };
    if row.reason.is_some() || row.locked.is_some() {
        text.push_str(" !");
    }
    Cell::text(&text).role(of_state(row.state))
}

/// The address to show: the best one, else where SSH is published, marked when it is old.
pub(crate) fn address(row: &Instance) -> Option<String> {
    let known = row
        .addresses
        .as_ref()
        .and_then(|all| all.first())
        .map(|address| address.ip.clone());
    let published = row.ports.as_ref().and_then(|ports| {
        ports
            .iter()
            .find(|port| port.guest == 22)
            .or_else(|| ports.first())
            .map(|port| port.host.clone())
    });
    known
        .or(published)
        .map(|address| if row.stale { address + "?" } else { address })
}

fn cpu(row: &Instance) -> Cell {
    let used = row.usage.and_then(|usage| usage.cpu_percent);
    match (used, row.cpus) {
        (Some(used), Some(cpus)) => Cell::number(used, format!("{used:.0}% of {cpus}")),
        (Some(used), None) => Cell::number(used, format!("{used:.0}%")),
        (None, Some(cpus)) => Cell::number(f64::from(cpus), cpus.to_string()),
        (None, None) => Cell::unknown(),
    }
}

fn memory(row: &Instance) -> Cell {
    let used = row.usage.and_then(|usage| usage.memory_bytes);
    match (used, row.memory_bytes) {
        (Some(used), Some(all)) => Cell::number(used.0 as f64, format!("{used} of {all}")),
        (one, other) => Cell::bytes(one.or(other)),
    }
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

fn events(rows: &[Event]) -> Listing {
    const COLUMNS: &[Column] = &[
        col("TIME"),
        col("LEVEL"),
        col("KIND"),
        col("ID").min(10),
        col("MESSAGE"),
    ];
    let whose = |row: &Event| {
        row.instance
            .as_ref()
            .map_or_else(|| row.context.clone(), ToString::to_string)
    };
    make(rows, COLUMNS, 2, whose, |row| {
        let (level, role) = match row.level {
            EventLevel::Info => ("info", Role::Plain),
            EventLevel::Warn => ("warn", Role::Warn),
            EventLevel::Error => ("error", Role::Error),
        };
        vec![
            time(row.at, second(row.at)),
            Cell::text(level).role(role),
            Cell::text(&row.kind),
            Cell::text(&whose(row)),
            Cell::text(&row.message),
        ]
    })
}

fn metrics(rows: &[MetricSeries]) -> Listing {
    const COLUMNS: &[Column] = &[
        col("CPU"),
        col("MEM"),
        col("DISK READ"),
        col("DISK WRITE"),
        col("NET IN"),
        col("NET OUT"),
        col("TIME").wide(),
        col("SAMPLES").wide(),
        col("ID"),
    ];
    make(
        rows,
        COLUMNS,
        2,
        |row| row.id.to_string(),
        |row| {
            let last = row.samples.last();
            let rate = |value: Option<u64>| {
                value.map_or_else(Cell::unknown, |v| {
                    Cell::number(v as f64, format!("{}/s", crate::model::Bytes(v)))
                })
            };
            vec![
                last.and_then(|s| s.cpu_percent)
                    .map_or_else(Cell::unknown, |cpu| Cell::number(cpu, format!("{cpu:.1}%"))),
                Cell::bytes(last.and_then(|s| s.memory_bytes)),
                rate(last.and_then(|s| s.disk_read_bps)),
                rate(last.and_then(|s| s.disk_write_bps)),
                rate(last.and_then(|s| s.net_rx_bps)),
                rate(last.and_then(|s| s.net_tx_bps)),
                last.map_or_else(Cell::unknown, |s| time(s.at, second(s.at))),
                Cell::number(row.samples.len() as f64, row.samples.len().to_string()),
                Cell::text(&row.id.to_string()),
            ]
        },
    )
}

fn contexts(rows: &[ContextRow]) -> Listing {
    const COLUMNS: &[Column] = &[
        col("NAME").min(10),
        col("BACKEND"),
        col("HEALTH"),
        col("INSTANCES"),
        col("VERSION"),
        col("GUARD"),
        col("LATENCY").wide(),
        col("SOURCE").wide(),
        col("ENDPOINT"),
    ];
    make(
        rows,
        COLUMNS,
        2,
        |row| row.name.clone(),
        |row| {
            let name = if row.default {
                format!("{} *", row.name)
            } else {
                row.name.clone()
            };
            let role = match row.health.as_str() {
                "ok" => Role::Ok,
                "failed" => Role::Error,
                "stale" | "login-needed" => Role::Warn,
                "connecting" => Role::Busy,
                _ => Role::Muted,
            };
            let guard = match (row.readonly, row.protected) {
                (true, _) => "read-only",
                (false, true) => "protected",
                (false, false) => "",
            };
            let leads = row
                .error
                .as_ref()
                .map(|e| e.message.clone())
                .or_else(|| row.endpoint.clone());
            vec![
                Cell::text(&name),
                Cell::text(&row.backend),
                Cell::text(&row.health).role(role),
                row.instances
                    .map_or_else(Cell::unknown, |n| Cell::number(n as f64, n.to_string())),
                Cell::maybe(row.version.as_deref()),
                Cell::text(guard),
                row.latency_ms.map_or_else(Cell::unknown, |ms| {
                    Cell::number(ms as f64, format!("{ms} ms"))
                }),
                Cell::text(if row.configured { "config" } else { "found" }),
                Cell::maybe(leads.as_deref()),
            ]
        },
    )
}

fn history(rows: &[HistoryEntry], now: Timestamp) -> Listing {
    const COLUMNS: &[Column] = &[
        col("TIME"),
        col("TOOK"),
        col("STATE"),
        col("USER").wide(),
        col("TASK").wide(),
        col("COMMAND"),
        col("ERROR").extra(),
    ];
    make(
        rows,
        COLUMNS,
        2,
        |row| row.task.clone(),
        |row| {
            let took = row.ended_at.map(|end| seconds_between(row.at, end));
            let took =
                took.or_else(|| (row.state == "running").then(|| seconds_between(row.at, now)));
            vec![
                time(row.at, second(row.at)),
                Cell::age(took),
                Cell::text(&row.state).role(match row.state.as_str() {
                    "done" => Role::Ok,
                    "failed" => Role::Error,
                    "running" => Role::Busy,
                    _ => Role::Warn,
                }),
                Cell::text(&row.user),
                Cell::text(&row.task),
                Cell::text(&row.command),
                Cell::maybe(row.error.as_deref()),
            ]
        },
    )
}

/// The role of a task's state.
pub(crate) fn of_task(state: TaskState) -> Role {
    match state {
        TaskState::Done => Role::Ok,
        TaskState::Failed => Role::Error,
        TaskState::Queued | TaskState::Running => Role::Busy,
        TaskState::Partial
        | TaskState::Cancelled
        | TaskState::Interrupted
        | TaskState::TimedOut => Role::Warn,
    }
}

fn tasks(rows: &[Task], now: Timestamp) -> Listing {
    const COLUMNS: &[Column] = &[
        col("TASK"),
        col("STATE"),
        col("AGE"),
        col("DONE"),
        col("PID").wide(),
        col("COMMAND"),
    ];
    make(
        rows,
        COLUMNS,
        2,
        |row| row.id.clone(),
        |row| {
            let done = row
                .targets
                .iter()
                .filter(|t| matches!(t.state, crate::model::TargetState::Done(_)))
                .count();
            vec![
                Cell::text(&row.id),
                Cell::text(row.state.as_str()).role(of_task(row.state)),
                Cell::age(Some(seconds_between(row.started_at, now))),
                Cell::number(done as f64, format!("{done} of {}", row.targets.len())),
                Cell::number(f64::from(row.pid), row.pid.to_string()),
                Cell::text(&row.command),
            ]
        },
    )
}

fn waits(rows: &[WaitRow]) -> Listing {
    const COLUMNS: &[Column] = &[col("WANTED"), col("REACHED"), col("AFTER"), col("ID")];
    make(
        rows,
        COLUMNS,
        2,
        |row| row.id.to_string(),
        |row| {
            vec![
                Cell::text(&row.wanted),
                Cell::flag(Some(row.reached)),
                Cell::number(row.seconds, format!("{:.1} s", row.seconds)),
                Cell::text(&row.id.to_string()),
            ]
        },
    )
}

fn settings(rows: &[SettingRow]) -> Listing {
    const COLUMNS: &[Column] = &[col("KEY"), col("SOURCE"), col("VALUE")];
    make(
        rows,
        COLUMNS,
        2,
        |row| row.key.clone(),
        |row| {
            vec![
                Cell::text(&row.key),
                Cell::text(&row.source),
                Cell::text(&row.value),
            ]
        },
    )
}

fn problems(rows: &[ConfigProblem]) -> Listing {
    const COLUMNS: &[Column] = &[col("LEVEL"), col("WHERE"), col("MESSAGE")];
    let place = |row: &ConfigProblem| match row.line {
        0 => row.file.clone(),
        line => format!("{}:{line}:{}", row.file, row.column),
    };
    make(rows, COLUMNS, 2, place, |row| {
        let level = if row.warning {
            Cell::text("warn").role(Role::Warn)
        } else {
            Cell::text("error").role(Role::Error)
        };
        vec![level, Cell::text(&place(row)), Cell::text(&row.message)]
    })
}

fn paths(rows: &[PathRow]) -> Listing {
    const COLUMNS: &[Column] = &[col("WHAT"), col("EXISTS"), col("PATH")];
    make(
        rows,
        COLUMNS,
        2,
        |row| row.path.clone(),
        |row| {
            vec![
                Cell::text(&row.what),
                Cell::flag(Some(row.exists)),
                Cell::text(&row.path),
            ]
        },
    )
}

fn pins(rows: &[TrustRow]) -> Listing {
    const COLUMNS: &[Column] = &[
        col("CONTEXT"),
        col("ENDPOINT"),
        col("SUBJECT"),
        col("FINGERPRINT"),
    ];
    make(
        rows,
        COLUMNS,
        2,
        |row| row.context.clone(),
        |row| {
            vec![
                Cell::text(&row.context),
                Cell::text(&row.endpoint),
                Cell::text(&row.subject),
                Cell::text(&row.fingerprint),
            ]
        },
    )
}

/// `ID@SNAPSHOT`, as it can be typed.
pub(crate) fn snapshot_name(snapshot: &crate::model::Snapshot) -> String {
    format!("{}@{}", snapshot.instance, encode_segment(&snapshot.name))
}
