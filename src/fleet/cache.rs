//! The last inventory of each context on disk, so that the first frame has rows.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::learnt::Learnt;
use crate::link::files::write_unsynced;
use crate::model::{ContextSpec, Host, Instance, InstanceId, Result, encode_segment};

/// Raised when a row's meaning changes; a cache of another format is ignored.
const FORMAT: u32 = 2;

/// What is kept of a context.
#[derive(Serialize, Deserialize)]
pub(super) struct Cached<Row = Instance> {
    pub(super) observed_at: Timestamp,
    pub(super) hosts: Vec<Host>,
    pub(super) learnt: HashMap<InstanceId, Learnt>,
    pub(super) instances: Vec<Row>,
}

#[derive(Serialize, Deserialize)]
struct File<T> {
    format: u32,
    fingerprint: String,
    #[serde(flatten)]
    kept: T,
}

/// A row that a view shares.
pub(super) struct Shared(pub(super) Arc<Instance>);

impl Serialize for Shared {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Read before anything else: a file of another format may look different in all the rest.
#[derive(Deserialize)]
struct Head {
    format: u32,
    fingerprint: String,
}

fn path(dir: &Path, spec: &ContextSpec) -> PathBuf {
    dir.join("inventory")
        .join(format!("{}.json", encode_segment(&spec.name)))
}

/// Endpoint and principal: another server or user under the same name shares nothing.
pub(super) fn fingerprint(spec: &ContextSpec) -> String {
    let mut fields: Vec<String> = spec
        .fields
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    fields.sort();
    let text = format!("{}\n{}", spec.kind, fields.join("\n"));
    Sha256::digest(text.as_bytes())
        .iter()
        .take(16)
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// What is kept of a context; anything odd counts as nothing.
pub(super) fn load(dir: &Path, spec: &ContextSpec) -> Option<Cached> {
    let bytes = std::fs::read(path(dir, spec)).ok()?;
    let head: Head = serde_json::from_slice(&bytes).ok()?;
    if head.format != FORMAT || head.fingerprint != fingerprint(spec) {
        return None;
    }
    let mut kept = read::<Instance>(&bytes).or_else(|| by_row(&bytes))?;
    let mut seen = HashSet::new();
    kept.instances.retain(|row| {
        row.id.context() == spec.name && row.context == spec.name && seen.insert(row.id.clone())
    });
    kept.learnt.retain(|id, _| seen.contains(id));
    Some(kept)
}

fn read<Row: DeserializeOwned>(bytes: &[u8]) -> Option<Cached<Row>> {
    serde_json::from_slice::<Cached<Row>>(bytes).ok()
}

/// One row that cannot be read does not hide the others.
fn by_row(bytes: &[u8]) -> Option<Cached> {
    let kept = read::<Value>(bytes)?;
    Some(Cached {
        observed_at: kept.observed_at,
        hosts: kept.hosts,
        learnt: kept.learnt,
        instances: kept
            .instances
            .into_iter()
            .filter_map(|row| serde_json::from_value(row).ok())
            .collect(),
    })
}

/// Keeps an answer. A cache that cannot be written is only logged: nothing depends on it.
pub(super) fn save<Row: Serialize>(dir: &Path, spec: &ContextSpec, kept: &Cached<Row>) {
    if let Err(error) = write(dir, spec, kept) {
        tracing::info!(%error, context = %spec.name, "the cache could not be written");
    }
}

fn write<Row: Serialize>(dir: &Path, spec: &ContextSpec, kept: &Cached<Row>) -> Result<()> {
    write_unsynced(&path(dir, spec), |out| {
        serde_json::to_writer(
            out,
            &File {
                format: FORMAT,
                fingerprint: fingerprint(spec),
                kept,
            },
        )?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::model::{InstanceKind, Kind, State};

    fn spec() -> ContextSpec {
        let mut spec = ContextSpec::new("lab", Kind::read("k"));
        spec.fields.insert("url".to_owned(), "https://a".into());
        spec
    }

    fn kept() -> Cached {
        let at = Timestamp::UNIX_EPOCH;
        let row = |name| {
            let id = InstanceId::new("lab", None, name);
            Instance::new(id, Kind::read("k"), InstanceKind::Vm, State::Running, at)
        };
        let learnt = Learnt {
            uid: Some("u".to_owned()),
            ..Learnt::default()
        };
        Cached {
            observed_at: at,
            hosts: Vec::new(),
            learnt: HashMap::from([(row("a").id, learnt)]),
            instances: vec![row("a"), row("b")],
        }
    }

    #[test]
    fn comes_back_private_and_only_for_the_same_endpoint() {
        let dir = tempfile::tempdir().unwrap();
        save(dir.path(), &spec(), &kept());
        let file = path(dir.path(), &spec());
        assert_eq!(
            std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let back = load(dir.path(), &spec()).unwrap();
        assert_eq!(back.instances, kept().instances);
        assert_eq!(back.learnt, kept().learnt);
        let mut other = spec();
        other.fields.insert("url".to_owned(), "https://b".into());
        assert!(load(dir.path(), &other).is_none());
        other = spec();
        other.kind = Kind::read("other");
        assert!(load(dir.path(), &other).is_none());
    }

    #[test]
    fn odd_files_are_ignored_and_an_odd_row_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        save(dir.path(), &spec(), &kept());
        let file = path(dir.path(), &spec());
        let good = std::fs::read_to_string(&file).unwrap();
        let one_bad = good.replacen("\"name\":\"b\"", "\"name\":[7]", 1);
        assert_ne!(one_bad, good);
        std::fs::write(&file, one_bad).unwrap();
        let back = load(dir.path(), &spec()).unwrap();
        assert_eq!(back.instances.len(), 1);
        for odd in [
            "",
            "null",
            "[]",
            "{\"format\":2}",
            &good[..good.len() / 2],
            &good.replacen("\"format\":2", "\"format\":99", 1),
            "\u{0}\u{1}",
        ] {
            std::fs::write(&file, odd).unwrap();
            assert!(load(dir.path(), &spec()).is_none(), "{odd:.40}");
        }
    }
}
