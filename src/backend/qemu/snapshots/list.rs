//! The snapshots of a VM, as they are inside of its images.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::HIBERNATED;
use super::inside::{Inside, Node, Reach, nodes};
use super::record::Records;
use crate::link::qmp::Qmp;
use crate::model::{Bytes, Consistency, Result, Snapshot, shown};

/// Longest name: QEMU keeps 255 bytes, and a list has to show it.
const LONGEST: usize = 127;

/// Lists them, oldest first; consistency is read back: RAM in the image is `memory`, else what
/// corral noted when it took it, else not known.
///
/// # Errors
/// When an image cannot be read.
pub async fn list(ctx: &Ctx, vm: &Definition, monitor: Option<&mut Qmp>) -> Result<Vec<Snapshot>> {
    // A VM whose disks hold none has none; that is no failure of a list.
    let Ok(nodes) = nodes(vm) else {
        return Ok(Vec::new());
    };
    let mut reach = match monitor {
        Some(qmp) => Reach::Monitor(qmp),
        None => Reach::Files(&ctx.env),
    };
    let inside = reach.list(&nodes).await?;
    let records = Records::load(&ctx.store.dir(&vm.name)?).unwrap_or_default();
    Ok(compose(ctx, vm, &nodes, &inside, &records))
}

fn compose(
    ctx: &Ctx,
    vm: &Definition,
    nodes: &[Node],
    inside: &Inside,
    records: &Records,
) -> Vec<Snapshot> {
    let tags: BTreeSet<&str> = inside
        .values()
        .flatten()
        .map(|i| i.tag.as_str())
        .filter(|tag| *tag != HIBERNATED)
        .collect();
    let mut all: Vec<Snapshot> = tags
        .iter()
        .map(|tag| {
            let of = |node: &str| {
                inside
                    .get(node)
                    .and_then(|list| list.iter().find(|i| i.tag == *tag))
            };
            let found: Vec<_> = nodes.iter().filter_map(|(node, _)| of(node)).collect();
            let record = records.get(tag);
            let state = found.iter().map(|i| i.vm_state).max().unwrap_or(0);
            let lacks: Vec<&str> = nodes
                .iter()
                .map(|(node, _)| node.as_str())
                .filter(|node| of(node).is_none())
                .collect();
            Snapshot {
                instance: ctx.id(&vm.name),
                name: (*tag).to_owned(),
                // A parent that was deleted by other means is no parent.
                parent: record
                    .and_then(|r| r.parent.clone())
                    .filter(|p| tags.contains(p.as_str())),
                current: records.current.as_deref() == Some(tag),
                created_at: found
                    .iter()
                    .find_map(|i| i.seconds)
                    .and_then(|s| Timestamp::from_second(s).ok()),
                consistency: if state > 0 {
                    Some(Consistency::Memory)
                } else {
                    record
                        .and_then(|r| r.consistency)
                        .filter(|c| *c != Consistency::Memory)
                },
                size_bytes: (state > 0).then_some(Bytes(state)),
                note: record.and_then(|r| r.note.clone()),
                broken: (!lacks.is_empty()).then(|| format!("not in {}", lacks.join(", "))),
                expires_at: record.and_then(|r| r.expires_at),
                policy: record.and_then(|r| r.policy.clone()),
            }
        })
        .collect();
    all.sort_by_key(|snapshot| (snapshot.created_at, snapshot.name.clone()));
    all
}

/// Why a snapshot cannot be called so.
pub fn name_fault(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("the snapshot's name is empty".to_owned());
    }
    if shown(name) != name || name.trim() != name {
        return Some(format!(
            "the name \"{}\" holds characters that cannot be seen",
            shown(name)
        ));
    }
    if name.len() > LONGEST {
        return Some(format!(
            "the name has {} bytes; {LONGEST} are possible",
            name.len()
        ));
    }
    if name == HIBERNATED {
        return Some(format!(
            "the name \"{name}\" is kept for what hibernate saves"
        ));
    }
    // QEMU's tools take such a name for the number of a snapshot.
    if name.bytes().all(|b| b.is_ascii_digit()) {
        return Some(format!(
            "the name \"{name}\" is a number, which QEMU gives itself"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::super::ctx::tests::context;
    use super::super::super::definition::tests::sample;
    use super::super::super::image::Internal;
    use super::super::record::Record;
    use super::*;

    #[test]
    fn odd_names_are_refused() {
        for bad in [
            HIBERNATED,
            "",
            "1",
            "2026",
            " a",
            "a\n",
            "a\u{1b}[2J",
            &"x".repeat(128),
        ] {
            assert!(
                name_fault(bad).is_some_and(|why| !why.contains('\u{1b}')),
                "{bad:?}"
            );
        }
        for good in ["s1", "pre patch", "-x", "é/ß", "corral-20261130-051402"] {
            assert_eq!(name_fault(good), None, "{good}");
        }
    }

    #[test]
    fn consistency_is_read_back_from_the_image() {
        let root = tempfile::tempdir().unwrap();
        let ctx = context(root.path());
        let vm = sample("web", Path::new("/d"));
        let nodes = vec![
            ("disk0".to_owned(), "/d/disk0".into()),
            ("efivars".to_owned(), "/d/v".into()),
        ];
        let tag = |tag: &str, vm_state| Internal {
            tag: tag.into(),
            seconds: Some(5),
            vm_state,
        };
        let mut inside = Inside::new();
        inside.insert(
            "disk0".into(),
            vec![tag("a", 0), tag("b", 9), tag("c", 0), tag("d", 0)],
        );
        inside.insert(
            "efivars".into(),
            vec![tag("a", 0), tag("b", 0), tag("c", 0)],
        );
        let mut records = Records::default();
        let record = |name: &str, consistency| Record {
            name: name.to_owned(),
            consistency: Some(consistency),
            ..Record::default()
        };
        records.took(record("a", Consistency::Offline));
        // The record claims RAM, the image has none: the image is right.
        records.took(record("c", Consistency::Memory));
        let list = compose(&ctx, &vm, &nodes, &inside, &records);
        let seen: Vec<_> = list
            .iter()
            .map(|s| (s.name.as_str(), s.consistency))
            .collect();
        assert_eq!(
            seen,
            [
                ("a", Some(Consistency::Offline)),
                ("b", Some(Consistency::Memory)),
                ("c", None),
                ("d", None)
            ]
        );
        assert_eq!(list[3].broken.as_deref(), Some("not in efivars"));
        assert!(list[2].current && list[2].parent.as_deref() == Some("a"));
    }
}
