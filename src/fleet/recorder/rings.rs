//! Rings by key: so many of each, so many in all.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

struct Ring<T> {
    items: VecDeque<T>,
    /// When something was last put in, as a count of all that ever was.
    last: u64,
}

/// Rings. When all are full, those that nothing was put into for the longest time go.
pub(super) struct Rings<K, T> {
    each: usize,
    all: usize,
    by_key: HashMap<K, Ring<T>>,
    count: usize,
    pushed: u64,
}

impl<K: Hash + Eq + Clone, T> Rings<K, T> {
    pub(super) fn new(each: usize, all: usize) -> Self {
        Self {
            each,
            all,
            by_key: HashMap::new(),
            count: 0,
            pushed: 0,
        }
    }

    pub(super) fn push(&mut self, key: K, item: T) {
        self.pushed += 1;
        let ring = self.by_key.entry(key).or_insert_with(|| Ring {
            items: VecDeque::new(),
            last: 0,
        });
        ring.last = self.pushed;
        if ring.items.len() == self.each {
            ring.items.pop_front();
        } else {
            self.count += 1;
        }
        ring.items.push_back(item);
        if self.count > self.all {
            self.make_room();
        }
    }

    /// A tenth at a time, so that the walk over all rings is rare.
    fn make_room(&mut self) {
        let mut oldest: Vec<(u64, K)> = self
            .by_key
            .iter()
            .map(|(key, ring)| (ring.last, key.clone()))
            .collect();
        oldest.sort_unstable_by_key(|(last, _)| *last);
        for (last, key) in oldest {
            // What was just put in stays, however small the room.
            if self.count <= self.all - self.all / 10 || last == self.pushed {
                return;
            }
            self.remove(&key);
        }
    }

    pub(super) fn of(&self, key: &K) -> impl Iterator<Item = &T> {
        self.by_key
            .get(key)
            .into_iter()
            .flat_map(|ring| &ring.items)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.by_key.values().flat_map(|ring| &ring.items)
    }

    pub(super) fn remove(&mut self, key: &K) -> VecDeque<T> {
        let items = self.by_key.remove(key).map(|ring| ring.items);
        let items = items.unwrap_or_default();
        self.count -= items.len();
        items
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        self.by_key.retain(|key, _| keep(key));
        self.count = self.by_key.values().map(|ring| ring.items.len()).sum();
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        (self.by_key.len(), self.count)
    }
}
