//! Rings of samples and events, and events on disk where the backend keeps none.

mod log;
mod rings;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::{Event, InstanceId, Sample};
use log::Log;
use rings::Rings;

/// Samples kept of an instance: ten minutes at one every five seconds.
const SAMPLES: usize = 120;
/// Samples kept in all: of some 500 instances, as many as the largest screen has rows; about 4 MB.
const ALL_SAMPLES: usize = 60_000;
/// Events kept of an instance.
const EVENTS: usize = 200;
/// Events kept in all, whatever the fleet: about 6 MB. Older ones are on disk, or at their backend.
const ALL_EVENTS: usize = 20_000;

/// Rings of samples and events.
pub struct Recorder {
    log: Option<Log>,
    samples: Mutex<Rings<InstanceId, Sample>>,
    /// By instance; those of a context itself, and the last words of instances that are gone, by none.
    events: Mutex<Rings<(String, Option<InstanceId>), Event>>,
}

impl Recorder {
    pub(super) fn new(state: Option<PathBuf>) -> Self {
        Self {
            log: state.map(|dir| Log::new(dir.join("events"))),
            samples: Mutex::new(Rings::new(SAMPLES, ALL_SAMPLES)),
            events: Mutex::new(Rings::new(EVENTS, ALL_EVENTS)),
        }
    }

    pub(super) fn sampled(&self, samples: Vec<(InstanceId, Sample)>) {
        let mut rings = lock(&self.samples);
        for (id, sample) in samples {
            rings.push(id, sample);
        }
    }

    pub(super) fn samples(&self, id: &InstanceId) -> Vec<Sample> {
        lock(&self.samples).of(id).copied().collect()
    }

    /// A context is gone: what was kept of it in memory goes too.
    pub(super) fn forget(&self, context: &str) {
        lock(&self.samples).retain(|id| id.context() != context);
        lock(&self.events).retain(|(of, _)| of != context);
    }

    /// Instances are gone: their rings go, but for the last word, which says how they went.
    pub(super) fn gone(&self, ids: &[InstanceId]) {
        if ids.is_empty() {
            return;
        }
        let mut samples = lock(&self.samples);
        for id in ids {
            samples.remove(id);
        }
        drop(samples);
        let mut events = lock(&self.events);
        for id in ids {
            let context = id.context().to_owned();
            let ring = events.remove(&(context.clone(), Some(id.clone())));
            if let Some(last) = ring.into_iter().next_back() {
                events.push((context, None), last);
            }
        }
    }

    pub(super) fn event(&self, event: &Event, write: bool) {
        let key = (event.context.clone(), event.instance.clone());
        lock(&self.events).push(key, event.clone());
        if write && let Some(log) = &self.log {
            log.write(event);
        }
    }

    /// Everything that was recorded is on disk.
    pub(super) async fn flush(&self) {
        if let Some(log) = &self.log {
            log.flush().await;
        }
    }

    /// What is kept of an instance or a context, in memory and on disk, oldest first.
    pub(super) async fn events(
        &self,
        id: Option<&InstanceId>,
        context: Option<&str>,
    ) -> Vec<Event> {
        let mut found = self.on_disk(id, context).await;
        let events = lock(&self.events);
        found.extend(events.all().filter(|e| is_wanted(e, id, context)).cloned());
        drop(events);
        found.sort_by_key(|event| event.at);
        found.dedup();
        found
    }

    async fn on_disk(&self, id: Option<&InstanceId>, context: Option<&str>) -> Vec<Event> {
        let (Some(log), Some(name)) = (&self.log, context.or_else(|| id.map(InstanceId::context)))
        else {
            return Vec::new();
        };
        let files = log.files(name);
        let (id, context) = (id.cloned(), context.map(str::to_owned));
        let read =
            tokio::task::spawn_blocking(move || log::read(&files, id.as_ref(), context.as_deref()));
        read.await.unwrap_or_default()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_wanted(event: &Event, id: Option<&InstanceId>, context: Option<&str>) -> bool {
    id.is_none_or(|id| event.instance.as_ref() == Some(id))
        && context.is_none_or(|name| event.context == name)
}

#[cfg(test)]
mod tests;
