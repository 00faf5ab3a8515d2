//! Hosts, storage, networks, images.

use super::super::style::Role;
use super::super::table::{Cell, Column, col};
use super::{Listing, make, minute, time};
use crate::action::around::id_of;
use crate::model::{Bytes, Host, Image, InstanceId, Network, StoragePool, Volume};

/// A part of a whole, with the share it is.
pub(crate) fn part(used: Option<Bytes>, all: Option<Bytes>) -> Cell {
    match (used, all) {
        (Some(used), Some(all)) => Cell::number(used.0 as f64, part_text(used, all)),
        (Some(used), None) => Cell::bytes(Some(used)),
        (None, Some(all)) => Cell::text(&format!("? of {all}")),
        (None, None) => Cell::unknown(),
    }
}

/// `3 GiB of 8 GiB (37%)`.
pub(crate) fn part_text(used: Bytes, all: Bytes) -> String {
    let share = match all.0 {
        0 => String::new(),
        all => format!(" ({:.0}%)", used.0 as f64 * 100.0 / all as f64),
    };
    format!("{used} of {all}{share}")
}

pub(super) fn hosts(rows: &[Host]) -> Listing {
    const COLUMNS: &[Column] = &[
        col("NAME").min(8).shrink(6),
        col("ONLINE"),
        col("CPUS"),
        col("LOAD"),
        col("MEMORY"),
        col("RUNNING"),
        col("ACCEL").shrink(5),
        col("UP").wide(),
        col("KERNEL").wide(),
        col("CONTEXT").extra(),
        col("ID"),
    ];
    make(rows, COLUMNS, 2, id_of, |row| {
        let online = Cell::flag(Some(row.online));
        vec![
            Cell::text(&row.name),
            if row.online {
                online
            } else {
                online.role(Role::Error)
            },
            count(row.cpus.map(u64::from)),
            row.load.map_or_else(Cell::unknown, |[one, ..]| {
                Cell::number(one, format!("{one:.2}"))
            }),
            part(row.memory_used_bytes, row.memory_bytes),
            count(row.running),
            // The word alone; why stands in `host info`.
            Cell::maybe(row.acceleration.as_deref().map(first_word)),
            Cell::age(row.uptime_seconds),
            Cell::maybe(row.kernel.as_deref()),
            Cell::text(&row.context),
            Cell::text(&id_of(row)),
        ]
    })
}

fn first_word(text: &str) -> &str {
    text.split([':', ' ']).next().unwrap_or(text)
}

fn count(value: Option<u64>) -> Cell {
    value.map_or_else(Cell::unknown, |n| Cell::number(n as f64, n.to_string()))
}

pub(super) fn pools(rows: &[StoragePool]) -> Listing {
    const COLUMNS: &[Column] = &[
        col("NAME").min(8).shrink(6),
        col("TYPE"),
        col("USED"),
        col("FREE"),
        col("SIZE"),
        col("HOST").wide(),
        col("FAULT").extra(),
        col("CONTEXT").extra(),
        col("ID").extra(),
        col("PLACE"),
    ];
    make(rows, COLUMNS, 2, id_of, |row| {
        let free = row
            .size_bytes
            .zip(row.used_bytes)
            .map(|(size, used)| Bytes(size.0.saturating_sub(used.0)));
        let place = match &row.fault {
            Some(fault) => {
                Cell::text(&format!("! {}", join(row.place.as_deref(), fault))).role(Role::Error)
            }
            None => Cell::maybe(row.place.as_deref()),
        };
        vec![
            Cell::text(&row.name),
            Cell::text(&row.kind),
            Cell::bytes(row.used_bytes),
            Cell::bytes(free),
            Cell::bytes(row.size_bytes),
            Cell::maybe(row.host.as_deref()),
            Cell::maybe(row.fault.as_deref()),
            Cell::text(&row.context),
            Cell::text(&id_of(row)),
            place,
        ]
    })
}

fn join(place: Option<&str>, fault: &str) -> String {
    place.map_or_else(|| fault.to_owned(), |place| format!("{place}: {fault}"))
}

pub(crate) fn volumes(rows: &[Volume]) -> Listing {
    const COLUMNS: &[Column] = &[
        col("VOLUME").min(8),
        col("FORMAT"),
        col("SIZE"),
        col("USED"),
        col("USED BY"),
    ];
    let name = |row: &Volume| row.name.clone();
    make(rows, COLUMNS, 2, name, |row| {
        vec![
            Cell::text(&row.name),
            Cell::maybe(row.format.as_deref()),
            Cell::bytes(row.size_bytes),
            Cell::bytes(row.used_bytes),
            if row.orphan {
                Cell::text("nobody").role(Role::Warn)
            } else {
                users(Some(&row.used_by))
            },
        ]
    })
}

/// At most so many are named in a table.
const NAMED: usize = 3;

fn users(users: Option<&[InstanceId]>) -> Cell {
    let Some(users) = users else {
        return Cell::unknown();
    };
    let named: Vec<String> = users
        .iter()
        .take(NAMED)
        .map(|id| id.key().to_owned())
        .collect();
    let mut text = named.join(", ");
    if users.len() > NAMED {
        text.push_str(&format!(" and {} more", users.len() - NAMED));
    }
    let mut cell = Cell::text(if text.is_empty() { "-" } else { &text });
    cell.sort = super::super::table::SortKey::Number(users.len() as f64);
    cell
}

pub(super) fn networks(rows: &[Network]) -> Listing {
    const COLUMNS: &[Column] = &[
        col("NAME").min(8),
        col("TYPE"),
        col("UP"),
        col("ADDRESSES"),
        col("USED BY"),
        col("HOST").wide(),
        col("CONTEXT").extra(),
        col("ID").extra(),
        col("USABLE"),
    ];
    make(rows, COLUMNS, 2, id_of, |row| {
        vec![
            Cell::text(&row.name),
            Cell::text(&row.kind),
            Cell::flag(row.active),
            if row.addresses.is_empty() {
                Cell::unknown()
            } else {
                Cell::text(&row.addresses.join(","))
            },
            users(row.used_by.as_deref()),
            Cell::maybe(row.host.as_deref()),
            Cell::text(&row.context),
            Cell::text(&id_of(row)),
            match &row.fault {
                Some(fault) => Cell::text(&format!("no: {fault}")).role(Role::Warn),
                None => Cell::text("yes"),
            },
        ]
    })
}

pub(super) fn images(rows: &[Image]) -> Listing {
    const COLUMNS: &[Column] = &[
        col("NAME").min(8),
        col("SIZE"),
        col("PULLED"),
        col("USED BY"),
        col("ARCH"),
        col("TITLE"),
        col("CHECKSUM").extra(),
        col("PATH").extra(),
        col("CONTEXT").extra(),
        col("ID").extra(),
        col("URL").wide(),
    ];
    make(rows, COLUMNS, 2, id_of, |row| {
        vec![
            Cell::text(&row.name),
            Cell::bytes(row.size_bytes),
            row.pulled_at
                .map_or_else(Cell::unknown, |at| time(at, minute(at))),
            users(row.used_by.as_deref()),
            Cell::maybe(row.arch.as_deref()),
            Cell::maybe(row.title.as_deref()),
            Cell::maybe(row.checksum.as_deref()),
            Cell::maybe(row.path.as_deref()),
            Cell::text(&row.context),
            Cell::text(&id_of(row)),
            Cell::maybe(row.url.as_deref()),
        ]
    })
}
