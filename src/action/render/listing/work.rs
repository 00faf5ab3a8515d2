//! History, tasks, waits.

use jiff::Timestamp;

use super::super::style::Role;
use super::super::table::{Cell, Column, col};
use super::{Listing, make, second, seconds_between, time};
use crate::model::{HistoryEntry, Task, TaskState, WaitRow};

pub(super) fn history(rows: &[HistoryEntry], now: Timestamp) -> Listing {
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

pub(super) fn tasks(rows: &[Task], now: Timestamp) -> Listing {
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

pub(super) fn waits(rows: &[WaitRow]) -> Listing {
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
