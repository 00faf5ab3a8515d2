//! Spans of time: one way to read them, one way to print them.

use std::time::Duration;

use super::error::{Error, Result};

/// As [`parse_duration`], where people type it: a bare number could mean anything.
///
/// # Errors
/// `Invalid` also for a number without a unit.
pub fn typed_duration(text: &str) -> Result<Duration> {
    let number = text.trim();
    if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Error::invalid(format!("{number:?} has no unit"))
            .remedy("Write it like 90s, 5m, 2h or 7d."));
    }
    parse_duration(text)
}

/// `90`, `90s`, `2m`, `4h`, `7d`, `1h30m`.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let bad = || {
        Error::invalid(format!("{text:?} is not a duration"))
            .remedy("Write it like 90s, 5m, 2h or 7d.")
    };
    let trimmed = text.trim();
    if let Ok(seconds) = trimmed.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let mut total = Duration::ZERO;
    let mut rest = trimmed;
    while !rest.is_empty() {
        let split = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let (number, tail) = rest.split_at(split);
        let number: u64 = number.parse().map_err(|_| bad())?;
        let (unit, length) = match tail.as_bytes().first() {
            Some(b'm') if tail.starts_with("ms") => (Duration::from_millis(1), 2),
            Some(b's') => (Duration::from_secs(1), 1),
            Some(b'm') => (Duration::from_secs(60), 1),
            Some(b'h') => (Duration::from_secs(3600), 1),
            Some(b'd') => (Duration::from_secs(86400), 1),
            Some(b'w') => (Duration::from_secs(604_800), 1),
            _ => return Err(bad()),
        };
        let part = if unit == Duration::from_secs(1) {
            Duration::from_secs(number)
        } else {
            let number = u32::try_from(number).map_err(|_| bad())?;
            unit.checked_mul(number).ok_or_else(bad)?
        };
        total = total.checked_add(part).ok_or_else(bad)?;
        rest = &tail[length..];
    }
    if trimmed.is_empty() {
        Err(bad())
    } else {
        Ok(total)
    }
}

/// Exact and readable back: `90s` as `1m30s`, `7d`.
pub fn print_duration(span: Duration) -> String {
    let mut seconds = span.as_secs();
    let millis = span.subsec_millis();
    // More days than are read: any number of seconds is.
    if seconds / 86400 > u64::from(u32::MAX) && millis == 0 {
        return format!("{seconds}s");
    }
    let mut out = String::new();
    for (unit, size) in [("d", 86400), ("h", 3600), ("m", 60), ("s", 1)] {
        if seconds >= size {
            out.push_str(&format!("{}{unit}", seconds / size));
            seconds %= size;
        }
    }
    if millis > 0 {
        out.push_str(&format!("{millis}ms"));
    }
    if out.is_empty() { "0s".to_owned() } else { out }
}

/// One unit, as in UP and SEEN columns: `45s`, `12m`, `3h`, `9d`.
pub fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_and_refuses() {
        assert_eq!(parse_duration("90").unwrap(), Duration::from_secs(90));
        assert_eq!(parse_duration("1h30m").unwrap(), Duration::from_secs(5400));
        assert_eq!(parse_duration("250ms").unwrap(), Duration::from_millis(250));
        for text in ["", "m", "5x", "-5s", "99999999999999d", "5m3"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for text in ["7", " 90 ", "0", ""] {
            let error = typed_duration(text).unwrap_err().to_string();
            assert!(error.contains("Write it like 90s, 5m, 2h or 7d"), "{error}");
        }
        assert_eq!(typed_duration("7d").unwrap(), Duration::from_secs(604_800));
    }

    proptest! {
        #[test]
        fn any_whole_number_of_seconds_round_trips(seconds in any::<u64>()) {
            let span = Duration::from_secs(seconds);
            prop_assert_eq!(parse_duration(&print_duration(span)).unwrap(), span);
            prop_assert_eq!(typed_duration(&print_duration(span)).unwrap(), span);
        }

        #[test]
        fn round_trips(seconds in 0u64..10_000_000, millis in 0u64..1000) {
            let span = Duration::from_millis(seconds * 1000 + millis);
            prop_assert_eq!(parse_duration(&print_duration(span)).unwrap(), span);
            prop_assert_eq!(typed_duration(&print_duration(span)).unwrap(), span);
        }
    }
}
