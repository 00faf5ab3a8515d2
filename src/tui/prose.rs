//! Text that is read: its lines, how they stand on a screen of some width, and where something is said in it.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation as _;

use super::text::wrap;
use super::theme::Role;
use crate::model::shown;

/// A line of a text, before it is broken.
pub type Line = (String, Role);

/// A line as it stands on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The text.
    pub text: String,
    /// What it is.
    pub role: Role,
    /// The line of the text that it is, or is a part of.
    pub of: usize,
}

/// Every line in full: what is longer than `width` goes on below, set in as it was.
pub fn laid(lines: &[Line], width: usize) -> Vec<Shown> {
    let mut out = Vec::new();
    for (of, (text, role)) in lines.iter().enumerate() {
        let indent = text.len() - text.trim_start_matches(' ').len();
        let indent = indent.min(width / 2);
        let room = width.saturating_sub(indent).max(4);
        out.extend(
            wrap(text.trim_start_matches(' '), room)
                .into_iter()
                .map(|part| Shown {
                    text: format!("{}{part}", " ".repeat(indent)),
                    role: *role,
                    of,
                }),
        );
    }
    out
}

/// Lines that are as wide as they are.
pub fn as_it_is(lines: Vec<Line>) -> Vec<Shown> {
    let shown = |(of, (text, role))| Shown { text, role, of };
    lines.into_iter().enumerate().map(shown).collect()
}

/// Where `wanted` stands in a text, not one inside another. Lower case finds both cases.
pub fn find(text: &str, wanted: &str) -> Vec<Range<usize>> {
    let exact = wanted.chars().any(char::is_uppercase);
    let same = |a: &str, b: &str| {
        a == b || (!exact && a.chars().flat_map(char::to_lowercase).eq(b.chars()))
    };
    let wanted: Vec<&str> = wanted.graphemes(true).collect();
    let clusters: Vec<(usize, &str)> = text.grapheme_indices(true).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while !wanted.is_empty() && at + wanted.len() <= clusters.len() {
        let here = &clusters[at..at + wanted.len()];
        if here.iter().zip(&wanted).all(|((_, a), b)| same(a, b)) {
            let end = clusters.get(at + wanted.len());
            found.push(here[0].0..end.map_or(text.len(), |(n, _)| *n));
            at += wanted.len();
        } else {
            at += 1;
        }
    }
    found
}

/// The line on the screen in which each hit begins. Where a line was broken hides none.
pub fn hits(lines: &[Line], laid: &[Shown], wanted: &str) -> Vec<usize> {
    let wanted = shown(wanted);
    let solid = |text: &str| text.chars().filter(|c| *c != ' ').count();
    let mut out = Vec::new();
    let mut first = 0;
    for (of, (text, _)) in lines.iter().enumerate() {
        while laid.get(first).is_some_and(|line| line.of < of) {
            first += 1;
        }
        let text = shown(text);
        for hit in find(&text, &wanted) {
            // Breaking a line takes and gives nothing but spaces.
            let before = solid(&text[..hit.start]);
            let mut passed = 0;
            let parts = laid.iter().enumerate().skip(first);
            let parts = parts.take_while(|(_, line)| line.of == of);
            let place = parts.into_iter().find(|(_, line)| {
                passed += solid(&line.text);
                passed > before
            });
            out.extend(place.map(|(n, _)| n));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_found_wherever_its_line_is_broken() {
        let lines = [
            ("  one two three two".to_owned(), Role::Text),
            ("TWO".to_owned(), Role::Text),
        ];
        let laid = laid(&lines, 9);
        let texts: Vec<&str> = laid.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["  one two", "  three", "  two", "TWO"]);
        assert_eq!(hits(&lines, &laid, "two"), [0, 2, 3]);
        assert_eq!(hits(&lines, &laid, "TWO"), [3], "upper case is meant");
        assert_eq!(hits(&lines, &laid, "two three"), [0], "over the break");
        assert_eq!(hits(&lines, &laid, ""), [0; 0]);
    }

    #[test]
    fn places_are_those_of_whole_characters() {
        assert_eq!(find("Straße é x", "é").first(), Some(&(8..10)));
        assert_eq!(find("aaaa", "aa"), [0..2, 2..4]);
    }
}
