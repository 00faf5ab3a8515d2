//! The filter language: `state:running,paused -template cpu:4.. ip:10.0.3.0/24 web`.

use std::net::IpAddr;
use std::ops::Range;

use jiff::Timestamp;

use crate::model::{Bytes, Instance, State, parse_duration};

/// Every field that can be asked for.
pub const FIELDS: &[(&str, &str)] = &[
    ("name", "part of the name"),
    ("id", "part of the ID"),
    (
        "ip",
        "an address, a beginning of one, or a network such as 10.0.3.0/24",
    ),
    ("mac", "part of a MAC address"),
    ("tag", "a tag"),
    ("host", "part of the host's name"),
    ("context", "a context"),
    ("backend", "a kind of backend"),
    ("kind", "vm or ct"),
    ("state", "a state"),
    ("os", "part of the operating system's name"),
    ("cpu", "number of CPUs: 4, 4.., ..8, 2..4"),
    ("mem", "memory: 4G, 4G.., ..8GiB"),
    ("disk", "size of the disks, like mem"),
    ("older", "made longer ago than: 7d"),
    ("up", "running longer than: 2h"),
    ("agent", "yes or no"),
    ("locked", "yes or no"),
    ("problem", "yes or no"),
    ("note", "part of the note"),
    ("template", "yes or no"),
    ("protected", "yes or no"),
    ("autostart", "yes or no"),
    ("stale", "yes or no"),
];

/// Where a filter is wrong, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// What is wrong and what is allowed.
    pub message: String,
    /// Bytes of the text it concerns.
    pub span: Range<usize>,
}

/// What a filter needs besides the row.
#[derive(Clone, Copy, Debug)]
pub struct FilterCx {
    /// The time now.
    pub now: Timestamp,
}

