//! The `[[context]]` entries.

use std::collections::HashMap;
use std::path::PathBuf;

use indexmap::IndexMap;
use serde_json::Value;
use toml_edit::{Item, TableLike};

use super::check::{Checker, cut, key_span, value};
use super::schema::{COMMON_CONTEXT_KEYS, quoted, value_of};
use crate::model::nearest;
use crate::model::{Field, Kind, Secret, SecretText};

/// One `[[context]]`, validated. Its secret is a reference still.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextEntry {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: Kind,
    /// False: listed, never connected.
    pub enabled: bool,
    /// The kind's own fields, canonical.
    pub fields: IndexMap<String, Value>,
    /// Where its secret comes from.
    pub secret: Option<Secret>,
    /// Refuses every change.
    pub readonly: bool,
    /// Every change that asks at all asks for the name.
    pub protected: bool,
    /// Typed gates become plain confirmations.
    pub relaxed: bool,
    /// Seconds between polls.
    pub interval: Option<u64>,
    /// Seconds to connect.
    pub connect_timeout: Option<u64>,
    /// Seconds for one read.
    pub read_timeout: Option<u64>,
    /// Look for addresses in the background.
    pub addresses: bool,
    /// The line it begins on.
    pub line: usize,
}

impl ContextEntry {
    fn new(name: &str, kind: &str, line: usize) -> Self {
        Self {
            name: name.to_owned(),
            kind: Kind::read(kind),
            enabled: true,
            fields: IndexMap::new(),
            secret: None,
            readonly: false,
            protected: false,
            relaxed: false,
            interval: None,
            connect_timeout: None,
            read_timeout: None,
            addresses: true,
            line,
        }
    }
}

/// `[A-Za-z0-9][A-Za-z0-9._-]{0,62}`.
pub fn is_context_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes[0].is_ascii_alphanumeric()
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// The kinds and what a context of each may say.
pub(super) type Kinds<'a> = &'a [(&'a str, &'a [Field])];

/// Reads all entries, in file order, those of one name as one.
pub(super) fn read(check: &mut Checker<'_>, item: &Item, kinds: Kinds<'_>) -> Vec<ContextEntry> {
    let mut tables: Vec<(&dyn TableLike, Option<std::ops::Range<usize>>)> = Vec::new();
    if let Some(list) = item.as_array_of_tables() {
        tables.extend(list.iter().map(|t| (t as &dyn TableLike, t.span())));
    } else if let Some(list) = item.as_array() {
        for value in list {
            match value.as_inline_table() {
                Some(table) => tables.push((table, value.span())),
                None => check.leave_out(
                    None,
                    None,
                    value.span(),
                    "a context must be a table: write [[context]]",
                ),
            }
        }
    } else {
        check.leave_out(
            None,
            None,
            item.span(),
            "contexts are written [[context]], each with a name and a backend",
        );
    }
    let mut named: IndexMap<String, Vec<_>> = IndexMap::new();
    for (table, span) in tables {
        if let Some(name) = name_of(check, table, span.clone()) {
            named.entry(name).or_default().push((table, span));
        }
    }
    named
        .into_iter()
        .filter_map(|(name, parts)| entry(check, &name, &parts, kinds))
        .collect()
}

fn name_of(
    check: &mut Checker<'_>,
    table: &dyn TableLike,
    span: Option<std::ops::Range<usize>>,
) -> Option<String> {
    let grammar = "letters, digits, '.', '_' and '-', at most 63, the first a letter or a digit";
    let (span, why) = match table.get("name") {
        None => {
            let hint = nearest("name", table.iter().map(|(key, _)| key))
                .map(|near| format!(" (is {near:?} meant to be it?)"))
                .unwrap_or_default();
            (span, format!("this context has no name{hint}"))
        }
        Some(item) => match item.as_str() {
            Some(name) if is_context_name(name) => return Some(name.to_owned()),
            Some(name) => (
                item.span(),
                format!("{:?} is no name for a context ({grammar})", cut(name)),
            ),
            None => (
                item.span(),
                format!("a context's name is a string ({grammar})"),
            ),
        },
    };
    if is_off(table) {
        check.say(span, format!("{why}; it is left out"));
    } else {
        check.leave_out(None, table.get("backend").and_then(Item::as_str), span, why);
    }
    None
}

/// Nobody misses what is turned off.
fn is_off(table: &dyn TableLike) -> bool {
    table.get("enabled").and_then(Item::as_bool) == Some(false)
}

