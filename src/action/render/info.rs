//! `info`: one block per instance, two columns where the terminal has room.

use jiff::Timestamp;

use super::listing::{address, seconds_between};
use super::style::{Role, of_state};
use crate::model::{Detail, Disk, InstanceKind, Nic, State, age, shown, shown_width};

/// Column where the value stands, and where the second pair starts.
const VALUE: usize = 11;
const SECOND: usize = 40;

/// One block.
pub(crate) fn block(detail: &Detail, now: Timestamp, colour: bool) -> String {
    let row = &detail.instance;
    let mut out = String::new();
    let kind = match row.kind {
        InstanceKind::Vm => "vm",
        InstanceKind::Ct => "ct",
    };
    let mut head = format!(
        "{}    {}    {kind} on {}",
        shown(&row.name),
        row.id,
        row.backend
    );
    if let Some(host) = &row.host {
        head.push_str(&format!(", host {}", shown(host)));
    }
    let seen = format!("seen {} ago", age(seconds_between(row.observed_at, now)));
    let pad = 80usize
        .saturating_sub(shown_width(&head) + seen.len())
        .max(2);
    out.push_str(&Role::Strong.paint(&head, colour));
    out.push_str(&" ".repeat(pad));
    out.push_str(&seen);
    out.push('\n');

    let mut pairs: Vec<(&str, String)> = Vec::new();
    let state = match (row.state, row.last_state) {
        (State::Unknown, Some(last)) => format!("unknown, was {last}"),
        (state, _) => state.to_string(),
    };
    let mut state = of_state(row.state).paint(&state, colour);
    if let Some(up) = row.uptime_seconds {
        state.push_str(&format!(", up {}", long_age(up)));
    }
    pairs.push(("State", state));
    if let Some(agent) = row.agent {
        pairs.push(("Agent", if agent { "answers" } else { "silent" }.to_owned()));
    }
    if let Some(auto) = row.autostart {
        pairs.push(("Autostart", if auto { "on" } else { "off" }.to_owned()));
    }
    let used_cpu = row.usage.and_then(|u| u.cpu_percent);
    if let Some(cpus) = row.cpus {
        let load = used_cpu.map_or(String::new(), |p| format!(", {p:.0} %"));
        pairs.push(("CPU", format!("{cpus}{load}")));
    }
    if let Some(memory) = row.memory_bytes {
        let used = row.usage.and_then(|u| u.memory_bytes);
        let text = used.map_or_else(|| memory.to_string(), |used| format!("{used} of {memory}"));
        pairs.push(("Memory", text));
    }
    if let Some(os) = &row.os {
        pairs.push(("OS", shown(os).into_owned()));
    }
    if let Some(firmware) = &detail.firmware {
        pairs.push(("Firmware", firmware.to_uppercase()));
    }
    pairs.push((
        "Protected",
        if row.protected { "yes" } else { "no" }.to_owned(),
    ));
    for two in pairs.chunks(2) {
        if let [first, second] = two {
            let left = pair(first.0, &first.1);
            let width = VALUE + plain_width(&first.1);
            out.push_str(&left);
            out.push_str(&" ".repeat(SECOND.saturating_sub(width).max(2)));
            out.push_str(&pair(second.0, &second.1));
        } else if let [only] = two {
            out.push_str(&pair(only.0, &only.1));
        }
        out.push('\n');
    }
    let mut line = |label: &str, text: &str| {
        out.push_str(&pair(label, text));
        out.push('\n');
    };
    if let Some(reason) = &row.reason {
        line("Reason", &Role::Warn.paint(&shown(reason), colour));
    }
    if let Some(lock) = &row.locked {
        line("Locked", &shown(lock));
    }
    if let Some(addresses) = row.addresses.as_ref().filter(|all| !all.is_empty()) {
        let all: Vec<String> = addresses
            .iter()
            .map(|a| {
                let from: Vec<&str> = [&a.nic, &a.source]
                    .into_iter()
                    .filter_map(|part| part.as_deref())
                    .collect();
                if from.is_empty() {
                    shown(&a.ip).into_owned()
                } else {
                    format!("{} ({})", shown(&a.ip), shown(&from.join(", ")))
                }
            })
            .collect();
        line("Addresses", &all.join("  "));
    } else if row.ports.as_ref().is_none_or(Vec::is_empty) {
        line("Addresses", &address(row).unwrap_or_else(|| "-".to_owned()));
    }
    if let Some(ports) = row.ports.as_ref().filter(|all| !all.is_empty()) {
        let all: Vec<String> = ports
            .iter()
            .map(|p| format!("{} -> {}", shown(&p.place()), p.guest))
            .collect();
        line("Ports", &all.join("  "));
    }
    list(&mut out, "Disks", detail.disks.iter().map(disk));
    list(&mut out, "NICs", detail.nics.iter().map(nic));
    let mut line = |label: &str, text: &str| {
        out.push_str(&pair(label, text));
        out.push('\n');
    };
    if !detail.snapshots.is_empty() {
        let newest = detail
            .snapshots
            .iter()
            .filter_map(|s| s.created_at.map(|at| (at, s)))
            .max_by_key(|(at, _)| *at);
        let newest = newest.map_or(String::new(), |(at, s)| {
            format!(
                ", newest {} {} ago",
                shown(&s.name),
                age(seconds_between(at, now))
            )
        });
        line("Snapshots", &format!("{}{newest}", detail.snapshots.len()));
    }
    if !row.tags.is_empty() {
        line("Tags", &shown(&row.tags.join(", ")));
    }
    if let Some(note) = &row.note {
        line("Note", &shown(note));
    }
    for (label, value) in &detail.facts {
        line(&shown(label), &shown(value));
    }
    for pending in &detail.pending {
        line("Pending", &shown(pending));
    }
    for problem in &detail.problems {
        line("Problem", &Role::Warn.paint(&shown(problem), colour));
    }
    out
}

