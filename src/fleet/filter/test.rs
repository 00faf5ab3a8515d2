//! One question to a row: read, asked, printed.

use std::fmt;
use std::time::Duration;

use super::FilterCx;
use super::fields::{self, Fact, FilterField, Number, Text, Value};
use super::net::Net;
use super::pattern::Pattern;
use super::problem::has_problem;
use super::span::Span;
use super::words::{Char, text};
use crate::model::{Bytes, Instance, InstanceKind, State, nearest, parse_duration, print_duration};

/// One question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    /// Name, ID, address, MAC, tag, host or note.
    Anywhere(Pattern),
    Text(Text, Pattern),
    Kind(InstanceKind),
    State(State),
    Ip(Net),
    Number(Number, Span),
    Is(Fact, bool),
}

impl Test {
    /// Reads a field's value.
    pub fn read(field: &FilterField, value: &[Char]) -> Result<Self, String> {
        let word = text(value);
        if word.is_empty() {
            return Err(format!("{}: takes {}", field.name, field.takes));
        }
        let lower = word.to_lowercase();
        match field.value {
            // `52-54-00` is how some write what is `52:54:00` here.
            Value::Text(Text::Mac) => {
                let colon = |c: &Char| Char {
                    c: if c.c == '-' { ':' } else { c.c },
                    ..*c
                };
                let value: Vec<Char> = value.iter().map(colon).collect();
                Ok(Self::Text(Text::Mac, Pattern::read(&value)))
            }
            Value::Text(which) => Ok(Self::Text(which, Pattern::read(value))),
            Value::Ip => Net::read(value).map(Self::Ip),
            Value::Kind => match lower.as_str() {
                "vm" => Ok(Self::Kind(InstanceKind::Vm)),
                "ct" => Ok(Self::Kind(InstanceKind::Ct)),
                _ => Err(format!("kind is vm or ct, not {word:?}")),
            },
            Value::State => State::from_word(&lower).map(Self::State).ok_or_else(|| {
                let all = || State::ALL.iter().map(|state| state.as_str());
                match nearest(&lower, all()) {
                    Some(near) => format!("{word:?} is no state; did you mean {near}?"),
                    None => format!(
                        "{word:?} is no state; there are {}",
                        all().collect::<Vec<_>>().join(", ")
                    ),
                }
            }),
            Value::Number(number) => {
                let span = Span::read(&lower, |text| read_number(number, text))
                    .map_err(|why| format!("{}: {why}", field.name))?;
                Ok(Self::Number(number, at_least(number, &lower, span)))
            }
            Value::Fact(fact) => match lower.as_str() {
                "yes" | "true" | "1" => Ok(Self::Is(fact, true)),
                "no" | "false" | "0" => Ok(Self::Is(fact, false)),
                _ => Err(format!("{} is yes or no, not {word:?}", field.name)),
            },
        }
    }

    /// What it says of every instance of a context; `None` when that is for each to say.
    pub fn of_context(&self, context: &str, backend: &str) -> Option<bool> {
        match self {
            Self::Text(Text::Context, pattern) => Some(pattern.is(context)),
            Self::Text(Text::Backend, pattern) => Some(pattern.is(backend)),
            _ => None,
        }
    }

