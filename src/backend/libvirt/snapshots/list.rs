//! Snapshots as libvirt keeps them: a tree, parts of which may be missing.

use std::collections::{HashMap, HashSet};

use roxmltree::Node;

use super::super::ctx::{Ctx, Seen};
use super::super::wire::{Call, Snap};
use super::super::xml::{attr_at, child, children, parse, text, text_at};
use crate::backend::contract::ReadCx;
use crate::model::{Consistency, Error, Result, Snapshot};

/// A snapshot with what decides over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// As it is shown.
    pub shown: Snapshot,
    /// It has parts outside of the disks: overlays, a file of memory.
    pub external: bool,
    /// Files that belong to it: overlays and memory.
    pub files: Vec<String>,
    /// CPUs the guest had.
    pub cpus: Option<u32>,
    /// CPUs it was defined with; where libvirt keeps both.
    pub config_cpus: Option<u32>,
    /// Files that were begun with it, each with the place of its disk: what is below holds what was then.
    pub overlays: Vec<(String, String)>,
    /// The disks it holds, by target.
    pub disks: Vec<String>,
}

/// Marks that corral writes into a snapshot's description, behind the note: quiesced, when it ends, its rule.
const MARK: &str = "corral:";

/// All of them.
///
/// # Errors
/// Those of libvirt.
pub async fn known(ctx: &Ctx, cx: &ReadCx, seen: &Seen) -> Result<Vec<Known>> {
    let call = Call::Snapshots { dom: seen.dom() };
    let snaps: Vec<Snap> = match ctx.client.ask(cx, call).await {
        // A driver without snapshots has none.
        Err(error) if error.kind == crate::model::ErrorKind::Unsupported => Vec::new(),
        other => other?,
    };
    let mut all: Vec<Known> = snaps.iter().map(|snap| read(seen, snap)).collect();
    mark_lost(&mut all);
    Ok(all)
}

/// As they are shown.
///
/// # Errors
/// As [`known`].
pub async fn list(ctx: &Ctx, cx: &ReadCx, seen: &Seen) -> Result<Vec<Snapshot>> {
    let all = known(ctx, cx, seen).await?;
    Ok(all.into_iter().map(|one| one.shown).collect())
}

fn read(seen: &Seen, snap: &Snap) -> Known {
    let xml = snap
        .xml
        .as_deref()
        .map_err(super::super::fault::error)
        .and_then(|xml| parse(xml).map(|document| one(seen, snap, document.root_element())));
    xml.unwrap_or_else(|error| unreadable(seen, snap, &error))
}

fn blank(seen: &Seen, snap: &Snap) -> Snapshot {
    Snapshot {
        instance: seen.id.clone(),
        name: snap.name.clone(),
        parent: None,
        current: snap.current,
        created_at: None,
        consistency: None,
        size_bytes: None,
        note: None,
        broken: None,
        expires_at: None,
        policy: None,
    }
}

fn unreadable(seen: &Seen, snap: &Snap, error: &Error) -> Known {
    let mut shown = blank(seen, snap);
    shown.broken = Some(error.message.clone());
    Known {
        shown,
        external: false,
        files: Vec::new(),
        cpus: None,
        config_cpus: None,
        overlays: Vec::new(),
        disks: Vec::new(),
    }
}

fn one(seen: &Seen, snap: &Snap, root: Node<'_, '_>) -> Known {
    let mut shown = blank(seen, snap);
    shown.parent = text_at(root, &["parent", "name"]);
    let seconds = text_at(root, &["creationTime"]).and_then(|seconds| seconds.parse().ok());
    shown.created_at = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    let marks = Marks::read(text_at(root, &["description"]));
    let state = text_at(root, &["state"]);
    let memory = attr_at(root, &["memory"], "snapshot");
    let disks: Vec<Node<'_, '_>> = child(root, "disks")
        .map(|disks| children(disks, "disk").collect())
        .unwrap_or_default();
    let held: Vec<&Node<'_, '_>> = disks
        .iter()
        .filter(|disk| disk.attribute("snapshot") != Some("no"))
        .collect();
    let outside = |disk: &&Node<'_, '_>| disk.attribute("snapshot") == Some("external");
    let overlays: Vec<(String, String)> = held
        .iter()
        .filter(|disk| outside(disk))
        .filter_map(|disk| {
            let file = child(**disk, "source")?.attribute("file")?;
            Some((disk.attribute("name")?.to_owned(), file.to_owned()))
        })
        .collect();
    let mut files: Vec<String> = overlays.iter().map(|(_, file)| file.clone()).collect();
    files.extend(attr_at(root, &["memory"], "file"));
    shown.consistency = consistency(state.as_deref(), memory.as_deref(), marks.quiesced);
    shown.note = marks.note;
    shown.expires_at = marks.expires_at;
    shown.policy = marks.policy;
    let cpus_of = |name: &str| {
        let node = child(child(root, name)?, "vcpu")?;
        let current = node.attribute("current").map(str::to_owned);
        current.or_else(|| text(node))?.parse().ok()
    };
    Known {
        external: held.iter().any(outside) || memory.as_deref() == Some("external"),
        disks: held
            .iter()
            .filter_map(|disk| disk.attribute("name").map(str::to_owned))
            .collect(),
        shown,
        files,
        overlays,
        cpus: cpus_of("domain"),
        config_cpus: cpus_of("inactiveDomain"),
    }
}