fn pair(label: &str, text: &str) -> String {
    let pad = VALUE.saturating_sub(shown_width(label)).max(1);
    format!("{label}{}{text}", " ".repeat(pad))
}

fn plain_width(text: &str) -> usize {
    // Colour takes no columns.
    let mut width = 0;
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        width += shown_width(&rest[..at]);
        rest = rest[at..].find('m').map_or("", |end| &rest[at + end + 1..]);
    }
    width + shown_width(rest)
}

fn list(out: &mut String, label: &str, lines: impl Iterator<Item = String>) {
    for (i, text) in lines.enumerate() {
        out.push_str(&pair(if i == 0 { label } else { "" }, &text));
        out.push('\n');
    }
}

fn disk(disk: &Disk) -> String {
    let mut parts = vec![shown(&disk.name).into_owned()];
    if disk.device != "disk" {
        parts.push(shown(&disk.device).into_owned());
    }
    parts.extend(disk.size_bytes.map(|b| b.to_string()));
    parts.push(
        disk.source
            .as_deref()
            .map_or_else(|| "empty".to_owned(), |s| shown(s).into_owned()),
    );
    parts.extend(disk.format.as_deref().map(|f| shown(f).into_owned()));
    parts.extend(disk.bus.as_deref().map(|f| shown(f).into_owned()));
    parts.extend(disk.used_bytes.map(|b| format!("uses {b}")));
    parts.extend(disk.backing.as_deref().map(|b| format!("on {}", shown(b))));
    if disk.readonly && disk.device == "disk" {
        parts.push("read-only".to_owned());
    }
    parts.join("  ")
}

fn nic(nic: &Nic) -> String {
    let mut parts = vec![shown(&nic.name).into_owned()];
    for part in [&nic.mac, &nic.network, &nic.model].into_iter().flatten() {
        parts.push(shown(part).into_owned());
    }
    parts.extend(nic.addresses.iter().map(|a| shown(a).into_owned()));
    parts.join("  ")
}

/// Two units: `9d 4h`, `3h 12m`, `45s`.
fn long_age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d {}h", seconds / 86400, seconds % 86400 / 3600),
    }
}
