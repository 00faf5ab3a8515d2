//! One line of text being typed.

use unicode_segmentation::UnicodeSegmentation as _;

use super::input::{Code, Key};

/// A line with a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    text: String,
    at: usize,
}

impl Line {
    /// With a text, the cursor at its end.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            at: text.len(),
        }
    }

    /// What was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What was typed, for good.
    pub fn into_text(self) -> String {
        self.text
    }

    /// The same with every character hidden.
    pub fn masked(line: &Self, dot: &str) -> Self {
        let dots = |text: &str| dot.repeat(text.graphemes(true).count());
        Self {
            at: dots(line.before()).len(),
            text: dots(line.text()),
        }
    }

    /// What stands before the cursor.
    pub fn before(&self) -> &str {
        &self.text[..self.at]
    }

    /// What stands after the cursor.
    pub fn after(&self) -> &str {
        &self.text[self.at..]
    }

    /// Types a text; control characters and line ends become spaces.
    pub fn insert(&mut self, text: &str) {
        let clean: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        self.text.insert_str(self.at, &clean);
        self.at += clean.len();
    }

    /// Puts a text in place of what stands between `from` and the cursor.
    pub fn replace_before(&mut self, from: usize, text: &str) {
        self.text.drain(from..self.at);
        self.at = from;
        self.insert(text);
    }

    /// Takes a key; false if it is none for a line.
    pub fn key(&mut self, key: Key) -> bool {
        match (key.code, key.ctrl) {
            (Code::Char('u'), true) => {
                self.text.drain(..self.at);
                self.at = 0;
            }
            (Code::Char('w'), true) => {
                let kept = self.before().trim_end().rfind(' ').map_or(0, |n| n + 1);
                self.text.drain(kept..self.at);
                self.at = kept;
            }
            (_, true) => return false,
            (Code::Char(c), _) => self.insert(c.encode_utf8(&mut [0; 4])),
            (Code::Backspace, _) => {
                let start = self.previous();
                self.text.drain(start..self.at);
                self.at = start;
            }
            (Code::Delete, _) => {
                let end = self.next();
                self.text.drain(self.at..end);
            }
            (Code::Left, _) => self.at = self.previous(),
            (Code::Right, _) => self.at = self.next(),
            (Code::Home, _) => self.at = 0,
            (Code::End, _) => self.at = self.text.len(),
            _ => return false,
        }
        true
    }

    fn previous(&self) -> usize {
        self.before()
            .grapheme_indices(true)
            .next_back()
            .map_or(0, |(n, _)| n)
    }

    fn next(&self) -> usize {
        let rest = &self.text[self.at..];
        self.at + rest.graphemes(true).next().map_or(0, str::len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn edits_by_grapheme_and_word() {
        let mut line = Line::new("stop wéb");
        line.key(Key::plain(Code::Backspace));
        assert_eq!(line.text(), "stop wé");
        line.key(Key::ctrl('w'));
        assert_eq!(line.text(), "stop ");
        line.insert("a\x1b[2J\nb");
        assert_eq!(line.text(), "stop a [2J b");
        line.key(Key::ctrl('u'));
        assert_eq!(line.text(), "");
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>(), keys in proptest::collection::vec(0usize..8, 0..30)) {
            let all = [
                Key::plain(Code::Left), Key::plain(Code::Right), Key::plain(Code::Backspace), Key::plain(Code::Delete),
                Key::ctrl('u'), Key::ctrl('w'), Key::char('x'), Key::plain(Code::Home),
            ];
            let mut line = Line::new(&text);
            for key in keys {
                line.key(all[key]);
                let _ = line.before();
            }
        }
    }
}
