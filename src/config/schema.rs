//! Which keys there are, what they hold, and what they are when nobody says.

use serde_json::{Map, Number, Value};

use crate::model::{Bytes, Field, FieldKind, parse_duration, shown};

/// Keys that every `[[context]]` may have, besides its kind's own.
pub const COMMON_CONTEXT_KEYS: &[Field] = &[
    Field::new("name", FieldKind::Name, "the context's name").required(),
    Field::new("backend", FieldKind::Name, "the kind of system").required(),
    Field::new("enabled", FieldKind::Flag, "false: listed, never connected").default("true"),
    Field::new("secret", FieldKind::Text, "where the secret comes from").secret(),
    Field::new("readonly", FieldKind::Flag, "refuse every change").default("false"),
    Field::new(
        "protected",
        FieldKind::Flag,
        "every change that asks at all asks for the name",
    )
    .default("false"),
    Field::new(
        "confirm",
        FieldKind::Choice(&["normal", "relaxed"]),
        "relaxed: a typed name becomes a plain yes",
    )
    .default("normal"),
    Field::new("interval", FieldKind::Duration, "time between polls"),
    Field::new("connect-timeout", FieldKind::Duration, "time to connect").default("5s"),
    Field::new("read-timeout", FieldKind::Duration, "time for one read").default("15s"),
    Field::new(
        "addresses",
        FieldKind::Flag,
        "look for addresses in the background",
    )
    .default("true"),
];

/// What a setting holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One plain value.
    Plain(FieldKind),
    /// A whole number from 1 up to this.
    UpTo(u64),
    /// `true`, `false` or a list of kinds.
    Discover,
    /// A list of words, or a table of them by smallest width.
    WordsByWidth(&'static [&'static str]),
    /// A word, or a table of them by smallest width.
    WordByWidth(&'static [&'static str]),
}

/// A setting.
pub(super) struct Key {
    /// Dotted.
    pub name: &'static str,
    pub shape: Shape,
    /// The variable that sets it too.
    pub env: Option<&'static str>,
    /// As written in TOML; `None`: not set.
    pub default: Option<&'static str>,
}

const fn key(
    name: &'static str,
    shape: Shape,
    env: Option<&'static str>,
    default: Option<&'static str>,
) -> Key {
    Key {
        name,
        shape,
        env,
        default,
    }
}

/// Every setting. A key enters with the first code that reads it.
/// Columns of the inventory's table.
pub const COLUMNS: &[&str] = &[
    "name",
    "context",
    "kind",
    "namespace",
    "state",
    "host",
    "cpu",
    "mem",
    "up",
    "address",
    "os",
    "disk",
    "tags",
    "auto",
    "seen",
];

/// What it can be sorted by.
pub const SORTS: &[&str] = &[
    "name",
    "context",
    "kind",
    "state",
    "host",
    "cpu",
    "mem",
    "disk",
    "address",
    "up",
    "os",
    "id",
    "seen",
    "tags",
    "namespace",
    "auto",
];

pub(super) const KEYS: &[Key] = &[
    key(
        "default-context",
        Shape::Plain(FieldKind::Context),
        Some("CORRAL_DEFAULT_CONTEXT"),
        None,
    ),
    key(
        "readonly",
        Shape::Plain(FieldKind::Flag),
        Some("CORRAL_READONLY"),
        Some("false"),
    ),
    key(
        "discover",
        Shape::Discover,
        Some("CORRAL_DISCOVER"),
        Some("true"),
    ),
    key(
        "ui.theme",
        Shape::Plain(FieldKind::Name),
        Some("CORRAL_THEME"),
        None,
    ),
    key(
        "ui.icons",
        Shape::Plain(FieldKind::Choice(&["auto", "unicode", "ascii", "nerd"])),
        Some("CORRAL_ICONS"),
        Some("\"auto\""),
    ),
    key(
        "ui.mouse",
        Shape::Plain(FieldKind::Flag),
        Some("CORRAL_MOUSE"),
        None,
    ),
    key(
        "ui.keymap",
        Shape::Plain(FieldKind::Name),
        Some("CORRAL_KEYMAP"),
        None,
    ),
    key(
        "ui.title",
        Shape::Plain(FieldKind::Flag),
        Some("CORRAL_TITLE"),
        None,
    ),
    key(
        "ui.progress",
        Shape::Plain(FieldKind::Flag),
        Some("CORRAL_PROGRESS"),
        None,
    ),
    key(
        "ui.notify",
        Shape::Plain(FieldKind::Choice(&["bell", "desktop", "off"])),
        Some("CORRAL_NOTIFY"),
        None,
    ),
    key("ui.columns", Shape::WordsByWidth(COLUMNS), None, None),
    key("ui.sort", Shape::WordByWidth(SORTS), None, None),
    key(
        "stop.timeout",
        Shape::Plain(FieldKind::Duration),
        Some("CORRAL_STOP_TIMEOUT"),
        Some("\"2m\""),
    ),
    key(
        "bulk.concurrency",
        Shape::UpTo(64),
        Some("CORRAL_BULK_CONCURRENCY"),
        Some("4"),
    ),
    key(
        "ssh.user",
        Shape::Plain(FieldKind::Name),
        Some("CORRAL_SSH_USER"),
        None,
    ),
];

