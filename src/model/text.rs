//! Text from outside is data: control characters are shown, never sent to a terminal.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The same text with every control, bidirectional-override and zero-width-format character
/// made visible (`\x1b`, `\u{202e}`). One line: tabs and newlines are shown too.
pub fn shown(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| !is_hidden(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c if is_hidden(c) && (c as u32) < 0x100 => {
                out.push_str(&format!("\\x{:02x}", c as u32));
            }
            c if is_hidden(c) => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Columns that [`shown`] text takes, by grapheme: a cluster is as wide as its widest character.
pub fn shown_width(text: &str) -> usize {
    text.graphemes(true)
        .map(|cluster| {
            if cluster.len() == 1 {
                return 1;
            }
            cluster
                .chars()
                .filter_map(char::width)
                .max()
                .unwrap_or(0)
                .max(cluster.width().min(2))
        })
        .sum()
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2028}' | '\u{2029}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A number of things: `1 instance`, `2 instances`. For words that take a plain `s`.
pub fn counted(count: usize, word: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {word}{s}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn req_20_control_characters_are_shown() {
        assert_eq!(shown("a\x1b[2Jb\u{9b}31m"), "a\\x1b[2Jb\\x9b31m");
        assert_eq!(shown("x\u{202e}y"), "x\\u{202e}y");
        assert_eq!(shown("plain ü 漢"), "plain ü 漢");
    }

    proptest! {
        #[test]
        fn req_20_nothing_shown_is_a_control(text in any::<String>()) {
            prop_assert!(!shown(&text).chars().any(char::is_control));
        }
    }
}
