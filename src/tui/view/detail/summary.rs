//! What an instance is and how it is.

use crate::model::{Detail, Instance, age};
use crate::tui::app::App;
use crate::tui::columns::{seconds_since, step_age};
use crate::tui::theme::Role;

fn field(out: &mut Vec<(String, Role)>, name: &str, value: impl Into<String>) {
    let value = value.into();
    if !value.is_empty() {
        out.push((format!("{name:<12} {value}"), Role::Text));
    }
}

pub(super) fn summary(app: &App, row: &Instance, detail: Option<&Detail>) -> Vec<(String, Role)> {
    let row = detail.map_or(row, |detail| if row.stale { row } else { &detail.instance });
    let mut out = Vec::new();
    let seen = step_age(seconds_since(app.now, row.observed_at));
    let mut state = crate::tui::columns::state_text(app, row, 200);
    if let Some(up) = row
        .uptime_seconds
        .filter(|_| row.state == crate::model::State::Running)
    {
        state.push_str(&format!(", up {}", age(up)));
    }
    out.push((
        format!("{:<12} {state}", "State"),
        crate::tui::columns::role_of(app, row),
    ));
    field(
        &mut out,
        "Seen",
        if seen == "now" {
            seen
        } else {
            format!("{seen} ago")
        },
    );
    field(&mut out, "Name", row.name.clone());
    field(
        &mut out,
        "Where",
        format!(
            "{} on {}, context {}{}",
            row.kind,
            row.backend,
            row.context,
            row.host
                .as_ref()
                .map(|h| format!(", host {h}"))
                .unwrap_or_default()
        ),
    );
    let cpu = row.usage.and_then(|u| u.cpu_percent);
    if let Some(cpus) = row.cpus {
        field(
            &mut out,
            "CPU",
            format!(
                "{cpus}{}",
                cpu.map(|c| format!(", {c:.0} %")).unwrap_or_default()
            ),
        );
    }
    if let Some(memory) = row.memory_bytes {
        let used = row.usage.and_then(|u| u.memory_bytes);
        field(
            &mut out,
            "Memory",
            used.map_or_else(|| memory.to_string(), |u| format!("{u} of {memory}")),
        );
    }
    match &row.addresses {
        Some(list) if list.is_empty() => field(&mut out, "Addresses", "none"),
        Some(list) => {
            for (n, address) in list.iter().enumerate() {
                let how: Vec<&str> = [address.nic.as_deref(), address.source.as_deref()]
                    .into_iter()
                    .flatten()
                    .collect();
                let how = if how.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", how.join(", "))
                };
                field(
                    &mut out,
                    if n == 0 { "Addresses" } else { "" },
                    format!("{}{how}", address.ip),
                );
            }
        }
        None => field(&mut out, "Addresses", "not known"),
    }
    for port in row.ports.iter().flatten() {
        field(
            &mut out,
            "Port",
            format!("{} is guest port {}", port.place(), port.guest),
        );
    }
    field(&mut out, "OS", row.os.clone().unwrap_or_default());
    let yes = |value: Option<bool>, yes: &str, no: &str| {
        value
            .map(|v| if v { yes } else { no }.to_owned())
            .unwrap_or_default()
    };
    field(&mut out, "Agent", yes(row.agent, "answers", "silent"));
    field(&mut out, "Autostart", yes(row.autostart, "on", "off"));
    field(
        &mut out,
        "Protected",
        if row.protected { "yes" } else { "" },
    );
    field(&mut out, "Locked", row.locked.clone().unwrap_or_default());
    field(&mut out, "Tags", row.tags.join(", "));
    field(&mut out, "Note", row.note.clone().unwrap_or_default());
    field(
        &mut out,
        "Created",
        row.created_at
            .map(|t| format!("{t:.0}"))
            .unwrap_or_default(),
    );
    if let Some(detail) = detail {
        field(
            &mut out,
            "Firmware",
            detail.firmware.clone().unwrap_or_default(),
        );
        for (name, value) in &detail.facts {
            field(&mut out, name, value.clone());
        }
        let count = detail.snapshots.len();
        field(
            &mut out,
            "Snapshots",
            if count == 0 {
                "none".to_owned()
            } else {
                count.to_string()
            },
        );
        for pending in &detail.pending {
            out.push((format!("{:<12} {pending}", "Pending"), Role::Warn));
        }
        for problem in &detail.problems {
            out.push((format!("{:<12} {problem}", "Problem"), Role::Error));
        }
    }
    field(
        &mut out,
        "uid",
        row.uid.clone().unwrap_or_else(|| "not known".to_owned()),
    );
    out
}
