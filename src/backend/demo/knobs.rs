//! What can be set on the simulated fleet, from code or as text: `--demo=large,down=pve`.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;

use super::fleet::{EXPIRED, SILENT, context_names};
use crate::model::{Error, Result, parse_duration};

/// How many instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DemoSize {
    /// One context per kind and two that do not answer; about 60 instances.
    #[default]
    Small,
    /// 10 000 instances in 12 contexts.
    Large,
}

/// Where the time comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The machine's clock.
    #[default]
    System,
    /// Always this moment: the same answers in every run.
    Fixed(Timestamp),
}

impl Clock {
    /// Now.
    pub fn now(self) -> Timestamp {
        match self {
            Self::System => Timestamp::now(),
            Self::Fixed(at) => at,
        }
    }
}

/// How the simulated fleet behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Knobs {
    /// Contexts that never answer.
    pub down: Vec<String>,
    /// Contexts that refuse the connection at once.
    pub refused: Vec<String>,
    /// Contexts whose login has expired.
    pub expired: Vec<String>,
    /// Contexts that answer after all: those of the small fleet that usually do not.
    pub up: Vec<String>,
    /// Delay of every call.
    pub latency: Duration,
    /// Delay of every call to one context, instead of `latency`.
    pub slow: Vec<(String, Duration)>,
    /// The same seed gives the same fleet.
    pub seed: u64,
    /// How long changes take, in percent: 100 is as in life, 0 is at once.
    pub pace: u32,
    /// Share of reads that fail, 0 to 1.
    pub read_failures: f64,
    /// Share of changes that fail, 0 to 1.
    pub change_failures: f64,
    /// Contexts in which states flicker by themselves, so many times a second.
    pub flicker: Vec<(String, u32)>,
    /// Where the time comes from.
    pub clock: Clock,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            down: Vec::new(),
            refused: Vec::new(),
            expired: Vec::new(),
            up: Vec::new(),
            latency: Duration::from_millis(3),
            slow: Vec::new(),
            seed: 1,
            pace: 100,
            read_failures: 0.0,
            change_failures: 0.0,
            flicker: Vec::new(),
            clock: Clock::System,
        }
    }
}

impl Knobs {
    /// For tests: everything answers, at once.
    pub fn instant() -> Self {
        Self {
            up: [SILENT, EXPIRED].map(str::to_owned).to_vec(),
            latency: Duration::ZERO,
            pace: 0,
            ..Self::default()
        }
    }

    /// Changes of state a second in `context`.
    pub(crate) fn flicker_of(&self, context: &str) -> u32 {
        let mut all = self.flicker.iter().rev();
        all.find(|(name, _)| name == context)
            .map_or(0, |(_, rate)| *rate)
    }

    /// The delay of a call to `context`.
    pub(crate) fn latency_of(&self, context: &str) -> Duration {
        self.slow
            .iter()
            .rev()
            .find(|(name, _)| name == context)
            .map_or(self.latency, |(_, delay)| *delay)
    }
}

/// What `--demo[=TEXT]` says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DemoOptions {
    /// How many instances.
    pub size: DemoSize,
    /// How they behave.
    pub knobs: Knobs,
}

/// What can follow `--demo=`, by word: an example and what it does.
pub const KEYS: &[(&str, &str)] = &[
    ("down", "down=CONTEXT: never answers"),
    ("refused", "refused=CONTEXT: refuses the connection at once"),
    ("expired", "expired=CONTEXT: its login has expired"),
    ("up", "up=CONTEXT: answers although it usually does not"),
    ("latency", "latency=50ms: delay of every call"),
    ("slow", "slow=CONTEXT:2s: delay of one context's calls"),
    ("seed", "seed=NUMBER: another fleet"),
    ("pace", "pace=50: changes take half as long; 0: no time"),
    (
        "read-failures",
        "read-failures=10%: share of reads that fail",
    ),
    (
        "change-failures",
        "change-failures=10%: share of changes that fail",
    ),
    (
        "flicker",
        "flicker=CONTEXT:1000: so many changes of state a second by themselves",
    ),
    ("clock", "clock=2026-03-01T09:00:00Z: time stands still"),
];

/// Reads `small` or `large` and `KEY=VALUE`, separated by commas; several contexts with `+`.
///
/// # Errors
/// `Invalid` with what would be right.
pub fn parse(text: &str) -> Result<(DemoSize, Knobs)> {
    let options: DemoOptions = text.parse()?;
    Ok((options.size, options.knobs))
}

impl FromStr for DemoOptions {
    type Err = Error;

    /// Reads `small` or `large` and `KEY=VALUE`, separated by commas; a key may come again.
    fn from_str(text: &str) -> Result<Self> {
        let mut options = Self::default();
        let words = || text.split(',').map(str::trim).filter(|w| !w.is_empty());
        // The size comes first, so that names of contexts can be checked whatever the order.
        for word in words() {
            match word {
                "small" => options.size = DemoSize::Small,
                "large" => options.size = DemoSize::Large,
                _ => {}
            }
        }
        for word in words().filter(|w| !matches!(*w, "small" | "large")) {
            options.set(word)?;
        }
        Ok(options)
    }
}

