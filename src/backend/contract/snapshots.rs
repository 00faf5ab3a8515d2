//! Requests of the snapshot family.

use jiff::Timestamp;

use crate::model::Consistency;

/// Requests of the snapshot family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotRequest {
    /// Take one.
    Create(TakeSnapshot),
    /// Go back to one.
    Restore {
        /// Its name.
        name: String,
        /// Stop a running instance first.
        stop: bool,
        /// Start it afterwards.
        start: bool,
        /// Take a snapshot of the present first, with this name; where that is taken, with the
        /// next free one like it ([`free_name`]).
        keep_present: Option<String>,
    },
    /// Delete some. A missing one is success, unchanged.
    Delete {
        /// Their names.
        names: Vec<String>,
    },
}

/// A snapshot to be taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakeSnapshot {
    /// Its name. [`NUMBER`] in it stands for the next number, where `policy` is set.
    pub name: String,
    /// Free text.
    pub note: Option<String>,
    /// With RAM.
    pub memory: bool,
    /// Freeze the guest's file systems meanwhile, where its agent can.
    pub quiesce: bool,
    /// Not taken unless it is at least this.
    pub require: Option<Consistency>,
    /// When it may be removed.
    pub expires_at: Option<Timestamp>,
    /// The rule that names it, for one that is taken again and again: kept with it.
    pub policy: Option<String>,
    /// Of those with the same policy, so many stay; the oldest go once this one is taken.
    pub keep: Option<usize>,
}

/// In a name that a rule makes: one more than the highest so far.
pub const NUMBER: &str = "{n}";

impl TakeSnapshot {
    /// What its plan says of its end.
    pub fn ending(&self, now: Timestamp) -> Option<String> {
        self.expires_at.map(|end| {
            if end > now {
                format!("Expires at {end:.0}: corral gc removes it then")
            } else {
                format!("Expired at {end:.0} already: the next corral gc removes it")
            }
        })
    }

    /// One of this name, with nothing special.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Its name among those that are there.
    pub fn name_among<'a>(&self, there: impl IntoIterator<Item = &'a str>) -> String {
        let Some((before, after)) = self
            .name
            .split_once(NUMBER)
            .filter(|_| self.policy.is_some())
        else {
            return self.name.clone();
        };
        let highest = there
            .into_iter()
            .filter_map(|name| name.strip_prefix(before)?.strip_suffix(after)?.parse().ok())
            .fold(0, u64::max);
        format!("{before}{}{after}", highest.saturating_add(1))
    }

    /// Its name among those that are there, each with the rule that made it: another rule's may look like one of
    /// this and are not counted, but keep their names.
    pub fn name_after<'a>(
        &self,
        there: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    ) -> String {
        let there: Vec<_> = there.into_iter().collect();
        let own = there
            .iter()
            .filter(|(_, policy)| *policy == self.policy.as_deref());
        let mut counted: Vec<String> = own.map(|(name, _)| (*name).to_owned()).collect();
        loop {
            let name = self.name_among(counted.iter().map(String::as_str));
            if counted.contains(&name) || there.iter().all(|(other, _)| *other != name) {
                return name;
            }
            counted.push(name);
        }
    }
}

/// `wanted`, or where that is taken `wanted-2` and so on.
pub fn free_name<'a>(wanted: &str, there: impl IntoIterator<Item = &'a str>) -> String {
    let there: Vec<&str> = there.into_iter().collect();
    let mut name = wanted.to_owned();
    let mut n = 1_usize;
    while there.contains(&name.as_str()) {
        n += 1;
        name = format!("{wanted}-{n}");
    }
    name
}

/// Whether a snapshot that is `got` satisfies one who asked for `wanted`.
pub fn satisfies(got: Consistency, wanted: Consistency) -> bool {
    match wanted {
        Consistency::Crash => true,
        Consistency::Filesystem => got != Consistency::Crash,
        Consistency::Offline | Consistency::Memory => got == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_and_names_stay_apart() {
        let mut take = TakeSnapshot::named("n-{n}-x");
        assert_eq!(take.name_among([]), "n-{n}-x", "only a rule counts");
        take.policy = Some("n-{n}-x".to_owned());
        assert_eq!(take.name_among([]), "n-1-x");
        assert_eq!(
            take.name_among(["n-9-x", "n-10-x", "n-ü-x", "n-", "m-99-x"]),
            "n-11-x"
        );
        let mut take = TakeSnapshot::named("q-{n}");
        take.policy = Some("{instance}-{n}".to_owned());
        let (own, other) = (Some("{instance}-{n}"), Some("{instance}-{date}"));
        let there = [("q-20271120", other), ("q-3", own), ("q-4", None)];
        assert_eq!(take.name_after(there), "q-5");
        assert_eq!(take.name_after([there[0]]), "q-1");
        assert_eq!(TakeSnapshot::named("a").name_after([("a", None)]), "a");
        assert_eq!(free_name("a", ["b"]), "a");
        assert_eq!(free_name("a", ["a", "a-2"]), "a-3");
    }

    #[test]
    fn what_was_asked_for_is_the_least() {
        use Consistency::{Crash, Filesystem, Memory, Offline};
        assert!(satisfies(Crash, Crash) && satisfies(Memory, Filesystem));
        assert!(satisfies(Offline, Filesystem) && !satisfies(Crash, Filesystem));
        assert!(!satisfies(Offline, Memory) && !satisfies(Memory, Offline));
    }
}
