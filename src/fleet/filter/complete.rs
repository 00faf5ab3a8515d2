//! Completion of a filter that is being typed.

use std::borrow::Cow;
use std::collections::HashMap;

use super::fields::{self, FIELDS, Number, Text, Value};
use super::test::{is, print_number};
use super::words::quote;
use crate::fleet::sort::natural;
use crate::model::{Instance, InstanceKind, State, counted};

/// What values are taken from.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a, I> {
    /// Instances.
    pub rows: I,
    /// Names of contexts.
    pub contexts: &'a [String],
}

/// Values that are offered at once: more than these nobody looks through.
const MOST: usize = 100;
const NOBODY: &str = "none now";
const DAY: u64 = 24 * 3600;

/// What the last word of a filter may become.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Where that word begins, in bytes.
    pub from: usize,
    /// The whole word, and what it is: what a field takes, whom a value would find.
    pub words: Vec<(String, String)>,
    /// How many there are besides.
    pub more: usize,
    common: String,
}

impl Completion {
    /// What all of them begin with, those that are not listed as well.
    pub fn common(&self) -> &str {
        &self.common
    }

    /// The whole text with each of them in place of its last word.
    pub fn wholes(self, text: &str) -> Vec<(String, String)> {
        let before = text.get(..self.from).unwrap_or_default().to_owned();
        self.words
            .into_iter()
            .map(|(word, about)| (format!("{before}{word}"), about))
            .collect()
    }
}

/// What all of these begin with.
pub fn common<'a>(mut words: impl Iterator<Item = &'a str>) -> &'a str {
    let Some(first) = words.next() else {
        return "";
    };
    words.fold(first, |common, word| {
        let same = common.char_indices().zip(word.chars());
        let last = same.take_while(|((_, a), b)| a == b).last();
        &common[..last.map_or(0, |((at, c), _)| at + c.len_utf8())]
    })
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
        let words: Vec<(String, String)> = names
            .filter(|_| !quoted)
            .map(|field| (format!("{lead}{}:", field.name), field.takes.to_owned()))
            .collect();
        return Completion {
            from,
            more: 0,
            common: common(words.iter().map(|(word, _)| word.as_str())).to_owned(),
            words,
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
    let mut values = values(field.value, known);
    values.retain(|value| value.begins(&begin));
    let shared = common(values.iter().map(|value| value.text.as_ref())).to_owned();
    let more = values.len().saturating_sub(MOST);
    if matches!(field.value, Value::Text(_) | Value::Ip) {
        let order = |a: &Found, b: &Found| natural(&a.text, &b.text);
        // Of thousands of names only the first are wanted in order.
        if more > 0 {
            values.select_nth_unstable_by(MOST, order);
            values.truncate(MOST);
        }
        values.sort_by(order);
    }
    values.truncate(MOST);
    let whole = |value: &str| format!("{lead}{name}:{before}{}", quote_value(field.value, value));
    let words: Vec<(String, String)> = values
        .iter()
        .map(|value| (whole(&value.text), value.says()))
        .collect();
    let common = if more == 0 {
        common(words.iter().map(|(word, _)| word.as_str())).to_owned()
    } else if quote(&shared) == shared {
        whole(&shared)
    } else {
        word.to_owned()
    };
    Completion {
        from,
        words,
        more,
        common,
    }
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

/// A value, and whom it would find.
struct Found<'a> {
    text: Cow<'a, str>,
    count: usize,
    /// One of them.
    one: Option<&'a Instance>,
    /// What is said where it would find none.
    nobody: &'static str,
}

impl Found<'_> {
    fn begins(&self, with: &str) -> bool {
        if self.text.is_ascii() {
            let begin = self.text.as_bytes().get(..with.len());
            return begin.is_some_and(|begin| begin.eq_ignore_ascii_case(with.as_bytes()));
        }
        self.text.to_lowercase().starts_with(with)
    }

    fn says(&self) -> String {
        match (self.count, self.one) {
            (0, _) => self.nobody.to_owned(),
            (1, Some(row)) => row.id.to_string(),
            (n, _) => counted(n, "instance"),
        }
    }
}

/// Each value once, with its count.
fn tally<'a>(
    rows: impl Iterator<Item = &'a Instance>,
    of: impl Fn(&'a Instance) -> Vec<Cow<'a, str>>,
) -> Vec<Found<'a>> {
    let mut all: HashMap<Cow<'a, str>, (usize, &'a Instance)> = HashMap::new();
    for row in rows {
        for text in of(row) {
            all.entry(text).or_insert((0, row)).0 += 1;
        }
    }
    let found = all.into_iter().map(|(text, (count, row))| Found {
        text,
        count,
        one: Some(row),
        nobody: NOBODY,
    });
    found.collect()
}

