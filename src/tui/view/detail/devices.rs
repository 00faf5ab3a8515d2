//! Disks and network interfaces.

use crate::model::Detail;
use crate::tui::theme::Role;

pub(super) fn devices(detail: &Detail) -> Vec<(String, Role)> {
    let mut out = vec![("Disks".to_owned(), Role::Title)];
    if detail.disks.is_empty() {
        out.push(("  none".to_owned(), Role::Muted));
    }
    for disk in &detail.disks {
        let size = disk
            .size_bytes
            .map_or_else(|| "-".to_owned(), |b| b.to_string());
        let used = disk
            .used_bytes
            .map(|b| format!(" ({b} used)"))
            .unwrap_or_default();
        let words: Vec<&str> = [
            Some(disk.device.as_str()),
            disk.bus.as_deref(),
            disk.format.as_deref(),
        ]
        .into_iter()
        .flatten()
        .collect();
        let mut line = format!("  {:<9} {size}{used}  {}", disk.name, words.join(" "));
        if disk.readonly {
            line.push_str(" read-only");
        }
        out.push((line, Role::Text));
        out.extend(
            disk.source
                .iter()
                .map(|s| (format!("    {s}"), Role::Muted)),
        );
        out.extend(
            disk.backing
                .iter()
                .map(|b| (format!("    on top of {b}"), Role::Muted)),
        );
        if !disk.owned {
            out.push((
                "    not only its own: a delete leaves it".to_owned(),
                Role::Muted,
            ));
        }
    }
    out.push((String::new(), Role::Text));
    out.push(("Network interfaces".to_owned(), Role::Title));
    if detail.nics.is_empty() {
        out.push(("  none".to_owned(), Role::Muted));
    }
    for nic in &detail.nics {
        let words: Vec<&str> = [
            nic.mac.as_deref(),
            nic.network.as_deref(),
            nic.model.as_deref(),
        ]
        .into_iter()
        .flatten()
        .collect();
        out.push((
            format!("  {:<9} {}", nic.name, words.join("  ")),
            Role::Text,
        ));
        out.extend(
            nic.addresses
                .iter()
                .map(|a| (format!("    {a}"), Role::Text)),
        );
    }
    out
}
