//! Protection of single instances, kept by corral, by incarnation.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::link::files::{lock_beside, write_atomically};
use crate::model::{Error, Instance, Result};

/// Which instances are protected.
pub struct Protection {
    file: Option<PathBuf>,
    entries: Mutex<BTreeMap<String, String>>,
}

#[derive(Serialize, Deserialize, Default)]
struct File {
    format: u32,
    #[serde(default)]
    protected: BTreeMap<String, String>,
}

const FORMAT: u32 = 1;

impl Protection {
    /// Reads what is stored; a file that cannot be read protects nothing and is reported by doctor.
    pub fn open(state: Option<PathBuf>) -> Self {
        let file = state.map(|dir| dir.join("protect.toml"));
        let entries = file
            .as_ref()
            .and_then(|path| read(path).ok())
            .unwrap_or_default();
        Self {
            file,
            entries: Mutex::new(entries.protected),
        }
    }

    /// The identities that are protected.
    pub fn identities(&self) -> HashSet<String> {
        self.lock().keys().cloned().collect()
    }

    /// Whether corral protects this one.
    pub fn holds(&self, instance: &Instance) -> bool {
        self.lock().contains_key(&instance.identity())
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
            .remedy("Mend or remove it: it lists the protected instances")
    })?;
    if file.format > FORMAT {
        return Err(Error::refused(format!(
            "{} was written by a newer corral",
            path.display()
        )));
    }
    Ok(file)
}