    /// Asks a row.
    pub fn holds(&self, row: &Instance, cx: FilterCx) -> bool {
        match self {
            Self::Anywhere(pattern) => {
                let part = |text: &str| pattern.is_in(text);
                part(&row.name)
                    || part(&row.id.to_string())
                    || row.addresses.iter().flatten().any(|a| part(&a.ip))
                    || row.macs.iter().flatten().any(|mac| part(mac))
                    || row.tags.iter().any(|tag| part(tag))
                    || row.host.as_deref().is_some_and(part)
                    || row.note.as_deref().is_some_and(part)
            }
            Self::Text(which, pattern) => {
                let fits = |text: &str| {
                    if which.is_whole() {
                        pattern.is(text)
                    } else {
                        pattern.is_in(text)
                    }
                };
                match which {
                    Text::Name => fits(&row.name),
                    Text::Id => fits(&row.id.to_string()),
                    Text::Mac => row.macs.iter().flatten().any(|mac| fits(mac)),
                    Text::Host => row.host.as_deref().is_some_and(fits),
                    Text::Os => row.os.as_deref().is_some_and(fits),
                    Text::Note => row.note.as_deref().is_some_and(fits),
                    Text::Tag => row.tags.iter().any(|tag| fits(tag)),
                    Text::Context => fits(&row.context),
                    Text::Backend => fits(row.backend.as_str()),
                }
            }
            Self::Kind(kind) => row.kind == *kind,
            Self::State(state) => row.state == *state,
            Self::Ip(net) => row.addresses.iter().flatten().any(|a| net.holds(&a.ip)),
            Self::Number(number, span) => value_of(*number, row, cx).is_some_and(|n| span.holds(n)),
            Self::Is(fact, wanted) => is(*fact, row) == *wanted,
        }
    }

    /// The field it asks for; none asks everywhere.
    pub fn field(&self) -> Option<&'static str> {
        Some(fields::of(match self {
            Self::Anywhere(_) => return None,
            Self::Text(which, _) => Value::Text(*which),
            Self::Kind(_) => Value::Kind,
            Self::State(_) => Value::State,
            Self::Ip(_) => Value::Ip,
            Self::Number(number, _) => Value::Number(*number),
            Self::Is(fact, _) => Value::Fact(*fact),
        }))
    }
}

impl fmt::Display for Test {
    /// The value alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anywhere(pattern) | Self::Text(_, pattern) => pattern.fmt(f),
            Self::Kind(kind) => kind.fmt(f),
            Self::State(state) => state.fmt(f),
            Self::Ip(net) => net.fmt(f),
            Self::Number(number, span) => f.write_str(&span.print(|n| print_number(*number, n))),
            Self::Is(_, true) => f.write_str("yes"),
            Self::Is(_, false) => f.write_str("no"),
        }
    }
}

/// One number of this kind.
pub(super) fn read_number(number: Number, text: &str) -> Result<u64, String> {
    match number {
        Number::Cpus => text
            .parse()
            .map_err(|_| format!("{text:?} is not a number")),
        Number::Memory | Number::Disk => text.parse::<Bytes>().map(|b| b.0).map_err(|e| e.message),
        Number::Age | Number::Uptime => parse_duration(text)
            .map(|d| d.as_secs())
            .map_err(|e| e.message),
    }
}

/// One number of this kind, as it is typed.
pub(super) fn print_number(number: Number, n: u64) -> String {
    match number {
        Number::Cpus => n.to_string(),
        Number::Memory | Number::Disk => Bytes(n).exact(),
        Number::Age | Number::Uptime => print_duration(Duration::from_secs(n)),
    }
}

/// Nobody asks for exactly seven days: a time alone means at least that.
fn at_least(number: Number, text: &str, span: Span) -> Span {
    match number {
        Number::Age | Number::Uptime if !text.contains("..") => Span { to: None, ..span },
        _ => span,
    }
}

fn value_of(number: Number, row: &Instance, cx: FilterCx) -> Option<u64> {
    match number {
        Number::Cpus => row.cpus.map(u64::from),
        Number::Memory => row.memory_bytes.map(|b| b.0),
        Number::Disk => row.disk_bytes.map(|b| b.0),
        Number::Age => {
            let age = cx.now.duration_since(row.created_at?).as_secs();
            u64::try_from(age).ok()
        }
        Number::Uptime => row.uptime_seconds,
    }
}

pub(super) fn is(fact: Fact, row: &Instance) -> bool {
    match fact {
        Fact::Agent => row.agent == Some(true),
        Fact::Locked => row.locked.is_some(),
        Fact::Problem => has_problem(row),
        Fact::Template => row.template,
        Fact::Protected => row.protected,
        Fact::Autostart => row.autostart == Some(true),
        Fact::Stale => row.stale,
    }
}