type Part<'a> = (&'a dyn TableLike, Option<std::ops::Range<usize>>);

fn entry(
    check: &mut Checker<'_>,
    name: &str,
    parts: &[Part<'_>],
    kinds: Kinds<'_>,
) -> Option<ContextEntry> {
    let (_, first) = parts.first()?;
    let line = check.at(first.clone()).0;
    let (kind, fields) = kind_of(check, name, parts, kinds)?;
    let mut entry = ContextEntry::new(name, kind, line);
    let mut seen = HashMap::new();
    let mut careful = false;
    for (index, (table, span)) in parts.iter().enumerate() {
        if index > 0 {
            check.warn(
                span.clone(),
                format!("context {name:?} is written on line {line} already; this one extends it"),
            );
        }
        careful |= clashes(check, &mut seen, *table);
        fill(check, &mut entry, *table, fields);
    }
    entry.relaxed &= !careful;
    for field in fields.iter().filter(|field| field.required) {
        if !entry.fields.contains_key(field.name) {
            check.say(
                first.clone(),
                format!("context {name:?} has no {:?} ({})", field.name, field.doc),
            );
        }
    }
    Some(entry)
}

fn kind_of<'k>(
    check: &mut Checker<'_>,
    name: &str,
    parts: &[Part<'_>],
    kinds: Kinds<'k>,
) -> Option<(&'k str, &'k [Field])> {
    let words = || kinds.iter().map(|(word, _)| *word);
    let mut found: Option<(&'k str, &'k [Field])> = None;
    let mut faults = Vec::new();
    for (table, _) in parts {
        let Some(item) = table.get("backend") else {
            continue;
        };
        let known = |word| kinds.iter().find(|(kind, _)| *kind == word);
        match item.as_str().map(|word| (word, known(word))) {
            Some((word, Some(kind))) => match found {
                Some((before, _)) if before != word => check.say(
                    item.span(),
                    format!("context {name:?} is {before:?} already; {word:?} is not used"),
                ),
                _ => found = Some(*kind),
            },
            Some((word, None)) => {
                let hint = nearest(word, words())
                    .map(|near| format!(" Did you mean {near:?}?"))
                    .unwrap_or_default();
                let allowed = quoted(words());
                faults.push((
                    item.span(),
                    format!("no backend {:?}.{hint} Allowed: {allowed}", cut(word)),
                ));
            }
            None => {
                let why = format!("backend must be one of {}", quoted(words()));
                faults.push((item.span(), why));
            }
        }
    }
    if found.is_some() {
        for (span, why) in faults {
            check.say(span, format!("{why}; it is not used"));
        }
        return found;
    }
    if faults.is_empty() {
        let (_, span) = parts.first()?;
        let why = format!(
            "context {name:?} has no backend (one of {})",
            quoted(words())
        );
        faults.push((span.clone(), why));
    }
    let written = parts
        .iter()
        .find_map(|(table, _)| table.get("backend")?.as_str());
    for (span, why) in faults {
        if parts.iter().any(|(table, _)| is_off(*table)) {
            check.say(span, format!("{why}; context {name:?} is left out"));
        } else {
            check.leave_out(Some(name), written, span, why);
        }
    }
    None
}

/// What one context says twice and differently, with both places. Of a guard the safer value holds;
/// true when `confirm` is among these.
fn clashes(
    check: &mut Checker<'_>,
    seen: &mut HashMap<String, (String, usize)>,
    table: &dyn TableLike,
) -> bool {
    let mut careful = false;
    for (key, item) in table.iter() {
        if matches!(key, "name" | "backend") {
            continue;
        }
        let span = item.span().or(key_span(table, key));
        let line = check.at(span.clone()).0;
        let text = value(item).map(|value| value.to_string().trim().to_owned());
        let Some((before, first)) = seen.insert(key.to_owned(), (text.unwrap_or_default(), line))
        else {
            continue;
        };
        if before == seen[key].0 {
            continue;
        }
        let differs = format!("{key} is not what it is on line {first}");
        match key {
            "readonly" | "protected" => {
                check.say(span, format!("{differs}; until it is mended it is true"));
            }
            "confirm" => {
                careful = true;
                check.say(
                    span,
                    format!("{differs}; until it is mended it is \"normal\""),
                );
            }
            _ => check.warn(
                span,
                format!("{differs}; this one, on line {line}, is used"),
            ),
        }
    }
    careful
}

fn fill(
    check: &mut Checker<'_>,
    entry: &mut ContextEntry,
    table: &dyn TableLike,
    fields: &[Field],
) {
    for (key, item) in table.iter() {
        if matches!(key, "name" | "backend") {
            continue;
        }
        if key == "secret" {
            match secret(item) {
                Ok(secret) => entry.secret = Some(secret),
                Err(why) => check.say(item.span().or(key_span(table, key)), why),
            }
            continue;
        }
        let common = COMMON_CONTEXT_KEYS.iter().find(|field| field.name == key);
        let Some(field) = common.or_else(|| fields.iter().find(|field| field.name == key)) else {
            check.unknown(
                key_span(table, key),
                key,
                &format!(" in context {:?} ({})", entry.name, entry.kind),
                COMMON_CONTEXT_KEYS
                    .iter()
                    .chain(fields)
                    .map(|field| field.name),
            );
            continue;
        };
        let found = value(item)
            .ok_or_else(|| "has no value".to_owned())
            .and_then(|written| value_of(field, &written));
        match found {
            Ok(found) if common.is_some() => set_common(check, entry, key, &found, item),
            Ok(found) => {
                entry.fields.insert(key.to_owned(), found);
            }
            Err(why) => {
                let guard = guard(entry, key);
                check.say(
                    item.span().or(key_span(table, key)),
                    format!("{key} {why}{guard}"),
                );
            }
        }
    }
}

/// A guard that cannot be read is taken as set.
fn guard(entry: &mut ContextEntry, key: &str) -> &'static str {
    match key {
        "readonly" => entry.readonly = true,
        "protected" => entry.protected = true,
        _ => return "",
    }
    "; until it is mended it counts as true"
}

