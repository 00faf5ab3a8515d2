//! Protection of single instances, kept by corral, by incarnation.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::fleet::EVERYTHING;
use crate::link::files::{lock_beside, write_atomically};
use crate::model::{Error, Instance, Result};

/// Which instances are protected.
pub struct Protection {
    file: Option<PathBuf>,
    entries: Mutex<BTreeMap<String, String>>,
    /// Why the file could not be read. What it protects is not known then.
    fault: Option<Error>,
}

#[derive(Serialize, Deserialize, Default)]
struct File {
    format: u32,
    #[serde(default)]
    protected: BTreeMap<String, String>,
}

const FORMAT: u32 = 1;

impl Protection {
    /// Reads what is stored. While a file that is there cannot be read, everything counts as protected.
    pub fn open(state: Option<PathBuf>) -> Self {
        let file = state.map(|dir| dir.join("protect.toml"));
        let there = file.as_ref().filter(|path| path.symlink_metadata().is_ok());
        let (entries, fault) = match there.map(|path| read(path)).transpose() {
            Ok(entries) => (entries.unwrap_or_default(), None),
            Err(error) => (File::default(), Some(error)),
        };
        Self {
            file,
            entries: Mutex::new(entries.protected),
            fault,
        }
    }

    /// Why it is not known what is protected.
    pub fn fault(&self) -> Option<&Error> {
        self.fault.as_ref()
    }

    /// The identities that are protected.
    pub fn identities(&self) -> HashSet<String> {
        if self.fault.is_some() {
            return HashSet::from([EVERYTHING.to_owned()]);
        }
        self.lock().keys().cloned().collect()
    }

    /// Whether corral protects this one.
    pub fn holds(&self, instance: &Instance) -> bool {
        self.fault.is_some() || self.lock().contains_key(&instance.identity())
    }

    /// Protects or releases an instance. Other corrals' entries are kept.
    pub fn set(&self, instance: &Instance, on: bool) -> Result<()> {
        let mut entries = self.lock();
        let mut all = entries.clone();
        if let Some(path) = &self.file {
            let _guard = lock_beside(path)?;
            if path.exists() {
                all = read(path)?.protected;
            }
            if on {
                all.insert(instance.identity(), instance.id.to_string());
            } else {
                all.remove(&instance.identity());
            }
            let text = toml::to_string(&File {
                format: FORMAT,
                protected: all.clone(),
            })
            .map_err(|e| Error::backend("protect.toml cannot be written").because(e))?;
            write_atomically(path, text.as_bytes())?;
        } else if on {
            all.insert(instance.identity(), instance.id.to_string());
        } else {
            all.remove(&instance.identity());
        }
        *entries = all;
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.entries
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn read(path: &std::path::Path) -> Result<File> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        Error::backend(format!("{} cannot be read: {e}", path.display())).because(e)
    })?;
    let file: File = toml::from_str(&text).map_err(|e| {
        Error::invalid(format!("{} is damaged: {}", path.display(), e.message()))
            .remedy("Mend or remove it: it lists the protected instances, and until then all count as protected")
    })?;
    if file.format > FORMAT {
        return Err(
            Error::refused(format!("{} was written by a newer corral", path.display()))
                .remedy("Use the newer corral; until then all instances count as protected"),
        );
    }
    Ok(file)
}
