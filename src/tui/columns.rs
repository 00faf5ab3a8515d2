//! Columns of the inventory by width.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::app::App;
use super::glyphs::{Glyphs, state_role};
use super::theme::Role;
use crate::action::fleet_api::sort;
use crate::model::{Bytes, Instance, State, age};

/// One column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// NAME.
    Name,
    /// CONTEXT.
    Context,
    /// KIND.
    Kind,
    /// NAMESPACE.
    Namespace,
    /// STATE, with the reason where there is room.
    State,
    /// HOST.
    Host,
    /// CPU.
    Cpu,
    /// MEM.
    Memory,
    /// UP.
    Up,
    /// ADDRESS.
    Address,
    /// OS.
    Os,
    /// DISK.
    Disk,
    /// TAGS.
    Tags,
    /// AUTO.
    Auto,
    /// SEEN.
    Seen,
}

/// STATE where there is little room.
const STATE_NARROW: u16 = 12;
/// Of a context's name less than so much tells nothing.
const CONTEXT_MIN: u16 = 4;

/// A column with its width.
pub type Sized = (Column, u16);

/// A column that the configuration names, and its width where that was said.
pub type Chosen = (Column, Option<u16>);

const NARROW: &[Sized] = &[(Column::Name, 0), (Column::State, STATE_NARROW)];
const EIGHTY: &[Sized] = &[
    (Column::Name, 0),
    (Column::Context, 10),
    (Column::State, 12),
    (Column::Host, 9),
    (Column::Memory, 8),
    (Column::Address, 15),
];
const WIDE: &[Sized] = &[
    (Column::Name, 0),
    (Column::Context, 10),
    (Column::Kind, 4),
    (Column::State, 22),
    (Column::Host, 9),
    (Column::Cpu, 9),
    (Column::Memory, 14),
    (Column::Up, 5),
    (Column::Address, 15),
];
const FULL: &[Sized] = &[
    (Column::Name, 0),
    (Column::Context, 12),
    (Column::Namespace, 12),
    (Column::Kind, 4),
    (Column::State, 24),
    (Column::Host, 10),
    (Column::Cpu, 9),
    (Column::Memory, 15),
    (Column::Up, 5),
    (Column::Address, 24),
    (Column::Os, 14),
    (Column::Disk, 9),
    (Column::Tags, 16),
    (Column::Auto, 4),
    (Column::Seen, 5),
];

/// NAME is never narrower, so that a row can be told from its neighbour.
const NAME_MIN: u16 = 12;
/// The same where there is room.
const NAME_USUAL: u16 = 18;

impl Column {
    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Name => "NAME",
            Self::Context => "CONTEXT",
            Self::Kind => "KIND",
            Self::Namespace => "NAMESPACE",
            Self::State => "STATE",
            Self::Host => "HOST",
            Self::Cpu => "CPU",
            Self::Memory => "MEM",
            Self::Up => "UP",
            Self::Address => "ADDRESS",
            Self::Os => "OS",
            Self::Disk => "DISK",
            Self::Tags => "TAGS",
            Self::Auto => "AUTO",
            Self::Seen => "SEEN",
        }
    }

    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Name,
        Self::Context,
        Self::Kind,
        Self::Namespace,
        Self::State,
        Self::Host,
        Self::Cpu,
        Self::Memory,
        Self::Up,
        Self::Address,
        Self::Os,
        Self::Disk,
        Self::Tags,
        Self::Auto,
        Self::Seen,
    ];

    /// The one with this word in `ui.columns`: its heading in lower case.
    pub fn read(word: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|column| column.title().eq_ignore_ascii_case(word))
    }

    /// Its word in `sort`.
    pub fn sort_word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Context => "context",
            Self::Kind => "kind",
            Self::State => "state",
            Self::Host => "host",
            Self::Cpu => "cpu",
            Self::Memory => "mem",
            Self::Up => "up",
            Self::Address => "address",
            Self::Os => "os",
            Self::Disk => "disk",
            Self::Tags => "tags",
            Self::Seen => "seen",
            Self::Namespace => "namespace",
            Self::Auto => "auto",
        }
    }
}

