//! Snapshots of several instances, as a tree below each.

use std::collections::HashMap;

use super::{ListRow, Listing, loading, note};
use crate::model::{Body, Consistency, InstanceId, Snapshot, SnapshotRef, counted};
use crate::tui::app::App;
use crate::tui::columns::{seconds_since, step_age};
use crate::tui::glyphs::state_role;
use crate::tui::reading::Reading;
use crate::tui::theme::Role;
use crate::tui::tree;

type Cell = (String, Role);

pub(super) fn snapshots(app: &App) -> Listing {
    let (waiting, said) = loading(app, Reading::Snapshots, "every context");
    let all = match app.readings.body(Reading::Snapshots) {
        Some(Body::Snapshots(all)) => all.as_slice(),
        _ => &[],
    };
    let about = &app.readings.about;
    let loaded = app.readings.get(Reading::Snapshots);
    let whole = loaded.is_some_and(|l| l.value.is_some() && !l.part);
    let mut by_instance: HashMap<&InstanceId, Vec<&Snapshot>> = HashMap::new();
    for snapshot in all {
        let own = by_instance.entry(&snapshot.instance).or_default();
        own.push(snapshot);
    }
    let mut rows = Vec::new();
    let mut without = 0;
    for id in &about.ids {
        let own = by_instance.get(id).map_or(&[][..], Vec::as_slice);
        if own.is_empty() {
            without += 1;
            // Of those that were chosen one wants to see that there is none.
            if !about.marked || !whole {
                continue;
            }
        }
        rows.push(instance_row(app, id, own));
        let tree = tree::snapshots(own.iter().copied());
        rows.extend(tree.into_iter().map(|(depth, s)| row(app, depth, s)));
    }
    let mut parts = Vec::new();
    if about.of > about.ids.len() {
        let (asked, of) = (about.ids.len(), about.of);
        parts.push(format!("only of the first {asked} of {of} instances"));
    }
    if whole && without > 0 {
        parts.push(format!("{} without", counted(without, "instance")));
    }
    let counts = (!parts.is_empty()).then(|| (parts.join(", "), Role::Muted));
    Listing {
        columns: vec!["SNAPSHOT", "AGE", "CONSISTENCY", "SIZE", "EXPIRES", "NOTE"],
        rows,
        empty: match (about.ids.is_empty(), whole) {
            (true, _) => "No instance is marked or visible.".to_owned(),
            (false, false) => waiting,
            (false, true) => format!(
                "No snapshots of {}. S in the inventory takes some.",
                counted(about.ids.len(), "instance")
            ),
        },
        note: note(app, Reading::Snapshots, said).or(counts),
    }
}

fn instance_row(app: &App, id: &InstanceId, own: &[&Snapshot]) -> ListRow {
    let count = match own.len() {
        0 => "no snapshots".to_owned(),
        n => counted(n, "snapshot"),
    };
    let row = app.fleet.get(id);
    let role = row.map_or(Role::Muted, |row| state_role(row));
    let sign = row.map_or(" ", |row| app.setup.glyphs.state(row.state));
    let state = row.map_or("gone", |row| row.state.as_str());
    let empty = || (String::new(), Role::Muted);
    ListRow {
        key: id.to_string(),
        cells: vec![
            (format!("{sign} {id}"), role),
            empty(),
            empty(),
            empty(),
            empty(),
            (count.clone(), Role::Muted),
        ],
        more: vec![(format!("{id}: {state}, {count}"), role)],
        heads: true,
        ..ListRow::default()
    }
}

fn row(app: &App, depth: usize, snapshot: &Snapshot) -> ListRow {
    let mut name = "  ".to_owned();
    if depth > 0 {
        name.push_str(&"   ".repeat(depth.min(8) - 1));
        name.push_str(app.setup.glyphs.branch());
    }
    name.push_str(&crate::model::shown(&snapshot.name));
    if snapshot.current {
        name.push_str(" *");
    }
    let age = snapshot
        .created_at
        .map(|at| step_age(seconds_since(app.now, at)));
    let size = snapshot.size_bytes.map(|bytes| bytes.to_string());
    let known = |text: Option<String>| (text.unwrap_or_else(|| "-".to_owned()), Role::Text);
    let name_role = if snapshot.broken.is_some() {
        Role::Error
    } else {
        Role::Text
    };
    let said = match &snapshot.broken {
        Some(why) => (format!("broken: {why}"), Role::Error),
        None => (snapshot.note.clone().unwrap_or_default(), Role::Muted),
    };
    let reference = SnapshotRef {
        instance: snapshot.instance.clone(),
        name: snapshot.name.clone(),
    };
    let consistency = snapshot.consistency.map(Consistency::as_str);
    ListRow {
        key: reference.to_string(),
        cells: vec![
            (name, name_role),
            known(age),
            known(consistency.map(str::to_owned)),
            known(size.clone()),
            expiry(app, snapshot),
            said,
        ],
        more: facts(app, snapshot, &reference),
        ..ListRow::default()
    }
}

/// When it may be removed; what is over is told, since only `gc` removes it.
fn expiry(app: &App, snapshot: &Snapshot) -> Cell {
    match snapshot.expires_at {
        None => ("-".to_owned(), Role::Muted),
        Some(at) if at <= app.now => ("over".to_owned(), Role::Warn),
        Some(at) => {
            let left = step_age(seconds_since(at, app.now));
            (format!("in {left}"), Role::Text)
        }
    }
}

fn facts(app: &App, snapshot: &Snapshot, reference: &SnapshotRef) -> Vec<Cell> {
    let mut lines = vec![(reference.to_string(), Role::Title)];
    let mut fact = |label: &str, value: Option<String>| {
        lines.extend(value.map(|value| (format!("{label:<13} {value}"), Role::Text)));
    };
    fact("Taken", snapshot.created_at.map(|at| format!("{at:.0}")));
    fact("On top of", snapshot.parent.clone());
    let consistency = snapshot.consistency.map(Consistency::as_str);
    fact("Consistency", consistency.map(str::to_owned));
    fact("Size", snapshot.size_bytes.map(|bytes| bytes.to_string()));
    fact(
        "Expires",
        snapshot
            .expires_at
            .map(|at| format!("{at:.0} ({})", expiry(app, snapshot).0)),
    );
    fact("Policy", snapshot.policy.clone());
    fact("Note", snapshot.note.clone());
    if snapshot.current {
        let text = "The present state descends from it.";
        lines.push((text.to_owned(), Role::Accent));
    }
    if let Some(why) = &snapshot.broken {
        lines.push((format!("broken: {why}"), Role::Error));
    }
    lines
}
