//! Disks and media.

use super::super::table::{Cell, Column, col};
use super::{Listing, make};
use crate::model::{DiskRow, shown};

const COLUMNS: &[Column] = &[
    col("INSTANCE").min(12),
    col("DISK").min(6),
    col("BUS"),
    col("FORMAT"),
    col("SIZE").min(7),
    col("USED").min(7),
    col("SOURCE").shrink(12),
    col("NOTE").shrink(8),
    col("BACKING").wide(),
];

pub(super) fn disks(rows: &[DiskRow]) -> Listing {
    make(
        rows,
        COLUMNS,
        2,
        |row| format!("{}:{}", row.instance, shown(&row.disk.name)),
        |row| {
            let disk = &row.disk;
            let empty = disk.device == "cdrom" && disk.source.is_none();
            vec![
                Cell::text(&row.instance.to_string()),
                Cell::text(&disk.name),
                Cell::maybe(disk.bus.as_deref()),
                Cell::maybe(disk.format.as_deref()),
                Cell::bytes(disk.size_bytes),
                Cell::bytes(disk.used_bytes),
                if empty {
                    Cell::text("(empty)")
                } else {
                    Cell::maybe(disk.source.as_deref())
                },
                Cell::text(&note(row)),
                Cell::maybe(disk.backing.as_deref()),
            ]
        },
    )
}

fn note(row: &DiskRow) -> String {
    let disk = &row.disk;
    let mut words = Vec::new();
    if disk.device != "disk" {
        words.push(disk.device.clone());
    } else if disk.readonly {
        words.push("read-only".to_owned());
    }
    if disk.device == "disk" && !disk.readonly {
        match disk.snapshots {
            Some(0) => {}
            Some(1) => words.push("1 snapshot".to_owned()),
            Some(n) => words.push(format!("{n} snapshots")),
            None if disk.format.as_deref() == Some("raw") => {
                words.push("holds no snapshots".to_owned());
            }
            None => {}
        }
    }
    if disk.backing.is_some() {
        words.push("overlay".to_owned());
    }
    if !disk.owned && disk.device == "disk" {
        words.push("not made by corral".to_owned());
    }
    words.join(", ")
}
