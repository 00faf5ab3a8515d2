//! Paths as people type them, and the texts in them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::model::{Bytes, Error, Result, shown};

/// Longest text that is taken from a file; a device that never ends is none.
const LONGEST: u64 = 1 << 20;

/// `~` and `~/…` below the user's home; a shell is not always there to do it. What ends in a slash still does.
pub(super) fn at_home(home: &Path, typed: impl AsRef<Path>) -> PathBuf {
    let typed = typed.as_ref();
    match typed.as_os_str().as_bytes() {
        b"~" => home.to_owned(),
        bytes => match bytes.strip_prefix(b"~/") {
            Some(rest) => home.join(OsStr::from_bytes(rest)),
            None => typed.to_owned(),
        },
    }
}

/// A path as a backend must have it: absolute, `~` filled in.
pub(super) fn absolute(home: &Path, typed: &str) -> PathBuf {
    let path = at_home(home, typed);
    std::path::absolute(&path).unwrap_or(path)
}

/// The same as a text.
pub(super) fn absolute_text(home: &Path, typed: &str) -> String {
    absolute(home, typed).to_string_lossy().into_owned()
}

/// The text in a file.
///
/// # Errors
/// `Invalid` for what cannot be read, is too long or no text.
pub(super) fn read_text(file: &Path) -> Result<String> {
    let name = shown(&file.to_string_lossy()).into_owned();
    let unreadable = |error: std::io::Error| {
        Error::invalid(format!("{name} cannot be read: {error}")).because(error)
    };
    text_of(File::open(file).map_err(unreadable)?, &name)
}

/// What can be read, as a text. `name` is what people call it.
///
/// # Errors
/// `Invalid` as with [`read_text`].
pub fn text_of(from: impl Read, name: &str) -> Result<String> {
    let mut text = String::new();
    from.take(LONGEST + 1)
        .read_to_string(&mut text)
        .map_err(|error| {
            Error::invalid(format!("{name} cannot be read: {error}")).because(error)
        })?;
    if text.len() as u64 > LONGEST {
        return Err(Error::invalid(format!("{name} is too long"))
            .remedy(format!("Name a text of at most {}", Bytes(LONGEST))));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_is_filled_in_and_nothing_else() {
        let home = Path::new("/home/me");
        for (typed, meant) in [
            ("~", "/home/me"),
            ("~/x", "/home/me/x"),
            ("~/dir/", "/home/me/dir/"),
            ("/~/x", "/~/x"),
            ("~you/x", "~you/x"),
            ("a/~", "a/~"),
            ("", ""),
        ] {
            // As texts: paths are equal with and without a slash at their end.
            assert_eq!(at_home(home, typed).as_os_str(), meant, "{typed}");
        }
        assert_eq!(absolute_text(home, "~/x"), "/home/me/x");
        let here = std::env::current_dir().unwrap();
        assert_eq!(absolute(home, "~you/x"), here.join("~you/x"));
    }

    #[test]
    fn a_text_ends() {
        let long = vec![b'x'; 1 << 20];
        assert!(text_of(long.as_slice(), "it").is_ok());
        let error = text_of(std::io::repeat(b'x'), "it").unwrap_err();
        assert!(error.to_string().contains("it is too long"), "{error}");
        assert!(text_of(&b"\xff"[..], "it").is_err());
    }
}
