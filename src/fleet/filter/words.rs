//! A filter's text as words whose characters know whether they were quoted.

use std::ops::Range;

use super::FilterError;

/// One character, and whether quotes took its meaning away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Char {
    pub c: char,
    pub quoted: bool,
}

impl Char {
    /// It is this character with its meaning.
    pub fn is(self, c: char) -> bool {
        self.c == c && !self.quoted
    }
}

/// One word and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub span: Range<usize>,
    pub chars: Vec<Char>,
}

/// The characters as plain text.
pub(super) fn text(chars: &[Char]) -> String {
    chars.iter().map(|c| c.c).collect()
}

/// Words, separated by blanks. Between `"` and `"` nothing has a meaning but `\"` and `\\`.
pub(super) fn words(line: &str) -> Result<Vec<Word>, FilterError> {
    let mut found = Vec::new();
    let mut word: Option<Word> = None;
    let mut open: Option<usize> = None;
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if open.is_none() && c.is_whitespace() {
            if let Some(mut done) = word.take() {
                done.span.end = at;
                found.push(done);
            }
            continue;
        }
        let word = word.get_or_insert_with(|| Word {
            span: at..line.len(),
            chars: Vec::new(),
        });
        if c == '"' {
            open = if open.is_some() { None } else { Some(at) };
            continue;
        }
        let quoted = open.is_some();
        let c = match c {
            '\\' if quoted => chars
                .next_if(|(_, next)| matches!(next, '"' | '\\'))
                .map_or('\\', |(_, next)| next),
            c => c,
        };
        word.chars.push(Char { c, quoted });
    }
    if let Some(at) = open {
        return Err(FilterError {
            message: "a \" is not closed".to_owned(),
            span: at..line.len(),
        });
    }
    found.extend(word);
    Ok(found)
}

/// A text as one value that is read back as it is, with no meaning in it.
pub(super) fn quote(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "._/@+".contains(c);
    let inner = |c: char| plain(c) || c == '-';
    let begins_plain = text.chars().next().is_some_and(plain);
    if begins_plain && text.chars().all(inner) {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