/// A parsed filter: all terms must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq)]
struct Term {
    not: bool,
    any: Vec<Test>,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Anywhere(String),
    Part(Text, String),
    Tag(String),
    Context(String),
    Backend(String),
    Kind(String),
    State(State),
    Ip(Net),
    Count(Range<u64>),
    Size(Size, Range<u64>),
    Older(u64),
    Up(u64),
    Is(Fact, bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Name,
    Id,
    Mac,
    Host,
    Os,
    Note,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Memory,
    Disk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fact {
    Agent,
    Locked,
    Problem,
    Template,
    Protected,
    Autostart,
    Stale,
}

#[derive(Clone, Debug, PartialEq)]
enum Net {
    Prefix(String),
    Network(IpAddr, u8),
}

impl Filter {
    /// Reads a filter.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let mut terms = Vec::new();
        for (span, word) in words(text)? {
            let (not, body) = match word.strip_prefix('-') {
                Some(rest) if !rest.is_empty() => (true, rest),
                _ => (false, word.as_str()),
            };
            let any = match body.split_once(':') {
                Some((field, values)) if is_field(field) => values
                    .split(',')
                    .map(|value| {
                        test(field, value).map_err(|message| FilterError {
                            message,
                            span: span.clone(),
                        })
                    })
                    .collect::<Result<_, _>>()?,
                Some((field, _)) if looks_like_field(field) => {
                    return Err(FilterError {
                        message: unknown_field(field),
                        span,
                    });
                }
                // A bare word that names a fact, negated: `-template`.
                None if not && fact(body).is_some() => {
                    fact(body).map(|f| Test::Is(f, true)).into_iter().collect()
                }
                _ => vec![Test::Anywhere(body.to_lowercase())],
            };
            terms.push(Term { not, any });
        }
        Ok(Self { terms })
    }

    /// Nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether a row is wanted.
    pub fn matches(&self, row: &Instance, cx: FilterCx) -> bool {
        self.terms
            .iter()
            .all(|term| term.any.iter().any(|test| holds(test, row, cx)) != term.not)
    }
}

fn is_field(field: &str) -> bool {
    FIELDS.iter().any(|(name, _)| *name == field)
}

/// `fe80::1` and `52:54:00` are values, `stat:running` is a typing error.
fn looks_like_field(field: &str) -> bool {
    field.len() > 1
        && field.chars().all(|c| c.is_ascii_lowercase())
        && !field.chars().all(|c| c.is_ascii_hexdigit())
}

fn unknown_field(field: &str) -> String {
    let near = FIELDS
        .iter()
        .map(|(name, _)| (strsim::jaro_winkler(field, name), *name))
        .filter(|(score, _)| *score > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((_, name)) = near {
        format!("there is no field {field:?}; did you mean {name}?")
    } else {
        let all: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
        format!("there is no field {field:?}; there are {}", all.join(", "))
    }
}

/// Words with their place; quotes keep spaces.
fn words(text: &str) -> Result<Vec<(Range<usize>, String)>, FilterError> {
    let mut found = Vec::new();
    let mut word = String::new();
    let mut start = None;
    let mut quote: Option<usize> = None;
    for (at, c) in text.char_indices() {
        match c {
            '"' => {
                start.get_or_insert(at);
                quote = if quote.is_some() { None } else { Some(at) };
            }
            c if c.is_whitespace() && quote.is_none() => {
                if let Some(from) = start.take() {
                    found.push((from..at, std::mem::take(&mut word)));
                }
            }
            c => {
                start.get_or_insert(at);
                word.push(c);
            }
        }
    }
    if let Some(at) = quote {
        return Err(FilterError {
            message: "a \" is not closed".to_owned(),
            span: at..text.len(),
        });
    }
    if let Some(from) = start {
        found.push((from..text.len(), word));
    }
    Ok(found)
}

fn test(field: &str, value: &str) -> Result<Test, String> {
    if value.is_empty() {
        return Err(format!("{field}: what?"));
    }
    let lower = value.to_lowercase();
    let part = |text| Ok(Test::Part(text, lower.clone()));
    match field {
        "name" => part(Text::Name),
        "id" => part(Text::Id),
        "mac" => part(Text::Mac),
        "host" => part(Text::Host),
        "os" => part(Text::Os),
        "note" => part(Text::Note),
        "tag" => Ok(Test::Tag(lower)),
        "context" => Ok(Test::Context(lower)),
        "backend" => Ok(Test::Backend(lower)),
        "kind" => match lower.as_str() {
            "vm" | "ct" => Ok(Test::Kind(lower)),
            _ => Err(format!("kind is vm or ct, not {value:?}")),
        },
        "state" => State::from_word(&lower).map(Test::State).ok_or_else(|| {
            let all: Vec<&str> = State::ALL.iter().map(|s| s.as_str()).collect();
            format!("{value:?} is no state; there are {}", all.join(", "))
        }),
        "ip" => net(&lower).map(Test::Ip),
        "cpu" => range(&lower, |n| {
            n.parse::<u64>()
                .map_err(|_| format!("{n:?} is not a number"))
        })
        .map(Test::Count),
        "mem" => size(&lower).map(|r| Test::Size(Size::Memory, r)),
        "disk" => size(&lower).map(|r| Test::Size(Size::Disk, r)),
        "older" => parse_duration(&lower)
            .map(|d| Test::Older(d.as_secs()))
            .map_err(|e| e.message),
        "up" => parse_duration(lower.trim_end_matches(".."))
            .map(|d| Test::Up(d.as_secs()))
            .map_err(|e| e.message),
        _ => {
            let yes = match lower.as_str() {
                "yes" | "true" | "1" => true,
                "no" | "false" | "0" => false,
                _ => return Err(format!("{field} is yes or no, not {value:?}")),
            };
            fact(field)
                .map(|f| Test::Is(f, yes))
                .ok_or_else(|| unknown_field(field))
        }
    }
}

fn fact(word: &str) -> Option<Fact> {
    Some(match word {
        "agent" => Fact::Agent,
        "locked" => Fact::Locked,
        "problem" => Fact::Problem,
        "template" => Fact::Template,
        "protected" => Fact::Protected,
        "autostart" => Fact::Autostart,
        "stale" => Fact::Stale,
        _ => return None,
    })
}

fn size(text: &str) -> Result<Range<u64>, String> {
    range(text, |n| {
        n.parse::<Bytes>().map(|b| b.0).map_err(|e| e.message)
    })
}

/// `4` is exactly four, `4..` at least, `..8` at most, `4..8` both.
fn range(text: &str, read: impl Fn(&str) -> Result<u64, String>) -> Result<Range<u64>, String> {
    let above = |n: u64| n.saturating_add(1);
    match text.split_once("..") {
        None => read(text).map(|n| n..above(n)),
        Some(("", "")) => Err("a range needs a number: 4.. or ..8".to_owned()),
        Some((from, "")) => read(from).map(|n| n..u64::MAX),
        Some(("", to)) => read(to).map(|n| 0..above(n)),
        Some((from, to)) => Ok(read(from)?..above(read(to)?)),
    }
}

fn net(text: &str) -> Result<Net, String> {
    match text.split_once('/') {
        None => Ok(Net::Prefix(text.to_owned())),
        Some((address, bits)) => {
            let address: IpAddr = address
                .parse()
                .map_err(|_| format!("{address:?} is not an address"))?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let bits: u8 = bits
                .parse()
                .ok()
                .filter(|b| *b <= most)
                .ok_or_else(|| format!("/{bits} is not 0 to {most}"))?;
            Ok(Net::Network(address, bits))
        }
    }
}

fn in_network(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    let wide = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, true),
        IpAddr::V6(v6) => (v6.to_bits(), false),
    };
    let ((a, four), (b, other)) = (wide(ip), wide(network));
    four == other && (bits == 0 || (a ^ b) >> (128 - u32::from(bits)) == 0)
}

