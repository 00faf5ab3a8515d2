//! Network interfaces and published ports.

use super::super::style::Role;
use super::super::table::{Cell, Column, col};
use super::{Listing, make};
use crate::model::{InstanceNic, PublishedPort};

pub(super) fn nics(rows: &[InstanceNic]) -> Listing {
    const COLUMNS: &[Column] = &[
        col("NIC"),
        col("MAC"),
        col("NETWORK"),
        col("MODEL"),
        col("ADDRESSES"),
        col("ID"),
    ];
    make(
        rows,
        COLUMNS,
        2,
        |row| row.nic.name.clone(),
        |row| {
            let addresses = row.nic.addresses.join(", ");
            vec![
                Cell::text(&row.nic.name),
                Cell::maybe(row.nic.mac.as_deref()),
                Cell::maybe(row.nic.network.as_deref()),
                Cell::maybe(row.nic.model.as_deref()),
                Cell::maybe((!addresses.is_empty()).then_some(addresses.as_str())),
                Cell::text(&row.instance.to_string()),
            ]
        },
    )
}

pub(super) fn ports(rows: &[PublishedPort]) -> Listing {
    const COLUMNS: &[Column] = &[
        col("ADDRESS"),
        col("GUEST"),
        col("PROTOCOL"),
        col("OPEN"),
        col("ID"),
    ];
    make(
        rows,
        COLUMNS,
        2,
        |row| row.port.host.clone(),
        |row| {
            let open = Cell::flag(Some(row.open));
            vec![
                Cell::text(&row.port.host),
                Cell::number(f64::from(row.port.guest), row.port.guest.to_string()),
                Cell::text(&row.port.protocol),
                if row.open { open.role(Role::Ok) } else { open },
                Cell::text(&row.instance.to_string()),
            ]
        },
    )
}