fn set_common(
    check: &mut Checker<'_>,
    entry: &mut ContextEntry,
    key: &str,
    value: &Value,
    item: &Item,
) {
    let flag = value.as_bool().unwrap_or_default();
    match key {
        "enabled" => entry.enabled = flag,
        // Written twice, the safer one holds.
        "readonly" => entry.readonly |= flag,
        "protected" => entry.protected |= flag,
        "addresses" => entry.addresses = flag,
        "confirm" => entry.relaxed = value.as_str() == Some("relaxed"),
        _ => {
            let seconds = value.as_f64().unwrap_or_default();
            if !(1.0..=86_400.0).contains(&seconds) {
                check.say(item.span(), format!("{key} must be from 1s to 1d"));
                return;
            }
            let seconds = Some(seconds.round() as u64);
            match key {
                "interval" => entry.interval = seconds,
                "connect-timeout" => entry.connect_timeout = seconds,
                _ => entry.read_timeout = seconds,
            }
        }
    }
}

/// Never says what a literal holds.
fn secret(item: &Item) -> Result<Secret, String> {
    const FORMS: &str = "secret must be { env = \"NAME\" }, { command = [\"program\", \"argument\"] }, { file = \"/path\" } or a string";
    if let Some(text) = item.as_str() {
        return Ok(Secret::Literal(SecretText::from(text.to_owned())));
    }
    let table = item.as_table_like().ok_or(FORMS)?;
    let mut parts = table.iter();
    let (Some((form, item)), None) = (parts.next(), parts.next()) else {
        return Err(format!("{FORMS}; exactly one of them"));
    };
    match form {
        "env" => item
            .as_str()
            .filter(|name| !name.is_empty() && !name.contains(['=', '\0']))
            .map(|name| Secret::Env(name.to_owned()))
            .ok_or_else(|| "secret.env must be the name of a variable".to_owned()),
        "command" => item
            .as_array()
            .and_then(|argv| {
                argv.iter()
                    .map(|word| word.as_str().filter(|w| !w.contains('\0')).map(str::to_owned))
                    .collect::<Option<Vec<_>>>()
            })
            .filter(|argv| argv.first().is_some_and(|program| !program.is_empty()))
            .map(Secret::Command)
            .ok_or_else(|| {
                "secret.command must be a list of words, [\"pass\", \"pve\"]; no shell reads it".to_owned()
            }),
        "file" => item
            .as_str()
            .filter(|path| !path.is_empty() && !path.contains('\0'))
            .map(|path| Secret::File(PathBuf::from(path)))
            .ok_or_else(|| "secret.file must be a path".to_owned()),
        "keyring" => Err(
            "this build has no keyring; use secret = { command = [\"secret-tool\", \"lookup\", …] } or { file = … }"
                .to_owned(),
        ),
        other => Err(format!("{FORMS}; not {:?}", cut(other))),
    }
}