fn holds(test: &Test, row: &Instance, cx: FilterCx) -> bool {
    let has =
        |text: Option<&str>, part: &str| text.is_some_and(|t| t.to_lowercase().contains(part));
    let ips = || row.addresses.iter().flatten().map(|a| a.ip.as_str());
    let macs = || row.macs.iter().flatten().map(String::as_str);
    match test {
        Test::Anywhere(part) => {
            has(Some(&row.name), part)
                || has(Some(&row.id.to_string()), part)
                || ips().any(|ip| ip.contains(part.as_str()))
                || macs().any(|mac| mac.contains(part.as_str()))
                || row.tags.iter().any(|tag| has(Some(tag), part))
                || has(row.host.as_deref(), part)
                || has(row.note.as_deref(), part)
        }
        Test::Part(Text::Name, part) => has(Some(&row.name), part),
        Test::Part(Text::Id, part) => has(Some(&row.id.to_string()), part),
        Test::Part(Text::Mac, part) => macs().any(|mac| mac.contains(part.as_str())),
        Test::Part(Text::Host, part) => has(row.host.as_deref(), part),
        Test::Part(Text::Os, part) => has(row.os.as_deref(), part),
        Test::Part(Text::Note, part) => has(row.note.as_deref(), part),
        Test::Tag(tag) => row.tags.iter().any(|t| t.to_lowercase() == *tag),
        Test::Context(name) => row.context.to_lowercase() == *name,
        Test::Backend(name) => row.backend.as_str() == name,
        Test::Kind(word) => row.kind.to_string() == *word,
        Test::State(state) => row.state == *state,
        Test::Ip(Net::Prefix(prefix)) => ips().any(|ip| ip.starts_with(prefix.as_str())),
        Test::Ip(Net::Network(network, bits)) => ips()
            .filter_map(|ip| ip.parse().ok())
            .any(|ip| in_network(ip, *network, *bits)),
        Test::Count(range) => row.cpus.is_some_and(|n| range.contains(&u64::from(n))),
        Test::Size(Size::Memory, range) => row.memory_bytes.is_some_and(|b| range.contains(&b.0)),
        Test::Size(Size::Disk, range) => row.disk_bytes.is_some_and(|b| range.contains(&b.0)),
        Test::Older(seconds) => row.created_at.is_some_and(|at| {
            u64::try_from(cx.now.duration_since(at).as_secs()).is_ok_and(|age| age >= *seconds)
        }),
        Test::Up(seconds) => row.uptime_seconds.is_some_and(|up| up >= *seconds),
        Test::Is(fact, wanted) => is(*fact, row) == *wanted,
    }
}