/// `ui.columns`, read. Which instance a row is stands first whatever was chosen.
pub fn chosen(words: &BTreeMap<u16, Vec<String>>) -> BTreeMap<u16, Vec<Chosen>> {
    let read = |words: &Vec<String>| {
        let mut columns: Vec<Chosen> = vec![(Column::Name, None)];
        for word in words {
            let (name, width) = word.split_once(':').unwrap_or((word, ""));
            let Some(column) = Column::read(name) else {
                continue;
            };
            let width = width.parse().ok();
            match columns.iter_mut().find(|(known, _)| *known == column) {
                Some((_, known)) => *known = known.or(width),
                None => columns.push((column, width)),
            }
        }
        columns
    };
    let all = words.iter();
    all.map(|(width, words)| (*width, read(words))).collect()
}

/// Whether the table can be sorted so.
pub fn sorts(by: &str) -> bool {
    sort::by_column(by.trim_start_matches('-')).is_some()
}

/// The columns for a list of this width: those that the user chose, else those that suit it.
pub fn shown_at(app: &App, width: u16) -> Vec<Sized> {
    if let Some(own) = app.inventory.columns.get(&class(width))
        && !app.inventory.wide
    {
        return own.clone();
    }
    let mut usual = at(width, app.inventory.wide);
    // Rows that have one name are told apart by their context, wherever that has room.
    let room = width.saturating_sub(3 + NAME_MIN + 1 + STATE_NARROW + 1 + 1);
    let is_shown = usual.iter().any(|(column, _)| *column == Column::Context);
    if !is_shown && room >= CONTEXT_MIN && app.inventory.has_namesakes() {
        usual.insert(1, (Column::Context, room.min(10)));
    }
    let chosen = app.setup.columns.range(..=width).next_back();
    let Some((_, chosen)) = chosen.filter(|_| !app.inventory.wide) else {
        return usual;
    };
    let sized = chosen
        .iter()
        .map(|(column, own)| (*column, own.unwrap_or_else(|| usual_width(*column, width))));
    sized.collect()
}

/// The smallest width of those that have the same usual columns.
pub fn class(width: u16) -> u16 {
    match width {
        0..60 => 0,
        60..110 => 60,
        110..190 => 110,
        _ => 190,
    }
}

/// As wide as it usually is on that width, else as where all are shown.
pub fn usual_width(column: Column, width: u16) -> u16 {
    let usual = at(width, false);
    let mut known = usual.iter().chain(FULL);
    known.find(|(c, _)| *c == column).map_or(9, |(_, w)| *w)
}

/// The columns that suit a width, in order.
pub fn at(width: u16, wide: bool) -> Vec<Sized> {
    if wide {
        return FULL.to_vec();
    }
    match class(width) {
        0 => NARROW,
        60 => EIGHTY,
        110 => WIDE,
        _ => FULL,
    }
    .to_vec()
}

/// Widths on a list of `width` columns, of which `skip` after NAME are scrolled away. Two columns
/// for mark and glyph come before; NAME takes what is left.
pub fn laid_out(all: &[Sized], width: u16, skip: usize) -> Vec<Sized> {
    let room = width.saturating_sub(3);
    let name = match width {
        0..26 => 8,
        26..72 => NAME_MIN,
        _ => NAME_USUAL,
    };
    let own = all.first().map(|(_, own)| *own).filter(|own| *own > 0);
    let name = own.unwrap_or(name);
    let mut kept: Vec<Sized> = vec![(Column::Name, name.min(room.saturating_sub(9)))];
    let mut used = kept[0].1;
    for (column, wanted) in all.iter().skip(1).skip(skip) {
        let left = room.saturating_sub(used);
        // STATE is shown whole or, on the narrowest screens, instead of the rest of the name.
        let fits = left > *wanted;
        if !fits {
            if *column == Column::State && left > 8 {
                kept.push((*column, left - 1));
                used = room;
            }
            break;
        }
        kept.push((*column, *wanted));
        used += wanted + 1;
    }
    let spare = room.saturating_sub(used);
    // A width that was chosen is that.
    if own.is_some() {
        return kept;
    }
    kept[0].1 += spare.min(40);
    // A very wide screen gives the rest to the state, whose reason is what one reads.
    if spare > 40
        && let Some((_, state)) = kept.iter_mut().find(|(c, _)| *c == Column::State)
    {
        *state += (spare - 40).min(60);
    }
    kept
}

