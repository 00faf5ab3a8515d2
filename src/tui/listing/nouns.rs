//! What stands around instances: hosts, places for disks, networks, images.

use super::{ListRow, Listing, loading, note};
use crate::action::around::id_of;
use crate::model::{
    Body, Bytes, Host, Image, Instance, InstanceId, Network, StoragePool, age, counted,
};
use crate::tui::app::App;
use crate::tui::columns::{seconds_since, step_age};
use crate::tui::glyphs::state_role;
use crate::tui::reading::Reading;
use crate::tui::theme::Role;

type Cell = (String, Role);

/// Characters of a bar.
const BAR: usize = 10;

/// From this share on a host or a pool is a problem, in percent.
const FULL: f64 = 85.0;

/// A share of a whole, in numbers and drawn: the bar is never the only sign, and what is cut first.
fn share(app: &App, percent: Option<f64>) -> Cell {
    let Some(percent) = percent.filter(|p| p.is_finite()) else {
        return ("-".to_owned(), Role::Muted);
    };
    let percent = percent.clamp(0.0, 999.0);
    let role = if percent >= FULL {
        Role::Warn
    } else {
        Role::Text
    };
    let bar = app.setup.glyphs.share(percent / 100.0, BAR);
    (format!("{percent:3.0}% {bar}"), role)
}

fn percent(used: Option<Bytes>, all: Option<Bytes>) -> Option<f64> {
    let (used, all) = (used?, all.filter(|all| all.0 > 0)?);
    Some(used.0 as f64 * 100.0 / all.0 as f64)
}

fn size(bytes: Option<Bytes>) -> String {
    bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string())
}

fn muted(text: impl Into<String>) -> Cell {
    (text.into(), Role::Muted)
}

fn text(text: impl Into<String>) -> Cell {
    (text.into(), Role::Text)
}

/// Lines of what is opened: label and value, those that are known.
fn facts<'a>(all: impl IntoIterator<Item = (&'a str, Option<String>)>) -> Vec<Cell> {
    all.into_iter()
        .filter_map(|(label, value)| Some(text(format!("{label:<13} {}", value?))))
        .collect()
}

/// What runs on a host of a context, as far as the fleet says.
fn guests<'a>(app: &'a App, host: &'a Host) -> impl Iterator<Item = &'a Instance> {
    app.fleet
        .instances
        .iter()
        .map(AsRef::as_ref)
        .filter(|row| row.context == host.context && row.host.as_deref() == Some(&*host.name))
}

pub(super) fn hosts(app: &App) -> Listing {
    let (empty, said) = loading(app, Reading::Hosts, "every context");
    let hosts = match app.readings.body(Reading::Hosts) {
        Some(Body::Hosts(hosts)) => hosts.as_slice(),
        _ => &[],
    };
    Listing {
        columns: vec![
            "HOST", "CONTEXT", "STATE", "CPUS", "LOAD", "MEMORY", "", "RUNS", "UP", "KERNEL",
        ],
        rows: hosts.iter().map(|host| host_row(app, host)).collect(),
        empty,
        note: note(app, Reading::Hosts, said),
    }
}

fn host_row(app: &App, host: &Host) -> ListRow {
    let load = host.load.zip(host.cpus.filter(|n| *n > 0));
    let load = load.map(|([one, ..], cpus)| one * 100.0 / f64::from(cpus));
    let online = if host.online {
        ("online".to_owned(), Role::Ok)
    } else {
        ("offline".to_owned(), Role::Error)
    };
    let mut more = facts([
        ("Acceleration", host.acceleration.clone()),
        ("Kernel", host.kernel.clone()),
        (
            "Load",
            host.load
                .map(|[one, five, fifteen]| format!("{one:.2} {five:.2} {fifteen:.2}")),
        ),
    ]);
    more.extend(
        host.facts
            .iter()
            .map(|(label, value)| text(format!("{label:<13} {value}"))),
    );
    let on: Vec<&Instance> = guests(app, host).collect();
    more.push((
        match on.len() {
            0 => "No instance is on it.".to_owned(),
            n => format!("{} on it; i lists them:", counted(n, "instance")),
        },
        Role::Muted,
    ));
    more.extend(on.iter().map(|row| {
        let line = format!(
            "{} {}  {}  {}",
            app.setup.glyphs.state(row.state),
            row.name,
            row.state,
            row.id
        );
        (line, state_role(row))
    }));
    ListRow {
        key: id_of(host),
        cells: vec![
            text(&host.name),
            muted(&host.context),
            online,
            text(host.cpus.map_or_else(|| "-".to_owned(), |n| n.to_string())),
            share(app, load),
            share(app, percent(host.memory_used_bytes, host.memory_bytes)),
            muted(format!("of {}", size(host.memory_bytes))),
            text(
                host.running
                    .map_or_else(|| on.len().to_string(), |n| n.to_string()),
            ),
            muted(host.uptime_seconds.map_or_else(|| "-".to_owned(), age)),
            muted(host.kernel.clone().unwrap_or_default()),
        ],
        more,
        ..ListRow::default()
    }
}

