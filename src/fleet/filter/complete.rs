//! Completion of a filter that is being typed.

use std::collections::BTreeSet;

use super::fields::{self, FIELDS, Number, Text, Value};
use super::test::print_number;
use super::words::quote;
use crate::fleet::sort::natural;
use crate::model::{Instance, State};

/// What values are taken from.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a, I> {
    /// Instances.
    pub rows: I,
    /// Names of contexts.
    pub contexts: &'a [String],
}

/// What the last word of a filter may become.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Where that word begins, in bytes.
    pub from: usize,
    /// The whole word, and what it is.
    pub words: Vec<(String, String)>,
}

impl Completion {
    /// What all of them begin with.
    pub fn common(&self) -> &str {
        let Some((first, _)) = self.words.first() else {
            return "";
        };
        let mut end = first.len();
        for (word, _) in &self.words {
            let same = first.char_indices().zip(word.chars());
            let differs = same.take_while(|((_, a), b)| a == b).last();
            end = end.min(differs.map_or(0, |((at, c), _)| at + c.len_utf8()));
        }
        &first[..end]
    }
}

/// Completes the word at the end of `text`: a field's name, then its values.
pub fn complete<'a>(
    text: &str,
    known: Known<'_, impl Iterator<Item = &'a Instance> + Clone>,
) -> Completion {
    let (from, quoted) = last_word(text);
    let word = &text[from..];
    let signs = word.len() - word.trim_start_matches(['-', '!']).len();
    let (lead, body) = word.split_at(signs.min(1));
    let Some((name, typed)) = body.split_once(':') else {
        let names = FIELDS.iter().filter(|field| field.name.starts_with(body));
        return Completion {
            from,
            words: names
                .filter(|_| !quoted)
                .map(|field| (format!("{lead}{}:", field.name), field.takes.to_owned()))
                .collect(),
        };
    };
    let Some(field) = fields::named(name) else {
        return Completion::default();
    };
    let (before, last) = match typed.rfind(',') {
        Some(at) if !quoted => typed.split_at(at + 1),
        _ => ("", typed),
    };
    let begin = last.trim_start_matches('"').to_lowercase();
    let words = values(field.value, known)
        .into_iter()
        .filter(|value| value.to_lowercase().starts_with(&begin))
        .map(|value| {
            let word = format!("{lead}{name}:{before}{}", quote_value(field.value, &value));
            (word, String::new())
        })
        .collect();
    Completion { from, words }
}

/// Where the last word begins, and whether a quote is open in it.
fn last_word(text: &str) -> (usize, bool) {
    let (mut from, mut open, mut escaped) = (0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if open => escaped = true,
            '"' => open = !open,
            c if c.is_whitespace() && !open => from = at + c.len_utf8(),
            _ => {}
        }
    }
    (from, open)
}

fn quote_value(value: Value, text: &str) -> String {
    match value {
        Value::Text(_) => quote(text),
        _ => text.to_owned(),
    }
}

fn values<'a>(
    value: Value,
    known: Known<'_, impl Iterator<Item = &'a Instance> + Clone>,
) -> Vec<String> {
    let fixed = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
    let rows = known.rows;
    match value {
        Value::State => State::ALL.iter().map(ToString::to_string).collect(),
        Value::Kind => fixed(&["vm", "ct"]),
        Value::Fact(_) => fixed(&["yes", "no"]),
        Value::Number(Number::Age) => fixed(&["1d", "7d", "30d"]),
        Value::Number(Number::Uptime) => fixed(&["1h", "1d", "7d"]),
        Value::Number(number) => {
            let all: BTreeSet<u64> = rows
                .filter_map(|row| match number {
                    Number::Cpus => row.cpus.map(u64::from),
                    Number::Memory => row.memory_bytes.map(|b| b.0),
                    _ => row.disk_bytes.map(|b| b.0),
                })
                .collect();
            all.into_iter().map(|n| print_number(number, n)).collect()
        }
        Value::Ip => {
            sorted(rows.flat_map(|row| row.addresses.iter().flatten().map(|a| a.ip.clone())))
        }
        Value::Text(Text::Context) => sorted(known.contexts.iter().cloned()),
        // A note is not a word that anybody completes.
        Value::Text(Text::Note) => Vec::new(),
        Value::Text(which) => sorted(rows.flat_map(|row| match which {
            Text::Name => vec![row.name.clone()],
            Text::Id => vec![row.id.to_string()],
            Text::Mac => row.macs.clone().unwrap_or_default(),
            Text::Host => row.host.iter().cloned().collect(),
            Text::Os => row.os.iter().cloned().collect(),
            Text::Tag => row.tags.clone(),
            Text::Backend => vec![row.backend.to_string()],
            Text::Context | Text::Note => Vec::new(),
        })),
    }
}

/// Each once, in the order of people.
fn sorted(all: impl Iterator<Item = String>) -> Vec<String> {
    let once: BTreeSet<String> = all.collect();
    let mut list: Vec<String> = once.into_iter().collect();
    list.sort_by(|a, b| natural(a, b));
    list
}
