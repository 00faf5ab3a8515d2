//! Whether the clock of this machine can be right: ages, certificates and the history hang on it.

use jiff::Timestamp;

use crate::model::{Check, age};

/// This source is of 2026: a clock before that is wrong, whatever it says.
const NOT_BEFORE: &str = "2026-01-01T00:00:00Z";
/// No corral is so old; a battery that gave up shows dates like these.
const NOT_AFTER: &str = "2100-01-01T00:00:00Z";
/// Clocks of two programs, and a file that was written by another machine, may differ so much.
const SLACK: i64 = 120;

/// Compares the clock with what was written down: `noted` are times and what they are of.
pub fn check(now: Timestamp, noted: &[(Timestamp, &str)]) -> Check {
    let bound = |text: &str| text.parse::<Timestamp>().ok();
    let remedy = "Set it: timedatectl set-ntp true (or chronyc makestep)";
    if bound(NOT_BEFORE).is_some_and(|least| now < least)
        || bound(NOT_AFTER).is_some_and(|most| now > most)
    {
        let message = format!("the clock of this machine says {now:.0}, which cannot be");
        return Check::fail("corral.clock", message).remedy(remedy);
    }
    let latest = noted.iter().max_by_key(|(at, _)| *at);
    if let Some((at, what)) = latest {
        let ahead = at.duration_since(now).as_secs();
        if ahead > SLACK {
            let ahead = age(u64::try_from(ahead).unwrap_or(0));
            let message = format!(
                "the clock of this machine went back: {what} is from {ahead} in the future"
            );
            return Check::warn("corral.clock", message).remedy(remedy);
        }
    }
    Check::ok(
        "corral.clock",
        "the clock agrees with what was written down",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CheckStatus;

    #[test]
    fn a_clock_that_cannot_be_right_is_told() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let noted = [(at("2026-11-30T06:00:00Z"), "the last history entry")];
        assert_eq!(
            check(at("2026-11-30T06:00:01Z"), &noted).status,
            CheckStatus::Ok
        );
        assert_eq!(
            check(at("2026-11-30T05:59:00Z"), &noted).status,
            CheckStatus::Ok
        );
        let back = check(at("2026-11-30T03:00:00Z"), &noted);
        assert_eq!(back.status, CheckStatus::Warn);
        assert!(
            back.message.contains("the last history entry is from 3h"),
            "{back:?}"
        );
        for now in ["1970-01-02T00:00:00Z", "2106-02-07T00:00:00Z"] {
            let wrong = check(at(now), &[]);
            assert_eq!(wrong.status, CheckStatus::Fail, "{now}");
            assert!(wrong.remedy.is_some());
        }
    }
}
