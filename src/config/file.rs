//! Reading the file: who may have written it, whether it is text, where an offset is.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::model::{ConfigProblem, shown};

/// A config is written by hand; a larger file is a mistake (a log, a device, a disk image).
const LARGEST: u64 = 1 << 20;

/// What became of reading the file.
pub(super) enum Content {
    /// There is none: the same as an empty one.
    Missing,
    /// Its text, without a byte-order mark.
    Text(String),
    /// It is there and cannot be used; what it guards is not known.
    Unusable(ConfigProblem),
}

/// Reads `path`. A file that someone else may write is not used: it can name commands to run.
pub(super) fn read(path: &Path) -> Content {
    let bad = |message: String| Content::Unusable(problem(path, (0, 1), message));
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            // A symlink that leads nowhere was put there on purpose.
            if path.symlink_metadata().is_err() {
                return Content::Missing;
            }
            return bad("it is a link to a file that is not there; it is not used".to_owned());
        }
        Err(error) => return bad(format!("it cannot be read: {error}; it is not used")),
    };
    let facts = match file.metadata() {
        Ok(facts) => facts,
        Err(error) => return bad(format!("it cannot be read: {error}; it is not used")),
    };
    if !facts.is_file() {
        return bad("it is not a regular file; it is not used".to_owned());
    }
    let me = rustix::process::geteuid().as_raw();
    if facts.uid() != me && facts.uid() != 0 {
        return bad(format!(
            "it belongs to user {}, not to you (user {me}); it is not used. If it is right: chown {me} {}",
            facts.uid(),
            shown(&path.display().to_string())
        ));
    }
    if facts.mode() & 0o022 != 0 {
        return bad(format!(
            "others may write it (mode {:04o}) and it can name commands to run; it is not used. Mend it: chmod go-w {}",
            facts.mode() & 0o7777,
            shown(&path.display().to_string())
        ));
    }
    let mut bytes = Vec::new();
    if let Err(error) = file.take(LARGEST + 1).read_to_end(&mut bytes) {
        return bad(format!("it cannot be read: {error}; it is not used"));
    }
    if bytes.len() as u64 > LARGEST {
        return bad("it is larger than 1 MiB; it is not used".to_owned());
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    match String::from_utf8(bytes) {
        Ok(text) => Content::Text(text),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let good = String::from_utf8_lossy(&error.as_bytes()[..at]).into_owned();
            Content::Unusable(problem(
                path,
                position(&good, at),
                "it is not UTF-8 text from here on; it is not used".to_owned(),
            ))
        }
    }
}

/// Line and column, both from 1, of a byte offset; columns count characters.
pub fn position(text: &str, offset: usize) -> (usize, usize) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let start = before.rfind('\n').map_or(0, |i| i + 1);
    let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
    (line, before[start..].chars().count() + 1)
}

/// A fault at a byte of a text that stands in a file, or of the whole file.
pub fn fault(path: &Path, text: &str, at: Option<usize>, message: String) -> ConfigProblem {
    let at = at.map_or((0, 1), |at| position(text, at));
    problem(path, at, message)
}

/// A fault at a place in a file.
pub(super) fn problem(path: &Path, at: (usize, usize), message: String) -> ConfigProblem {
    ConfigProblem {
        file: shown(&path.display().to_string()).into_owned(),
        line: at.0,
        column: at.1,
        message,
        warning: false,
    }
}