pub(super) fn places(app: &App) -> Listing {
    let (empty, said) = loading(app, Reading::Pools, "every context");
    let (_, also) = loading(app, Reading::Networks, "every context");
    let pools = match app.readings.body(Reading::Pools) {
        Some(Body::Pools(pools)) => pools.as_slice(),
        _ => &[],
    };
    let networks = match app.readings.body(Reading::Networks) {
        Some(Body::Networks(networks)) => networks.as_slice(),
        _ => &[],
    };
    let rows = pools.iter().map(|pool| pool_row(app, pool));
    Listing {
        columns: vec![
            "NAME", "CONTEXT", "WHAT", "TYPE", "USED", "", "HOST", "WHERE",
        ],
        rows: rows.chain(networks.iter().map(network_row)).collect(),
        empty,
        note: note(app, Reading::Pools, said).or_else(|| note(app, Reading::Networks, also)),
    }
}

fn pool_row(app: &App, pool: &StoragePool) -> ListRow {
    let place = pool.place.clone().unwrap_or_default();
    let (place, role) = match &pool.fault {
        Some(fault) => (format!("! {fault} {place}"), Role::Error),
        None => (place, Role::Muted),
    };
    ListRow {
        key: format!("storage {}", id_of(pool)),
        cells: vec![
            text(&pool.name),
            muted(&pool.context),
            muted("storage"),
            text(&pool.kind),
            share(app, percent(pool.used_bytes, pool.size_bytes)),
            muted(format!("of {}", size(pool.size_bytes))),
            muted(pool.host.clone().unwrap_or_default()),
            (place, role),
        ],
        more: facts([
            ("Storage", Some(id_of(pool))),
            ("Place", pool.place.clone()),
            ("Used", pool.used_bytes.map(|b| b.to_string())),
            ("Size", pool.size_bytes.map(|b| b.to_string())),
            ("Fault", pool.fault.clone()),
            ("Volumes", Some(format!(": storage info {}", id_of(pool)))),
        ]),
        ..ListRow::default()
    }
}

fn ids(users: Option<&Vec<InstanceId>>) -> Option<String> {
    let users = users?;
    if users.is_empty() {
        return Some("nobody".to_owned());
    }
    let all: Vec<String> = users.iter().map(ToString::to_string).collect();
    Some(all.join(", "))
}

/// How many use it: unknown is not nobody.
fn users(users: Option<&Vec<InstanceId>>) -> Cell {
    muted(match users.map(Vec::len) {
        None => "-".to_owned(),
        Some(0) => "unused".to_owned(),
        Some(n) => format!("used by {n}"),
    })
}

fn network_row(network: &Network) -> ListRow {
    let (place, role) = match &network.fault {
        Some(fault) => (format!("! {fault}"), Role::Warn),
        None => (network.addresses.join(" "), Role::Muted),
    };
    let up = match network.active {
        Some(true) => "up",
        Some(false) => "down",
        None => "-",
    };
    ListRow {
        key: format!("network {}", id_of(network)),
        cells: vec![
            text(&network.name),
            muted(&network.context),
            muted("network"),
            text(&network.kind),
            users(network.used_by.as_ref()),
            muted(up),
            muted(network.host.clone().unwrap_or_default()),
            (place, role),
        ],
        more: facts([
            ("Network", Some(id_of(network))),
            ("What", network.note.clone()),
            (
                "Addresses",
                Some(network.addresses.join(", ")).filter(|a| !a.is_empty()),
            ),
            ("Fault", network.fault.clone()),
            ("Used by", ids(network.used_by.as_ref())),
        ]),
        ..ListRow::default()
    }
}

pub(super) fn images(app: &App) -> Listing {
    let (empty, said) = loading(app, Reading::Images, "every context");
    let images = match app.readings.body(Reading::Images) {
        Some(Body::Images(images)) => images.as_slice(),
        _ => &[],
    };
    let empty = if empty.is_empty() || app.readings.body(Reading::Images).is_none() {
        empty
    } else {
        "No images yet. + pulls one; : image search lists the catalogue.".to_owned()
    };
    Listing {
        columns: vec![
            "IMAGE", "CONTEXT", "SIZE", "USED", "PULLED", "ARCH", "TITLE",
        ],
        rows: images.iter().map(|image| image_row(app, image)).collect(),
        empty,
        note: note(app, Reading::Images, said),
    }
}

fn image_row(app: &App, image: &Image) -> ListRow {
    let pulled = image
        .pulled_at
        .map_or_else(|| "-".to_owned(), |at| step_age(seconds_since(app.now, at)));
    ListRow {
        key: id_of(image),
        cells: vec![
            text(&image.name),
            muted(&image.context),
            text(size(image.size_bytes)),
            users(image.used_by.as_ref()),
            muted(pulled),
            muted(image.arch.clone().unwrap_or_default()),
            muted(image.title.clone().unwrap_or_default()),
        ],
        more: facts([
            ("Image", Some(id_of(image))),
            ("Title", image.title.clone()),
            ("From", image.url.clone()),
            ("Path", image.path.clone()),
            ("Checksum", image.checksum.clone()),
            ("Used by", ids(image.used_by.as_ref())),
        ]),
        ..ListRow::default()
    }
}