/// There are more columns to the right than fit.
pub fn hidden(all: &[Sized], width: u16, skip: usize) -> bool {
    laid_out(all, width, skip).len() + skip < all.len()
}

/// A cell's text and role.
pub fn cell(app: &App, row: &Instance, column: Column, width: u16) -> (String, Role) {
    let unknown = || ("-".to_owned(), Role::Muted);
    let known = |text: Option<&str>| text.map_or_else(unknown, |t| (t.to_owned(), Role::Text));
    let old = |text: String| if row.stale { format!("{text}?") } else { text };
    match column {
        Column::Name => (row.name.clone(), Role::Text),
        Column::Context => (row.context.clone(), Role::Text),
        Column::Kind => (row.kind.to_string(), Role::Muted),
        Column::Namespace => known(row.namespace.as_deref()),
        Column::State => (state_text(app, row, width), role_of(app, row)),
        Column::Host => known(row.host.as_deref()),
        Column::Cpu => match (row.usage.and_then(|u| u.cpu_percent), row.cpus) {
            (Some(load), Some(cpus)) => (format!("{load:.0}% of {cpus}"), Role::Text),
            (None, Some(cpus)) => (format!("{cpus}"), Role::Muted),
            (Some(load), None) => (format!("{load:.0}%"), Role::Text),
            (None, None) => unknown(),
        },
        Column::Memory => match (row.usage.and_then(|u| u.memory_bytes), row.memory_bytes) {
            (Some(used), Some(all)) if width >= 13 => (of(used, all), Role::Text),
            (_, Some(all)) => (all.to_string(), Role::Text),
            (Some(used), None) => (used.to_string(), Role::Text),
            (None, None) => unknown(),
        },
        Column::Up => match row.uptime_seconds {
            Some(seconds) if row.state == State::Running => {
                (age(up(row, seconds, app.now)), Role::Text)
            }
            _ => unknown(),
        },
        Column::Address => match (&row.addresses, row.way_in()) {
            (Some(list), _) if !list.is_empty() => {
                let mut text = list[0].ip.clone();
                if width >= 24
                    && let Some(second) = list.get(1)
                {
                    text = format!("{text} {}", second.ip);
                }
                (old(text), Role::Text)
            }
            (_, Some(port)) => (old(port.host.clone()), Role::Text),
            // Not looked for yet is not the same as none.
            (None, _) if row.state == State::Running => ("·".to_owned(), Role::Muted),
            _ => unknown(),
        },
        Column::Os => known(row.os.as_deref()),
        Column::Disk => row
            .disk_bytes
            .map_or_else(unknown, |b| (b.to_string(), Role::Text)),
        Column::Tags if row.tags.is_empty() => unknown(),
        Column::Tags => (row.tags.join(","), Role::Text),
        Column::Auto => match row.autostart {
            Some(true) => ("on".to_owned(), Role::Text),
            Some(false) => ("off".to_owned(), Role::Muted),
            None => unknown(),
        },
        Column::Seen => (
            step_age(seconds_since(app.now, row.observed_at)),
            Role::Muted,
        ),
    }
}

/// `1.2 / 4.0 GiB`: both in the unit of what there is.
fn of(used: Bytes, all: Bytes) -> String {
    let text = all.to_string();
    let Some((_, unit)) = text.split_once(' ') else {
        return text;
    };
    let Ok(one) = format!("1{unit}").parse::<Bytes>() else {
        return text;
    };
    let part = used.0 as f64 / one.0 as f64;
    if part < 9.95 {
        format!("{part:.1} / {text}")
    } else {
        format!("{part:.0} / {text}")
    }
}

