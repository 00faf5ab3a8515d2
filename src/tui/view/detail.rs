//! The detail of one instance.

use ratatui::layout::Rect;

use super::super::app::{App, Focus, Tab};
use super::super::columns::{seconds_since, step_age};
use super::super::text::{Canvas, wrap};
use super::super::theme::Role;
use super::super::tree;
use crate::model::{Body, Detail, EventLevel, Instance, age};

pub(super) fn draw(app: &App, area: Rect, canvas: &mut Canvas) {
    let text = canvas.style(Role::Text);
    canvas.fill(area, text);
    let focused = app.focus == Focus::Detail;
    // A line on the side where the list is.
    let mut inner = area;
    if area.x > 0 {
        let rule = canvas.style(Role::Rule);
        let bar = canvas.glyphs.bar();
        for y in area.top()..area.bottom() {
            canvas.put_styled(area.x, y, 1, bar, rule);
        }
        inner.x += 1;
        inner.width = inner.width.saturating_sub(1);
    } else if area.height > 4 {
        canvas.rule(Rect { height: 1, ..area });
        inner.y += 1;
        inner.height -= 1;
    }
    let Some(row) = app.inventory.selected() else {
        return;
    };
    let name_room = inner.width.saturating_sub(2);
    canvas.put(
        inner.x + 1,
        inner
            .y
            .saturating_sub(u16::from(area.x == 0 && area.height > 4)),
        name_room,
        &format!(" {} ", row.id),
        Role::Title,
    );
    let mut y = inner.y + u16::from(area.x > 0 || area.height <= 4);
    let mut x = inner.x + 1;
    for tab in Tab::ALL {
        let role = match (tab == app.detail.tab, focused) {
            (true, true) => Role::Selected,
            (true, false) => Role::Title,
            (false, _) => Role::Muted,
        };
        let label = if tab == app.detail.tab {
            format!("[{}]", tab.title())
        } else {
            format!(" {} ", tab.title())
        };
        x += canvas.put(x, y, inner.right().saturating_sub(x), &label, role);
    }
    y += 1;
    let lines = lines(app);
    let height = usize::from(inner.bottom().saturating_sub(y));
    // The snapshot under the cursor stays on the screen.
    let scroll = if app.detail.tab == Tab::Snapshots {
        (app.detail.snapshot + 2).saturating_sub(height)
    } else {
        app.detail
            .scroll
            .min(lines.len().saturating_sub(height.max(1)))
    };
    for (n, (text, role)) in lines.iter().enumerate().skip(scroll).take(height) {
        let chosen = app.detail.tab == Tab::Snapshots
            && focused
            && n == app.detail.snapshot + 1
            && lines.len() > 1;
        let role = if chosen { Role::Selected } else { *role };
        canvas.put(inner.x + 1, y, inner.width.saturating_sub(1), text, role);
        y += 1;
    }
}

/// The lines of the tab on the screen.
pub fn lines(app: &App) -> Vec<(String, Role)> {
    let Some(row) = app.inventory.selected() else {
        return Vec::new();
    };
    let width = super::super::layout::body(app)
        .detail
        .map_or(40, |area| usize::from(area.width.saturating_sub(3)).max(10));
    let detail = app.current_detail();
    let mut out = match (app.detail.tab, detail) {
        (Tab::Summary, detail) => summary(app, row, detail),
        (Tab::Events, _) => events(app),
        (tab, Some(detail)) => match tab {
            Tab::Snapshots => return snapshots(app, detail),
            Tab::Devices => devices(detail),
            _ => native(detail),
        },
        (_, None) => Vec::new(),
    };
    if let Some(error) = &app.detail.detail.error {
        out.push((super::super::answer::error_line(error), Role::Error));
    } else if detail.is_none() && app.detail.tab != Tab::Events {
        out.push(("reading …".to_owned(), Role::Busy));
    }
    // Long lines go on below, so that nothing is cut that one came here to read.
    out.into_iter()
        .flat_map(|(text, role)| {
            wrap_keeping_indent(&text, width)
                .into_iter()
                .map(move |line| (line, role))
        })
        .collect()
}

fn wrap_keeping_indent(text: &str, width: usize) -> Vec<String> {
    let indent = text.len() - text.trim_start_matches(' ').len();
    let indent = indent.min(width / 2);
    wrap(
        text.trim_start_matches(' '),
        width.saturating_sub(indent).max(4),
    )
    .into_iter()
    .map(|line| format!("{}{line}", " ".repeat(indent)))
    .collect()
}

