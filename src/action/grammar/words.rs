//! A line to words and back.

use crate::model::{Error, Result};

/// A word of a line, and where it stands in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Its first byte, a quote included.
    pub from: usize,
    /// Where it has ended.
    pub to: usize,
    /// The word itself.
    pub text: String,
}

/// Splits a line into words the way a shell does for plain words and quotes; nothing is expanded.
pub fn tokenize(line: &str) -> Result<Vec<String>> {
    let (words, fault) = scan(line);
    match fault {
        Some(fault) => Err(fault),
        None => Ok(words.into_iter().map(|word| word.text).collect()),
    }
}

/// The same for a line that is being typed: with their places, the last as far as it goes, and what is not
/// closed yet.
pub fn scan(line: &str) -> (Vec<Word>, Option<Error>) {
    let mut words = Vec::new();
    let mut word = String::new();
    // Where the word began, quotes included.
    let mut open: Option<usize> = None;
    let mut fault = None;
    let mut chars = line.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' | '"' => {
                open.get_or_insert(at);
                fault = quoted(c, &mut chars, &mut word);
            }
            '\\' => {
                open.get_or_insert(at);
                match chars.next() {
                    Some((_, next)) => word.push(next),
                    None => fault = Some(Error::invalid("a \\ stands at the end")),
                }
            }
            c if c.is_whitespace() => {
                if let Some(from) = open.take() {
                    let text = std::mem::take(&mut word);
                    words.push(Word { from, to: at, text });
                }
            }
            c => {
                open.get_or_insert(at);
                word.push(c);
            }
        }
    }
    if let Some(from) = open {
        words.push(Word {
            from,
            to: line.len(),
            text: word,
        });
    }
    (words, fault)
}

/// What stands until the quote is closed, and what is wrong if it is not.
fn quoted(
    quote: char,
    chars: &mut impl Iterator<Item = (usize, char)>,
    word: &mut String,
) -> Option<Error> {
    loop {
        match chars.next().map(|(_, c)| c) {
            None => return Some(Error::invalid(format!("a {quote} is not closed"))),
            Some('\\') if quote == '"' => match chars.next().map(|(_, c)| c) {
                Some(next @ ('"' | '\\')) => word.push(next),
                Some(next) => word.extend(['\\', next]),
                None => return Some(Error::invalid("a \\ stands at the end")),
            },
            Some(next) if next == quote => return None,
            Some(next) => word.push(next),
        }
    }
}

/// One word, quoted so that [`tokenize`] and a POSIX shell give it back.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+:,/%@=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
