//! What a filter cannot know: rows that it would perhaps find, if their addresses were known.

use std::net::IpAddr;

use super::fields::Text;
use super::pattern::Pattern;
use super::test::Test;
use super::{Filter, FilterCx};
use crate::model::{Instance, State};

/// What is asked for and not known of every row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// IP addresses.
    Addresses,
    /// MAC addresses.
    Macs,
}

impl Asked {
    /// In a sentence.
    pub fn word(self) -> &'static str {
        match self {
            Self::Addresses => "addresses",
            Self::Macs => "MAC addresses",
        }
    }

    fn is_unknown_of(self, row: &Instance) -> bool {
        match self {
            Self::Macs => row.macs.is_none(),
            // What is off has none; nobody has to know them.
            Self::Addresses => {
                let off = matches!(
                    row.last_state.unwrap_or(row.state),
                    State::Stopped | State::Hibernated | State::Crashed | State::Provisioning
                );
                row.addresses.is_none() && !off && !row.template
            }
        }
    }
}

/// What a test needs to be known. A bare word is one when it looks like an address.
fn asked(test: &Test) -> Option<Asked> {
    match test {
        Test::Ip(_) => Some(Asked::Addresses),
        Test::Text(Text::Mac, _) => Some(Asked::Macs),
        Test::Anywhere(Pattern::Text(word)) => looks_like(word),
        _ => None,
    }
}

fn looks_like(word: &str) -> Option<Asked> {
    let hex = |part: &str| part.len() == 2 && part.chars().all(|c| c.is_ascii_hexdigit());
    if word.matches(':').count() >= 2 && word.split(':').all(hex) {
        return Some(Asked::Macs);
    }
    let dotted = word.matches('.').count() >= 2
        && word.chars().all(|c| c.is_ascii_digit() || c == '.')
        && word.starts_with(|c: char| c.is_ascii_digit());
    (dotted || word.parse::<IpAddr>().is_ok()).then_some(Asked::Addresses)
}

impl Filter {
    /// Addresses are asked for, which are not known of every instance.
    pub fn asks(&self) -> Option<Asked> {
        let wanted = self.terms.iter().filter(|term| !term.not);
        wanted.flat_map(|term| &term.any).find_map(asked)
    }

    /// It would perhaps match, if its addresses were known.
    pub fn might_match(&self, row: &Instance, cx: FilterCx) -> bool {
        let mut open = false;
        let all = self.terms.iter().all(|term| {
            if term.any.iter().any(|test| test.holds(row, cx)) != term.not {
                return true;
            }
            let unknown = |test| asked(test).is_some_and(|asked| asked.is_unknown_of(row));
            let is_open = !term.not && term.any.iter().any(unknown);
            open |= is_open;
            is_open
        });
        all && open
    }
}