/// The canonical value of `field` for what was written, or what is allowed instead.
pub fn value_of(field: &Field, written: &toml_edit::Value) -> Result<Value, String> {
    if field.many {
        return match written {
            toml_edit::Value::Array(items) => items
                .iter()
                .map(|item| plain(field.kind, item))
                .collect::<Result<Vec<_>, _>>()
                .map(Value::Array),
            toml_edit::Value::InlineTable(table) if field.kind == FieldKind::KeyValue => table
                .iter()
                .map(|(name, value)| match value.as_str() {
                    Some(text) => Ok(Value::String(format!("{name}={text}"))),
                    None => Err(format!("{} must be a string", shown(name))),
                })
                .collect::<Result<Vec<_>, _>>()
                .map(Value::Array),
            one => plain(field.kind, one).map(|value| Value::Array(vec![value])),
        };
    }
    plain(field.kind, written)
}

/// One value of a plain kind.
pub(super) fn plain(kind: FieldKind, written: &toml_edit::Value) -> Result<Value, String> {
    let got = written.type_name();
    match kind {
        FieldKind::Flag => written
            .as_bool()
            .map(Value::Bool)
            .ok_or_else(|| format!("must be true or false, not {}", article(got))),
        FieldKind::Count => match written.as_integer() {
            Some(n) => u64::try_from(n)
                .map(|n| Value::Number(n.into()))
                .map_err(|_| "must not be negative".to_owned()),
            None => Err(format!("must be a whole number, not {}", article(got))),
        },
        FieldKind::Bytes => match (written.as_integer(), written.as_str()) {
            (Some(n), _) => u64::try_from(n)
                .map(|n| Value::Number(n.into()))
                .map_err(|_| "must not be negative".to_owned()),
            (_, Some(text)) => text
                .parse::<Bytes>()
                .map(|bytes| Value::Number(bytes.0.into()))
                .map_err(|_| "must be a size like \"512M\" or \"4G\"".to_owned()),
            _ => Err(format!("must be a size like \"4G\", not {}", article(got))),
        },
        FieldKind::Duration => {
            let span = match (written.as_integer(), written.as_str()) {
                (Some(n), _) => u64::try_from(n).ok().map(std::time::Duration::from_secs),
                (_, Some(text)) => parse_duration(text).ok(),
                _ => None,
            };
            span.and_then(|span| Number::from_f64(span.as_secs_f64()).map(|n| (span, n)))
                .map(|(span, fraction)| {
                    if span.subsec_nanos() == 0 {
                        Value::Number(span.as_secs().into())
                    } else {
                        Value::Number(fraction)
                    }
                })
                .ok_or_else(|| "must be a time like \"90s\" or \"5m\", or seconds".to_owned())
        }
        FieldKind::Choice(words) => match written.as_str() {
            Some(word) if words.contains(&word) => Ok(Value::String(word.to_owned())),
            Some(word) => {
                let hint = crate::model::nearest(word, words.iter().copied())
                    .map(|near| format!(" (did you mean {near:?}?)"))
                    .unwrap_or_default();
                Err(format!(
                    "must be one of {}{hint}",
                    quoted(words.iter().copied())
                ))
            }
            None => Err(format!(
                "must be one of {}, not {}",
                quoted(words.iter().copied()),
                article(got)
            )),
        },
        FieldKind::KeyValue => match written.as_str() {
            Some(text) if text.contains('=') && !has_control(text) => {
                Ok(Value::String(text.to_owned()))
            }
            _ => Err("must be a string KEY=VALUE".to_owned()),
        },
        FieldKind::Path
        | FieldKind::Url
        | FieldKind::Text
        | FieldKind::Name
        | FieldKind::Selector
        | FieldKind::Context
        | FieldKind::Snapshot
        | FieldKind::Task => {
            let Some(text) = written.as_str() else {
                return Err(format!("must be a string, not {}", article(got)));
            };
            if has_control(text) {
                return Err("must not contain control characters".to_owned());
            }
            if text.is_empty() && kind != FieldKind::Text {
                return Err("must not be empty".to_owned());
            }
            if kind == FieldKind::Url && !text.contains("://") {
                return Err("must be a URL like \"https://host:port\"".to_owned());
            }
            Ok(Value::String(text.to_owned()))
        }
    }
}

