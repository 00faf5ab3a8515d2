//! A text being typed: one line, or several where they are wanted.

use unicode_segmentation::UnicodeSegmentation as _;

use super::input::{Code, Key};

/// Most bytes of a line.
const LINE: usize = 4096;
/// Most bytes of a text of several lines.
const AREA: usize = 65_536;

/// A line with a cursor; as an area it holds several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    text: String,
    at: usize,
    area: bool,
}

impl Line {
    /// With a text, the cursor at its end.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            at: text.len(),
            area: false,
        }
    }

    /// Of several lines, none yet.
    pub fn area() -> Self {
        Self {
            area: true,
            ..Self::default()
        }
    }

    /// It may have several lines.
    pub fn is_area(&self) -> bool {
        self.area
    }

    /// Another text, the cursor at its end.
    pub fn set(&mut self, text: &str) {
        text.clone_into(&mut self.text);
        self.at = text.len();
    }

    /// The lines of an area, and which of them has the cursor.
    pub fn rows(&self) -> (Vec<&str>, usize) {
        let at = self.before().matches('\n').count();
        (self.text.split('\n').collect(), at)
    }

    /// The line with the cursor, for itself.
    #[must_use]
    pub fn row(&self) -> Self {
        let (from, to) = self.row_ends();
        Self {
            text: self.text[from..to].to_owned(),
            at: self.at - from,
            area: false,
        }
    }

    fn row_ends(&self) -> (usize, usize) {
        let from = self.before().rfind('\n').map_or(0, |n| n + 1);
        let to = self
            .after()
            .find('\n')
            .map_or(self.text.len(), |n| self.at + n);
        (from, to)
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
            area: false,
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

    /// Types a text; control characters become spaces, and line ends too where there is one line.
    pub fn insert(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let clean: String = text
            .chars()
            .map(|c| match c {
                '\n' if self.area => c,
                c if c.is_control() => ' ',
                c => c,
            })
            .collect();
        self.text.insert_str(self.at, &clean);
        self.at += clean.len();
    }

    /// Most bytes that are taken from a paste: each key after it looks at all of them.
    pub fn room(&self) -> usize {
        let most = if self.area { AREA } else { LINE };
        most.saturating_sub(self.text.len())
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
                let (from, _) = self.row_ends();
                self.text.drain(from..self.at);
                self.at = from;
            }
            (Code::Char('w'), true) => {
                let (from, _) = self.row_ends();
                let row = &self.text[from..self.at];
                let kept = from + row.trim_end().rfind(' ').map_or(0, |n| n + 1);
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
            (Code::Home, _) => self.at = self.row_ends().0,
            (Code::End, _) => self.at = self.row_ends().1,
            (Code::Enter, _) if self.area => self.insert("\n"),
            (Code::Up, _) if self.area => return self.go(false),
            (Code::Down, _) if self.area => return self.go(true),
            _ => return false,
        }
        true
    }

    /// A line up or down, as far to the right; false where there is none.
    fn go(&mut self, down: bool) -> bool {
        let (from, to) = self.row_ends();
        let column = self.text[from..self.at].graphemes(true).count();
        let next = if down {
            (to < self.text.len()).then_some(to + 1)
        } else {
            let before = from.checked_sub(1);
            before.map(|end| self.text[..end].rfind('\n').map_or(0, |n| n + 1))
        };
        let Some(next) = next else {
            return false;
        };
        let row = self.text[next..].split('\n').next().unwrap_or_default();
        let wide: usize = row.graphemes(true).take(column).map(str::len).sum();
        self.at = next + wide;
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

    #[test]
    fn an_area_has_lines_and_a_line_has_none() {
        let mut area = Line::area();
        area.insert("first\r\nsecond\n");
        for c in "end".chars() {
            area.key(Key::char(c));
        }
        assert_eq!(area.text(), "first\nsecond\nend");
        assert!(area.key(Key::plain(Code::Up)));
        assert_eq!(area.before(), "first\nsec");
        assert!(area.key(Key::plain(Code::Home)));
        assert!(area.key(Key::plain(Code::Up)));
        assert!(!area.key(Key::plain(Code::Up)), "there is no line above");
        area.key(Key::plain(Code::End));
        area.key(Key::plain(Code::Enter));
        assert_eq!(area.text(), "first\n\nsecond\nend");
        assert_eq!(area.rows().1, 1);
        area.key(Key::plain(Code::Down));
        area.key(Key::plain(Code::End));
        area.key(Key::ctrl('w'));
        assert_eq!(area.text(), "first\n\n\nend");
        assert_eq!(area.row().text(), "");
        let mut line = Line::default();
        line.insert("a\nb");
        assert!(!line.key(Key::plain(Code::Enter)));
        assert_eq!(line.text(), "a b");
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>(), keys in proptest::collection::vec(0usize..11, 0..30), several in any::<bool>()) {
            let all = [
                Key::plain(Code::Left), Key::plain(Code::Right), Key::plain(Code::Backspace), Key::plain(Code::Delete),
                Key::ctrl('u'), Key::ctrl('w'), Key::char('x'), Key::plain(Code::Home),
                Key::plain(Code::Up), Key::plain(Code::Down), Key::plain(Code::Enter),
            ];
            let mut line = if several { Line::area() } else { Line::default() };
            line.insert(&text);
            let _ = (line.rows(), line.row());
            for key in keys {
                line.key(all[key]);
                let _ = line.before();
            }
        }
    }
}
