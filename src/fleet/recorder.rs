//! Rings of samples and events, and events on disk where the backend keeps none.

use std::collections::{HashMap, VecDeque};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::{Event, InstanceId, Sample, encode_segment};

/// Samples kept of an instance: ten minutes at one every five seconds.
const SAMPLES: usize = 120;
/// Events kept of an instance.
const EVENTS: usize = 200;
/// An event file is put aside when it has grown to this.
const ROTATE: u64 = 4 << 20;

/// Rings of samples and events.
pub struct Recorder {
    dir: Option<PathBuf>,
    samples: Mutex<HashMap<InstanceId, VecDeque<Sample>>>,
    events: Mutex<HashMap<String, VecDeque<Event>>>,
}

impl Recorder {
    pub(super) fn new(state: Option<PathBuf>) -> Self {
        Self {
            dir: state.map(|dir| dir.join("events")),
            samples: Mutex::new(HashMap::new()),
            events: Mutex::new(HashMap::new()),
        }
    }

    pub(super) fn sampled(&self, samples: Vec<(InstanceId, Sample)>) {
        let mut rings = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, sample) in samples {
            let ring = rings.entry(id).or_default();
            if ring.len() == SAMPLES {
                ring.pop_front();
            }
            ring.push_back(sample);
        }
    }

    pub(super) fn samples(&self, id: &InstanceId) -> Vec<Sample> {
        let rings = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        rings
            .get(id)
            .map_or_else(Vec::new, |ring| ring.iter().copied().collect())
    }

    /// A context is gone: what was kept of it in memory goes too.
    pub(super) fn forget(&self, context: &str) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.retain(|id, _| id.context() != context);
        drop(samples);
        self.rings()
            .retain(|_, ring| ring.front().is_some_and(|event| event.context != context));
    }

    fn rings(&self) -> MutexGuard<'_, HashMap<String, VecDeque<Event>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn event(&self, event: &Event, write: bool) {
        let key = event
            .instance
            .as_ref()
            .map_or_else(|| event.context.clone(), ToString::to_string);
        let mut rings = self.rings();
        let ring = rings.entry(key).or_default();
        if ring.len() == EVENTS {
            ring.pop_front();
        }
        ring.push_back(event.clone());
        drop(rings);
        if write && let Err(error) = self.append(event) {
            tracing::warn!(%error, "an event could not be recorded");
        }
    }

    fn append(&self, event: &Event) -> std::io::Result<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)?;
        let path = dir.join(format!("{}.jsonl", encode_segment(&event.context)));
        if std::fs::metadata(&path).is_ok_and(|m| m.len() > ROTATE) {
            std::fs::rename(&path, path.with_extension("jsonl.1"))?;
        }
        let mut line = serde_json::to_string(event)?;
        line.push('\n');
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(line.as_bytes())
    }

    pub(super) fn events(&self, id: Option<&InstanceId>, context: Option<&str>) -> Vec<Event> {
        let mut found: Vec<Event> = self.on_disk(id, context);
        let rings = self.rings();
        for ring in rings.values() {
            found.extend(
                ring.iter()
                    .filter(|event| wanted(event, id, context))
                    .cloned(),
            );
        }
        drop(rings);
        found.sort_by_key(|a| a.at);
        found.dedup();
        found
    }

    fn on_disk(&self, id: Option<&InstanceId>, context: Option<&str>) -> Vec<Event> {
        let (Some(dir), Some(name)) = (&self.dir, context.or_else(|| id.map(InstanceId::context)))
        else {
            return Vec::new();
        };
        let path = dir.join(format!("{}.jsonl", encode_segment(name)));
        // Torn lines are skipped: the others still count.
        std::fs::read(path).map_or_else(
            |_| Vec::new(),
            |bytes| {
                bytes
                    .split(|b| *b == b'\n')
                    .filter_map(|line| serde_json::from_slice::<Event>(line).ok())
                    .filter(|event| wanted(event, id, context))
                    .collect()
            },
        )
    }
}

fn wanted(event: &Event, id: Option<&InstanceId>, context: Option<&str>) -> bool {
    id.is_none_or(|id| event.instance.as_ref() == Some(id))
        && context.is_none_or(|name| event.context == name)
}