/// A setting's value in its canonical form.
pub(super) fn setting(
    shape: Shape,
    written: &toml_edit::Value,
    kinds: &[&str],
) -> Result<Value, String> {
    match shape {
        Shape::Plain(kind) => plain(kind, written),
        Shape::UpTo(most) => match plain(FieldKind::Count, written)?.as_u64() {
            Some(n) if (1..=most).contains(&n) => Ok(Value::from(n)),
            _ => Err(format!("must be a whole number from 1 to {most}")),
        },
        Shape::Discover => discover(written, kinds),
        Shape::WordsByWidth(known) => by_width(written, &|value| words(value, known)),
        Shape::WordByWidth(known) => by_width(written, &|value| {
            let text = value
                .as_str()
                .ok_or_else(|| "must be a column like \"name\" or \"-cpu\"".to_owned())?;
            word(text.strip_prefix('-').unwrap_or(text), known)?;
            Ok(Value::String(text.to_owned()))
        }),
    }
}

fn discover(written: &toml_edit::Value, kinds: &[&str]) -> Result<Value, String> {
    let allowed = || {
        format!(
            "must be true, false or a list of kinds ({})",
            quoted(kinds.iter().copied())
        )
    };
    if let Some(all) = written.as_bool() {
        return Ok(Value::Bool(all));
    }
    let list = written.as_array().ok_or_else(allowed)?;
    let mut wanted = Vec::new();
    for item in list {
        let kind = item.as_str().ok_or_else(allowed)?;
        if !kinds.contains(&kind) {
            let hint = crate::model::nearest(kind, kinds.iter().copied())
                .map(|near| format!("; did you mean {near:?}?"))
                .unwrap_or_default();
            return Err(format!("{}: no kind {:?}{hint}", allowed(), shown(kind)));
        }
        wanted.push(Value::String(kind.to_owned()));
    }
    Ok(Value::Array(wanted))
}

/// Anything by smallest width; without widths it holds from 0 on.
fn by_width(
    written: &toml_edit::Value,
    one: &dyn Fn(&toml_edit::Value) -> Result<Value, String>,
) -> Result<Value, String> {
    let mut widths = Map::new();
    if let Some(table) = written.as_inline_table() {
        for (width, value) in table {
            if width.parse::<u16>().is_err() || width.len() > 4 {
                return Err(format!(
                    "{:?} is not a width: write 80, 120 or 200",
                    shown(width)
                ));
            }
            widths.insert(width.to_owned(), one(value)?);
        }
    } else {
        widths.insert("0".to_owned(), one(written)?);
    }
    Ok(Value::Object(widths))
}

/// Widths that a column may be given: narrower nothing can be read, wider nobody needs.
pub const WIDTHS: std::ops::RangeInclusive<u16> = 3..=60;

fn words(value: &toml_edit::Value, known: &[&str]) -> Result<Value, String> {
    let bad = || "must be a list of columns like [\"name\", \"state:14\"]".to_owned();
    let list = value.as_array().filter(|list| !list.is_empty());
    let mut found = Vec::new();
    for item in list.ok_or_else(bad)? {
        let text = item.as_str().ok_or_else(bad)?;
        let Some((name, width)) = text.split_once(':') else {
            found.push(word(text, known)?);
            continue;
        };
        word(name, known)?;
        if width
            .parse()
            .ok()
            .is_none_or(|width: u16| !WIDTHS.contains(&width))
        {
            return Err(format!(
                "{:?}: a width is written NAME:WIDTH, {} to {}, like \"state:14\"",
                shown(text),
                WIDTHS.start(),
                WIDTHS.end()
            ));
        }
        found.push(Value::String(text.to_owned()));
    }
    Ok(Value::Array(found))
}

fn word(text: &str, known: &[&str]) -> Result<Value, String> {
    if known.contains(&text) {
        return Ok(Value::String(text.to_owned()));
    }
    let hint = crate::model::nearest(text, known.iter().copied())
        .map(|near| format!("; did you mean {near:?}?"))
        .unwrap_or_default();
    Err(format!(
        "has no column {:?}{hint} There are {}",
        shown(text),
        known.join(", ")
    ))
}

pub(super) fn quoted<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words
        .map(|word| format!("{word:?}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn article(kind: &str) -> String {
    match kind {
        "integer" | "array" | "inline table" => format!("an {kind}"),
        kind => format!("a {kind}"),
    }
}

fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}