/// These values in this order, each with its count.
fn listed<'a>(
    texts: impl IntoIterator<Item = String>,
    rows: impl Iterator<Item = &'a Instance>,
    of: impl Fn(&'a Instance) -> &'static str,
) -> Vec<Found<'a>> {
    let mut counts: HashMap<&str, (usize, &'a Instance)> = HashMap::new();
    for row in rows {
        counts.entry(of(row)).or_insert((0, row)).0 += 1;
    }
    let found = texts.into_iter().map(|text| {
        let (count, one) = match counts.get(text.as_str()) {
            Some((count, row)) => (*count, Some(*row)),
            None => (0, None),
        };
        Found {
            text: Cow::Owned(text),
            count,
            one,
            nobody: NOBODY,
        }
    });
    found.collect()
}

fn values<'a>(
    value: Value,
    known: Known<'_, impl Iterator<Item = &'a Instance> + Clone>,
) -> Vec<Found<'a>> {
    let words = |words: &[&str]| -> Vec<String> { words.iter().map(|w| (*w).to_owned()).collect() };
    let rows = known.rows;
    match value {
        Value::State => {
            let all = State::ALL.iter().map(ToString::to_string);
            listed(all, rows, |row| row.state.as_str())
        }
        Value::Kind => listed(words(&["vm", "ct"]), rows, |row| match row.kind {
            InstanceKind::Vm => "vm",
            InstanceKind::Ct => "ct",
        }),
        Value::Fact(fact) => listed(words(&["yes", "no"]), rows, |row| {
            if is(fact, row) { "yes" } else { "no" }
        }),
        Value::Number(number) => numbers(number, rows),
        Value::Ip => tally(rows, |row| {
            let all = row.addresses.iter().flatten();
            all.map(|a| Cow::Borrowed(a.ip.as_str())).collect()
        }),
        Value::Text(Text::Context) => {
            let mut found = tally(rows, |row| vec![Cow::Borrowed(row.context.as_str())]);
            // One without an instance is a context, too.
            for name in known.contexts {
                if found.iter().all(|known| known.text != name.as_str()) {
                    found.push(Found {
                        text: Cow::Owned(name.clone()),
                        count: 0,
                        one: None,
                        nobody: NOBODY,
                    });
                }
            }
            found.retain(|context| known.contexts.iter().any(|name| *name == context.text));
            found
        }
        // A note is not a word that anybody completes.
        Value::Text(Text::Note) => Vec::new(),
        Value::Text(which) => tally(rows, |row| texts(which, row)),
    }
}

fn texts(which: Text, row: &Instance) -> Vec<Cow<'_, str>> {
    let one = |text: Option<&'_ str>| text.map(|t| Cow::Owned(t.to_owned())).into_iter().collect();
    match which {
        Text::Name => vec![Cow::Borrowed(row.name.as_str())],
        Text::Id => vec![Cow::Owned(row.id.to_string())],
        Text::Mac => {
            let all = row.macs.iter().flatten();
            all.map(|mac| Cow::Borrowed(mac.as_str())).collect()
        }
        Text::Host => one(row.host.as_deref()),
        Text::Os => one(row.os.as_deref()),
        Text::Tag => row.tags.iter().map(|t| Cow::Borrowed(t.as_str())).collect(),
        Text::Backend => vec![Cow::Owned(row.backend.to_string())],
        Text::Context | Text::Note => Vec::new(),
    }
}

/// Numbers that there are, and for times such as one asks for.
fn numbers<'a>(number: Number, rows: impl Iterator<Item = &'a Instance>) -> Vec<Found<'a>> {
    let of = |row: &Instance| match number {
        Number::Cpus => row.cpus.map(u64::from),
        Number::Memory => row.memory_bytes.map(|b| b.0),
        _ => row.disk_bytes.map(|b| b.0),
    };
    let usual: &[u64] = match number {
        Number::Age => &[DAY, 7 * DAY, 30 * DAY],
        Number::Uptime => &[DAY / 24, DAY, 7 * DAY],
        _ => &[],
    };
    let mut counts: HashMap<u64, (usize, &'a Instance)> = HashMap::new();
    if usual.is_empty() {
        for row in rows {
            if let Some(n) = of(row) {
                counts.entry(n).or_insert((0, row)).0 += 1;
            }
        }
    }
    let mut all: Vec<u64> = usual.iter().chain(counts.keys()).copied().collect();
    all.sort_unstable();
    let found = all.into_iter().map(|n| Found {
        text: Cow::Owned(print_number(number, n)),
        count: counts.get(&n).map_or(0, |(count, _)| *count),
        one: counts.get(&n).map(|(_, row)| *row),
        nobody: "",
    });
    found.collect()
}
