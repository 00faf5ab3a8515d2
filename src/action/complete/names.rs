//! Names that are known already.

use std::collections::BTreeMap;

use super::Candidates;
use crate::fleet::sort::natural;
use crate::model::encode_segment;

/// An instance that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its ID.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: String,
}

/// Who knows names: the files of earlier runs, or an open view.
pub trait Names {
    /// Instances.
    fn instances(&self) -> Vec<Seen>;
    /// Contexts, in order.
    fn contexts(&self) -> Vec<String>;
    /// Tasks, the newest first, with their commands.
    fn tasks(&self) -> Candidates;
    /// Snapshots of an instance.
    fn snapshots(&self, id: &str) -> Vec<String>;
    /// The last word of a filter that is being typed, as far as it may go: the whole filter.
    fn filter(&self, typed: &str) -> Candidates;
    /// Images that are here, with what they are.
    fn images(&self) -> Candidates {
        Vec::new()
    }
    /// Networks.
    fn networks(&self) -> Candidates {
        Vec::new()
    }
    /// Places for disks.
    fn pools(&self) -> Candidates {
        Vec::new()
    }
    /// Hosts.
    fn hosts(&self) -> Candidates {
        Vec::new()
    }
    /// Disks of an instance.
    fn disks(&self, _id: &str) -> Candidates {
        Vec::new()
    }
    /// Network interfaces of an instance.
    fn nics(&self, _id: &str) -> Candidates {
        Vec::new()
    }
    /// A name that means one machine is offered as well as its ID. Who searches in both needs no second row.
    fn offers_names(&self) -> bool {
        true
    }
}

/// IDs; and of what was begun without a context the names that mean one machine. Odd characters come as
/// `%XX`, so no shell finds anything in them.
pub(super) fn instances(names: &dyn Names, typed: &str) -> Candidates {
    let mut found: Candidates = Vec::new();
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for seen in names.instances() {
        let Seen { id, name, state } = seen;
        if id.is_empty() {
            continue;
        }
        let about = format!("{id} {state}");
        found.push((id, format!("{name} {state}")));
        named.entry(name).or_default().push(about);
    }
    found.sort_by(|a, b| natural(&a.0, &b.0));
    if !names.offers_names() || typed.is_empty() || typed.contains('/') {
        return found;
    }
    let mut named: Candidates = named
        .into_iter()
        .filter(|(name, of)| {
            let prefixed = name.starts_with("id:") || name.starts_with("name:");
            of.len() == 1 && !name.is_empty() && !prefixed
        })
        .map(|(name, mut of)| (encode_segment(&name), of.swap_remove(0)))
        .collect();
    named.sort_by(|a, b| natural(&a.0, &b.0));
    named.append(&mut found);
    named
}

/// `ID@NAME` of the instance that the word begins with.
pub(super) fn snapshots(names: &dyn Names, typed: &str) -> Candidates {
    let (id, _) = typed.split_once('@').unwrap_or((typed, ""));
    names
        .snapshots(id)
        .into_iter()
        .map(|name| {
            let word = format!("{id}@{}", encode_segment(&name));
            (word, "snapshot".to_owned())
        })
        .collect()
}