/// Seconds between two moments; never negative.
pub fn seconds_since(now: Timestamp, then: Timestamp) -> u64 {
    u64::try_from(now.duration_since(then).as_secs()).unwrap_or(0)
}

/// Ages in steps, so that an idle screen stays as it is: seconds by ten.
pub fn step_age(seconds: u64) -> String {
    match seconds {
        0..10 => "now".to_owned(),
        10..60 => format!("{}s", seconds / 10 * 10),
        _ => age(seconds),
    }
}

fn up(row: &Instance, seconds: u64, now: Timestamp) -> u64 {
    seconds
        + if row.stale {
            0
        } else {
            seconds_since(now, row.observed_at)
        }
}

/// The role of a row's state, our own pending action included.
pub fn role_of(app: &App, row: &Instance) -> Role {
    if app.pending_on(&row.id).is_some() {
        Role::Busy
    } else {
        state_role(row)
    }
}

/// The state's word, with what is to be known besides as far as there is room.
pub fn state_text(app: &App, row: &Instance, width: u16) -> String {
    let dots = if app.setup.glyphs == Glyphs::Ascii {
        "..."
    } else {
        "…"
    };
    if let Some(verb) = app.pending_on(&row.id) {
        return format!("{verb}{dots}");
    }
    if row.template {
        return "template".to_owned();
    }
    let mut text = row.state.to_string();
    if row.state == State::Unknown
        && let Some(last) = row.last_state
    {
        let since = step_age(seconds_since(app.now, row.observed_at));
        // The glyph says that nobody knows; the word says what it was.
        return if width >= 16 {
            format!("was {last}, {since}")
        } else {
            format!("was {last}")
        };
    }
    let reason = row
        .locked
        .as_ref()
        .map(|lock| format!("locked: {lock}"))
        .or_else(|| row.reason.clone());
    if let Some(reason) = reason {
        text.push_str(" !");
        if width >= 20 {
            text.push(' ');
            text.push_str(&reason);
        }
    } else if row.state == State::Stopped && row.autostart == Some(true) && width >= 20 {
        text.push_str(" ! autostart is on");
    }
    text
}

/// Mark and glyph before the name.
pub fn sign(app: &App, row: &Instance) -> String {
    let mark = if app.inventory.is_marked(row) {
        ">"
    } else {
        " "
    };
    let glyph = app.setup.glyphs.state(row.state);
    if app.pending_on(&row.id).is_some() {
        return format!("{mark}{}", app.setup.glyphs.pending());
    }
    format!("{mark}{glyph}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn req_35_memory_in_one_unit() {
        assert_eq!(of(Bytes::mib(754), Bytes::gib(2)), "0.7 / 2.0 GiB");
        assert_eq!(of(Bytes::gib(71), Bytes::gib(128)), "71 / 128 GiB");
        assert_eq!(of(Bytes(0), Bytes(0)), "0.0 / 0 B");
    }

    #[test]
    fn state_is_always_on_the_screen_and_nothing_is_wider() {
        for width in 20..500u16 {
            for wide in [false, true] {
                let columns = laid_out(&at(width, wide), width, 0);
                let state = columns.iter().any(|(c, _)| *c == Column::State);
                assert!(state || wide, "{width}");
                let sum: u16 = columns.iter().map(|(_, w)| w + 1).sum();
                assert!(sum < width + 1, "{width}: {columns:?}");
                assert!(columns[0].1 >= 8, "{width}: {columns:?}");
            }
        }
    }
    #[test]
    fn the_words_of_the_configuration_are_those_of_the_table() {
        for word in crate::config::COLUMNS {
            assert!(Column::read(word).is_some(), "{word}");
        }
        assert_eq!(crate::config::COLUMNS.len(), Column::ALL.len());
        assert_eq!(crate::config::SORTS, sort::COLUMNS);
        assert!(crate::config::SORTS.iter().all(|word| sorts(word)));
    }
}
