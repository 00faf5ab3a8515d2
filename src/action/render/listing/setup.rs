//! Settings, problems, paths, pins, logs, pictures.

use super::super::style::Role;
use super::super::table::{Cell, Column, col};
use super::{Listing, make};
use crate::model::{ConfigProblem, LogSource, PathRow, Screenshot, SettingRow, TrustRow};

pub(super) fn settings(rows: &[SettingRow]) -> Listing {
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

pub(super) fn problems(rows: &[ConfigProblem]) -> Listing {
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

pub(super) fn paths(rows: &[PathRow]) -> Listing {
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

pub(super) fn pins(rows: &[TrustRow]) -> Listing {
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

pub(super) fn log_sources(rows: &[LogSource]) -> Listing {
    const COLUMNS: &[Column] = &[col("LOG"), col("SIZE"), col("WHAT")];
    make(
        rows,
        COLUMNS,
        2,
        |row| row.name.clone(),
        |row| {
            vec![
                Cell::text(&row.name),
                Cell::bytes(row.size_bytes),
                Cell::text(&row.title),
            ]
        },
    )
}

/// The file is the answer; what went to standard output is told by nothing else there.
pub(super) fn screenshots(rows: &[Screenshot]) -> Listing {
    const COLUMNS: &[Column] = &[col("ID"), col("SIZE"), col("TYPE"), col("FILE")];
    make(
        rows,
        COLUMNS,
        2,
        |row| row.path.clone().unwrap_or_default(),
        |row| {
            vec![
                Cell::text(&row.instance.to_string()),
                Cell::bytes(Some(row.size_bytes)),
                Cell::text(&row.media_type),
                Cell::maybe(row.path.as_deref()),
            ]
        },
    )
}