/// Read back from what libvirt kept, not from what was asked for.
fn consistency(state: Option<&str>, memory: Option<&str>, quiesced: bool) -> Option<Consistency> {
    match (state?, memory) {
        ("shutoff" | "crashed", _) => Some(Consistency::Offline),
        (_, Some("internal" | "external")) | ("running" | "paused", None) => {
            Some(Consistency::Memory)
        }
        // Without memory: libvirt calls such a state `disk-snapshot`, too.
        _ if quiesced => Some(Consistency::Filesystem),
        _ => Some(Consistency::Crash),
    }
}

/// A parent that is not there, and a ring of parents: both are said, and the rest is a tree all the same.
fn mark_lost(all: &mut [Known]) {
    let parents: HashMap<String, Option<String>> = all
        .iter()
        .map(|one| (one.shown.name.clone(), one.shown.parent.clone()))
        .collect();
    for one in all.iter_mut() {
        let Some(parent) = one.shown.parent.clone() else {
            continue;
        };
        if !parents.contains_key(&parent) {
            let lost = format!("its parent {} is not there", crate::model::shown(&parent));
            one.shown.broken.get_or_insert(lost);
            continue;
        }
        let mut seen = HashSet::from([one.shown.name.clone()]);
        let mut next = Some(parent);
        while let Some(name) = next {
            if !seen.insert(name.clone()) {
                let ring = "its parents go round in a ring".to_owned();
                one.shown.broken.get_or_insert(ring);
                one.shown.parent = None;
                break;
            }
            next = parents.get(&name).cloned().flatten();
        }
    }
}

/// What corral says of a snapshot in its description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The user's note.
    pub note: Option<String>,
    /// File systems were frozen.
    pub quiesced: bool,
    /// When it may be removed.
    pub expires_at: Option<jiff::Timestamp>,
    /// The rule that named it.
    pub policy: Option<String>,
}

impl Marks {
    /// Of a description: lines of ours at its end, all else is the note.
    pub fn read(description: Option<String>) -> Self {
        let mut marks = Self::default();
        let mut note = Vec::new();
        for line in description.as_deref().unwrap_or_default().lines() {
            match line.trim().strip_prefix(MARK).map(str::trim) {
                Some("quiesced") => marks.quiesced = true,
                Some(mark) => match mark.split_once('=') {
                    Some(("expires", at)) => marks.expires_at = at.parse().ok(),
                    Some(("policy", policy)) => marks.policy = Some(policy.to_owned()),
                    _ => note.push(line),
                },
                None => note.push(line),
            }
        }
        let note = note.join("\n");
        marks.note = (!note.trim().is_empty()).then(|| note.trim().to_owned());
        marks
    }

    /// As a description; `None` where there is nothing to say.
    pub fn description(&self) -> Option<String> {
        let mut lines: Vec<String> = self.note.iter().cloned().collect();
        if self.quiesced {
            lines.push(format!("{MARK} quiesced"));
        }
        lines.extend(self.expires_at.map(|at| format!("{MARK} expires={at}")));
        lines.extend(self.policy.as_ref().map(|p| format!("{MARK} policy={p}")));
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str, parent: Option<&str>) -> Known {
        let id = crate::model::InstanceId::new("c", None, "a");
        let mut shown = Snapshot {
            instance: id,
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
            current: false,
            created_at: None,
            consistency: None,
            size_bytes: None,
            note: None,
            broken: None,
            expires_at: None,
            policy: None,
        };
        shown.current = name == "d";
        Known {
            shown,
            external: false,
            files: Vec::new(),
            cpus: None,
            config_cpus: None,
            overlays: Vec::new(),
            disks: Vec::new(),
        }
    }

    #[test]
    fn missing_parents_and_rings_are_said() {
        let mut all = [
            known("a", None),
            known("b", Some("gone")),
            known("c", Some("d")),
            known("d", Some("c")),
            known("e", Some("e")),
            known("f", Some("a")),
        ];
        mark_lost(&mut all);
        let broken: Vec<bool> = all.iter().map(|one| one.shown.broken.is_some()).collect();
        assert_eq!(broken, [false, true, true, true, true, false]);
        assert!(all[2].shown.parent.is_none() && all[5].shown.parent.is_some());
    }

    #[test]
    fn marks_and_consistency_come_back() {
        let marks = Marks {
            note: Some("two\nlines".to_owned()),
            quiesced: true,
            expires_at: Some(jiff::Timestamp::UNIX_EPOCH),
            policy: Some("n-{n}".to_owned()),
        };
        assert_eq!(Marks::read(marks.description()), marks);
        assert_eq!(Marks::default().description(), None);
        use Consistency::{Crash, Filesystem, Memory, Offline};
        for (state, memory, quiesced, is) in [
            ("running", Some("internal"), false, Memory),
            ("running", Some("external"), false, Memory),
            ("shutoff", Some("no"), false, Offline),
            ("disk-snapshot", Some("no"), false, Crash),
            ("disk-snapshot", Some("no"), true, Filesystem),
            ("running", Some("no"), false, Crash),
        ] {
            assert_eq!(
                consistency(Some(state), memory, quiesced),
                Some(is),
                "{state}"
            );
        }
        assert_eq!(consistency(None, None, false), None);
    }
}
