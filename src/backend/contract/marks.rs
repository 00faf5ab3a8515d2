//! Requests that change what is said of an instance.

use crate::model::{Error, Result, shown};

/// Longest tag: what a table still shows.
const TAG: usize = 64;
/// Longest note.
const NOTE: usize = 8 << 10;

/// Request of the tags family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagsRequest {
    /// Tags to add; those it has are no fault.
    pub add: Vec<String>,
    /// Tags to remove; those it lacks are no fault.
    pub remove: Vec<String>,
}

/// Request of the notes family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteRequest {
    /// The new note; `None` removes it.
    pub text: Option<String>,
}

/// Request of the autostart family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutostartRequest {
    /// Start it with its host.
    pub on: bool,
}

/// Request of the native-definition family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditRequest {
    /// The whole new definition.
    pub text: String,
    /// The token of the text that was edited: another text there by now is a conflict.
    pub base: String,
    /// What the text is called in messages: the file it came from.
    pub label: String,
}

/// A tag is one word of a list and of a filter.
///
/// # Errors
/// `Invalid` for what is none.
pub fn check_tag(tag: &str) -> Result<()> {
    let plain = !tag.is_empty()
        && tag.trim() == tag
        && shown(tag) == tag
        && !tag.contains([',', '"', '\\'])
        && tag.chars().count() <= TAG;
    if plain {
        return Ok(());
    }
    Err(
        Error::invalid(format!("\"{}\" cannot be a tag", shown(tag))).remedy(format!(
            "Use letters, digits and signs but , \" and \\, {TAG} at most."
        )),
    )
}

/// A note is text of some length.
///
/// # Errors
/// `Invalid` for what is none.
pub fn check_note(text: &str) -> Result<()> {
    if text.len() > NOTE || text.chars().any(|c| c.is_control() && c != '\n') {
        return Err(Error::invalid(
            "the note is too long, or holds characters that cannot be seen",
        )
        .remedy(format!("Use at most {NOTE} bytes of text.")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_words() {
        for good in ["prod", "web server", "größe", "a:b"] {
            assert!(check_tag(good).is_ok(), "{good}");
        }
        for bad in ["", " a", "a,b", "a\u{1b}[2J", "a\"", &"x".repeat(65)] {
            assert!(check_tag(bad).is_err(), "{bad:?}");
        }
        assert!(check_note("a\nb").is_ok() && check_note("a\u{1b}").is_err());
    }
}
