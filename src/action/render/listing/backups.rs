//! Backups.

use jiff::Timestamp;

use super::super::style::Role;
use super::super::table::{Cell, Column, col};
use super::{Listing, make, second, seconds_between, time};
use crate::model::{Backup, Consistency, encode_segment};

pub(super) fn backups(rows: &[Backup], now: Timestamp) -> Listing {
    const COLUMNS: &[Column] = &[
        col("BACKUP"),
        col("TAKEN"),
        col("AGE"),
        col("CONSISTENCY"),
        col("DISKS"),
        col("SIZE"),
        col("STATE"),
        col("PLACE").wide(),
    ];
    make(rows, COLUMNS, 2, name, |row| {
        vec![
            Cell::text(&name(row)),
            row.taken_at
                .map_or_else(Cell::unknown, |at| time(at, second(at))),
            Cell::age(row.taken_at.map(|at| seconds_between(at, now))),
            Cell::maybe(row.consistency.map(Consistency::as_str)),
            row.disks
                .map_or_else(Cell::unknown, |n| Cell::number(n as f64, n.to_string())),
            Cell::bytes(row.size_bytes),
            match &row.broken {
                Some(why) => Cell::text(&format!("broken: {why}")).role(Role::Error),
                None => Cell::text("whole").role(Role::Ok),
            },
            Cell::text(&row.place),
        ]
    })
}

/// `INSTANCE@BACKUP`, as it can be typed.
fn name(row: &Backup) -> String {
    format!("{}@{}", row.instance, encode_segment(&row.name))
}
