//! The rows, one file per group of verbs.

mod autostart;
mod backup;
mod clone;
mod config;
mod context;
mod copy;
pub(super) mod create;
mod delete;
mod dial;
mod disk;
pub mod doctor;
mod edit;
mod events;
mod export;
mod front;
mod gc;
mod hibernate;
mod host;
mod image;
mod import;
mod info;
mod keys;
mod list;
mod logs;
mod marks;
mod matrix;
mod media;
mod metrics;
mod migrate;
mod naming;
mod network;
mod nic;
mod one;
mod pause;
mod ports;
mod power;
mod protect;
mod rename;
mod resize;
mod screenshot;
mod setter;
mod snapshot;
mod storage;
mod tasks;
mod unlock;
mod wait;

use std::sync::LazyLock;

use super::row::Row;
use crate::model::Field;

/// Every action that corral knows, in the order of help.
pub fn rows() -> &'static [&'static Row] {
    static ROWS: LazyLock<Vec<&'static Row>> = LazyLock::new(|| {
        [
            list::ROWS,
            info::ROWS,
            events::ROWS,
            logs::ROWS,
            metrics::ROWS,
            wait::ROWS,
            power::ROWS,
            pause::ROWS,
            hibernate::ROWS,
            create::ROWS,
            clone::ROWS,
            rename::ROWS,
            edit::ROWS,
            unlock::ROWS,
            delete::ROWS,
            migrate::ROWS,
            marks::ROWS,
            autostart::ROWS,
            protect::ROWS,
            snapshot::ROWS,
            resize::ROWS,
            nic::ROWS,
            ports::ROWS,
            gc::ROWS,
            export::ROWS,
            import::ROWS,
            backup::ROWS,
            disk::ROWS,
            media::ROWS,
            dial::ROWS,
            screenshot::ROWS,
            keys::ROWS,
            host::ROWS,
            storage::ROWS,
            network::ROWS,
            copy::ROWS,
            image::ROWS,
            tasks::ROWS,
            doctor::ROWS,
            matrix::ROWS,
            context::ROWS,
            config::ROWS,
            front::ROWS,
        ]
        .into_iter()
        .flatten()
        .copied()
        .collect()
    });
    &ROWS
}

/// The row of this name or alias.
pub fn find(name: &str) -> Option<&'static Row> {
    rows()
        .iter()
        .copied()
        .find(|row| row.name == name || row.aliases.contains(&name))
}

/// What `--set` of a command may name, of whatever kind.
pub fn settable(verb: &str) -> Vec<&'static Field> {
    let kinds = crate::backend::registry::KINDS.iter();
    let mut fields: Vec<&Field> = match verb {
        "create" | "import" => kinds.flat_map(|kind| kind.create_fields).collect(),
        "context add" | "context set" => kinds
            .flat_map(|kind| context::settable(kind.context_fields))
            .collect(),
        _ => Vec::new(),
    };
    fields.sort_by_key(|field| field.name);
    fields.dedup_by_key(|field| field.name);
    fields
}
