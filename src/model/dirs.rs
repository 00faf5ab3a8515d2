//! Where things are on disk.

use std::path::{Path, PathBuf};

/// The five roots. Only `main` makes them from the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirs {
    /// `~/.config/corral`.
    pub config: PathBuf,
    /// `~/.local/share/corral`.
    pub data: PathBuf,
    /// `~/.local/state/corral`.
    pub state: PathBuf,
    /// `~/.cache/corral`.
    pub cache: PathBuf,
}

impl Dirs {
    /// All four below one folder, for tests.
    pub fn under(root: &Path) -> Self {
        Self {
            config: root.join("config"),
            data: root.join("data"),
            state: root.join("state"),
            cache: root.join("cache"),
        }
    }
}
