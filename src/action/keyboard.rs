//! What people call keys, and which keys a text takes on a US keyboard.

use crate::model::{Error, Result, shown};

/// A chord as it is typed, `ctrl-alt-del`, as the keys' full names.
///
/// # Errors
/// `Invalid` for a chord with an empty place, such as `ctrl--`.
pub(super) fn chord(text: &str) -> Result<Vec<String>> {
    if text == "-" {
        return Ok(vec!["minus".to_owned()]);
    }
    let keys: Vec<&str> = text.split(['-', '+']).map(str::trim).collect();
    if keys.iter().any(|key| key.is_empty()) {
        return Err(
            Error::invalid(format!("{:?} names no keys", shown(text))).remedy(
                "Join keys by one -, such as ctrl-alt-delete; the key - itself is called minus",
            ),
        );
    }
    Ok(keys.into_iter().map(full_name).collect())
}

/// The field's full word for what a keycap says.
fn full_name(key: &str) -> String {
    let key = key.to_lowercase();
    let full = match key.as_str() {
        "control" | "strg" => "ctrl",
        "del" => "delete",
        "ins" => "insert",
        "escape" => "esc",
        "enter" | "return" => "ret",
        "space" => "spc",
        "pageup" => "pgup",
        "pagedown" => "pgdn",
        "super" | "win" | "meta" | "cmd" => "meta_l",
        "altgr" => "alt_r",
        "capslock" => "caps_lock",
        "numlock" => "num_lock",
        "scrolllock" => "scroll_lock",
        "bs" => "backspace",
        "break" => "pause",
        _ => return key,
    };
    full.to_owned()
}

/// The chords that type `text`.
///
/// # Errors
/// `Invalid` for a character that is on no key of a US keyboard.
pub(super) fn typed(text: &str) -> Result<Vec<Vec<String>>> {
    text.chars()
        .map(|c| {
            let (key, shift) = key_of(c).ok_or_else(|| {
                Error::invalid(format!(
                    "--text: {:?} is on no key of a US keyboard",
                    shown(&c.to_string())
                ))
                .remedy("Only characters of a US keyboard can be typed")
            })?;
            let mut chord = Vec::new();
            if shift {
                chord.push("shift".to_owned());
            }
            chord.push(key);
            Ok(chord)
        })
        .collect()
}

/// The key of a character, and whether shift is held.
fn key_of(c: char) -> Option<(String, bool)> {
    const NAMED: &[(char, char, &str)] = &[
        ('-', '_', "minus"),
        ('=', '+', "equal"),
        ('[', '{', "bracket_left"),
        (']', '}', "bracket_right"),
        (';', ':', "semicolon"),
        ('\'', '"', "apostrophe"),
        ('`', '~', "grave_accent"),
        ('\\', '|', "backslash"),
        (',', '<', "comma"),
        ('.', '>', "dot"),
        ('/', '?', "slash"),
    ];
    const ABOVE_DIGITS: &str = ")!@#$%^&*(";
    match c {
        'a'..='z' | '0'..='9' => Some((c.to_string(), false)),
        'A'..='Z' => Some((c.to_ascii_lowercase().to_string(), true)),
        ' ' => Some(("spc".to_owned(), false)),
        '\n' => Some(("ret".to_owned(), false)),
        '\t' => Some(("tab".to_owned(), false)),
        _ => ABOVE_DIGITS
            .find(c)
            .map(|digit| (digit.to_string(), true))
            .or_else(|| {
                NAMED.iter().find_map(|(plain, shifted, name)| {
                    let found = *plain == c || *shifted == c;
                    found.then(|| ((*name).to_owned(), *shifted == c))
                })
            }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_printable_ascii_character_has_its_own_chord() {
        let text: String = (' '..='~').collect();
        let mut chords = typed(&text).unwrap();
        assert_eq!(chords.len(), 95);
        assert_eq!(typed("A!").unwrap(), [["shift", "a"], ["shift", "1"]]);
        chords.sort();
        chords.dedup();
        assert_eq!(chords.len(), 95);
        assert!(typed("ü").unwrap_err().message.contains('ü'));
    }

    #[test]
    fn chords_are_split_and_named() {
        assert_eq!(chord("Ctrl-Alt-Del").unwrap(), ["ctrl", "alt", "delete"]);
        assert_eq!(chord("-").unwrap(), ["minus"]);
        assert!(chord("ctrl--").is_err());
    }
}