fn field(out: &mut Vec<(String, Role)>, name: &str, value: impl Into<String>) {
    let value = value.into();
    if !value.is_empty() {
        out.push((format!("{name:<12} {value}"), Role::Text));
    }
}

fn summary(app: &App, row: &Instance, detail: Option<&Detail>) -> Vec<(String, Role)> {
    let row = detail.map_or(row, |detail| if row.stale { row } else { &detail.instance });
    let mut out = Vec::new();
    let seen = step_age(seconds_since(app.now, row.observed_at));
    let mut state = super::super::columns::state_text(app, row, 200);
    if let Some(up) = row
        .uptime_seconds
        .filter(|_| row.state == crate::model::State::Running)
    {
        state.push_str(&format!(", up {}", age(up)));
    }
    out.push((
        format!("{:<12} {state}", "State"),
        super::super::columns::role_of(app, row),
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
            format!("{} is guest port {}", port.host, port.guest),
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

fn snapshots(app: &App, detail: &Detail) -> Vec<(String, Role)> {
    if detail.snapshots.is_empty() {
        return vec![("No snapshots. S takes one.".to_owned(), Role::Muted)];
    }
    let mut out = vec![(
        format!(
            "{:<26} {:>4}  {:<11} {:>9}  NOTE",
            "SNAPSHOT", "AGE", "CONSISTENCY", "SIZE"
        ),
        Role::Muted,
    )];
    for (depth, snapshot) in tree::snapshots(&detail.snapshots) {
        let mut name = String::new();
        if depth > 0 {
            name.push_str(&"   ".repeat(depth.min(8) - 1));
            name.push_str(app.setup.glyphs.branch());
        }
        name.push_str(&crate::model::shown(&snapshot.name));
        let name = super::super::text::fit(&name, 26, app.setup.glyphs);
        let pad = 26usize.saturating_sub(crate::model::shown_width(&name));
        let old = snapshot
            .created_at
            .map_or_else(|| "-".to_owned(), |at| step_age(seconds_since(app.now, at)));
        let what = snapshot
            .consistency
            .map_or("-", crate::model::Consistency::as_str);
        let size = snapshot
            .size_bytes
            .map_or_else(|| "-".to_owned(), |b| b.to_string());
        let mut rest = String::new();
        if let Some(why) = &snapshot.broken {
            rest.push_str(&format!("broken: {why} "));
        }
        rest.push_str(snapshot.note.as_deref().unwrap_or_default());
        let role = if snapshot.broken.is_some() {
            Role::Error
        } else {
            Role::Text
        };
        out.push((
            format!(
                "{name}{} {old:>4}  {what:<11} {size:>9}  {rest}",
                " ".repeat(pad)
            ),
            role,
        ));
    }
    // Last, so that it is seen however narrow the pane is.
    if let Some(here) = detail.snapshots.iter().find(|s| s.current) {
        out.push((format!("(you are here, after {})", here.name), Role::Accent));
    }
    out
}

fn devices(detail: &Detail) -> Vec<(String, Role)> {
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

fn events(app: &App) -> Vec<(String, Role)> {
    let loaded = &app.detail.events;
    let events = match loaded.value.as_ref().map(|d| &d.body) {
        Some(Body::Events(events)) => events.as_slice(),
        _ => &[],
    };
    let mut out: Vec<(String, Role)> = events
        .iter()
        .rev()
        .map(|event| {
            let role = match event.level {
                EventLevel::Info => Role::Text,
                EventLevel::Warn => Role::Warn,
                EventLevel::Error => Role::Error,
            };
            let ago = step_age(seconds_since(app.now, event.at));
            (format!("{ago:>4}  {} {}", event.kind, event.message), role)
        })
        .collect();
    match (&loaded.error, loaded.asked) {
        (Some(error), _) => out.push((super::super::answer::error_line(error), Role::Error)),
        (None, Some(_)) if out.is_empty() => out.push(("reading …".to_owned(), Role::Busy)),
        (None, _) if out.is_empty() => out.push(("No event is known.".to_owned(), Role::Muted)),
        _ => {}
    }
    out
}

fn native(detail: &Detail) -> Vec<(String, Role)> {
    match &detail.native {
        Some(native) => native
            .text
            .lines()
            .map(|line| (line.replace('\t', "    "), Role::Text))
            .collect(),
        None => vec![("The backend gives no definition.".to_owned(), Role::Muted)],
    }
}
