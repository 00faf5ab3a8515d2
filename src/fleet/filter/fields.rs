//! The fields that can be asked for, and what each takes.

use crate::model::nearest;

/// One field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterField {
    /// As typed before the colon.
    pub name: &'static str,
    /// What it takes, for help and completion.
    pub takes: &'static str,
    pub(super) value: Value,
}

/// How a field's values are read and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(Text),
    Kind,
    State,
    Ip,
    Number(Number),
    Fact(Fact),
}

/// Texts of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Text {
    Name,
    Id,
    Mac,
    Host,
    Os,
    Note,
    Tag,
    Context,
    Backend,
}

impl Text {
    /// A name that is given in whole: `tag:prod` is not the tag `production`.
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Tag | Self::Context | Self::Backend)
    }
}

/// Numbers of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Cpus,
    Memory,
    Disk,
    Age,
    Uptime,
}

/// What is so or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    Agent,
    Locked,
    Problem,
    Template,
    Protected,
    Autostart,
    Stale,
}

const fn field(name: &'static str, value: Value, takes: &'static str) -> FilterField {
    FilterField { name, takes, value }
}

/// Every field.
pub const FIELDS: &[FilterField] = &[
    field(
        "name",
        Value::Text(Text::Name),
        "part of the name, or a glob",
    ),
    field("id", Value::Text(Text::Id), "part of the ID, or a glob"),
    field(
        "ip",
        Value::Ip,
        "the beginning of an address, or a network such as 10.0.3.0/24",
    ),
    field("mac", Value::Text(Text::Mac), "part of a MAC address"),
    field("tag", Value::Text(Text::Tag), "a tag, or a glob"),
    field("host", Value::Text(Text::Host), "part of the host's name"),
    field(
        "context",
        Value::Text(Text::Context),
        "a context, or a glob",
    ),
    field("backend", Value::Text(Text::Backend), "a kind of backend"),
    field("kind", Value::Kind, "vm or ct"),
    field("state", Value::State, "a state"),
    field(
        "os",
        Value::Text(Text::Os),
        "part of the operating system's name",
    ),
    field(
        "cpu",
        Value::Number(Number::Cpus),
        "number of CPUs: 4, 4.., ..8, 2..4",
    ),
    field(
        "mem",
        Value::Number(Number::Memory),
        "memory: 4G, 4G.., ..8GiB",
    ),
    field(
        "disk",
        Value::Number(Number::Disk),
        "size of the disks, like mem",
    ),
    field(
        "older",
        Value::Number(Number::Age),
        "made longer ago than: 7d",
    ),
    field(
        "up",
        Value::Number(Number::Uptime),
        "running longer than: 2h; ..2h is shorter",
    ),
    field("agent", Value::Fact(Fact::Agent), "yes or no"),
    field("locked", Value::Fact(Fact::Locked), "yes or no"),
    field("problem", Value::Fact(Fact::Problem), "yes or no"),
    field("note", Value::Text(Text::Note), "part of the note"),
    field("template", Value::Fact(Fact::Template), "yes or no"),
    field("protected", Value::Fact(Fact::Protected), "yes or no"),
    field("autostart", Value::Fact(Fact::Autostart), "yes or no"),
    field("stale", Value::Fact(Fact::Stale), "yes or no"),
];

/// The field of this name.
pub(super) fn named(name: &str) -> Option<&'static FilterField> {
    FIELDS.iter().find(|field| field.name == name)
}

/// The field whose value this is.
pub(super) fn of(value: Value) -> &'static str {
    FIELDS
        .iter()
        .find(|field| field.value == value)
        .map_or("name", |field| field.name)
}

/// `fe80::1` and `52:54:00` are values, `stat:running` is a typing error.
pub(super) fn looks_like_field(word: &str) -> bool {
    word.len() > 1
        && word.chars().all(|c| c.is_ascii_lowercase())
        && !word.chars().all(|c| c.is_ascii_hexdigit())
}

/// What to say about a field that there is not.
pub(super) fn unknown(word: &str) -> String {
    let names = || FIELDS.iter().map(|field| field.name);
    match nearest(word, names()) {
        Some(near) => format!("there is no field {word:?}; did you mean {near}?"),
        None => format!(
            "there is no field {word:?}; there are {}",
            names().collect::<Vec<_>>().join(", ")
        ),
    }
}
