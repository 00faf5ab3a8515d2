//! Which contexts the fleet has: at the start, and whenever the configuration changes.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::hub::{Fleet, Member, lock};
use super::slot::Slot;
use super::worker::{self, Worker};
use super::{addresses, cache, load};

impl Fleet {
    /// Makes `wanted`, in this order, the contexts of the fleet. One that is there with the same spec goes on as it
    /// is, whatever it is doing; one with another spec, or named in `reopen`, is opened again and shows what was
    /// known until it answers; one that is not wanted any more stops, and its rows go. False when nothing changed.
    ///
    /// Reads caches: in a fleet that runs, not for a thread that answers keys.
    pub fn arrange(self: &Arc<Self>, wanted: Vec<Member>, reopen: &[String]) -> bool {
        let mut last_key = lock(&self.arranging);
        let old = self.workers.load_full();
        let mut next: Vec<Arc<Worker>> = Vec::with_capacity(wanted.len());
        for member in wanted {
            let name = &member.spec.name;
            let before = old.iter().find(|w| w.member.spec.name == *name);
            match before {
                Some(worker) if worker.member.spec == member.spec && !reopen.contains(name) => {
                    next.push(Arc::clone(worker));
                }
                _ => {
                    *last_key += 1;
                    let asked = before.map(|worker| worker.question());
                    let watch = self.options.watch;
                    let worker = Worker::new(*last_key, Arc::new(member), watch, asked);
                    next.push(Arc::new(worker));
                }
            }
        }
        if next.iter().map(|w| w.key).eq(old.iter().map(|w| w.key)) {
            return false;
        }
        let stays = |worker: &Worker| next.iter().any(|w| w.key == worker.key);
        let gone: Vec<Arc<Worker>> = old.iter().filter(|w| !stays(w)).cloned().collect();
        self.stop(&gone);
        self.give_slots(&old, &next);
        let new: Vec<Arc<Worker>> = next
            .iter()
            .filter(|w| old.iter().all(|o| o.key != w.key))
            .cloned()
            .collect();
        let names: Vec<&str> = next.iter().map(|w| w.member.spec.name.as_str()).collect();
        for worker in &gone {
            let name = worker.member.spec.name.as_str();
            if !names.contains(&name) {
                self.recorder.forget(name);
            }
        }
        self.workers.store(Arc::new(next.clone()));
        if self.options.watch {
            let mut tasks = lock(&self.tasks);
            for worker in new {
                tasks.insert(worker.key, self.spawn(&worker));
            }
        }
        self.publish();
        true
    }

    fn stop(&self, gone: &[Arc<Worker>]) {
        for worker in gone {
            self.save(worker);
            let tasks = lock(&self.tasks).remove(&worker.key);
            for task in tasks.into_iter().flatten() {
                task.abort();
            }
            worker.retire();
        }
    }

    /// Each worker gets its slot: its own, that of the one before it, or a new one with what is cached.
    fn give_slots(&self, old: &[Arc<Worker>], next: &[Arc<Worker>]) {
        let heir_of = |worker: &Worker| {
            let spec = &worker.member.spec;
            old.iter()
                .find(|o| o.key == worker.key || o.member.spec.name == spec.name)
                // Another server or another user under the name: nothing that was known holds.
                .filter(|o| cache::fingerprint(&o.member.spec) == cache::fingerprint(spec))
                .map(|o| o.key)
        };
        let heirs: Vec<Option<u64>> = next.iter().map(|worker| heir_of(worker)).collect();
        let without = next.iter().zip(&heirs).filter(|(_, heir)| heir.is_none());
        let mut cached = self.read_caches(without.map(|(worker, _)| worker));
        let mut state = lock(&self.state);
        let (slots, protected) = state.take();
        let mut slots: HashMap<u64, Slot> = slots.into_iter().map(|s| (s.key, s)).collect();
        let mut given = Vec::with_capacity(next.len());
        for (worker, heir) in next.iter().zip(heirs) {
            let spec = &worker.member.spec;
            let slot = match heir.and_then(|key| slots.remove(&key)) {
                Some(slot) if slot.key == worker.key => slot,
                Some(mut slot) => {
                    slot.reopened(worker.key, spec, protected);
                    slot
                }
                None => {
                    let mut slot = Slot::new(worker.key, spec);
                    if let Some(cached) = cached.remove(&worker.key) {
                        slot.load(cached, protected);
                    }
                    slot
                }
            };
            given.push(slot);
        }
        state.put(given);
    }

    /// All at the same time: the first frame waits for the longest only.
    fn read_caches<'a>(
        &self,
        workers: impl Iterator<Item = &'a Arc<Worker>>,
    ) -> HashMap<u64, cache::Cached> {
        let Some(dir) = &self.options.cache else {
            return HashMap::new();
        };
        std::thread::scope(|scope| {
            let read = |worker: &'a Arc<Worker>| {
                let reader = scope.spawn(move || cache::load(dir, &worker.member.spec));
                (worker.key, reader)
            };
            let readers: Vec<_> = workers.map(read).collect();
            readers
                .into_iter()
                .filter_map(|(key, reader)| Some((key, reader.join().ok().flatten()?)))
                .collect()
        })
    }

    fn spawn(self: &Arc<Self>, worker: &Arc<Worker>) -> Vec<JoinHandle<()>> {
        let weak = || Arc::downgrade(self);
        let own = || Arc::clone(worker);
        let mut tasks = vec![
            tokio::spawn(worker::supervise(weak(), own())),
            tokio::spawn(load::sample(weak(), own())),
        ];
        if self.options.addresses {
            tasks.push(tokio::spawn(addresses::keep_looking(weak(), own())));
        }
        tasks
    }
}