impl DemoOptions {
    fn set(&mut self, word: &str) -> Result<()> {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        if !KEYS.iter().any(|(name, _)| *name == key) {
            return Err(unknown(key));
        }
        if value.is_empty() {
            return Err(bad(key, value));
        }
        let size = self.size;
        let context = |name: &str| known_context(size, name);
        let contexts = |names: &str| names.split('+').map(context).collect::<Result<Vec<_>>>();
        let knobs = &mut self.knobs;
        match key {
            "down" => knobs.down.extend(contexts(value)?),
            "refused" => knobs.refused.extend(contexts(value)?),
            "expired" => knobs.expired.extend(contexts(value)?),
            "up" => knobs.up.extend(contexts(value)?),
            "latency" => knobs.latency = span(key, value)?,
            "slow" => {
                let (name, delay) = value.rsplit_once(':').ok_or_else(|| bad(key, value))?;
                knobs.slow.push((context(name)?, span(key, delay)?));
            }
            "seed" => knobs.seed = value.parse().map_err(|_| bad(key, value))?,
            "pace" => {
                knobs.pace = value
                    .parse()
                    .ok()
                    .filter(|pace| *pace <= 10_000)
                    .ok_or_else(|| bad(key, value))?;
            }
            "flicker" => {
                let (name, rate) = value.rsplit_once(':').ok_or_else(|| bad(key, value))?;
                let rate = rate.parse().map_err(|_| bad(key, value))?;
                knobs.flicker.push((context(name)?, rate));
            }
            "read-failures" => knobs.read_failures = share(key, value)?,
            "change-failures" => knobs.change_failures = share(key, value)?,
            _ => knobs.clock = Clock::Fixed(value.parse().map_err(|_| bad(key, value))?),
        }
        Ok(())
    }
}

fn known_context(size: DemoSize, name: &str) -> Result<String> {
    let names = context_names(size);
    if names.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(Error::invalid(format!("the demo has no context {name:?}"))
        .remedy(format!("It has: {}", names.join(" "))))
}

fn unknown(key: &str) -> Error {
    let nearest = KEYS
        .iter()
        .map(|(name, help)| (strsim::damerau_levenshtein(name, key), help))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= 2);
    let error = Error::invalid(format!("--demo does not know {key:?}"));
    match nearest {
        Some((_, help)) => error.remedy(format!("Meant: {help}")),
        None => error.remedy(format!(
            "It knows: small large {}",
            KEYS.iter()
                .map(|(name, _)| *name)
                .collect::<Vec<_>>()
                .join(" ")
        )),
    }
}

fn bad(key: &str, value: &str) -> Error {
    let help = KEYS
        .iter()
        .find(|(name, _)| *name == key)
        .map_or("", |(_, help)| help);
    Error::invalid(format!("--demo: {value:?} is no value for {key}"))
        .remedy(format!("Write it like {help}"))
}

fn span(key: &str, value: &str) -> Result<Duration> {
    parse_duration(value).map_err(|_| bad(key, value))
}

fn share(key: &str, value: &str) -> Result<f64> {
    let (number, scale) = match value.strip_suffix('%') {
        Some(percent) => (percent, 0.01),
        None => (value, 1.0),
    };
    number
        .parse::<f64>()
        .ok()
        .map(|number| number * scale)
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| bad(key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<DemoOptions> {
        text.parse()
    }

    #[test]
    fn gives_size_and_knobs() {
        let (size, knobs) = parse("large,down=pve+hv1").unwrap();
        assert_eq!((size, knobs.down.len()), (DemoSize::Large, 2));
    }

    #[test]
    fn reads_sizes_and_knobs_in_any_order() {
        assert_eq!(read("").unwrap(), DemoOptions::default());
        let options = read("down=pve, latency=50ms,large,down=lab,seed=9,pace=0").unwrap();
        assert_eq!(options.size, DemoSize::Large);
        assert_eq!(options.knobs.down, ["pve", "lab"]);
        assert_eq!(options.knobs.latency, Duration::from_millis(50));
        assert_eq!(options.knobs.seed, 9);
        assert_eq!(options.knobs.pace, 0);
        let options =
            read("up=hv2+vc-old,slow=pve:2s,read-failures=10%,change-failures=0.5").unwrap();
        assert_eq!(options.knobs.up, ["hv2", "vc-old"]);
        assert_eq!(options.knobs.latency_of("pve"), Duration::from_secs(2));
        assert_eq!(options.knobs.latency_of("lab"), options.knobs.latency);
        assert!((options.knobs.read_failures - 0.1).abs() < 1e-9);
        let options = read("clock=2026-03-01T09:00:00Z").unwrap();
        assert_eq!(
            options.knobs.clock.now().to_string(),
            "2026-03-01T09:00:00Z"
        );
    }

    #[test]
    fn says_what_is_wrong_and_what_would_be_right() {
        for (text, part) in [
            ("huge", "It knows"),
            ("dwn=pve", "down=CONTEXT"),
            ("down=nosuch", "It has: local"),
            ("down", "down=CONTEXT"),
            ("latency=soon", "latency=50ms"),
            ("slow=pve", "slow=CONTEXT:2s"),
            ("seed=-1", "seed=NUMBER"),
            ("pace=fast", "pace=50"),
            ("pace=-1", "pace=50"),
            ("read-failures=200%", "read-failures=10%"),
            ("clock=noon", "clock=2026"),
            ("up", "up=CONTEXT"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.kind, crate::model::ErrorKind::Invalid, "{text}");
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }
}
