//! What the file names and nobody can open.

use std::path::Path;

use super::check::cut;
use crate::model::{ConfigProblem, Kind};

/// A context of the file that is left out. It stays a part of the fleet, as one that gives no answer:
/// without it no list is complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropped {
    /// Its name; where it has none, its place in the file, which is a name that no context can have.
    pub name: String,
    /// The backend it asks for, as written.
    pub kind: Kind,
    /// What is wrong, with its place.
    pub why: String,
    /// The line it begins on.
    pub line: usize,
}

impl Dropped {
    pub(super) fn new(
        path: &Path,
        name: Option<&str>,
        backend: Option<&str>,
        fault: &ConfigProblem,
    ) -> Self {
        Self {
            name: name.map_or_else(|| place(path, fault.line), str::to_owned),
            kind: Kind::read(&backend.map_or_else(|| "unknown".to_owned(), cut)),
            why: format!("{}: {}", fault.place(), fault.message),
            line: fault.line,
        }
    }
}

fn place(path: &Path, line: usize) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{}:{line}", cut(&file))
}
