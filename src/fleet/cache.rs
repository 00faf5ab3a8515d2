//! The last inventory of each context on disk, so that the first frame has rows.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::model::{ContextSpec, Instance, encode_segment};

/// Raised when a row's meaning changes; a cache of another format is ignored.
const FORMAT: u32 = 1;

/// What was kept.
pub struct Cached {
    pub(super) instances: Vec<Instance>,
    pub(super) observed_at: Timestamp,
}

#[derive(Deserialize)]
struct Read {
    format: u32,
    fingerprint: String,
    observed_at: Timestamp,
    instances: Vec<serde_json::Value>,
}

#[derive(Serialize)]
struct Write<'a> {
    format: u32,
    fingerprint: String,
    observed_at: Timestamp,
    instances: Vec<&'a Instance>,
}

fn path(dir: &Path, spec: &ContextSpec) -> PathBuf {
    dir.join("inventory")
        .join(format!("{}.json", encode_segment(&spec.name)))
}

/// Endpoint and principal: another server or user under the same name shares nothing.
fn fingerprint(spec: &ContextSpec) -> String {
    let text = format!(
        "{}\n{}",
        spec.kind,
        serde_json::to_string(&spec.fields).unwrap_or_default()
    );
    Sha256::digest(text.as_bytes())
        .iter()
        .take(16)
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// What is kept of a context; anything odd counts as nothing.
pub(super) fn load(dir: &Path, spec: &ContextSpec) -> Option<Cached> {
    let bytes = std::fs::read(path(dir, spec)).ok()?;
    let read: Read = serde_json::from_slice(&bytes).ok()?;
    if read.format != FORMAT || read.fingerprint != fingerprint(spec) {
        return None;
    }
    let instances = read
        .instances
        .into_iter()
        .filter_map(|value| serde_json::from_value::<Instance>(value).ok())
        .filter(|row| row.id.context() == spec.name)
        .collect();
    Some(Cached {
        instances,
        observed_at: read.observed_at,
    })
}

/// Keeps an answer. A cache that cannot be written is only logged: nothing depends on it.
pub(super) fn save(dir: &Path, spec: &ContextSpec, rows: &[Arc<Instance>], at: Timestamp) {
    let write = Write {
        format: FORMAT,
        fingerprint: fingerprint(spec),
        observed_at: at,
        instances: rows.iter().map(AsRef::as_ref).collect(),
    };
    let path = path(dir, spec);
    let result = (|| -> std::io::Result<()> {
        let parent = path.parent().unwrap_or(dir);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
        let file = tempfile::NamedTempFile::new_in(parent)?;
        serde_json::to_writer(std::io::BufWriter::new(&file), &write)?;
        file.as_file()
            .set_permissions(std::fs::Permissions::from_mode(0o600))?;
        file.persist(&path).map_err(|e| e.error)?;
        Ok(())
    })();
    if let Err(error) = result {
        tracing::info!(%error, context = %spec.name, "the cache could not be written");
    }
}
