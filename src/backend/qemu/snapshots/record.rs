//! `snapshots.toml`: what QEMU does not keep of a snapshot. Names, times and RAM are read from the
//! images; parents, notes and how a snapshot without RAM was taken are only here.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::super::layout::Layout;
use crate::link::files::{fault, write_atomically};
use crate::model::{Consistency, Error, Result, shown};

/// The file's name.
const FILE: &str = "snapshots.toml";

/// The newest format of the file that this corral writes.
const FORMAT: u32 = 1;

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Records {
    /// Format of the file; a newer one than [`FORMAT`] is read and never written.
    #[serde(default)]
    pub format: u32,
    /// The snapshot that the present state descends from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// One for each snapshot that corral took.
    #[serde(default, rename = "snapshot")]
    pub snapshots: Vec<Record>,
}

/// What is known of one snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// What it was taken on top of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// How it was taken, where the image does not say: `offline`, `crash` or `filesystem`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consistency: Option<Consistency>,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// When it may be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The rule that named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The machine that its RAM fits, where it holds any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
}

fn file(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

impl Records {
    /// Reads the file of a VM; one that is not there is empty.
    ///
    /// # Errors
    /// `Invalid` where it cannot be read as what it should be.
    pub fn load(dir: &Path) -> Result<Self> {
        let file = file(dir);
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(fault("read", &file, e)),
        };
        toml::from_str(&text).map_err(|e| {
            Error::invalid(format!("{}: {}", file.display(), shown(e.message().trim())))
                .remedy("Mend or remove that file: it only holds notes and parents.")
        })
    }

    /// Why no snapshot may be taken, restored or deleted, when a newer corral wrote the file.
    pub fn readonly_reason(&self) -> Option<String> {
        (self.format > FORMAT).then(|| {
            format!(
                "its snapshots were noted by a newer corral (format {}, this one knows {FORMAT}): they can be looked at, not changed",
                self.format
            )
        })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// `Refused` over one of a newer corral.
    pub fn save(&self, dir: &Path) -> Result<()> {
        if let Some(why) = self.readonly_reason() {
            return Err(Error::refused(why).remedy("Use the newer corral."));
        }
        let now = Self {
            format: FORMAT,
            ..self.clone()
        };
        let text = toml::to_string_pretty(&now)
            .map_err(|e| Error::backend(format!("{FILE} cannot be written: {e}")))?;
        write_atomically(&file(dir), text.as_bytes())
    }

    /// The record of a snapshot.
    pub fn get(&self, name: &str) -> Option<&Record> {
        self.snapshots.iter().find(|record| record.name == name)
    }

    /// A snapshot was taken now: the present descends from it.
    pub fn took(&mut self, mut record: Record) {
        let name = record.name.clone();
        self.snapshots.retain(|known| known.name != name);
        record.parent = self.current.take().filter(|current| *current != name);
        record.created_at = Some(Timestamp::now());
        self.snapshots.push(record);
        self.current = Some(name);
    }

    /// A snapshot is gone: its children hang on its parent.
    pub fn lost(&mut self, name: &str) {
        let parent = self.get(name).and_then(|record| record.parent.clone());
        self.snapshots.retain(|record| record.name != name);
        for record in &mut self.snapshots {
            if record.parent.as_deref() == Some(name) {
                record.parent.clone_from(&parent);
            }
        }
        if self.current.as_deref() == Some(name) {
            self.current = parent;
        }
    }

    /// Snapshots that were taken on top of this one.
    pub fn children(&self, name: &str) -> Vec<&str> {
        self.snapshots
            .iter()
            .filter(|record| record.parent.as_deref() == Some(name))
            .map(|record| record.name.as_str())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut records = Records::load(dir.path()).unwrap();
        for (name, note) in [("a", None), ("b", Some("note".to_owned())), ("c", None)] {
            records.took(Record {
                name: name.to_owned(),
                consistency: Some(Consistency::Offline),
                note,
                layout: Some(Layout::default()),
                ..Record::default()
            });
        }
        records.save(dir.path()).unwrap();
        let mut records = Records::load(dir.path()).unwrap();
        assert_eq!(records.children("a"), ["b"]);
        records.lost("b");
        assert_eq!(records.children("a"), ["c"]);
        records.lost("c");
        assert_eq!(records.current.as_deref(), Some("a"));
        let newer = format!(
            "format = {}\n[[snapshot]]\nname = \"n\"\nhue = 1\n",
            FORMAT + 1
        );
        std::fs::write(dir.path().join(FILE), &newer).unwrap();
        let records = Records::load(dir.path()).unwrap();
        assert!(records.readonly_reason().is_some() && records.get("n").is_some());
        assert!(records.save(dir.path()).is_err());
        let kept = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert_eq!(kept, newer);
        std::fs::write(dir.path().join(FILE), "snapshot = 3").unwrap();
        assert!(Records::load(dir.path()).is_err());
    }
}