fn is(fact: Fact, row: &Instance) -> bool {
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

/// What is wrong with an instance, in a word or two: crashed, broken, paused by an error, locked,
/// stopped although it is to start with its host, or not fresh.
pub fn problem(row: &Instance) -> Option<&'static str> {
    let by_error = |reason: &str| reason.to_ascii_lowercase().contains("error");
    match row.state {
        State::Crashed => Some("crashed"),
        State::Broken => Some("broken"),
        State::Paused if row.reason.as_deref().is_some_and(by_error) => Some("paused by an error"),
        _ if row.stale => Some("stale"),
        _ if row.locked.is_some() => Some("locked"),
        State::Stopped if row.autostart == Some(true) => Some("stopped, but starts with its host"),
        _ => None,
    }
}

/// Whether [`problem`] finds one.
pub fn has_problem(row: &Instance) -> bool {
    problem(row).is_some()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{Address, InstanceId, InstanceKind, Kind};

    fn row(name: &str) -> Instance {
        let id = InstanceId::new("lab", None, name);
        let mut row = Instance::new(
            id,
            Kind::read("k"),
            InstanceKind::Vm,
            State::Running,
            Timestamp::UNIX_EPOCH,
        );
        row.cpus = Some(4);
        row.memory_bytes = Some(Bytes::gib(8));
        row.tags = vec!["Prod".to_owned()];
        row.addresses = Some(vec![Address {
            ip: "10.0.3.41".to_owned(),
            nic: None,
            source: None,
        }]);
        row
    }

    fn matches(filter: &str, row: &Instance) -> bool {
        Filter::parse(filter).unwrap().matches(
            row,
            FilterCx {
                now: Timestamp::UNIX_EPOCH,
            },
        )
    }

    #[test]
    fn terms_mean_what_they_say() {
        let web = row("web-1");
        for yes in [
            "",
            "web",
            "WEB",
            "state:running,paused",
            "-template",
            "cpu:4..",
            "cpu:..4",
            "cpu:2..4",
            "mem:8G",
            "mem:..8GiB",
            "tag:prod",
            "ip:10.0.3.0/24",
            "ip:10.0.",
            "10.0.3.41",
            "-state:stopped",
            "name:web kind:vm",
            "id:lab/web",
            "-agent:yes",
            "problem:no",
        ] {
            assert!(matches(yes, &web), "{yes}");
        }
        for no in [
            "db",
            "state:stopped",
            "cpu:5..",
            "mem:..4G",
            "tag:pro",
            "ip:10.0.4.0/24",
            "template:yes",
            "-web",
        ] {
            assert!(!matches(no, &web), "{no}");
        }
    }

    #[test]
    fn errors_say_where_and_what_is_allowed() {
        let error = Filter::parse("web stat:running").unwrap_err();
        assert_eq!(error.span, 4..16);
        assert!(error.message.contains("state"), "{}", error.message);
        assert!(
            Filter::parse("state:up")
                .unwrap_err()
                .message
                .contains("running")
        );
        assert!(Filter::parse("name:\"open").is_err());
        assert!(Filter::parse("ip:10.0.0.0/33").is_err());
        assert!(
            Filter::parse("fe80::1").is_ok(),
            "a value that holds a colon is no field"
        );
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*") {
            if let Ok(filter) = Filter::parse(&text) {
                filter.matches(&row("x"), FilterCx { now: Timestamp::UNIX_EPOCH });
            }
        }
    }
}
