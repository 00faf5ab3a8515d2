//! A line to words and back.

use crate::model::{Error, Result};

/// Splits a line into words the way a shell does for plain words and quotes; nothing is expanded.
pub fn tokenize(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut open = false;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => {
                open = true;
                loop {
                    match chars.next() {
                        None => {
                            return Err(Error::invalid(format!("a {c} is not closed")));
                        }
                        Some('\\') if c == '"' => match chars.next() {
                            Some(next @ ('"' | '\\')) => word.push(next),
                            Some(next) => word.extend(['\\', next]),
                            None => return Err(Error::invalid("a \\ stands at the end")),
                        },
                        Some(next) if next == c => break,
                        Some(next) => word.push(next),
                    }
                }
            }
            '\\' => {
                open = true;
                match chars.next() {
                    Some(next) => word.push(next),
                    None => return Err(Error::invalid("a \\ stands at the end")),
                }
            }
            c if c.is_whitespace() => {
                if open || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                open = false;
            }
            c => word.push(c),
        }
    }
    if open || !word.is_empty() {
        words.push(word);
    }
    Ok(words)
}

/// One word, quoted so that [`tokenize`] and a POSIX shell give it back.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+:,/%@=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
