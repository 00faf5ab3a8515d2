//! What can be set: `--demo=large,down=pve,latency=50ms`.

use std::time::Duration;

use crate::model::{Error, Result, parse_duration, shown};

/// How many instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DemoSize {
    /// A dozen contexts, some sixty instances.
    #[default]
    Small,
    /// 10 000 instances.
    Large,
}

/// How it behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Knobs {
    /// Contexts that never answer.
    pub down: Vec<String>,
    /// Contexts that refuse at once.
    pub refused: Vec<String>,
    /// Contexts that answer after all: those that are down by default.
    pub up: Vec<String>,
    /// How long each read takes.
    pub latency: Duration,
    /// How long a change takes, in hundredths: 0 is at once, 100 is as in life.
    pub pace: u32,
    /// Chance in a thousand that a read fails.
    pub failures: u32,
    /// Start of the pseudo-random numbers.
    pub seed: u64,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            down: Vec::new(),
            refused: Vec::new(),
            up: Vec::new(),
            latency: Duration::ZERO,
            pace: 100,
            failures: 0,
            seed: 1,
        }
    }
}

impl Knobs {
    /// Everything answers at once, for tests.
    pub fn instant() -> Self {
        Self {
            pace: 0,
            up: vec!["hv2".to_owned(), "vc-old".to_owned()],
            ..Self::default()
        }
    }

    /// A span of a change, scaled by the pace.
    pub fn paced(&self, span: Duration) -> Duration {
        span * self.pace / 100
    }
}

/// Reads the options: words and `KEY=VALUE`, comma-separated; context lists with `+`.
///
/// # Errors
/// `Invalid` with what is allowed.
pub fn parse(text: &str) -> Result<(DemoSize, Knobs)> {
    let mut size = DemoSize::Small;
    let mut knobs = Knobs::default();
    let names = |value: &str| value.split('+').map(str::to_owned).collect::<Vec<_>>();
    for word in text
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        let bad = |why: &str| {
            Error::invalid(format!("--demo: {:?} {why}", shown(word))).remedy(
                "It takes small, large, down=CONTEXT+…, refused=CONTEXT+…, up=CONTEXT+…, latency=50ms, pace=PERCENT, failures=PER_THOUSAND, seed=N",
            )
        };
        let number = |value: &str| value.parse::<u32>().map_err(|_| bad("is not a number"));
        match word.split_once('=') {
            None if word == "small" => size = DemoSize::Small,
            None if word == "large" => size = DemoSize::Large,
            Some(("down", value)) => knobs.down = names(value),
            Some(("refused", value)) => knobs.refused = names(value),
            Some(("up", value)) => knobs.up = names(value),
            Some(("latency", value)) => knobs.latency = parse_duration(value)?,
            Some(("pace", value)) => knobs.pace = number(value)?,
            Some(("failures", value)) => knobs.failures = number(value)?.min(1000),
            Some(("seed", value)) => knobs.seed = u64::from(number(value)?),
            _ => return Err(bad("is no option")),
        }
    }
    Ok((size, knobs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_errors_list_what_is_allowed() {
        let (size, knobs) = parse("large,down=pve+hv1,latency=50ms,pace=0").unwrap();
        assert_eq!(size, DemoSize::Large);
        assert_eq!(knobs.down, ["pve", "hv1"]);
        assert_eq!(knobs.latency, Duration::from_millis(50));
        assert!(parse("huge").unwrap_err().to_string().contains("latency"));
        assert!(parse("pace=fast").is_err());
        assert_eq!(parse("").unwrap().0, DemoSize::Small);
    }
}
