//! What a text is compared with: a part of it, the whole of it, or a glob.

use std::fmt;

use super::super::glob::wild;
use super::words::{Char, quote, text};

/// A text to look for; case does not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// These characters, in lower case.
    Text(String),
    /// A glob over the whole text, in lower case; what is not quoted is `*` or `?` with its meaning.
    Glob(Vec<Char>),
}

impl Pattern {
    /// Reads a value. `*` and `?` outside of quotes make it a glob.
    pub fn read(chars: &[Char]) -> Self {
        if chars.iter().any(|c| c.is('*') || c.is('?')) {
            let lowered = chars.iter().flat_map(|c| {
                let quoted = c.quoted || !matches!(c.c, '*' | '?');
                c.c.to_lowercase().map(move |c| Char { c, quoted })
            });
            return Self::Glob(lowered.collect());
        }
        Self::Text(lower(&text(chars)))
    }

    /// It is part of `hay`, or a glob over all of it.
    pub fn is_in(&self, hay: &str) -> bool {
        match self {
            Self::Text(part) if hay.is_ascii() => contains(hay, part),
            Self::Text(part) => lower(hay).contains(part.as_str()),
            Self::Glob(glob) => matches(glob, hay),
        }
    }

    /// It is `hay`, or a glob over it.
    pub fn is(&self, hay: &str) -> bool {
        match self {
            Self::Text(whole) if hay.is_ascii() => hay.eq_ignore_ascii_case(whole),
            Self::Text(whole) => lower(hay) == *whole,
            Self::Glob(glob) => matches(glob, hay),
        }
    }

    /// `hay` begins with it, or it is a glob over it.
    pub fn begins(&self, hay: &str) -> bool {
        match self {
            Self::Text(begin) => lower(hay).starts_with(begin.as_str()),
            Self::Glob(glob) => matches(glob, hay),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(part) => f.write_str(&quote(part)),
            Self::Glob(glob) => {
                for run in glob.chunk_by(|a, b| a.quoted && b.quoted) {
                    match run {
                        [one] if !one.quoted => write!(f, "{}", one.c)?,
                        run => f.write_str(&quote(&text(run)))?,
                    }
                }
                Ok(())
            }
        }
    }
}

/// Character by character, so that no character depends on its neighbours.
fn lower(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Without a copy: most names are ASCII, and a filter runs over all of them for every key.
fn contains(hay: &str, part: &str) -> bool {
    part.is_empty()
        || hay
            .as_bytes()
            .windows(part.len())
            .any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

fn matches(glob: &[Char], hay: &str) -> bool {
    let hay: Vec<char> = lower(hay).chars().collect();
    let star = |c: &Char| c.is('*');
    wild(glob, &hay, star, |c, other| c.is('?') || c.c == *other)
}
