//! Instances, what happened to them and what they take; contexts.

use jiff::Timestamp;

use super::super::style::{Role, of_state};
use super::super::table::{Cell, Column, col};
use super::{Listing, make, second, seconds_between, time};
use crate::model::{ContextRow, Event, EventLevel, Instance, MetricSeries, State};

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

pub(super) fn instances(rows: &[Instance], now: Timestamp) -> Listing {
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
    let published = row.way_in().map(|port| port.host.clone());
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

pub(super) fn events(rows: &[Event]) -> Listing {
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

pub(super) fn metrics(rows: &[MetricSeries]) -> Listing {
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

pub(super) fn contexts(rows: &[ContextRow]) -> Listing {
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
